"""The section about a search, and runs without a test metric."""

import contextlib
import sqlite3

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from optuna.trial import TrialState

from tests.lab.report.helpers import images_of, read_page, write_run, write_study
from unicornn.lab.errors import NotARun
from unicornn.lab.report import find_runs, find_studies


@pytest.fixture
def without_plots(monkeypatch, no_plots):
    monkeypatch.setattr("unicornn.lab.report._plots.study_plots", lambda study: [])


@pytest.mark.usefixtures("without_plots")
def test_the_best_ten_trials(tmp_path):
    study = write_study(tmp_path / "runs", trials=30)
    head, *rows, searched = read_page(tmp_path).tables[0]
    assert head == ["Trial", "Validation", "lr", "batch_size", "alpha", "Epochs", "Time"]
    best = sorted((t for t in study.trials if t.state == TrialState.COMPLETE), key=lambda t: -t.value)[:10]
    assert [row[0] for row in rows] == [str(t.number) for t in best]
    assert [row[1] for row in rows] == [f"{100 * t.value:.1f} %" for t in best]
    assert [row[2] for row in rows] == [f"{t.params['lr']:.3g}" for t in best]
    assert rows[0][5:] == ["5", "1 min 2 s"]
    assert searched == ["searched", "–", "0.0001 to 0.1 logarithmic", "16, 32, 64", "0 to 30", "–", "–"]


def test_text_and_plots_of_a_search(tmp_path):
    write_study(tmp_path / "runs", trials=16, metric=r"$\frac{$")
    settings = dict(mpl.rcParams)
    page = read_page(tmp_path)
    assert "16 of 50 trials (11 complete, 3 pruned, 2 failed), sampler random, pruner median" in page.text
    assert "The test set was not used." in page.text
    assert "unicornn train classify --set lr=0.1" in page.text
    assert "UnICORNN report: search, Permuted digits" in page.text
    assert "1 search" in page.text
    assert r"Validation $\frac{$ of the complete trials" in page.text
    assert len(images_of(page)) == 3
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == settings, "Optuna's style is not left behind"


@pytest.mark.parametrize(("trials", "drawn"), [(0, 0), (1, 1), (2, 2)])
def test_a_search_that_has_just_begun(tmp_path, trials, drawn):
    write_study(tmp_path / "runs", trials=trials)
    page = read_page(tmp_path)
    assert len(images_of(page)) == drawn
    assert bool(page.tables) == bool(trials)


@pytest.mark.usefixtures("without_plots")
def test_trials_belong_to_their_search(tmp_path):
    write_study(tmp_path / "runs/search")
    write_run(tmp_path / "runs/search/trials/00000")
    write_run(tmp_path / "runs/other/trials/00000", seed=7)
    assert [run.config["seed"] for run in find_runs([tmp_path / "runs"])] == [7]
    assert list(find_studies([tmp_path / "runs", tmp_path / "runs/search"])) == [tmp_path / "runs/search"]
    assert "1 run, 1 search" in read_page(tmp_path).text
    assert len(find_runs([tmp_path / "runs/search/trials/00000"])) == 1


DAMAGE = {
    "not a database": lambda path: path.write_bytes(b"SQLite format 3" * 99),
    "no plan": lambda path: execute(path, "DELETE FROM study_user_attributes WHERE key = 'plan'"),
}


def execute(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_study_is_named(tmp_path, damage):
    write_study(tmp_path / "runs", trials=2)
    DAMAGE[damage](tmp_path / "runs/study.db")
    with pytest.raises(NotARun, match=r"study\.db"):
        read_page(tmp_path)
    assert not (tmp_path / "report.html").exists()
