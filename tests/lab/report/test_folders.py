"""Runs are found, each once; a broken file is named."""

import pytest

from tests.lab.report.helpers import write_run
from unicornn.lab.errors import NotARun
from unicornn.lab.report import find_runs, report


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
