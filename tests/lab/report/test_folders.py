"""Runs are found, each once; a broken file is named."""

import math

import pytest
import torch

from tests.lab.report.helpers import write_run
from unicornn import functional
from unicornn.lab.errors import NotARun
from unicornn.lab.report import find_runs, report
from unicornn.lab.report._folders import run_time_steps
from unicornn.lab.report._groups import group_runs


def test_runs_are_found_at_any_depth_and_counted_once(tmp_path):
    for name in ("a/1", "a/2", "b"):
        write_run(tmp_path / name)
    assert [run.path for run in find_runs([tmp_path])] == [tmp_path / name for name in ("a/1", "a/2", "b")]
    assert len(find_runs([tmp_path / "a/2", str(tmp_path), tmp_path / "a"])) == 3
    (tmp_path / "fitted").mkdir()
    (tmp_path / "fitted/config.json").write_text('{"format": "unicornn.estimators"}')
    assert len(find_runs([tmp_path])) == 3


def test_folders_without_runs(tmp_path):
    with pytest.raises(TypeError, match=r"^runs: .*str 'runs'"):
        find_runs("runs")
    with pytest.raises(ValueError, match=r"^runs: "):
        find_runs([])
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(NotARun, match=name):
            report([tmp_path / name], tmp_path / "report.html")


def test_time_steps_are_those_of_the_weights(tmp_path):
    run = write_run(tmp_path / "run")
    c = [torch.linspace(-4 + l, 2, 8) for l in range(3)]
    assert torch.equal(run_time_steps(run), functional.time_steps(c, [0.1, 0.2, 0.4]))
    default = write_run(tmp_path / "default", model_options={"hidden_size": 8})
    assert torch.equal(run_time_steps(default), functional.time_steps(c, 0.1))
    (run.path / "best.safetensors").unlink()
    assert run_time_steps(run) is None
    with pytest.raises(NotARun, match="wrong"):
        run_time_steps(write_run(tmp_path / "wrong", model_options={"dt": [0.1, 0.2]}))


def test_the_best_run_is_finished_if_possible_and_chosen_by_validation(tmp_path):
    write_run(tmp_path / "1", "regress", test=1.0, valid=2.0)
    write_run(tmp_path / "2", "regress", test=3.0, valid=1.0, seed=2)
    write_run(tmp_path / "3", "regress", test=0.5, seed=3, finished=False)
    (group,) = group_runs(find_runs([tmp_path]))
    assert group.best_run().path.name == "2"
    assert group.best_run("lstm") is None
    (entry,) = group.entries
    assert entry.test == (2.0, math.sqrt(2), 1.0)
    assert entry.valid.best == 1.0
