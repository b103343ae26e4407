"""Two processes: the gradients of one with the whole batch, and runs that survive the death of a worker."""

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
from safetensors.torch import load_file

from tests.lab.training import helpers
from unicornn.lab._run_folder import Run

ROOT = Path(__file__).parents[3]
HERE = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", *HERE]


@pytest.fixture
def environment():
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}


@pytest.mark.slow
def test_gradients_are_those_of_the_whole_batch(tmp_path, environment):
    """25 sequences in a batch, 12 and 13 in the shares; the third batch has one, and none for the second process."""
    script = ["-m", "tests.lab.training.ddp_gradients"]
    for processes, start in (("1", [sys.executable]), ("2", TORCHRUN)):
        done = subprocess.run(
            [*start, *script, str(tmp_path / processes)],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    one, two = (torch.load(tmp_path / f"{n}.gradients") for n in "12")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-6)
    one, two = (load_file(tmp_path / n / "best.safetensors") for n in "12")
    for name in one:  # after all three steps
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_sigterm_to_one_worker_stops_all_and_devices_resumes(tmp_path, environment):
    """All agree on the batch; `--devices 2` goes on as torchrun would, to where one undisturbed process comes."""
    arguments = ["train", helpers.__file__, "--epochs", "2", "--set", "n=400", "--set", "N=100", "--set", "dropout=0"]
    parent = subprocess.Popen(
        [*TORCHRUN, "-m", "unicornn", *arguments, "--out", "run"], cwd=tmp_path, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "run" / "metrics.csv").exists():
        assert parent.poll() is None, "it ended before a worker was asked to"
        time.sleep(0.01)
    workers = [p for p in psutil.Process(parent.pid).children() if "unicornn" in p.cmdline()]
    workers[1].terminate()
    _, said = parent.communicate(timeout=300)
    assert parent.returncode != 0
    assert "stopped by SIGTERM in epoch 2" in said
    unicornn = [sys.executable, "-m", "unicornn", *arguments]
    for more in (["--out", "run", "--resume", "--devices", "2"], ["--out", "one"]):
        done = subprocess.run(
            [*unicornn, *more], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    assert Run(tmp_path / "run").environment["processes"] == 2
    curves = [Run(tmp_path / name).metrics.drop(columns="seconds") for name in ("run", "one")]
    pd.testing.assert_frame_equal(*curves, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_killed_workers_run_resumes(tmp_path, environment):
    command = [
        *TORCHRUN,
        "-m",
        "unicornn",
        "train",
        helpers.__file__,
        "--epochs",
        "3",
        "--set",
        "n=400",
        "--set",
        "N=100",
    ]

    def run(out, *more):
        return subprocess.Popen(
            [*command, "--out", out, *more], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    whole = run("whole")
    _, complaints = whole.communicate(timeout=300)
    assert whole.returncode == 0, complaints
    parent = run("killed")
    while not (tmp_path / "killed" / "last.ckpt").exists():
        assert parent.poll() is None, "it ended before a worker was killed"
        time.sleep(0.01)
    workers = [p for p in psutil.Process(parent.pid).children() if "unicornn" in p.cmdline()]
    assert len(workers) == 2
    workers[1].send_signal(signal.SIGKILL)
    parent.communicate(timeout=300)
    assert parent.returncode != 0
    resumed = run("killed", "--resume")
    _, complaints = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, complaints
    one, two = (load_file(tmp_path / name / "best.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(one[k], two[k]) for k in one)
