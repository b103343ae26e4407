"""What is run for the reproduction: groups of runs, each a call of ``unicornn train``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Planned:
    """A run: its folder below that of the group, and the arguments of ``unicornn train``."""

    name: str
    arguments: tuple[str, ...]


def _lorenz() -> Iterator[Planned]:
    for seed, model, (F, variant) in product(range(5), ("unicornn", "lstm", "cornn"), (("0.9", ()), ("8", ("F=8",)))):
        chosen = ("--variant", *variant) if variant else ()
        yield Planned(f"F{F}-{model}-{seed}", ("lorenz96", "--model", model, "--seed", str(seed), *chosen))


def _imdb() -> Iterator[Planned]:
    for seed in range(3):
        yield Planned(f"seed{seed}", ("imdb", "--seed", str(seed)))


def _curves() -> Iterator[Planned]:
    """The paper's hyperparameters, as many epochs as two hours on one core allow."""
    for name, arguments in {
        "rr": ("bidmc-rr",),
        "hr": ("bidmc-hr",),
        "cifar10": ("cifar10-noise", "--variant", "authors"),
        "psmnist": ("psmnist", "--variant", "256"),
    }.items():
        yield Planned(name, (*arguments, "--budget", "2h"))


def _recipes() -> Iterator[Planned]:
    """One hour on two cores, as two hours on one: any schedule, optimiser or size."""
    once = ("--budget", "2h", "--set", "schedule=onecycle", "--set", "clip=1")
    yield Planned("rr", ("bidmc-rr", *once, "--epochs", "60", "--set", "lr=0.01"))
    yield Planned("hr", ("bidmc-hr", *once, "--epochs", "60", "--set", "lr=0.01"))
    yield Planned("cifar10", ("cifar10-noise", *once, "--epochs", "20", "--set", "lr=0.006"))
    yield Planned("psmnist", ("psmnist", *once, "--epochs", "30", "--set", "lr=0.006"))


GROUPS = {"lorenz": _lorenz, "imdb": _imdb, "curves": _curves, "recipes": _recipes}


def planned(group: str) -> list[Planned]:
    """The runs of a group, in the order in which they are done."""
    return list(GROUPS[group]())
