"""Fills docs/reproduction.md and draws its figures from results/reproduction: python -m reproduction.page"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.pages import fill
from reproduction import tables
from reproduction.pictures import pictures
from reproduction.results import FOLDER, ROOT
from unicornn.lab._run_folder import written_whole

PAGE = ROOT / "docs" / "reproduction.md"
TABLES = ("lorenz", "trials", "imdb", "worms", "subsampling", "curves", "recipes", "ablations", "retraining")
FIGURES = ("curve", "recipe", "ablation", "imdb", "subsampling", "weight-norms", "time-steps")


def page(text: str, drawn: Iterable[str]) -> str:
    """The page with its tables, the commands of the runs and the figures that were drawn."""
    blocks = {name: getattr(tables, name)() for name in TABLES}
    blocks |= {f"{name}-commands": tables.commands(name) for name in TABLES if name not in ("trials", "retraining")}
    for part in FIGURES:
        names = [name for name in drawn if name.startswith(part)]
        blocks[f"{part}-figures"] = [f"![{name}](../results/reproduction/{name}.png)" for name in names]
    return fill(text, blocks)


def main() -> None:
    drawn = pictures()
    for name, made in drawn.items():
        with written_whole(FOLDER / f"{name}.png") as file:
            made.savefig(file, format="png", dpi=110)
    PAGE.write_text(page(PAGE.read_text(), drawn))


if __name__ == "__main__":
    main()
