"""The default classifier in JavaScript: ``python -m benchmarks.javascript`` writes results/javascript.json.

For up to 50 test series of ten datasets, the differences between the probabilities of the script, run by Node, and
those of ``predict_proba``, next to what one rounding error of the series does to the latter; and the script's CPU time.

Needs Node, and a folder with NAME_TRAIN and NAME_TEST as .ts or .tsv files (UCR, UEA).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from benchmarks.export import BANKS
from benchmarks.series import read_split
from unicornn.estimators import UnICORNNClassifier
from unicornn.lab.show import write_script

SERIES = 50
PROGRAM = """
const bank = require(process.argv[1]), series = JSON.parse(require("fs").readFileSync(0));
bank.predict(series[0]);
const start = process.cpuUsage(), probabilities = series.map(x => bank.predict(x)), used = process.cpuUsage(start);
console.log(JSON.stringify({probabilities, ms: (used.user + used.system) / 1000 / series.length}));
"""


def agreement(name: str, folder: Path, script: Path) -> dict[str, Any]:
    """Agreement and speed of a bank's script on the test series of a dataset."""
    split = read_split(folder, name)
    model = UnICORNNClassifier(random_state=0, n_jobs=1).fit(split.X, split.y)
    write_script(model, script)
    X = split.X_test[:SERIES]
    text, command = json.dumps([x.tolist() for x in X]), ["node", "-e", PROGRAM, str(script)]
    found = json.loads(subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout)
    wanted, got = model.predict_proba(X), np.array(found["probabilities"])
    error, rounding = (
        np.abs(each - wanted).max(1) for each in (got, model.predict_proba([x * (1 + 2.0**-23) for x in X]))
    )
    return {
        "dataset": name, "n": len(X), "N": max(map(len, X)), "d": X[0].shape[1],
        "within": float((error <= 1e-4).mean()), "largest": float(error.max()), "rounding": float(rounding.max()),
        "same class": float((got.argmax(1) == wanted.argmax(1)).mean()), "ms": found["ms"],
        "KiB": script.stat().st_size / 2**10,
    }  # fmt: skip


def main(data: record.Data, out: Path = record.RESULTS / "javascript.json") -> None:
    torch.set_num_threads(1)
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        banks = [agreement(name, data, Path(folder) / f"{name}.js") for name in BANKS]
    record.save_results(out, "javascript", {"node": node, "series": SERIES, "banks": banks})


if __name__ == "__main__":
    typer.run(main)
