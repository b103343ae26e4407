"""The commands fit, predict and features."""

import numpy as np
import pandas as pd
import pytest

from tests.lab.cli.helpers import unicornn as run
from unicornn import load_model
from unicornn.errors import BadValue
from unicornn.lab._lock import locked
from unicornn.lab.errors import InUse, NotARun


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    steps = [(i, n, np.sin((0.2 + 0.1 * (i % 2)) * n + rng.uniform(0, 0.1))) for i in range(16) for n in range(40)]
    rows = [(f"s{i}", n, x, rng.normal(), "ab"[i % 2]) for i, n, x in steps]
    path = tmp_path / "t.csv"
    pd.DataFrame(rows, columns=["series", "time", "x", "y", "kind"]).to_csv(path, index=False)
    return path


def test_a_dry_run_without_a_target(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(6), y=["a", "b"] * 3)
    assert "--target" in run("fit", tmp_path / "a.npz", "--dry-run")
    assert "--target" not in run("fit", tmp_path / "a.npz", "--target", "y", "--dry-run")
    (tmp_path / "a.tsv").write_text("1\t0.5\t0.25\n2\t1\t2\n")  # has its own target
    assert "--target" not in run("fit", tmp_path / "a.tsv", "--dry-run")


def test_from_a_file_to_predictions(table, tmp_path):
    model, target = tmp_path / "m", ("--target", "kind")
    description = run("fit", table, *target, "--out", model, "--dry-run")
    assert "2 classes, a (8), b (8): classification" in description.replace("\n", " ")
    assert not model.exists()
    assert "left out accuracy" in run("fit", table, *target, "--out", model)
    assert load_model(model).channel_names_ == ["x", "y"]
    assert "| target | kind |" in (model / "README.md").read_text()
    page = (model / "report.html").read_text()
    assert "left out accuracy" in page
    assert "True and predicted classes of series left out." in page
    assert "Clearest correct and incorrect predictions" in page
    assert "accuracy 1 on 16 series" in run("predict", model, table, *target, "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert list(predicted.columns) == ["series", "prediction", "p(a)", "p(b)"]
    assert (predicted.prediction == ["ab"[i % 2] for i in range(16)]).all()
    printed = run("predict", model, table, *target)
    assert printed.startswith("series,prediction,p(a),p(b)\ns0,a,")
    assert "wrote" in run("explain", model, table, *target, "--samples", 2, "--out", tmp_path / "e.html")
    assert (tmp_path / "e.html").read_text().count("<figure") == 2
    run("features", model, table, *target, "--out", tmp_path / "f.csv")
    assert len(pd.read_csv(tmp_path / "f.csv")) == 16
    frame = pd.read_csv(table)
    frame.assign(kind=np.nan).to_csv(table, index=False)  # the target is unknown, but its column exists
    assert run("predict", model, table) == printed
    assert "2: x, y" in run("predict", model, table, "--dry-run")
    frame.rename(columns={"kind": "sort"}).assign(sort=0).to_csv(table, index=False)
    with pytest.raises(BadValue, match=r"^channels: .*; sort unknown"):
        run("predict", model, table)
    frame.loc[45, "x"] = np.nan
    frame.to_csv(table, index=False)
    with pytest.raises(BadValue, match=r"^series s1: .* --missing mask"):
        run("predict", model, table)


def test_options_are_stored_and_targets_are_scored(table, tmp_path, capfd):
    frame = pd.read_csv(table).rename(columns={"series": "walk", "time": "at", "kind": "size"})
    frame["size"] = frame["walk"].str[1:].astype(int) % 8 + 0.5
    frame["person"] = frame["walk"].str[1:].astype(int) % 4
    frame.to_csv(table, index=False)
    options = "--target", "size", "--regress", "--id", "walk", "--time", "at", "--groups", "person"
    output = run("fit", table, *options, "--scale", "series", "--out", tmp_path / "m")
    assert "left out by groups, scaled by series" in output.replace("\n", " ")
    printed = run("predict", tmp_path / "m", table)  # the options are those of the fit
    assert printed.count("\n") == 17
    run("predict", tmp_path / "m", table, "--out", tmp_path / "p.csv")
    frame.drop(columns=["size", "person"]).to_csv(table, index=False)
    assert run("predict", tmp_path / "m", table) == printed
    page = (tmp_path / "m/report.html").read_text()
    assert "left out by person (4 in all)" in page
    assert "Every series was scaled by itself;" in page


def test_missing_values(table, tmp_path):
    run("fit", table, "--target", "kind", "--out", tmp_path / "m", "--missing", "mask")
    frame = pd.read_csv(table)
    frame.loc[45, "x"] = np.nan
    frame.to_csv(table, index=False)
    assert run("predict", tmp_path / "m", table).count("\n") == 17
    with pytest.raises(BadValue, match=r"^X: .*NaN in series 1 at step 5"):
        run("fit", table, "--target", "kind", "--out", tmp_path / "n", "--missing", "error")


def test_other_files_are_not_replaced(table, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("mine")
    options = "fit", table, "--target", "kind", "--out", project
    with pytest.raises(BadValue, match=r"^--out: .*README.md.* --force"):
        run(*options)
    assert (project / "README.md").read_text() == "mine"
    run(*options, "--force")
    run(*options)  # replaces a model
    assert load_model(project).n_channels_ == 2


def test_options_are_checked_before_the_file_is_read(tmp_path):
    with pytest.raises(BadValue, match=r"^model: "):
        run("fit", tmp_path / "missing.csv", "--target", "kind", "--model", "bnak")


@pytest.mark.parametrize(("option", "kind"), [("--classify", "UnICORNNClassifier"), ("--regress", "UnICORNNRegressor")])
def test_the_kind_of_the_target_can_be_chosen(tmp_path, option, kind):
    X, many = np.random.default_rng(0).normal(size=(42, 20)), np.arange(42) // 2  # 21 different integers
    np.savez(tmp_path / "a.npz", X=X, many=many, name=np.array(["a", "b"] * 21))
    run("fit", tmp_path / "a.npz", "--target", "many", option, "--out", tmp_path / "m")
    assert type(load_model(tmp_path / "m")).__name__ == kind
    assert (tmp_path / "m/report.html").exists()
    if option == "--regress":
        with pytest.raises(BadValue, match=r"^--regress: "):
            run("fit", tmp_path / "a.npz", "--target", "name", option, "--out", tmp_path / "n")


def test_commands_for_runs_reject_a_fitted_model(table, tmp_path):
    run("fit", table, "--target", "kind", "--out", tmp_path / "models/m")
    for command in ("evaluate", "diagnose", "report"):
        with pytest.raises(NotARun, match=r"^run: .*fitted model.* `unicornn predict`"):
            run(command, tmp_path / "models/m")
    with pytest.raises(NotARun, match=r"^run: "):
        run("report", tmp_path / "models")


def test_one_fit_at_a_time(table, tmp_path):
    with locked(tmp_path / "model"), pytest.raises(InUse, match="model is in use by process"):
        run("fit", table, "--target", "kind", "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()
