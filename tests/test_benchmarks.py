"""Every benchmark runs on toy sizes, resumes after an interruption, and its results fill the pages."""

import csv
import json
import math

import numpy as np
import pytest

from benchmarks import archive, bank, estimators, gpu, scale
from benchmarks.series import Split
from docs.build import long, pages, theory  # noqa: F401  theory registers parts
from docs.build.pages import FIGURES
from tests.processes import python
from unicornn.theory.plots import Plot


def run(*arguments):
    return python("-m", *arguments, cwd=pages.ROOT)


def test_archive(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for split, n in (("TRAIN", 12), ("TEST", 6)):
        x = rng.normal(size=(n, 30)) + 3 * (np.arange(n) % 2)[:, None] * np.sin(np.arange(30))
        lines = ["\t".join([str(i % 2), *map(str, row)]) for i, row in enumerate(x)]
        (tmp_path / f"Toy_{split}.tsv").write_text("\n".join(lines))
    (tmp_path / "published.csv").write_text("dataset,HC2\nToy,0.9\nOther,0.8\n")
    for _ in range(2):
        archive.main(tmp_path, predicted=tmp_path / "p", out=tmp_path / "archive.json", methods=["UnICORNN"])
        with (tmp_path / "archive.csv").open() as file:
            (row,) = csv.DictReader(file)
        assert (row["dataset"], row["n"], row["N"], row["classes"]) == ("Toy", "12", "30", "2")
        assert 0.5 <= float(row["accuracy"]) <= 1
        monkeypatch.setattr(archive, "in_new_process", None)  # not called again
    assert (tmp_path / "archive_published.csv").read_text() == "dataset,HC2\nToy,0.9\n"


@pytest.fixture
def toy(monkeypatch):
    X = list(np.random.default_rng(0).normal(size=(12, 30, 1)))
    y = np.arange(12) % 2
    monkeypatch.setattr(estimators, "splits", lambda name, folder: [Split(X, y, X[:4], y[:4])] * 2)
    monkeypatch.setattr(estimators, "BUDGET", 1e-3)


@pytest.mark.parametrize(("name", "method"), [("ShapeletSim", "both"), ("heart rate", "bank"), ("heart rate", "lstm")])
def test_methods_on_a_toy_set(name, method, toy, tmp_path):
    found = estimators.measure(name, method, 0, tmp_path)
    assert found.pop("sizes") == {"n": 12, "N": 30, "d": 1}
    assert set(found) == ({"both", "network"} if method == "both" else {method})
    assert all(0 <= one["score"] < math.inf and one["megabytes"] > 0 for one in found.values())


def test_interrupted_comparison_resumes(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(estimators, "NAMES", ["ShapeletSim"])
    monkeypatch.setattr(estimators, "METHODS", {name: estimators.METHODS[name] for name in ("guess", "bank")})
    for seeds in (1, 2):
        estimators.main(tmp_path, seeds, tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())["sets"]["ShapeletSim"]
    assert {method: len(found[method]["scores"]) for method in ("guess", "bank")} == {"guess": 1, "bank": 2}


def test_bank(tmp_path):
    bank.main(series=5, steps=20, threads=1, out=tmp_path / "b")
    found = json.loads((tmp_path / "b").read_text())
    assert (found["n"], found["N"], found["threads"]) == (5, 20, 1)
    assert found["seconds"] > 0


@pytest.mark.slow
def test_scale(tmp_path):
    scale.main(series=60, in_memory=40, steps=10, out=tmp_path / "scale.json")
    found = json.loads((tmp_path / "scale.json").read_text())
    assert tuple(found["runs"][kind]["series"] for kind in ("files", "memory")) == (60, 60)  # whole files
    assert found["ratio"] > 0


@pytest.mark.slow
def test_gpu_in_the_interpreter(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    marked = list(pages.MARKED.finditer((pages.ROOT / "docs" / "gpu.md").read_text()))
    absent = [["No measurements are available yet."], [], [], []]
    assert [pages.part_lines(*each.group(2, 3, 4)) for each in marked] == absent
    assert "IndRNN, 2 layers" in run("benchmarks.gpu", "--toy", "--batches", 1, "--out", tmp_path / "gpu.json")
    result = json.loads((tmp_path / "gpu.json").read_text())
    assert {row["dtype"] for row in result["checks"]} == {"float32", "bfloat16"}
    assert all(row["exact reversal"] and row["equal gradients"] for row in result["checks"])
    names = {f"UnICORNN, 2 layers, {gradient}" for gradient in gpu.GRADIENTS} | set(gpu.BASELINES)
    assert {(row["N"], row["model"]) for row in result["speed"]} == {(N, name) for N in gpu.TOY[0].N for name in names}
    lines = [line for each in marked for line in pages.part_lines(*each.group(2, 3, 4))]
    assert "| float32 | True | True |" in lines


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model"), [("recall", "unicornn"), ("adding", "mingru")])
def test_very_long_sequences(task, model, tmp_path, monkeypatch):
    small = ["--stages", 40, "--stages", 60, "--minutes", 0.02, "--quick", "--out", tmp_path / "long"]
    run("benchmarks.long", task, "--model", model, *small)
    monkeypatch.setattr(long, "RESULTS", tmp_path)
    (row,) = long.learning(task)
    assert row["model"] == model
    assert FIGURES[f"long_{task}"]().axes
    run("benchmarks.long", "memory", *small[:4], *small[6:])
    assert long.memory_by_length()[0] == "| model | N = 40 | N = 60 |"


@pytest.mark.slow
@pytest.mark.parametrize(("what", "files"), [((), {"theory", "theory_plots"}), (("growth",), {"growth"})])
def test_theory(what, files, tmp_path, monkeypatch):
    run("benchmarks.theory", *what, "--quick", "--out", tmp_path)
    results = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert set(results) == files
    drawn = [results["growth"]["plot"]] if what else results["theory_plots"].values()
    assert all(Plot.from_dict(values).draw().axes for values in drawn)
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    for _, source, arguments, declared, _ in pages.MARKED.findall((pages.ROOT / "docs" / "theory.md").read_text()):
        if source.startswith("growth") == bool(what) and source != "growth_of_tasks":  # not in the quick run
            assert pages.part_lines(source, arguments, declared or None)
