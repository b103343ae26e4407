"""Rebuilds all generated parts of the pages and redraws their figures: python -m docs.build, or make docs."""

from __future__ import annotations

import importlib
from pathlib import Path

from docs.build.pages import FIGURES, MARKED, ROOT, fill_page
from unicornn._files import atomic_write

for _path in Path(__file__).parent.glob("[a-z]*.py"):
    if _path.stem != "site":
        importlib.import_module(f"docs.build.{_path.stem}")  # registers parts and figures
FIGURE_FOLDER = ROOT / "docs" / "figures"
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if MARKED.search(path.read_text("utf-8"))
]


def main() -> None:
    for name, draw in FIGURES.items():
        with atomic_write(FIGURE_FOLDER / f"{name}.png") as file:
            draw().savefig(file, format="png", dpi=120, metadata={"Software": None})
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := fill_page(text)) != text:
            page.write_text(new, encoding="utf-8")
            print("wrote", page.name)


if __name__ == "__main__":
    main()
