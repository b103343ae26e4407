"""The section about a search, and runs without a test metric."""

import json

import pytest

from tests.lab.report.helpers import write_run, write_study
from tests.lab.report.test_page import Page, images_of
from unicornn.lab._metric import Metric
from unicornn.lab.errors import NotARun
from unicornn.lab.report import _search_plots as search_plots
from unicornn.lab.report import find_runs, find_studies, report


def read(tmp_path):
    return Page(report([tmp_path / "runs"], tmp_path / "report.html").read_text(encoding="utf-8"))


def test_the_best_ten(tmp_path):
    study = write_study(tmp_path / "runs", trials=30)
    head, *rows, searched = read(tmp_path).tables[0]
    assert head == ["Trial", "Validation", "lr", "batch_size", "alpha", "Epochs", "Time"]
    best = sorted((t for t in study.trials if t.state == "complete"), key=lambda t: -t.value)[:10]
    assert [row[0] for row in rows] == [str(t.number) for t in best]
    assert [row[1] for row in rows] == [f"{100 * t.value:.1f} %" for t in best]
    assert [row[2] for row in rows] == [f"{t.parameters['lr']:.3g}" for t in best]
    assert rows[0][5:] == ["5", "1 min 2 s"]
    assert searched == ["searched", "–", "0.0001 to 0.1logarithmic", "16, 32, 64", "0 to 30", "–", "–"]


def test_smaller_errors_are_better(tmp_path):
    study = write_study(tmp_path / "runs", "regress")
    least = min((t for t in study.trials if t.state == "complete"), key=lambda t: t.value)
    assert read(tmp_path).tables[0][1][0] == str(least.number)


def test_what_is_said_and_drawn(tmp_path):
    write_study(tmp_path / "runs")
    page = read(tmp_path)
    assert "12 of 50 trials (8 complete, 2 pruned, 2 failed), drawn at random" in page.text
    assert "The test set was not looked at." in page.text
    assert "unicornn train classify --set lr=0.1" in page.text
    assert "UnICORNN report: search, Permuted digits" in page.text
    assert "1 search" in page.text
    assert len(images_of(page)) == 3


@pytest.mark.parametrize(("trials", "drawn"), [(0, 0), (1, 2), (2, 2)])
def test_a_search_that_has_just_begun(tmp_path, trials, drawn):
    write_study(tmp_path / "runs", trials=trials, importances={})
    page = read(tmp_path)
    assert len(images_of(page)) == drawn
    assert bool(page.tables) == bool(trials)


def test_trials_belong_to_their_search(tmp_path):
    write_study(tmp_path / "runs/search")
    write_run(tmp_path / "runs/search/trials/00000")
    write_run(tmp_path / "runs/other/trials/00000", seed=7)
    assert [run.config["seed"] for run in find_runs([tmp_path / "runs"])] == [7]
    assert list(find_studies([tmp_path / "runs", tmp_path / "runs/search"])) == [tmp_path / "runs/search"]
    assert "1 run, 1 search" in read(tmp_path).text
    assert len(find_runs([tmp_path / "runs/search/trials/00000"])) == 1


@pytest.mark.usefixtures("no_plots")
def test_runs_without_a_test_metric_are_shown(tmp_path):
    for seed in (1, 2):
        run = write_run(tmp_path / f"runs/{seed}", test=0.8 + 0.1 * seed, valid=0.95, seed=seed)
        if seed == 1:
            result = {k: v for k, v in run.result.items() if k != "test"}
            (run.path / "result.json").write_text(json.dumps(result))
            (run.path / "predictions.npz").unlink()
            page = read(tmp_path)
            assert page.tables[0][1][:4] == ["unicornn", "–", "–", "95.0 %"]
            assert "unicornn, seed 1: –" in page.text
    assert read(tmp_path).tables[0][1][:3] == ["unicornn", "100.0 %", "100.0 %"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 3}, "cannot read|expected what"),
        ({"trials": [{"number": 1}]}, "expected what"),
        ({"space": {"lr": {"low": 0, "high": 1, "log": True}}}, "range of lr above 0"),
        ({"space": {"other": {"low": 0, "high": 1}}}, "parameters of 0"),
        ({"importances": {"lr": None}}, "importances"),
        ({"metric": None}, "metric"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_broken_study_is_named(tmp_path, changes, message):
    write_study(tmp_path / "runs")
    path = tmp_path / "runs/study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(NotARun, match=message):
        read(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_lines_across_the_parameters_are_where_they_should_be(tmp_path):
    study = write_study(tmp_path / "runs")
    axis = search_plots.parallel_coordinates(study).axes[0]
    best, line = study.best, [line for line in axis.lines if len(line.get_xdata()) == 4][-1]
    low, middle, high = (best.parameters["batch_size"] == size for size in (16, 32, 64))
    assert line.get_ydata()[1] == pytest.approx(0 * low + 0.5 * middle + 1 * high)
    assert line.get_ydata()[2] == pytest.approx(best.parameters["alpha"] / 30)
    assert line.get_ydata()[3] == pytest.approx(1)
    assert sum(len(line.get_xdata()) == 4 for line in axis.lines) == 8


def test_any_metric_of_a_search_can_be_drawn(tmp_path):
    write_study(tmp_path / "runs", metric=Metric(r"$\frac{$", more_is_better=True))
    assert r"Validation $\frac{$ of each trial" in read(tmp_path).text
