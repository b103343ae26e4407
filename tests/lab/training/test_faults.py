"""What goes wrong around a training, or is done to its folder: nothing is silent, and nothing is lost."""

import dataclasses
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file

from tests.lab.training import helpers
from tests.lab.training.test_train import config, evaluate, same, train, weights
from unicornn.errors import BadCheckpoint, BadValue, Diverged, InUse, Stopped
from unicornn.lab import training
from unicornn.lab._lock import locked
from unicornn.lab._run_folder import Run
from unicornn.lab.tasks import Sequences
from unicornn.lab.training._checkpoint import read, write
from unicornn.lab.training._loop import Loop
from unicornn.models import Network


def with_nan(split, of="u"):
    """The small task, one of whose numbers is none."""

    def load(source, options, seed):
        splits = helpers.load(source, options, seed)
        sequences = getattr(splits, split)
        u = sequences.u.clone()
        u[5, 3, 1] = math.nan
        return splits._replace(**{split: Sequences(u, sequences.target)})

    return dataclasses.replace(helpers.TASK, load=load)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_inputs_that_are_not_finite_are_named_and_end_the_run(tmp_path, split):
    with pytest.raises(BadValue, match=f"{split}: expected finite numbers, but u has others in sample 5"):
        training.train(config(epochs=1), tmp_path / "run", task=with_nan(split))
    assert not Run(tmp_path / "run").finished


def test_weights_that_are_lost_in_the_last_batch_are_not_the_best(tmp_path):
    def lose(loop):
        if loop.step == 14:
            loop.network.linear.bias.data.fill_(math.nan)

    lost = r"weights: .* linear.bias has others in epoch 2.*--set lr"
    with helpers.after_each_step(lose), pytest.raises(Diverged, match=lost):
        train(config(epochs=2), tmp_path / "run")
    assert not Run(tmp_path / "run").finished
    assert all(t.isfinite().all() for t in weights(tmp_path / "run").values())
    assert len(read(tmp_path / "run/last.ckpt").about["history"]) == 1


def test_what_is_not_finite_is_no_class(tmp_path, monkeypatch):
    run = train(config(epochs=1), tmp_path / "run")
    good = weights(run.path)
    save_file(good | {"linear.bias": torch.full((2,), math.nan)}, run.path / "best.safetensors")
    with pytest.raises(Diverged, match=r"weights: .* linear.bias"):
        evaluate(run)
    save_file(good, run.path / "best.safetensors")
    monkeypatch.setattr(Network, "forward", lambda network, u, *_: torch.full((u.shape[1], 2), math.nan))
    with pytest.raises(Diverged, match=r"outputs: .* for the split 'test'"):
        evaluate(run)


def test_a_gradient_that_overflows_stops_the_run_before_the_step(tmp_path):
    before = {}

    def overflow(loop):
        before.update({k: v.clone() for k, v in loop.network.state_dict().items()})
        loop.network.linear.bias.register_hook(lambda gradient: gradient * math.inf)
        before["loop"] = loop

    expected = r"gradient: its norm is inf in epoch 1, batch 2 of 7.*--set dt=.*--set alpha=.*--set horizon="
    with helpers.after_each_step(overflow), pytest.raises(Diverged, match=expected):
        train(config(clip=1.0), tmp_path / "run")
    assert same(before.pop("loop").network.state_dict(), before)


def test_a_larger_budget_goes_on_as_if_it_had_not_been_cut(tmp_path, monkeypatch):
    """The cut epoch's weights are the best, but they are not those of the checkpoint."""
    whole = train(config(budget=1e6), tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "out_of_time", property(lambda loop: loop.step >= 10))
        patch.setattr("unicornn.lab._metric.Metric.better", lambda *_: True)
        patch.setattr(Loop, "top", property(lambda loop: loop.history[-1] if loop.history else None))
        cut = train(config(budget=1.0), tmp_path / "cut")
    assert cut.result["stopped"] == "budget"
    assert cut.result["epochs"] == 2
    wrong = weights(cut.path)
    longer = train(config(budget=1e6), tmp_path / "cut", resume=True)
    assert not same(weights(longer.path), wrong)
    assert same(weights(longer.path), weights(whole.path))
    assert evaluate(longer, "valid")[0] == longer.result["valid"]
    assert longer.metrics.drop(columns="seconds").equals(whole.metrics.drop(columns="seconds"))


def test_one_process_at_a_time(tmp_path):
    def other(loop):
        with pytest.raises(InUse, match=rf"run is in use by process {os.getpid()} on "):
            train(config(seed=2), tmp_path / "run")
        with pytest.raises(InUse):
            train(config(), tmp_path / "run", resume=True)

    with helpers.after_each_step(other):
        run = train(config(epochs=1), tmp_path / "run")
    assert run.config["seed"] == 0
    assert not (run.path / "lock").exists()


