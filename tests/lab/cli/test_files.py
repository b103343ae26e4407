"""unicornn fit, predict, features."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from unicornn.errors import BadValue
from unicornn.estimators import load
from unicornn.lab._lock import locked
from unicornn.lab.cli import app
from unicornn.lab.errors import InUse


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(16):
        for n in range(40):
            rows.append(
                (f"s{i}", n, np.sin((0.2 + 0.1 * (i % 2)) * n + rng.uniform(0, 0.1)), rng.normal(), "ab"[i % 2])
            )
    path = tmp_path / "t.csv"
    pd.DataFrame(rows, columns=["series", "time", "x", "y", "kind"]).to_csv(path, index=False)
    return path


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_dry_run_says_that_there_is_no_target(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(6), y=["a", "b"] * 3)
    assert "--target" in run("fit", tmp_path / "a.npz", "--dry-run").stdout
    assert "--target" not in run("fit", tmp_path / "a.npz", "--target", "y", "--dry-run").stdout
    (tmp_path / "a.tsv").write_text("1\t0.5\t0.25\n2\t1\t2\n")  # brings its own
    assert "--target" not in run("fit", tmp_path / "a.tsv", "--dry-run").stdout


def test_from_a_file_to_predictions(table, tmp_path):
    dry = run("fit", table, "--target", "kind", "--out", tmp_path / "m", "--dry-run")
    assert "16" in dry.stdout
    assert "2 classes, a (8), b (8): classification" in dry.stdout.replace("\n", " ")
    assert not (tmp_path / "m").exists()
    done = run("fit", table, "--target", "kind", "--out", tmp_path / "m")
    assert "left out accuracy" in done.stdout
    assert load(tmp_path / "m").channel_names_ == ["x", "y"]
    page = (tmp_path / "m/report.html").read_text()
    assert "left out accuracy" in page
    assert "True and predicted classes of series left out." in page
    run("predict", tmp_path / "m", table, "--target", "kind", "--out", tmp_path / "p.csv")
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert list(predicted.columns) == ["series", "prediction", "p(a)", "p(b)"]
    assert (predicted.prediction == ["ab"[i % 2] for i in range(16)]).all()
    printed = run("predict", tmp_path / "m", table, "--target", "kind").stdout
    assert printed.startswith("series,prediction,p(a),p(b)\ns0,a,")
    run("features", tmp_path / "m", table, "--target", "kind", "--out", tmp_path / "f.csv")
    assert len(pd.read_csv(tmp_path / "f.csv")) == 16
    assert "| target | kind |" in (tmp_path / "m/README.md").read_text()
    frame = pd.read_csv(table)
    frame.assign(kind=np.nan).to_csv(table, index=False)  # the target is yet unknown, but its column is there
    assert run("predict", tmp_path / "m", table).stdout == printed
    assert "2: x, y" in run("predict", tmp_path / "m", table, "--dry-run").stdout
    frame.rename(columns={"kind": "sort"}).assign(sort=0).to_csv(table, index=False)
    with pytest.raises(BadValue, match="channels: expected x, y as the model was fitted with; sort unknown"):
        run("predict", tmp_path / "m", table)
    frame.loc[45, "x"] = np.nan
    frame.to_csv(table, index=False)
    with pytest.raises(BadValue, match=r"series s1: expected no missing values, .* fit it again with --missing mask"):
        run("predict", tmp_path / "m", table)


def test_missing_values_may_be_expected(table, tmp_path):
    run("fit", table, "--target", "kind", "--out", tmp_path / "m", "--missing", "mask")
    frame = pd.read_csv(table)
    frame.loc[45, "x"] = np.nan
    frame.to_csv(table, index=False)
    assert run("predict", tmp_path / "m", table).stdout.count("\n") == 17
    with pytest.raises(BadValue, match="NaN in series 1 at step 5"):
        run("fit", table, "--target", "kind", "--out", tmp_path / "n", "--missing", "error")


def test_a_quantity_is_regressed(table, tmp_path):
    frame = pd.read_csv(table)
    frame["size"] = frame.series.str[1:].astype(int) + 0.5
    frame.drop(columns="kind").to_csv(table, index=False)
    assert "regression" in run("fit", table, "--target", "size", "--out", tmp_path / "m").stdout
    assert type(load(tmp_path / "m")).__name__ == "UnICORNNRegressor"
    assert "against their targets" in (tmp_path / "m/report.html").read_text()
    with pytest.raises(BadValue, match="--target: expected the name"):
        run("fit", table, "--out", tmp_path / "n")


def test_one_fit_at_a_time(table, tmp_path):
    with locked(tmp_path / "model"), pytest.raises(InUse, match="model is in use by process"):
        run("fit", table, "--target", "kind", "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("segments", [None, 1])
def test_pieces_of_a_network(table, tmp_path, segments):
    more = [] if segments is None else ["--segments", segments]
    run("fit", table, "--target", "kind", "--out", tmp_path / "m", "--model", "network", "--budget", 1, *more)
    assert load(tmp_path / "m")._network.readout.segments == (segments or 2)  # 40 steps: two of 16 at least
