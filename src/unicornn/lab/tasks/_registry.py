"""Tasks by name or by path."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType

from unicornn._checks import did_you_mean
from unicornn.errors import BadValue
from unicornn.lab.tasks._base import Task


def _tasks_in(module: ModuleType) -> list[Task]:
    """A module has one TASK, or several TASKS."""
    return [*getattr(module, "TASKS", []), *([module.TASK] if hasattr(module, "TASK") else [])]


@cache
def _built_in() -> dict[str, Task]:
    folder = str(Path(__file__).parent)
    modules = [importlib.import_module(f"unicornn.lab.tasks.{m.name}") for m in pkgutil.iter_modules([folder])]
    return {task.name: task for module in modules for task in _tasks_in(module)}


def names() -> list[str]:
    """The names of the tasks that come with the package.

    Example:
        >>> from unicornn.lab import tasks
        >>> "psmnist" in tasks.names()
        True
    """
    return sorted(_built_in())


def find(name: str) -> Task:
    """A task of the package by its name, or one's own by the path of its file, ``mine.py`` or ``mine.py:name``.

    Example:
        >>> from unicornn.lab import tasks
        >>> tasks.find("psmnist").training.batch_size
        64
    """
    path, _, which = name.partition(":")
    if path.endswith(".py"):
        return _from_file(Path(path), which)
    if name not in _built_in():
        hint = did_you_mean(name, names())
        raise BadValue(f"task: expected one of {', '.join(names())}, or the path of a .py file, got {name!r}{hint}")
    return _built_in()[name]


def _from_file(path: Path, which: str) -> Task:
    if not path.is_file():
        raise BadValue(f"task: expected the path of a file with TASK = Task(...), but there is no {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadValue(f"task: expected a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise BadValue(f"task: {path} imports {error.name}, which is not installed") from error
    found = {task.name: task for task in _tasks_in(module)}
    if not found:
        raise BadValue(f"task: expected TASK = Task(...) in {path}, found none")
    if which and which not in found:
        raise BadValue(f"task: {path} has {', '.join(found)}, not {which!r}")
    return found[which] if which else next(iter(found.values()))
