"""Records the authors' own learning curves, from the logs in their public repository (tk-rusch/unicornn).

    python -m reproduction.authors DIR

DIR contains one CSV file per task, with the columns epoch and valid_rmse or valid_accuracy_percent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from reproduction import RESULTS
from unicornn._files import write_json

FILES = {"rr": "bidmc_rr", "hr": "bidmc_hr", "cifar10": "noise_cifar10", "psmnist": "psmnist_256", "imdb": "imdb"}


def curve(path: Path) -> dict[str, Any]:
    """Epochs and validation metrics, accuracies as fractions."""
    table = pd.read_csv(path)
    percent = "valid_accuracy_percent" in table
    valid = table["valid_accuracy_percent"] / 100 if percent else table["valid_rmse"]
    return {"epoch": table["epoch"].tolist(), "valid": [float(f"{value:.5g}") for value in valid]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    curves = {name: curve(folder / f"{file}.csv") for name, file in FILES.items()}
    source = "github.com/tk-rusch/unicornn, logs of single runs"
    write_json(RESULTS / "authors.json", {"source": source, "curves": curves})


if __name__ == "__main__":
    main()
