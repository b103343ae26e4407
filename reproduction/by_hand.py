"""The 44 worms, classified by the standard deviations of their six channels alone.

    python -m reproduction.by_hand --data DIR

Logistic regression on the same five folds, without the validation fold. Writes results/reproduction/by_hand.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduction import RESULTS
from unicornn._files import write_json
from unicornn.lab import tasks
from unicornn.lab._environment import environment
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Split
from unicornn.lab.tasks.worms import FOLDS


def features(split: Split) -> tuple[torch.Tensor, torch.Tensor]:
    """Logarithms of the standard deviations (n, d) of each recording, without padding, and the classes (n,)."""
    u, target, lengths = split.batch(torch.arange(len(split)), -1)
    ends = [len(u)] * len(target) if lengths is None else lengths.tolist()
    return torch.stack([u[:n, i].std(0).log() for i, n in enumerate(ends)]), target


def right_in(fold: int, source: Source) -> tuple[int, int]:
    """Number of correctly classified test recordings of a fold, and of all its test recordings."""
    task = tasks.find("worms44")
    splits = task.load(source, task.defaults | {"fold": fold}, 0)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=2000))
    model.fit(*(each.numpy() for each in features(splits.train)))
    u, target = features(splits.test)
    return int((model.predict(u.numpy()) == target.numpy()).sum()), len(target)


def main(data: Annotated[Path, typer.Option(envvar="UNICORNN_DATA")]) -> None:
    folds = [right_in(fold, Source(data)) for fold in range(FOLDS)]
    right, of = zip(*folds, strict=True)
    result = {
        "command": "python -m reproduction.by_hand",
        "protocol": "standardised logarithms of six standard deviations, logistic regression, C = 0.3; worms44's folds",
        **environment(), "right": right, "of": of,
    }  # fmt: skip
    write_json(RESULTS / "by_hand.json", result)
    print(sum(right), "of", sum(of))


if __name__ == "__main__":
    typer.run(main)
