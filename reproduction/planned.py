"""A run that is planned: a name, and a call of ``unicornn train``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planned:
    """A run: its folder below that of the group, and the arguments of ``unicornn train``."""

    name: str
    arguments: tuple[str, ...]


def run(name: str, task: str, *options: str, **settings: object) -> Planned:
    """``options`` as on the command line, ``settings`` for --set."""
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return Planned(name, (task, *options, *changes))
