"""The page: its numbers, no requests, and no markup from files."""

import json
import re
from itertools import pairwise

import pytest

from tests.browser import measured_in_frames
from tests.lab.report.helpers import MEASURE, Page, images_of, read_page, write_run
from unicornn.lab.report import report


@pytest.mark.usefixtures("known_tasks", "no_plots")
def test_results_next_to_the_published_ones(tmp_path):
    for seed, test in ((1, 0.960), (2, 0.980)):
        write_run(tmp_path / f"runs/{seed}", test=test, seed=seed, valid=test + 0.01, epochs=10 + seed, of=20)
    write_run(tmp_path / "runs/lstm", test=0.9, model="lstm", budget=60.0, parameters=1234567)
    page = read_page(tmp_path)
    head, *rows = page.tables[0]
    rows = [dict(zip(head, row, strict=True)) for row in rows]
    reference = ["UnICORNN published, Table 1", "LSTM published", "no model guessing the most frequent class"]
    assert [row["Model"] for row in rows] == ["unicornn", "lstm", *reference]
    ours, lstm, published, _, constant = rows
    assert constant["Test accuracy"] == "11.2 %"
    assert "Test accuracy: unicornn 97.0 ± 1.4 %, lstm 90.0 %; guessing the most frequent class 11.2 %." in page.text
    assert ours["Test accuracy"] == "97.0 ± 1.4 %"
    assert ours["Best seed"] == "98.0 %"
    assert ours["Validation"] == "98.0 ± 1.4 %"
    assert (ours["Seeds"], ours["Epochs"], ours["Time per run"]) == ("1, 2", "11–12", "11 min 50 s")
    assert (ours["Units"], ours["Parameters"]) == ("8", "35,338")
    assert (lstm["Test accuracy"], lstm["Epochs"], lstm["Parameters"]) == ("90.0 %", "12 (budget)", "1,234,567")
    assert (published["Test accuracy"], published["Units"], published["Parameters"]) == ("98.4 %", "256", "135,000")


@pytest.mark.usefixtures("known_tasks", "no_plots")
def test_seeds_share_a_row_and_experiments_have_separate_tables(tmp_path):
    for seed in (3, 1, 2):
        write_run(tmp_path / f"runs/1/{seed}", seed=seed, test=0.9)
    write_run(tmp_path / "runs/2", hidden=16, test=0.8)
    write_run(tmp_path / "runs/3", hidden=16, budget=60, seed=2, test=0.7)
    write_run(tmp_path / "runs/0", model="lstm", test=0.6)
    for name, change in {"4": {"task": "other"}, "5": {"variant": "256"}, "6": {"task_options": {"N": 3}}}.items():
        write_run(tmp_path / f"runs/{name}", **change)
    found = []
    for head, *rows in read_page(tmp_path).tables:
        if "Seeds" in head:
            cells = [(row[0], row[head.index("Seeds")]) for row in rows]
            found.append([cell for cell in cells if cell[1] != "–"])
    assert [
        ("unicornn (hidden_size 8, budget None)", "1, 2, 3"),
        ("unicornn (hidden_size 16, budget None)", "1"),
        ("unicornn (hidden_size 16, budget 60)", "2"),
        ("lstm", "1"),
    ] in found
    assert found.count([("unicornn", "1")]) == 3


@pytest.mark.usefixtures("known_tasks", "no_plots")
@pytest.mark.parametrize(("kind", "order"), [("classify", ["c", "a", "b"]), ("regress", ["b", "a", "c"])])
def test_models_are_sorted_by_their_metric(tmp_path, kind, order):
    for model, test in (("a", 0.5), ("b", 0.25), ("c", 0.75)):
        write_run(tmp_path / f"runs/{model}", kind, test=test, model=model)
    write_run(tmp_path / "runs/d", kind, model="d", epochs=2, of=9, finished=False)
    page = read_page(tmp_path)
    _, *rows = page.tables[0]
    assert [row[0] for row in rows[:4]] == [*order, "d unfinished"]


def test_the_progress_of_an_unfinished_run(tmp_path):
    write_run(tmp_path / "runs/1", test=0.9, epochs=7, finished=False, of=20)
    page = read_page(tmp_path)
    assert "No run has a test result yet." in page.text
    assert page.tables[0][1][:7] == ["unicornn unfinished", "–", "–", "90.0 %", "1*", "7", "7 min 12 s"]
    assert "1 run, 1 unfinished" in page.text
    assert "UnICORNN report: Permuted digits" in page.text
    assert any("against epoch" in a.get("alt", "") for _, a in page.tags)


