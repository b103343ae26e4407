"""Compares the default classifier with aeon's on a folder of datasets: ``python -m benchmarks.archive FOLDER``.

FOLDER has NAME_TRAIN and NAME_TEST as .ts or .tsv files (UCR, UEA), and optionally published.csv files with published
accuracies on the same splits. Each method and dataset runs in a separate process with one thread. Predictions are
written in tsml-eval's format to --predictions, METHOD/Predictions/NAME/testResample0.csv; existing ones are not
computed again. results/archive.csv summarises them and keeps its rows of other datasets and methods,
results/archive_published.csv has the published accuracies, results/archive.json the environment.

All methods use their defaults. aeon's need series of equal length; shorter ones are padded with zeros.
"""

from __future__ import annotations

import csv
import importlib
import io
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
import typer
from sklearn.base import clone
from sklearn.metrics import log_loss

from benchmarks import record
from benchmarks.estimators import in_new_process
from benchmarks.series import padded
from unicornn._files import atomic_write
from unicornn.estimators import UnICORNNClassifier
from unicornn.lab.bench._measure import peak
from unicornn.lab.fit import read
from unicornn.lab.report._plots import calibration_error

AEON = {
    "MiniRocket": ("convolution_based", "MiniRocketClassifier"),
    "QUANT": ("interval_based", "QUANTClassifier"),
    "Hydra": ("convolution_based", "HydraClassifier"),
    "MR-Hydra": ("convolution_based", "MultiRocketHydraClassifier"),
    "RDST": ("shapelet_based", "RDSTClassifier"),
}
METHODS = ("UnICORNN", *AEON)


def predictions(method: str, files: tuple[Path, Path], seed: int) -> dict[str, Any]:
    """Fits a method: classes, true labels, probabilities (n, classes), CPU seconds of fit and predict, megabytes."""
    torch.set_num_threads(1)
    train, test = (read(path) for path in files)
    X, X_test, y = train.series, test.series, np.asarray(train.target).astype(str)
    if method == "UnICORNN":
        model: Any = UnICORNNClassifier(random_state=seed, n_jobs=1)
    else:
        module, name = AEON[method]
        model = getattr(importlib.import_module(f"aeon.classification.{module}"), name)(random_state=seed)
        X, X_test = padded(X, X_test)  # type: ignore[assignment]
    few = np.concatenate([np.flatnonzero(y == label)[:4] for label in np.unique(y)[:2]])
    clone(model).fit(
        X[few] if isinstance(X, np.ndarray) else [X[i] for i in few], y[few]
    )  # compiles or loads the kernels
    start = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    probabilities = model.predict_proba(X_test)
    return {
        "classes": list(model.classes_), "true": list(np.asarray(test.target).astype(str)), "n": len(X),
        "N": max(map(len, train.series)), "d": train.series[0].shape[1], "probabilities": probabilities.tolist(),
        "fit": fitted - start, "predict": time.process_time() - fitted, "megabytes": round(peak()),
    }  # fmt: skip


def write_predictions(path: Path, name: str, method: str, seed: int, found: dict[str, Any]) -> None:
    """Writes tsml-eval's format; times are in milliseconds."""
    p, classes = np.array(found["probabilities"]), np.array(found["classes"])
    predicted = classes[p.argmax(1)]
    accuracy = float((predicted == np.array(found["true"])).mean())
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([name, method, "TEST", seed, "MILLISECONDS", "classes: " + " ".join(classes)])
    rows.writerow([f"n={found['n']}", f"N={found['N']}", f"d={found['d']}"])
    fit, predict = round(1000 * found["fit"]), round(1000 * found["predict"])
    rows.writerow([accuracy, fit, predict, 0, found["megabytes"], len(classes)])
    index = {label: i for i, label in enumerate(classes)}
    for label, guess, odds in zip(found["true"], predicted, p, strict=True):
        rows.writerow([index.get(label, -1), index[guess], "", *(f"{value:.6g}" for value in odds)])
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())


def summary(path: Path) -> dict[str, Any]:
    """One row of results/archive.csv, from a file of predictions."""
    with path.open(newline="", encoding="utf-8") as file:
        (name, method, *_), sizes, result, *rows = csv.reader(file)
    true, p = np.array([int(row[0]) for row in rows]), np.array([row[3:] for row in rows], float)
    error = calibration_error(p.max(1), p.argmax(1) == true)
    return {
        "dataset": name, "method": method, "accuracy": round(float(result[0]), 4), "log_loss":
        round(log_loss(true, p / p.sum(1, keepdims=True), labels=range(p.shape[1])), 4), "calibration_error":
        round(error, 4), "fit_seconds": int(result[1]) / 1000, "predict_seconds":
        int(result[2]) / 1000, "megabytes": int(result[4]), "classes": p.shape[1],
    } | {key: int(value) for key, value in (item.split("=") for item in sizes)}  # fmt: skip


def main(
    folder: Path,
    methods: list[str] = list(METHODS),  # noqa: B006
    predicted: Annotated[Path, typer.Option("--predictions")] = Path("runs/archive"),
    seed: int = 0,
    out: Path = record.RESULTS / "archive.json",
) -> None:
    """Measures METHODS (repeat the option) on the datasets in FOLDER."""
    sets = {path.name.rpartition("_TRAIN")[0]: path for path in sorted(folder.rglob("*_TRAIN.ts*"))}
    if not sets:
        raise typer.BadParameter(f"folder: expected NAME_TRAIN.ts or .tsv files below {folder}, found none")
    written = []
    for name, train in sets.items():
        for method in methods:  # in turn, so that all methods meet the same load of the machine
            path = predicted / method / "Predictions" / name / f"testResample{seed}.csv"
            if not path.exists():
                files = train, train.with_name(train.name.replace("_TRAIN", "_TEST"))
                found = in_new_process(predictions, method, files, seed)
                if found is None:
                    continue
                write_predictions(path, name, method, seed, found)
            written.append(summary(path))
            print({key: written[-1][key] for key in ("dataset", "method", "accuracy", "fit_seconds")}, flush=True)
    table, path = pd.DataFrame(written), out.with_suffix(".csv")
    if path.exists():  # rows of datasets and methods that were not asked for
        table = pd.concat([table, pd.read_csv(path)]).drop_duplicates(["dataset", "method"])
    table.sort_values("dataset", key=lambda names: names.str.lower(), kind="stable").to_csv(path, index=False)
    if tables := [pd.read_csv(path) for path in sorted(folder.rglob("published*.csv"))]:
        published = pd.concat(tables)
        published[published["dataset"].isin(sets)].to_csv(out.with_name("archive_published.csv"), index=False)
    record.save_results(out, "archive FOLDER", {"seed": seed, "datasets": len(sets), "threads": 1})


if __name__ == "__main__":
    typer.run(main)
