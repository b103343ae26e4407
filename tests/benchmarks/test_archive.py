"""The archive benchmark measures, resumes and summarises; its calibration error is the usual one."""

import csv

import numpy as np
import pytest
import typer

from benchmarks import archive


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for split, n in (("TRAIN", 12), ("TEST", 6)):
        x = rng.normal(size=(n, 30)) + 3 * (np.arange(n) % 2)[:, None] * np.sin(np.arange(30))
        lines = ["\t".join([str(i % 2), *map(str, row)]) for i, row in enumerate(x)]
        (tmp_path / f"Toy_{split}.tsv").write_text("\n".join(lines))
    (tmp_path / "published.csv").write_text("dataset,HC2\nToy,0.9\nOther,0.8\n")
    return tmp_path


def run(folder, **options):
    archive.main(folder, predicted=folder / "p", out=folder / "archive.json", **options)
    with (folder / "archive.csv").open() as file:
        return list(csv.DictReader(file))


def test_measures_once_and_summarises(folder, monkeypatch):
    (row,) = run(folder, methods=["UnICORNN"])
    assert (row["dataset"], row["method"], row["n"], row["N"], row["classes"]) == ("Toy", "UnICORNN", "12", "30", "2")
    assert 0.5 <= float(row["accuracy"]) <= 1
    monkeypatch.setattr(archive, "in_new_process", None)  # not called again
    assert run(folder, methods=["UnICORNN"]) == [row]
    assert (folder / "archive_published.csv").read_text() == "dataset,HC2\nToy,0.9\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # aeon's
def test_other_methods_run_on_series_of_unequal_length(folder):
    path = folder / "Toy_TRAIN.tsv"
    lines = path.read_text().split("\n")
    lines[0] = "\t".join(lines[0].split("\t")[:20] + ["NaN"] * 11)
    path.write_text("\n".join(lines))
    rows = run(folder)
    assert [row["method"] for row in rows] == list(archive.METHODS)


def test_folder_without_datasets_is_rejected(tmp_path):
    with pytest.raises(typer.BadParameter, match=r"^folder: "):
        run(tmp_path)


def test_calibration_error():
    p = np.array([[0.75, 0.25]] * 4 + [[0.45, 0.55]] * 2)
    assert archive.calibration_error(np.array([0, 0, 0, 1, 1, 1]), p) == pytest.approx(2 * 0.45 / 6)
