"""Generated parts of docs/archive.md: the default classifier next to others on UCR and UEA datasets."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from docs.build.pages import RESULTS, figure, load_results, part, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "UnICORNN"
PUBLISHED = ("HC2", "MR-Hydra", "MR", "RDST", "ROCKET", "MiniROCKET", "QUANT", "Hydra", "InceptionTime", "1NN-DTW")


@cache
def measured(column: str) -> pd.DataFrame:
    """A column of results/archive.csv: one row per dataset that all methods finished, one column per method."""
    return pd.read_csv(RESULTS / "archive.csv").pivot(index="dataset", columns="method", values=column).dropna()


@cache
def published() -> pd.DataFrame:
    """Our accuracy and published ones: one row per dataset for which all of them are known."""
    others = pd.read_csv(RESULTS / "archive_published.csv", index_col="dataset")[list(PUBLISHED)]
    return others.join(measured("accuracy")[[OURS]], how="inner").dropna()


def compared(accuracy: pd.DataFrame, method: str) -> dict[str, Any]:
    """Mean accuracy and rank of a method, and the number of datasets on which ours is better, equal or worse."""
    difference = (accuracy[OURS] - accuracy[method]).round(4)
    counts = " / ".join(str(int(n)) for n in ((difference > 0).sum(), (difference == 0).sum(), (difference < 0).sum()))
    rank = accuracy.rank(axis=1, ascending=False)[method].mean()
    return {"mean": accuracy[method].mean(), "rank": rank, "counts": "–" if method == OURS else counts}


@part
def archive_methods() -> dict[str, dict[str, Any]]:
    accuracy = measured("accuracy")
    rows = {}
    for method in accuracy.mean().sort_values(ascending=False).index:
        rows[method] = compared(accuracy, method) | {
            column: measured(column).loc[accuracy.index, method].mean() for column in ("log_loss", "calibration_error")
        }
        rows[method]["seconds"] = sum(measured(f"{name}_seconds")[method].sum() for name in ("fit", "predict"))
    return rows


@part
def archive_others() -> dict[str, dict[str, Any]]:
    accuracy = published()
    return {name: compared(accuracy, name) for name in accuracy.mean().sort_values(ascending=False).index}


@part
def archive_sizes() -> dict[str, Any]:
    seconds = (measured("fit_seconds") + measured("predict_seconds")).sum()
    sizes = {"measured": len(measured("accuracy")), "published": len(published())}
    return load_results("archive") | sizes | {"ratio": seconds[OURS] / seconds["MiniRocket"]}


@part
def archive_datasets() -> list[str]:
    accuracy = measured("accuracy")
    names = list(accuracy)
    cells = " | ".join(f"{{{name}:.3f}}" for name in names)
    return table(accuracy.to_dict("index"), f"dataset | {' | '.join(names)}", f"{{key}} | {cells}")


@figure("archive_ranks")
def ranks() -> Figure:
    import matplotlib.pyplot as plt
    from aeon.visualisation import plot_critical_difference

    accuracy = measured("accuracy")
    figure, _ = plot_critical_difference(
        accuracy.to_numpy(), list(accuracy), test="wilcoxon", correction="holm", width=7, textspace=2
    )
    plt.close(figure)  # aeon draws with pyplot, which keeps open figures
    return figure


@figure("archive_scatter")
def scatter() -> Figure:
    from matplotlib.figure import Figure

    accuracy = measured("accuracy")
    rivals = [name for name in accuracy if name != OURS]
    figure = Figure((2.4 * len(rivals), 2.8), layout="constrained")
    for axes, rival in zip(np.ravel(figure.subplots(1, len(rivals), sharey=True)), rivals, strict=True):
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.scatter(accuracy[rival], accuracy[OURS], s=12)
        lowest = float(accuracy.to_numpy().min()) - 0.02
        axes.set(xlabel=rival, xlim=(lowest, 1.02), ylim=(lowest, 1.02), title=compared(accuracy, rival)["counts"])
    figure.axes[0].set_ylabel(f"accuracy of {OURS}")
    return figure


@figure("archive_time")
def against_time() -> Figure:
    from matplotlib.figure import Figure

    accuracy = measured("accuracy")
    figure = Figure((5.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for method in accuracy:
        seconds = sum(measured(f"{name}_seconds")[method].sum() for name in ("fit", "predict"))
        axes.scatter(seconds, accuracy[method].mean(), color="C1" if method == OURS else "C0")
        axes.annotate(method, (seconds, accuracy[method].mean()), xytext=(5, 3), textcoords="offset points")
    axes.set(xscale="log", xlabel="CPU seconds, fit and predict, all datasets", ylabel="mean accuracy")
    axes.margins(x=0.25, y=0.15)
    return figure
