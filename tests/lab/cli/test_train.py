"""Training on the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.lab.training import helpers
from unicornn.lab import cli
from unicornn.lab._run_folder import Run
from unicornn.lab.training import resolve, train
from unicornn.lab.training._checkpoint import read

COMMAND = [sys.executable, "-m", "unicornn"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNICORNN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cli.console, "width", 200)


def unicornn(*arguments):
    """Runs a command in this process and returns its status and output."""
    outcome = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome.exit_code, outcome.output


def as_a_process(*arguments, **options):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def test_from_training_to_report():
    status, said = unicornn("train", helpers.__file__, "--epochs", 2, "--seed", 3, "--set", "dt=0.2")
    assert status == 0
    assert "test accuracy" in said
    assert "epoch 2/2" in said
    run = os.path.join("runs", "small", "unicornn-dt=0.2-seed3")
    status, said = unicornn("evaluate", run, "--split", "valid", "--task", helpers.__file__)
    assert status == 0
    assert "valid accuracy" in said
    status, said = unicornn("diagnose", run, "--task", helpers.__file__)
    assert status == 0
    assert "initial state recovered by inverting 20 steps" in said
    assert "bit for bit" in said
    assert "largest Lyapunov exponent" in said
    assert "needs 200 steps" in said
    assert os.path.getsize(os.path.join(run, "diagnosis.png")) > 10_000
    status, said = unicornn("report", "runs", "--out", "page.html")
    assert status == 0
    assert "Which was larger" in Path("page.html").read_text()


def test_energy_readout_and_spread_time_scales():
    settings = ("--set", "readout=last+energy", "--set", "segments=2", "--set", "init=spread", "--set", "patch=2")
    status, _ = unicornn("train", helpers.__file__, "--epochs", 2, *settings, "--out", "run")
    assert status == 0
    options = json.loads(Path("run/config.json").read_text())["model_options"]
    assert (options["readout"], options["segments"], options["init"]) == ("last+energy", 2, "spread")
    for command in ("evaluate", "diagnose"):
        status, said = unicornn(command, "run", "--task", helpers.__file__)
        assert status == 0, said


@pytest.mark.slow
def test_bench():
    sizes = ["--length", 8, "--batch-size", 2, "--hidden-size", 4, "--seconds", 0.1]
    status, said = unicornn("bench", "lstm", *sizes, "--out", "bench")
    assert status == 0
    assert "lstm" in said
    assert {p.name for p in Path("bench").iterdir()} == {"bench.json", "bench.png", "bench.svg"}


def test_a_baseline_by_name():
    status, said = unicornn("train", helpers.__file__, "--model", "gru", "--epochs", 1, "--out", "run")
    assert status == 0
    assert "test accuracy" in said


def test_tasks_are_listed_with_the_papers_results():
    status, said = unicornn("tasks")
    assert status == 0
    for name in ("digits", "digits-noise", "lorenz96", "psmnist", "cifar10-noise", "eigenworms", "worms44", "bidmc-rr",
                 "bidmc-hr", "imdb"):  # fmt: skip
        assert name in said
    assert "98.4 %" in said


def test_data_reports_the_size_of_the_splits():
    status, said = unicornn("data", "digits")
    assert status == 0
    assert "train 1,077, valid 360, test 360 sequences" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "digits", "--set", "lern=3"], "lern"),
        (["train", "digits", "--set", "lr"], "NAME=VALUE"),
        (["train", "digitz"], "did you mean 'digits'"),
        (["train", "digits", "--budget", "soon"], "budget: expected a time such as 90s"),
        (["train", "digits", "--resume"], "there is no"),
        (["evaluate", "nowhere"], "expected a folder made by `unicornn train`"),
        (["report", "nowhere"], "nowhere"),
        (["train", "psmnist"], "train-images-idx3-ubyte"),
    ],
)
def test_mistakes_get_one_message_and_a_status(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["unicornn", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert "error:" in said
    assert message in said
    assert "Traceback" not in said


def test_a_full_disk_is_reported(monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unicornn._files.os.fsync", full)
    monkeypatch.setattr(sys, "argv", ["unicornn", "train", helpers.__file__, "--out", "run"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert "disk is full" in capsys.readouterr().err


def test_the_command_and_the_function_train_alike(tmp_path):
    done = as_a_process("train", helpers.__file__, "--epochs", 1, "--model", "lstm", "--out", "command")
    assert done.returncode == 0, done.stderr
    config = resolve(helpers.TASK, model="lstm", settings={"epochs": 1})
    run = train(config, tmp_path / "function", task=helpers.TASK)
    one, other = (load_file(path / "best.safetensors") for path in (tmp_path / "command", run.path))
    assert all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.slow
def test_kill_9_in_the_middle_of_an_epoch_then_resume():
    arguments = ["train", helpers.__file__, "--epochs", "4", "--set", "n=400", "--set", "N=100", "--seed", "5"]
    assert as_a_process(*arguments, "--out", "whole").returncode == 0
    process = subprocess.Popen([*COMMAND, *arguments, "--out", "killed"], stdout=subprocess.DEVNULL)
    while not os.path.exists("killed/last.ckpt"):
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.01)
    time.sleep(0.05)  # an epoch takes longer
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not os.path.exists("killed/result.json")
    resumed = as_a_process(*arguments, "--out", "killed", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "epoch 1/4" not in resumed.stdout
    assert "epoch 4/4" in resumed.stdout
    for name in ("best.safetensors", "last.ckpt"):
        one, other = (
            load_file(f"{run}/{name}") if name.startswith("best") else read(Path(run, name)).tensors
            for run in ("whole", "killed")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[k], other[k]) for k in one)
    curves = [Run(name).metrics.drop(columns="seconds") for name in ("whole", "killed")]
    assert curves[0].equals(curves[1])
