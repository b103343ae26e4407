"""Options and result files that the benchmarks share. The arguments of a benchmark's main are those of its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from unicornn._files import write_json
from unicornn.lab._environment import environment

RESULTS = Path(__file__).parents[1] / "results"
Data = Annotated[Path, typer.Option(envvar="UNICORNN_DATA", help="Folder of the data files.")]


def load_results(path: Path, empty: dict[str, Any]) -> dict[str, Any]:
    """The results written so far, or ``empty``."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty


def save_results(path: Path, command: str, result: dict[str, Any]) -> None:
    """Writes a result with the command that measured it, and the environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"command": f"python -m benchmarks.{command}", **environment(), **result})