def test_the_lock_of_the_dead_is_free(tmp_path):
    code = "import sys, time, pathlib; from unicornn.lab._lock import locked\nwith locked(pathlib.Path(sys.argv[1])): print(1); time.sleep(99)"  # noqa: E501
    process = subprocess.Popen([sys.executable, "-uc", code, str(tmp_path / "run")], stdout=subprocess.PIPE)
    process.stdout.readline()
    with pytest.raises(InUse, match=f"process {process.pid}"), locked(tmp_path / "run"):
        pass
    process.kill()
    process.wait()
    process.stdout.close()
    with locked(tmp_path / "run"):
        assert f"process {os.getpid()}" in (tmp_path / "run/lock").read_text()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["symlink", "fifo"])
def test_a_lock_that_is_not_a_regular_file(tmp_path, kind):
    (tmp_path / "run").mkdir()
    other, lock = tmp_path / "other", tmp_path / "run/lock"
    other.write_text("precious")
    lock.symlink_to(other) if kind == "symlink" else os.mkfifo(lock)
    with pytest.raises(BadValue, match=r"out: .*lock must be a regular file"), locked(tmp_path / "run"):
        pass
    assert other.read_text() == "precious"


def test_a_flipped_bit_is_noticed(tmp_path):
    run = train(config(epochs=1), tmp_path / "run")
    path = run.path / "last.ckpt"
    good = path.read_bytes()
    for place in [0, 30, 64, 65, 100, *range(len(good) // 7, len(good), len(good) // 7), len(good) - 1]:
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        before = helpers.files(run.path)
        with pytest.raises(BadCheckpoint, match=r"last.ckpt is damaged.*Nothing was changed"):
            train(config(epochs=2), run.path, resume=True)
        assert helpers.files(run.path) == before


FORGERIES = {
    "no config": lambda about, tensors: about.pop("config"),
    "no history": lambda about, tensors: about.update(history=None),
    "another history": lambda about, tensors: about.update(history=[{"epoch": 1}]),
    "a number": lambda about, tensors: about.update(step="7"),
    "sums": lambda about, tensors: about.update(sums=[]),
    "another tensor": lambda about, tensors: tensors.update(other=torch.zeros(1)),
    "fewer tensors": lambda about, tensors: tensors.pop("network.linear.bias"),
    "another shape": lambda about, tensors: tensors.update({"network.linear.bias": torch.zeros(3)}),
    "other best weights": lambda about, tensors: tensors.update({"best.linear.bias": torch.zeros(3)}),
    "no moments": lambda about, tensors: tensors.update({"optimizer.x.step": torch.zeros(1)}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_checkpoint_of_another_form_is_refused(tmp_path, finished, forgery):
    shutil.copytree(finished, tmp_path / "run")
    checkpoint = read(tmp_path / "run/last.ckpt")
    FORGERIES[forgery](*checkpoint)
    write(tmp_path / "run/last.ckpt", checkpoint)
    before = helpers.files(tmp_path / "run")
    with pytest.raises(BadCheckpoint, match="checkpoint: "):
        train(config(epochs=2), tmp_path / "run", resume=True)
    assert helpers.files(tmp_path / "run") == before


@pytest.mark.parametrize("changes", [{"seed": 7}, {"hidden_size": 9}, {"lr": 0.5}])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changes):
    run, other = train(config(epochs=1), tmp_path / "run"), train(config(epochs=1, **changes), tmp_path / "other")
    shutil.copy(other.path / "last.ckpt", run.path / "last.ckpt")
    before = helpers.files(run.path)
    with pytest.raises(BadCheckpoint, match=r"last.ckpt is another run's: .* was .*, is .*Nothing was changed"):
        train(config(epochs=2), run.path, resume=True)
    assert helpers.files(run.path) == before


def test_sigterm_ends_with_a_word_and_goes_on_in_the_middle_of_the_epoch(tmp_path):
    def terminate(loop):
        if loop.step == 10:
            os.kill(os.getpid(), signal.SIGTERM)

    whole = train(config(), tmp_path / "whole")
    with helpers.after_each_step(terminate), pytest.raises(Stopped, match=r"in epoch 2, after batch 3 of 7.*--resume"):
        train(config(), tmp_path / "cut")
    assert read(tmp_path / "cut/last.ckpt").about["step"] == 10
    steps = []
    with helpers.after_each_step(lambda loop: steps.append(loop.step)):
        cut = train(config(), tmp_path / "cut", resume=True)
    assert steps[0] == 11
    assert same(*(read(run.path / "last.ckpt").tensors for run in (whole, cut)))
    assert whole.metrics.drop(columns="seconds").equals(cut.metrics.drop(columns="seconds"))


COMMAND = [sys.executable, "-m", "unicornn"]


def test_sigterm_to_the_command(tmp_path):
    command = [*COMMAND, "train", helpers.__file__, "--epochs", "500", "--set", "n=400", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run/metrics.csv").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopped by SIGTERM in epoch" in said
    assert "Traceback" not in said
    assert (tmp_path / "run/last.ckpt").exists()
    assert not (tmp_path / "run/lock").exists()


@pytest.mark.slow
def test_a_full_disk_is_one_message(tmp_path):
    """The weights can be written, but not the checkpoint, which is four times as large."""

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    command = [
        *COMMAND,
        "train",
        helpers.__file__,
        "--epochs",
        "1",
        "--set",
        "hidden_size=80",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, preexec_fn=full, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob(".*"))
