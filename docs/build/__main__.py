"""Writes the generated parts of all pages, and draws their plots: python -m docs.build, or make docs."""

from __future__ import annotations

from types import ModuleType

from docs.build import baselines, estimators, gpu, long, readme, reliability, serving, speed, streams, theory, training
from docs.build.pages import ROOT, fill
from docs.build.reproduction import page as reproduction
from unicornn._files import atomic_write

PAGES = (readme, estimators, streams, serving, training, baselines, speed, theory, gpu, long, reliability, reproduction)
FIGURES = ROOT / "docs" / "figures"


def written(module: ModuleType) -> str:
    """A page's text, its blocks filled anew."""
    return fill((ROOT / module.PAGE).read_text(encoding="utf-8"), module.blocks())


def main() -> None:
    for module in PAGES:
        for name, plot in module.plots().items():
            with atomic_write(FIGURES / f"{name}.png") as file:
                plot.savefig(file, format="png", dpi=120, metadata={"Software": None})
        text = written(module)
        if text != (ROOT / module.PAGE).read_text(encoding="utf-8"):
            (ROOT / module.PAGE).write_text(text, encoding="utf-8")
            print("wrote", module.PAGE)


if __name__ == "__main__":
    main()
