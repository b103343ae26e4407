"""Accuracy of live banks: ``python -m benchmarks.live_accuracy`` writes results/live_accuracy.json.

The classifier with live=True next to the default one on small UCR datasets with their published splits, seed 0. The
datasets were chosen by size. Nothing was chosen by the results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from benchmarks.series import archived_split
from unicornn.estimators import UnICORNNClassifier

NAMES = ("BeetleFly", "ECG200", "GunPointAgeSpan", "Lightning2", "OliveOil", "Plane", "Wine")


def main(data: record.Data, out: Path = record.RESULTS / "live_accuracy.json") -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name in NAMES:
        split, row = archived_split(data / "ucr" / "ucr39.tar.xz", name), {"name": name}
        for key, live in (("default", False), ("live", True)):
            model = UnICORNNClassifier(live=live, random_state=0).fit(split.X, split.y)
            row[key] = model.score(split.X_test, split.y_test)
        rows.append(row)
    mean = {"name": "mean", **{key: float(np.mean([row[key] for row in rows])) for key in ("default", "live")}}
    record.save_results(out, "live_accuracy", {"seed": 0, "protocol": "test accuracy", "datasets": [*rows, mean]})


if __name__ == "__main__":
    typer.run(main)
