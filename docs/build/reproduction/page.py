"""docs/reproduction.md, from results/reproduction: its tables, the commands of the runs, its plots."""

from __future__ import annotations

from matplotlib.figure import Figure

from docs.build.reproduction import plots as drawing
from docs.build.reproduction import tables
from docs.build.reproduction.rates import rates
from docs.build.reproduction.summary import summary

PAGE = "docs/reproduction.md"
TABLES = (
    "lorenz",
    "trials",
    "imdb",
    "worms",
    "subsampling",
    "curves",
    "recipes",
    "scales",
    "states",
    "images",
    "equal",
    "ablations",
    "retraining",
)
PLOTS = ("curve", "recipe", "scale", "state", "image", "ablation", "imdb", "subsampling", "weight-norms", "time-steps")


def blocks() -> dict[str, list[str]]:
    drawn = drawing.plots()
    found = {"summary": summary(), "rates": rates(), "time-steps": tables.time_steps()}
    found |= {
        "seeds": tables.seeds(),
        "imdb-trials": tables.imdb_trials(),
        "worms-alone": tables.worms_alone(),
        "worms-alone-commands": tables.commands("worms-alone"),
    }
    found |= {name: getattr(tables, name)() for name in TABLES}
    found |= {
        f"{name}-commands": tables.commands(name) for name in TABLES if name not in ("trials", "equal", "retraining")
    }
    for kind in PLOTS:
        names = [name for name in drawn if name.startswith(kind)]
        found[f"{kind}-plots"] = [f"![{name}](figures/reproduction/{name}.png)" for name in names]
    return found


def plots() -> dict[str, Figure]:
    return {f"reproduction/{name}": plot for name, plot in drawing.plots().items()}
