"""Fills in the generated parts of the pages; the one way to turn a results file into a Markdown table.

A page marks a part by a comment and ``<!-- /SOURCE -->``. The first comment declares the content::

    <!-- SOURCE ARGUMENT ...
    headings of a table | separated by bars
    {field:.1f} | row of the table, {field}
    -->

SOURCE is FILE.json, a file in results/, whose arguments are the keys that lead to the rows; or the name of a function
decorated with ``@part``, which gets the arguments. With one line instead of two, the part is a sentence with the fields
of a mapping. Without any, the function returns the lines of the part. A mapping with the environment of a measurement
has the additional field ``{provenance}``.

A function decorated with ``@figure("name")`` returns the plot that is saved as docs/figures/name.png.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
DASH = "–"  # stands for a missing value

NUMBER = re.compile(r"[-+*]*\d[^a-z]*( ?(ms|µs|s|GiB|MiB|MB|h|min|seeds)\b.*)?|–|")
MARKED = re.compile(r"(<!-- ([\w.]\S*)((?: \S+)*?)(?: |\n((?:(?!-->).)*)\n)-->\n).*?(<!-- /\2 -->)", re.DOTALL)

PARTS: dict[str, Callable[..., Any]] = {}
FIGURES: dict[str, Callable[[], Figure]] = {}


def part(builder: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a source of parts by the name of the function."""
    PARTS[builder.__name__] = builder
    return builder


def figure(name: str) -> Callable[[Callable[[], Figure]], Callable[[], Figure]]:
    """Registers the function that draws docs/figures/NAME.png."""

    def register(draw: Callable[[], Figure]) -> Callable[[], Figure]:
        FIGURES[name] = draw
        return draw

    return register


def fill_page(text: str) -> str:
    """The text of a page with all its generated parts rebuilt."""
    return MARKED.sub(lambda marked: marked[1] + "\n".join([*part_lines(*marked.group(2, 3, 4)), marked[5]]), text)


def part_lines(source: str, arguments: str, declared: str | None) -> list[str]:
    """The lines of one part."""
    if source in PARTS:
        content = PARTS[source](*arguments.split())
    elif source.endswith(".json") and declared and not (RESULTS / source).exists():
        return ["No measurements are available yet."] if "\n" not in declared else []
    elif source.endswith(".json"):
        content = reduce(lambda value, key: value[key], arguments.split(), load_results(source.removesuffix(".json")))
    else:
        raise ValueError(f"source: expected FILE.json or a registered part, got <!-- {source} -->")
    if declared is None:
        return content
    heading, *row = declared.splitlines()
    return table(content, heading, *row) if row else [fill_in(heading, content)]


def fill_in(template: str, values: Mapping[str, Any]) -> str:
    """The template with its ``{fields}`` replaced; a dash if one of them is None or absent."""
    known = {key: value for key, value in values.items() if value is not None}
    try:
        return template.format(**known | ({"provenance": provenance(values)} if "versions" in values else {}))
    except KeyError:
        return DASH


def table(rows: Any, heading: str, row: str) -> list[str]:
    """A Markdown table; columns of numbers are right-aligned.

    Args:
        rows: Mappings, one per row; or a mapping of mappings or of numbers, whose keys are available as ``{key}`` and
            whose numbers as ``{value}``.
        heading: Headings of the columns, separated by ``" | "``.
        row: Template of a row, with the fields of a mapping in braces.

    Example:
        >>> table([{"N": 1000, "ms": 5.13}, {"N": 2000, "ms": None}], "N | time", "{N:,} | {ms:.1f} ms")
        ['| N | time |', '| ---: | ---: |', '| 1,000 | 5.1 ms |', '| 2,000 | – |']
    """
    if isinstance(rows, Mapping):
        rows = [{"key": key, **(item if isinstance(item, Mapping) else {"value": item})} for key, item in rows.items()]
    cells = [[fill_in(cell, values).replace("|", r"\|") for cell in row.split(" | ")] for values in rows]
    rule = ["---:" if all(map(NUMBER.fullmatch, column)) else "---" for column in zip(*cells, strict=True)]
    return [f"| {' | '.join(line)} |" for line in (heading.split(" | "), rule, *cells)]


def load_results(name: str) -> Any:
    """The content of results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def provenance(*results: Mapping[str, Any]) -> str:
    """The commands, the date and the software behind some results, in one line."""
    commands = ", ".join(f"`{result['command']}`" for result in results)
    last = results[-1]
    threads = f"{last['threads']} thread" + ("s" if last["threads"] != 1 else "")
    versions = ", ".join(f"{name} {last['versions'][name]}" for name in ("python", "torch", "numba", "unicornn"))
    return f"{commands}; {last['date'][:10]}, {threads}, {versions}."


@part
def commands(*names: str) -> dict[str, str]:
    """Provenance of several results files, and their notes."""
    results = [load_results(name) for name in names]
    notes = dict.fromkeys(note for result in results if (note := result.get("note")))
    return {"provenance": provenance(*results), "notes": " ".join(notes)}