def test_a_run_that_has_only_a_config(tmp_path):
    config = {"task": "mine.py", "model": "unicornn", "seed": 1, "metric": "RMSE", "more_is_better": False}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/config.json").write_text(json.dumps(config))
    page = read_page(tmp_path)
    assert page.tables[0][1][0] == "unicornn unfinished"
    assert not [tag for tag, _ in page.tags if tag == "img"]


@pytest.mark.usefixtures("known_tasks", "no_plots")
def test_options_other_than_the_defaults_are_pointed_out(tmp_path):
    write_run(tmp_path / "runs/1", "regress", task_options={"split": "patient"})
    assert "Not the task's default: split = patient." in read_page(tmp_path).text
    path = tmp_path / "runs/1/config.json"
    path.write_text(path.read_text().replace("patient", "random"))
    assert "Not the task's default" not in read_page(tmp_path).text


CURVES = ["Validation {} against epoch", "Validation {} against time"]
LEARNT = ["Effective time steps of each layer's neurons", "Norms of each layer's hidden weights"]


@pytest.mark.parametrize(
    ("kind", "model", "expected"),
    [
        ("classify", "unicornn", [*CURVES, *LEARNT, "True and predicted classes of the test set"]),
        ("regress", "unicornn", [*CURVES, *LEARNT, "Prediction against target of the test set"]),
        ("forecast", "unicornn", [*CURVES, *LEARNT]),
        ("regress", "lstm", [*CURVES, "Prediction against target of the test set"]),
    ],
)
def test_plots(tmp_path, kind, model, expected):
    run = write_run(tmp_path / "runs/1", kind, model=model)
    assert images_of(read_page(tmp_path)) == [text.format(run.config["metric"]) for text in expected]


def test_arguments(tmp_path):
    write_run(tmp_path / "runs/1")
    with pytest.raises(ValueError, match=r"^out: "):
        report([tmp_path / "runs"], tmp_path)


@pytest.fixture(scope="module")
def page(everything):
    return Page(everything.read_text())


def test_in_a_browser_the_page_is_complete_and_fits(everything, tmp_path):
    for measured in measured_in_frames(everything, tmp_path, MEASURE):
        assert measured["beyond"] == 0
        assert measured["images"] == measured["shown"] >= 20
        assert (measured["sections"], measured["scripts"]) == (6, 0)
        for text in ("97.2 ± 0.4 %", "<script>alert('x')</script>", "unicornn train regress --seed 2"):
            assert text in measured["text"]


def test_the_page_requests_nothing(everything, page):
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "data", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:image/svg+xml;base64,"))
    assert not re.search(r"url\(|@import", everything.read_text())
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}


def test_text_from_files_is_escaped(everything, page):
    hostile = "<script>alert('x')</script>"
    assert f"$\\frac_{hostile}" in page.text
    assert "a && b <i>" in page.text
    assert hostile not in everything.read_text()
    assert not {"i", "b", "frac"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_accessible(page):
    assert ("html", {"lang": "en"}) in page.tags
    assert all(a.get("alt") for tag, a in page.tags if tag == "img")
    assert all(a.get("scope") in ("col", "row") for tag, a in page.tags if tag == "th")
    assert all(a.get("aria-label") for _, a in page.tags if a.get("class") == "scroll")
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    ids = [a["id"] for _, a in page.tags if "id" in a]
    links = [a["href"][1:] for tag, a in page.tags if tag == "a"]
    assert sorted(links) == sorted(ids) == sorted(set(ids))


def test_every_run_can_be_repeated_from_the_page(page):
    assert sum(tag == "details" for tag, _ in page.tags) == 12
    assert "unicornn train classify --seed 3" in page.text
    for text in ('"lr": 0.001', '"alpha": 1.0', '"weights_sha256": "0000', '"torch": "2.6"'):
        assert text in page.text


def test_the_same_runs_make_the_same_page(tmp_path):
    write_run(tmp_path / "run")
    first = report([tmp_path / "run"], tmp_path / "1.html").read_bytes()
    assert first == report([tmp_path / "run"], tmp_path / "2.html").read_bytes()
