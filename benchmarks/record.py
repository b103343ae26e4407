"""Arguments and result files that the benchmarks share."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from unicornn._files import write_json
from unicornn.lab._environment import environment

RESULTS = Path(__file__).parents[1] / "results"


def arguments(doc: str | None, out: str, data: bool = False) -> argparse.ArgumentParser:
    """A parser with ``--out``, by default a path below results/, and ``--data`` if the benchmark reads files."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / out, help=f"where to write (results/{out})")
    if data:
        folder = os.environ.get("UNICORNN_DATA")
        parser.add_argument(
            "--data", type=Path, default=folder, required=not folder, help="data folder (UNICORNN_DATA)"
        )
    return parser


def load(path: Path, empty: dict[str, Any]) -> dict[str, Any]:
    """The results written so far, or ``empty``."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty


def save(path: Path, command: str, result: dict[str, Any]) -> None:
    """Writes a result with the command that measured it, and the environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"command": f"python -m benchmarks.{command}", **environment(), **result})
