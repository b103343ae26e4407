"""Who is put together with whom, and the numbers over seeds."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.report.helpers import write_run
from unicornn.lab._metric import Metric
from unicornn.lab.report._folders import find_runs
from unicornn.lab.report._groups import flat, group_runs, spread


def labels(root):
    return [[(entry.label, len(entry.runs)) for entry in group.entries] for group in group_runs(find_runs([root]))]


def test_seeds_are_put_together(tmp_path):
    for seed in (3, 1, 2):
        write_run(tmp_path / str(seed), seed=seed)
    assert labels(tmp_path) == [[("unicornn", 3)]]


def test_what_differs_is_in_the_label_and_unicornn_comes_first(tmp_path):
    write_run(tmp_path / "1")
    write_run(tmp_path / "2", hidden=16)
    write_run(tmp_path / "3", hidden=16, budget=60, seed=2)
    write_run(tmp_path / "0", model="lstm")
    assert labels(tmp_path) == [
        [
            ("unicornn (hidden_size 8, budget None)", 1),
            ("unicornn (hidden_size 16, budget None)", 1),
            ("unicornn (hidden_size 16, budget 60)", 1),
            ("lstm", 1),
        ]
    ]


@pytest.mark.parametrize("change", [{"task": "other"}, {"variant": "256"}, {"task_options": {"split": "patient"}}])
def test_other_experiments_are_kept_apart(tmp_path, change):
    write_run(tmp_path / "1")
    write_run(tmp_path / "2", **change)
    assert len(labels(tmp_path)) == 2


def test_the_best_is_chosen_by_validation_and_is_finished_if_any_is(tmp_path):
    write_run(tmp_path / "1", "regress", test=1.0, valid=2.0)
    write_run(tmp_path / "2", "regress", test=3.0, valid=1.0, seed=2)
    write_run(tmp_path / "3", "regress", test=0.5, seed=3, finished=False)
    (group,) = group_runs(find_runs([tmp_path]))
    assert group.best().path.name == "2"
    assert group.best("lstm") is None
    (entry,) = group.entries
    assert entry.test == (2.0, math.sqrt(2), 1.0)
    assert entry.valid.best == 1.0


@pytest.mark.usefixtures("known_tasks")
def test_departures_from_a_known_task(tmp_path):
    write_run(tmp_path / "1", "regress", task_options={"split": "random"})
    write_run(tmp_path / "2", "regress", task_options={"split": "patient"})
    write_run(tmp_path / "3", "regress", task="mine.py", task_options={"split": "patient"})
    usual, patient, mine = group_runs(find_runs([tmp_path]))
    assert (usual.departures, patient.departures, mine.departures) == ({}, {"split": "patient"}, {})
    assert (len(usual.published), len(mine.published)) == (1, 0)


def test_a_file_named_by_a_run_is_not_executed(tmp_path):
    task, trace = tmp_path / "task.py", tmp_path / "trace"
    task.write_text(f"open({str(trace)!r}, 'w')\n")
    write_run(tmp_path / "run", task=str(task))
    group_runs(find_runs([tmp_path]))
    assert not trace.exists()


@given(st.lists(st.floats(0, 100), min_size=1), st.booleans())
def test_spread(values, more_is_better):
    mean, deviation, best = spread(values, Metric("", more_is_better))
    assert mean == pytest.approx(statistics.fmean(values))
    assert best == (max(values) if more_is_better else min(values))
    assert (deviation is None) == (len(values) == 1)
    assert deviation is None or deviation == statistics.stdev(values)


def test_a_run_that_diverged_spoils_the_mean_but_not_the_best():
    mean, deviation, best = spread([0.5, math.nan], Metric("", more_is_better=True))
    assert math.isnan(mean)
    assert (deviation, best) == (None, 0.5)
    assert math.isnan(spread([], Metric("", more_is_better=True)).best)


nested = st.recursive(st.integers(), lambda inner: st.dictionaries(st.text("abc", min_size=1), inner), max_leaves=8)


@given(st.dictionaries(st.text("abc", min_size=1), nested))
def test_flat_loses_nothing(settings):
    def leaf(value, path):
        for key in path.split("."):
            value = value[key]
        return value

    assert all(leaf(settings, path) == value for path, value in flat(settings).items())

    def count(value):
        return sum(map(count, value.values())) if isinstance(value, dict) and value else 1

    assert len(flat(settings)) == (count(settings) if settings else 0)
