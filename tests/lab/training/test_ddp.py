"""Two processes: the gradient of the whole batch, and runs that survive the end of a worker."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch

from tests import processes
from tests.lab.training import helpers
from tests.lab.training.helpers import same, weights
from unicornn.lab._run_folder import Run

ROOT = Path(__file__).parents[3]
HERE = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", *HERE, "-m"]
PATHS = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": PATHS}
TRAIN = ["unicornn", "train", helpers.__file__, "--set", "n=400", "--set", "N=100"]


def run(command, folder):
    processes.run(*command, cwd=folder, env=ENVIRONMENT)


def interrupted(command, folder, file, sent):
    """Runs a command, sends a signal to its second worker when a file exists, and returns the error output."""
    parent = subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not (folder / file).exists():
        assert parent.poll() is None, "it ended too early"
        time.sleep(0.01)
    workers = [p for p in psutil.Process(parent.pid).children() if "unicornn" in p.cmdline()]
    assert len(workers) == 2
    workers[1].send_signal(sent)
    _, errors = parent.communicate(timeout=300)
    assert parent.returncode != 0
    return errors


@pytest.mark.slow
def test_gradients_are_those_of_the_whole_batch(tmp_path):
    """Batches of 25: shares of 12 and 13; the third batch has one sequence, and none for the second process."""
    script = "tests.lab.training.ddp_gradients"
    run([sys.executable, "-m", script, str(tmp_path / "1")], ROOT)
    run([*TORCHRUN, script, str(tmp_path / "2")], ROOT)
    one, two = (torch.load(tmp_path / f"{n}.gradients") for n in "12")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-6)
    one, two = (weights(tmp_path / n) for n in "12")
    for name in one:  # after all three steps
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_sigterm_to_one_worker_stops_all_and_devices_resumes(tmp_path):
    """`--devices 2` resumes as torchrun would, and gets the result of one undisturbed process."""
    command = [*TRAIN, "--epochs", "2", "--set", "dropout=0"]
    errors = interrupted([*TORCHRUN, *command, "--out", "run"], tmp_path, "run/metrics.csv", signal.SIGTERM)
    assert "stopped by SIGTERM in epoch 2" in errors
    run([sys.executable, "-m", *command, "--out", "run", "--resume", "--devices", "2"], tmp_path)
    run([sys.executable, "-m", *command, "--out", "one"], tmp_path)
    assert Run(tmp_path / "run").environment["processes"] == 2
    curves = [Run(tmp_path / name).metrics.drop(columns="seconds") for name in ("run", "one")]
    pd.testing.assert_frame_equal(*curves, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_the_run_of_a_killed_worker_resumes(tmp_path):
    command = [*TORCHRUN, *TRAIN, "--epochs", "3", "--out"]
    run([*command, "whole"], tmp_path)
    interrupted([*command, "killed"], tmp_path, "killed/last.ckpt", signal.SIGKILL)
    run([*command, "killed", "--resume"], tmp_path)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
