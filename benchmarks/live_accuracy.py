"""Accuracy of live banks: ``python -m benchmarks.live_accuracy`` writes results/live_accuracy.json.

The classifier with live=True next to the default one on small UCR datasets with their published splits, seed 0. The
datasets were chosen by size. Nothing was chosen by the results.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from unicornn.estimators import UnICORNNClassifier

NAMES = ("BeetleFly", "ECG200", "GunPointAgeSpan", "Lightning2", "OliveOil", "Plane", "Wine")


def main(data: record.Data, out: Path = record.RESULTS / "live_accuracy.json") -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with tarfile.open(data / "ucr" / "ucr39.tar.xz") as archive:
        parts = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        for name in NAMES:
            tables = [np.loadtxt(io.BytesIO(parts[f"{name}_{split}.tsv"].read())) for split in ("TRAIN", "TEST")]  # type: ignore[union-attr]
            (y, X), (test_y, test_X) = ((table[:, 0], table[:, 1:]) for table in tables)
            scores = [
                UnICORNNClassifier(live=live, random_state=0).fit(X, y).score(test_X, test_y) for live in (False, True)
            ]
            rows.append({"name": name, "default": scores[0], "live": scores[1]})
    mean = {"name": "mean", **{key: float(np.mean([row[key] for row in rows])) for key in ("default", "live")}}
    record.save_results(out, "live_accuracy", {"seed": 0, "protocol": "test accuracy", "datasets": [*rows, mean]})


if __name__ == "__main__":
    typer.run(main)
