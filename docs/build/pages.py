"""The registry of generated parts, and the one way to turn a results file into a Markdown table.

A page marks the place of a part by ``<!-- name -->`` and ``<!-- /name -->``. The function decorated with
``@part("docs/page.md", "name")`` returns the lines in between. A function decorated with ``@figure("name")`` returns
the plot that is saved as docs/figures/name.png.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
DASH = "–"  # stands for a missing value

NUMBER = re.compile(r"[-+*]*\d[^a-z]*( ?(ms|µs|s|GiB|MiB|MB|h|min|seeds)\b.*)?|–|")
MARKED = re.compile(r"<!-- ([\w -]+) -->\n.*?<!-- /\1 -->", re.DOTALL)

PartBuilder = Callable[[], list[str]]
PARTS: dict[tuple[str, str], PartBuilder] = {}
FIGURES: dict[str, Callable[[], Figure]] = {}


def part(page: str, name: str) -> Callable[[PartBuilder], PartBuilder]:
    """Registers the builder of a part by its page (path below the repository) and the name of its marker."""

    def register(builder: PartBuilder) -> PartBuilder:
        PARTS[page, name] = builder
        return builder

    return register


def figure(name: str) -> Callable[[Callable[[], Figure]], Callable[[], Figure]]:
    """Registers the function that draws docs/figures/NAME.png."""

    def register(draw: Callable[[], Figure]) -> Callable[[], Figure]:
        FIGURES[name] = draw
        return draw

    return register


def fill_page(page: str, text: str) -> str:
    """The text of a page with all its generated parts rebuilt."""

    def rebuilt(marked: re.Match[str]) -> str:
        name = marked[1]
        if (page, name) not in PARTS:
            raise ValueError(f"{page}: expected a registered part, got <!-- {name} -->")
        return "\n".join([f"<!-- {name} -->", *PARTS[page, name](), f"<!-- /{name} -->"])

    return MARKED.sub(rebuilt, text)


def fill_in(template: str, values: Mapping[str, Any]) -> str:
    """The template with its ``{fields}`` replaced; a dash if one of them is None or absent."""
    try:
        return template.format(**{key: value for key, value in values.items() if value is not None})
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


def results_table(page: str, name: str, file: str, key: str, heading: str, row: str) -> None:
    """Registers a table of the rows at ``key`` of results/FILE.json."""
    part(page, name)(lambda: table(load_results(file)[key], heading, row))


def results_text(page: str, name: str, file: str, key: str, template: str) -> None:
    """Registers a sentence about the mapping at ``key`` of results/FILE.json; the whole file for an empty key."""
    part(page, name)(lambda: [fill_in(template, load_results(file)[key] if key else load_results(file))])


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
