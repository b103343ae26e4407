"""Runs: what they leave behind, that they repeat, resume, stop and refuse as they should."""

import functools
import itertools
import math
import os
import resource
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.lab.training import helpers
from unicornn._files import write_json
from unicornn.baselines import MODELS
from unicornn.errors import BadCheckpoint, Diverged, NotARun, RunExists
from unicornn.lab import training
from unicornn.lab._run_folder import Run
from unicornn.lab.training import resolve
from unicornn.lab.training._checkpoint import read
from unicornn.lab.training._objective import Tally


def config(**changes):
    options = {k: changes.pop(k) for k in ("seed", "budget", "model") if k in changes}
    return resolve(helpers.TASK, settings=changes, **options)


train, evaluate, load_network = (
    functools.partial(function, task=helpers.TASK)
    for function in (training.train, training.evaluate, training.load_network)
)


def weights(folder):
    return load_file(folder / "best.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


class Stop(Exception):
    pass


def stopped_after(steps):
    def stop(loop):
        if loop.step == steps:
            raise Stop

    return helpers.after_each_step(stop)


def test_a_run_leaves_what_it_should(tmp_path):
    run = train(config(), tmp_path / "run")
    assert {p.name for p in run.path.iterdir()} == {
        "config.json", "environment.json", "metrics.csv", "best.safetensors", "result.json", "predictions.npz",
        "last.ckpt", "tensorboard",
    }  # fmt: skip
    assert list(run.metrics["epoch"]) == [1, 2, 3]
    assert run.metrics["lr"].tolist() == pytest.approx([1e-2, 1e-2, 1e-3])
    assert {"w_norm_1", "w_norm_2", "train_loss", "valid_loss", "valid", "seconds"} <= set(run.metrics)
    assert run.result["valid"] == run.metrics["valid"].max()
    ranked = run.metrics.sort_values(["valid", "valid_loss"], ascending=[False, True])
    assert run.result["best_epoch"] == ranked["epoch"].iloc[0]
    value, arrays = evaluate(run)
    assert value == run.result["test"] == pytest.approx((arrays["target"] == arrays["prediction"]).mean())
    assert np.array_equal(run.predictions["prediction"], arrays["prediction"])
    assert run.environment["versions"]["torch"] == torch.__version__
    assert list((run.path / "tensorboard").glob("events*"))
    assert not [p for p in run.path.iterdir() if p.name.startswith(".")]


def test_same_seed_same_result_other_seed_another(tmp_path):
    a, b, c = (train(config(seed=seed), tmp_path / name) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert same(weights(a.path), weights(b.path))
    assert not same(weights(a.path), weights(c.path))


def test_the_callers_process_is_as_before(tmp_path):
    denormal = []
    random, answer = torch.get_rng_state(), signal.getsignal(signal.SIGTERM)
    with helpers.after_each_step(lambda loop: denormal.append(sys.float_info.min / 2)):
        run = train(config(epochs=1), tmp_path / "run")
    evaluate(run, "valid")
    load_network(run)
    assert set(denormal) == {0.0}
    assert sys.float_info.min / 2 > 0
    assert torch.equal(torch.get_rng_state(), random)
    assert signal.getsignal(signal.SIGTERM) is answer


@pytest.mark.parametrize("steps", [3, 7, 10, 14])  # 7 batches in an epoch
def test_a_stopped_run_resumes_bit_for_bit(tmp_path, steps):
    whole = train(config(), tmp_path / "whole")
    with pytest.raises(Stop), stopped_after(steps):
        train(config(), tmp_path / "cut")
    cut = train(config(), tmp_path / "cut", resume=True)
    assert same(weights(whole.path), weights(cut.path))
    assert same(*(read(run.path / "last.ckpt").tensors for run in (whole, cut)))
    for name in ("epoch", "lr", "train_loss", "valid_loss", "valid", "w_norm_1"):
        assert whole.metrics[name].tolist() == cut.metrics[name].tolist()


def test_a_finished_run_can_be_prolonged(tmp_path):
    train(config(epochs=2), tmp_path / "run")
    longer = train(config(epochs=3), tmp_path / "run", resume=True)
    assert same(weights(longer.path), weights(train(config(epochs=3), tmp_path / "whole").path))
    with pytest.raises(ValueError, match="epochs: expected at least the 3 that the run has, got 2"):
        train(config(epochs=2), tmp_path / "run", resume=True)
    before = (longer.path / "result.json").stat().st_mtime_ns
    train(config(epochs=3), tmp_path / "run", resume=True)  # nothing left to do
    assert (longer.path / "result.json").stat().st_mtime_ns == before


def test_a_budget_ends_the_run_and_leaves_a_result(tmp_path, monkeypatch):
    clock = itertools.count()  # a hundredth of a second for each batch, however busy the machine is
    monkeypatch.setattr("unicornn.lab.training._loop.time", SimpleNamespace(monotonic=lambda: next(clock) / 100))
    run = train(config(epochs=100_000, budget=1.0, schedule="cosine"), tmp_path / "run")
    assert run.result["stopped"] == "budget"
    assert run.metrics["lr"].iloc[-1] < 2e-3
    longer = train(config(epochs=100_000, budget=1.5, schedule="cosine"), tmp_path / "run", resume=True)
    assert longer.result["epochs"] > run.result["epochs"]
    assert longer.metrics["epoch"].is_unique


def test_nan_stops_with_where_and_what_to_try(tmp_path):
    train(config(epochs=1), tmp_path / "run")
    before = weights(tmp_path / "run")
    poison = helpers.after_each_step(lambda loop: loop.network.linear.bias.data.fill_(math.nan))
    with pytest.raises(Diverged, match=r"nan in epoch 2, batch 2 of 7.*--set lr"), poison:
        train(config(epochs=2), tmp_path / "run", resume=True)
    assert same(before, weights(tmp_path / "run"))
    assert len(Run(tmp_path / "run").metrics) == 1


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_baseline_trains(tmp_path, model):
    if model == "sign-ncde":
        pytest.importorskip("pysiglib")
    run = train(config(model=model, epochs=1, hidden_size=4, num_layers=1, dropout=0.1), tmp_path / "run")
    assert math.isfinite(run.metrics["train_loss"][0])
    assert 0 <= run.result["test"] <= 1


def test_of_equally_good_epochs_the_one_with_the_least_loss_is_kept(tmp_path, monkeypatch):
    """Few sequences to validate with are often classified equally well, and the first such epoch knows least."""
    measured = Tally.over_all
    monkeypatch.setattr(Tally, "over_all", lambda tally, device: (measured(tally, device)[0], 0.5))
    run = train(config(epochs=4, lr=0.02), tmp_path / "run")
    assert run.result["best_epoch"] == run.metrics["epoch"][run.metrics["valid_loss"].argmin()] > 1


def learning_rates(folder, **settings):
    """Of each parameter, by its name, in a training of one epoch."""
    rates = {}

    def look(loop):
        names = {p: name for name, p in loop.network.named_parameters()}
        for group in loop.optimizer.param_groups:
            rates.update({names[p]: group["lr"] for p in group["params"]})

    with helpers.after_each_step(look):
        train(config(epochs=1, **settings), folder)
    return rates


def test_layers_that_learn_slowly(tmp_path):
    for name, rate in learning_rates(tmp_path / "run", lr=0.02, layers_rate=0.1).items():
        assert rate == pytest.approx(0.002 if name.startswith("rnn.") else 0.02)


def test_layers_that_do_not_learn(tmp_path):
    begun = train(config(epochs=1, lr=0.02, layers_rate=0), tmp_path / "one")
    gone_on = train(config(epochs=2, lr=0.02, layers_rate=0), tmp_path / "two")
    for name, t in begun.weights().items():
        assert torch.equal(t, gone_on.weights()[name]) == name.startswith("rnn.")


def test_baselines_published_learning_rates_are_kept(tmp_path):
    """expRNN's orthogonal matrix learns at a tenth of the rate."""
    rates = learning_rates(tmp_path / "run", model="exprnn", lr=0.02)
    slow = {name for name, rate in rates.items() if rate == pytest.approx(0.002)}
    assert slow == {name for name in rates if name.endswith("W.parametrizations.weight.original")}
    assert slow
    assert all(rate == pytest.approx(0.02) for name, rate in rates.items() if name not in slow)


def test_a_run_is_not_overwritten(tmp_path):
    train(config(epochs=1), tmp_path / "run")
    before = weights(tmp_path / "run")
    with pytest.raises(RunExists, match="--resume"):
        train(config(epochs=1, seed=9), tmp_path / "run")
    with pytest.raises(ValueError, match=r"other settings: seed was 0, is 9"):
        train(config(epochs=1, seed=9), tmp_path / "run", resume=True)
    assert same(before, weights(tmp_path / "run"))
    with pytest.raises(NotARun, match=r"there is no .*config.json"):
        train(config(), tmp_path / "nothing", resume=True)


@pytest.mark.parametrize("kind", ["truncated", "empty", "foreign", "pickle"])
def test_a_bad_checkpoint_is_refused_and_nothing_lost(tmp_path, kind):
    run = train(config(epochs=1), tmp_path / "run")
    path = run.path / "last.ckpt"
    whole = path.read_bytes()
    if kind == "foreign":
        torch.save({"state_dict": {}}, path)
    elif kind == "pickle":
        torch.save({"unicornn": os.system}, path)
    else:
        path.write_bytes(whole[: len(whole) // 2] if kind == "truncated" else b"")
    bad, others = path.read_bytes(), {p: p.read_bytes() for p in run.path.iterdir() if p.is_file() and p != path}
    with pytest.raises(BadCheckpoint, match=r"last.ckpt.*Nothing was changed"):
        train(config(epochs=2), tmp_path / "run", resume=True)
    assert path.read_bytes() == bad
    assert {p: p.read_bytes() for p in others} == others


def test_a_full_disk_keeps_the_last_complete_epoch(tmp_path):
    train(config(epochs=1), tmp_path / "run")
    before = (tmp_path / "run" / "last.ckpt").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))  # a file may not grow any more
    try:
        with pytest.raises(OSError, match="too large"):
            train(config(epochs=2), tmp_path / "run", resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "run" / "last.ckpt").read_bytes() == before
    assert not list((tmp_path / "run").glob(".last*"))
    resumed = train(config(epochs=2), tmp_path / "run", resume=True)
    assert same(weights(resumed.path), weights(train(config(epochs=2), tmp_path / "whole").path))


def test_broken_folders_are_named(tmp_path):
    run = train(config(epochs=1), tmp_path / "run")
    save_file({"other": torch.zeros(1)}, run.path / "best.safetensors")
    with pytest.raises(NotARun, match="not those of its"):
        load_network(run)
    (run.path / "best.safetensors").write_bytes(b"12345")
    with pytest.raises(NotARun, match="cannot read the weights"):
        load_network(run)
    (run.path / "config.json").write_text("{")
    with pytest.raises(NotARun, match=r"cannot read .*config.json"):
        Run(run.path).config  # noqa: B018


def test_an_option_that_a_task_did_not_have_yet(tmp_path):
    run = train(config(epochs=1), tmp_path / "run")
    old = run.config | {"task_options": {k: v for k, v in run.config["task_options"].items() if k != "mode"}}
    write_json(run.path / "config.json", old)
    assert evaluate(run.path, "valid")[0] == pytest.approx(run.result["valid"])
    assert train(config(epochs=2), run.path, resume=True).result["epochs"] == 2
