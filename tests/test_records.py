"""What is kept of runs, and pages that are made from code."""

import json
import sys
from pathlib import Path

from benchmarks import record, tasks
from tests.lab.training import small
from unicornn.lab.training import resolve, train

ROOT = Path(__file__).parent.parent


def test_the_table_of_tasks_is_up_to_date():
    text = (ROOT / "docs/training.md").read_text()
    assert tasks.page(text) == text, "run python -m benchmarks.tasks"


def test_a_record_has_all_that_a_reader_needs(tmp_path, monkeypatch):
    config = resolve(small.TASK, name=small.__file__, settings={"epochs": 2})
    run = train(config, tmp_path / "runs" / "one")
    arguments = [
        "record",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path / "a.json"),
        "--figure",
        str(tmp_path / "a.png"),
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    record.main()
    (kept,) = json.loads((tmp_path / "a.json").read_text())
    assert {"command", "seed", "protocol", "training", "model_options", "environment", "result"} <= set(kept)
    assert kept["result"] == run.result
    assert kept["curve"]["epoch"] == [1, 2]
    assert (tmp_path / "a.png").stat().st_size > 5_000
