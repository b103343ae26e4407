"""Blocks of a page between <!-- name --> and <!-- /name -->, tables in Markdown, and what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def fill(text: str, blocks: Mapping[str, Sequence[str]]) -> str:
    """The page with the lines of each block in their place."""
    for name, lines in blocks.items():
        block = "\n".join([f"<!-- {name} -->", *lines, f"<!-- /{name} -->"])
        text, count = re.subn(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, b=block: b, text, flags=re.S)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"page: expected one block <!-- {name} --> … <!-- /{name} -->, found {count}")
    return text


def table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines]


def measured(name: str) -> dict[str, Any]:
    """results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def provenance(result: Mapping[str, Any]) -> str:
    """One line about where numbers come from: command, day, threads, versions."""
    versions = ", ".join(f"{k} {result['versions'][k]}" for k in ("python", "torch", "numba", "unicornn"))
    return f"`{result['command']}`, {result['date'][:10]}, {result['threads']} threads, {versions}."
