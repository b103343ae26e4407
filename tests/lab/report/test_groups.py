"""Grouping of runs, and statistics over seeds."""

import math

import pytest

from tests.lab.report.helpers import write_run
from unicornn.lab.report._folders import find_runs
from unicornn.lab.report._groups import group_runs


def labels(root):
    return [[(entry.label, len(entry.runs)) for entry in group.entries] for group in group_runs(find_runs([root]))]


def test_entries_have_all_seeds_and_name_their_differences(tmp_path):
    for seed in (3, 1, 2):
        write_run(tmp_path / f"1/{seed}", seed=seed)
    write_run(tmp_path / "2", hidden=16)
    write_run(tmp_path / "3", hidden=16, budget=60, seed=2)
    write_run(tmp_path / "0", model="lstm")
    assert labels(tmp_path) == [
        [
            ("unicornn (hidden_size 8, budget None)", 3),
            ("unicornn (hidden_size 16, budget None)", 1),
            ("unicornn (hidden_size 16, budget 60)", 1),
            ("lstm", 1),
        ]
    ]


@pytest.mark.parametrize("change", [{"task": "other"}, {"variant": "256"}, {"task_options": {"split": "patient"}}])
def test_other_experiments_have_separate_groups(tmp_path, change):
    write_run(tmp_path / "1")
    write_run(tmp_path / "2", **change)
    assert len(labels(tmp_path)) == 2


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
