r"""The table of docs/labels.md, from the LaTeX source of the paper: python -m docs.build.labels unicornn.tex

Counts as LaTeX does: a number per equation and per line of an align, per caption, per theorem-like environment within
its section; \appendix turns sections into letters. What is after \appendix is the supplement, whose equations begin
at 1 again where the source says \setcounter{equation}{0}.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from docs.build.pages import ROOT, fill, table

PAGE = "docs/labels.md"
TOKEN = re.compile(
    r"\\(?P<sectioning>section|subsection)\{(?P<title>.*?)\}\s*$"
    r"|\\(?P<edge>begin|end)\{(?P<kind>[a-z]+\*?)\}"
    r"|\\label\{(?P<label>[^}]+)\}|(?P<appendix>\\appendix\b)|(?P<caption>\\caption\b)|(?P<line>\\\\)"
    r"|\\setcounter\{equation\}\{(?P<reset>\d+)\}",
    re.MULTILINE,
)
FLOATS = {"figure": "Figure", "table": "Table"}


def numbers(source: str) -> dict[str, tuple[str, str]]:
    r"""The number of every label in the PDF, and the title of the section that it is in.

    Example:
        >>> numbers(r"\section{A}\n\begin{equation}\label{eq:x}y\end{equation}".replace(r"\n", "\n"))
        {'eq:x': ('(1)', '1 A')}
    """
    found: dict[str, tuple[str, str]] = {}
    count: Counter[str] = Counter()
    inside: list[str] = []
    supplement, where, current = False, "", ""

    def section() -> str:
        return chr(64 + count["section"]) if supplement else str(count["section"])

    def next_equation() -> str:
        count["equation"] += 1
        return f"({count['equation']})" + (" of the supplement" if supplement else "")

    for token in TOKEN.finditer(re.sub(r"(?<!\\)%.*", "", source)):
        kind = token["kind"]
        if token["sectioning"] == "section":
            count["section"] += 1
            count["subsection"] = count["theorem"] = 0
            current, where = f"Section {section()}", f"{section()} {token['title']}"
        elif token["sectioning"]:
            count["subsection"] += 1
            current = f"Section {section()}.{count['subsection']}"
            where = f"{section()}.{count['subsection']} {token['title'].rstrip('.')}"
        elif token["appendix"]:
            supplement, count["section"] = True, 0
        elif token["reset"] is not None:
            count["equation"] = int(token["reset"])
        elif token["edge"] == "begin":
            inside.append(kind)
            if kind in ("equation", "align"):
                current = next_equation()
            elif kind in ("theorem", "proposition"):
                count["theorem"] += 1
                current = f"{kind.capitalize()} {section()}.{count['theorem']}"
        elif token["edge"] == "end":
            inside.pop()
        elif token["line"] and inside and inside[-1] == "align":
            current = next_equation()
        elif token["caption"]:
            name = next(FLOATS[kind] for kind in reversed(inside) if kind in FLOATS)
            count[name] += 1
            current = f"{name} {count[name]}"
        elif token["label"]:
            found[token["label"]] = current, where
    return found


def blocks(source: str) -> dict[str, list[str]]:
    rows = [(f"`{label}`", number, where) for label, (number, where) in numbers(source).items()]
    return {"labels": table(("label", "in the PDF", "section"), rows)}


def main() -> None:
    path = ROOT / PAGE
    filled = fill(path.read_text(encoding="utf-8"), blocks(Path(sys.argv[1]).read_text(encoding="utf-8")))
    path.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
