"""Fidelity and speed of explanations, next to random orders and KernelSHAP: ``python -m benchmarks.explain``.

The default classifier is fitted to the training split of each dataset. For test series, steps are removed in the order
of their importance for the predicted class, most important first, and replaced by linear interpolation (deletion); or
everything is removed but the most important steps (insertion). The curves are margins of the predicted class: its logit
minus the mean of the others', by the bank's ridge without temperature. KernelSHAP explains the same margin by 20 equal
windows, removed in the same way, with 100 model calls for each series; an explanation of ours is one. "Our windows" are
the same 20, by the mean of our evidence. The choices inside ``explain`` were made by deletion curves on held-out parts
of training splits.

Needs a folder ucr/ with NAME_TRAIN.tsv and NAME_TEST.tsv in the data folder. Writes results/explain.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from unicornn.estimators import UnICORNNClassifier
from unicornn.lab.bench._measure import peak
from unicornn.lab.fit import read

SETS = ("ECG200", "GunPointAgeSpan", "Plane", "ToeSegmentation2", "Computers")
SERIES = 100  # of each test split
WINDOWS, CALLS = 20, 100  # of KernelSHAP
FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
LONG = 1_000_000

Margin = Callable[[np.ndarray], np.ndarray]  # of series (n, N) for one class


def interpolated(x: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """A series (N,) with the steps that are not kept (N,) interpolated linearly; its mean if none is kept."""
    steps = np.flatnonzero(kept)
    return np.interp(np.arange(len(x)), steps, x[steps]) if len(steps) else np.full_like(x, x.mean())


def margins(model: UnICORNNClassifier, label: int) -> Margin:
    """The margin of a class as a function of series (n, N)."""

    def margin(X: np.ndarray) -> np.ndarray:
        scores = model._predictions([x[:, None] for x in X])["bank"]
        return scores[:, label] - np.delete(scores, label, 1).mean(1)

    return margin


def kernel_shap(margin: Margin, x: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Shapley values of equal windows of a series (N,), each spread over its steps.

    Weighted least squares on coalitions drawn in pairs from the Shapley kernel, with the sum fixed.
    """
    sizes = np.arange(1, WINDOWS)
    odds = 1 / (sizes * (WINDOWS - sizes))
    half = [random.permutation(WINDOWS) < random.choice(sizes, p=odds / odds.sum()) for _ in range(CALLS // 2 - 1)]
    Z = np.concatenate([half, ~np.array(half), np.zeros((1, WINDOWS), bool), np.ones((1, WINDOWS), bool)])
    window = np.arange(len(x)) * WINDOWS // len(x)
    values = margin(np.stack([interpolated(x, z[window]) for z in Z]))
    empty, total = values[-2], values[-1] - values[-2]
    A, target = Z[:-2].astype(float), values[:-2] - empty
    phi = np.linalg.lstsq(A[:, :-1] - A[:, -1:], target - A[:, -1] * total, rcond=None)[0]
    phi = np.append(phi, total - phi.sum())
    return (phi / np.bincount(window))[window]


def curves(margin: Margin, x: np.ndarray, importance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Margins after deletion and insertion of each of ``FRACTIONS`` of the steps."""
    rank = np.empty(len(x), int)
    rank[np.argsort(-importance, kind="stable")] = np.arange(len(x))
    counts = [round(fraction * len(x)) for fraction in FRACTIONS]
    values = margin(
        np.stack([interpolated(x, rank >= k) for k in counts] + [interpolated(x, rank < k) for k in counts])
    )
    return values[: len(counts)], values[len(counts) :]


def fidelity(name: str, folder: Path) -> dict[str, Any]:
    """Mean curves and CPU seconds of each method on a dataset."""
    train, test = (read(folder / "ucr" / f"{name}_{part}.tsv") for part in ("TRAIN", "TEST"))
    model = UnICORNNClassifier(random_state=0, n_jobs=1).fit(train.series, train.target)
    random = np.random.RandomState(0)
    chosen = random.permutation(len(test.series))[:SERIES]
    X = [test.series[i] for i in chosen]
    explanation = model.explain(X[:1])  # compiles
    start = time.process_time()
    explanation = model.explain(X)
    seconds = {"ours": (time.process_time() - start) / len(X), "KernelSHAP": 0.0}
    found: dict[str, list[Any]] = {}
    margins_before = []
    for i, series in enumerate(X):
        x, label = series[:, 0], int(explanation.scores[i].argmax())
        margin = margins(model, label)
        before = margin(x[None])[0]
        start = time.process_time()
        shap = kernel_shap(margin, x, random)
        seconds["KernelSHAP"] += (time.process_time() - start) / len(X)
        window = np.arange(len(x)) * WINDOWS // len(x)
        evidence = explanation.evidence(explanation.steps[i, : len(x)], label)
        orders = {
            "ours": evidence,
            "our windows": (np.bincount(window, evidence) / np.bincount(window))[window],
            "KernelSHAP": shap,
            "random steps": random.uniform(size=len(x)),
            "random windows": random.uniform(size=WINDOWS)[window],
        }
        for method, importance in orders.items():
            deletion, insertion = curves(margin, x, importance)
            found.setdefault(method, []).append((before - deletion, insertion))
        margins_before.append(before)
    result: dict[str, Any] = {"n": len(X), "N": max(map(len, X)), "margin": float(np.mean(margins_before))}
    for method, each in found.items():
        drop, insertion = np.moveaxis(np.array(each), 1, 0)
        at = FRACTIONS.index(0.1)
        result[method] = {
            "drop": drop.mean(0).round(4).tolist(), "insertion": insertion.mean(0).round(4).tolist(),
            "drop10": float(drop[:, at].mean()), "change10": float(np.abs(drop[:, at]).mean()),
            "error10": float(drop[:, at].std(ddof=1) / len(each) ** 0.5), "seconds": seconds.get(method),
        }  # fmt: skip
    return result


def long_series(N: int) -> dict[str, float]:
    """Seconds and peak memory of explaining one series of N steps."""
    random = np.random.RandomState(0)
    X = random.normal(size=(2, N)).astype(np.float32)
    X[::2, N // 3 : N // 3 + 1000] *= 3
    model = UnICORNNClassifier(random_state=0).fit(X, [0, 1])
    model.explain(X[:1, :1000])
    before = peak()
    start, cpu = time.perf_counter(), time.process_time()
    explanation = model.explain(X[:1])
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    gap = float(np.abs(explanation.gap).max())
    return {"N": N, "seconds": seconds, "cpu_seconds": cpu_seconds, "MiB": round(peak() - before), "gap": gap}


def main(data: record.Data, long: int = LONG, out: Path = record.RESULTS / "explain.json") -> None:
    torch.set_num_threads(1)
    result: dict[str, Any] = {
        "seed": 0, "fractions": FRACTIONS, "windows": WINDOWS, "calls": CALLS, "long": long_series(long), "sets": {},
    }  # fmt: skip
    print(result["long"], flush=True)
    for name in SETS:
        result["sets"][name] = fidelity(name, data)
        print(name, {k: v["drop10"] for k, v in result["sets"][name].items() if isinstance(v, dict)}, flush=True)
        record.save_results(out, "explain", result)


if __name__ == "__main__":
    typer.run(main)
