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


def _tasks_in(module: ModuleType) -> dict[str, Task]:
    """The tasks of a module, which has one TASK or several TASKS, by name."""
    tasks = [*getattr(module, "TASKS", []), *([module.TASK] if hasattr(module, "TASK") else [])]
    return {task.name: task for task in tasks}


@cache
def _built_in() -> dict[str, Task]:
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    imported = [importlib.import_module(f"unicornn.lab.tasks.{module.name}") for module in modules]
    return {name: task for module in imported for name, task in _tasks_in(module).items()}


def names() -> list[str]:
    """Names of the tasks that come with the package.

    Example:
        >>> from unicornn.lab import tasks
        >>> "psmnist" in tasks.names()
        True
    """
    return sorted(_built_in())


def find(name: str) -> Task:
    """A task of the package by its name, or a user's by the path of its file: ``mine.py`` or ``mine.py:name``.

    Example:
        >>> from unicornn.lab import tasks
        >>> tasks.find("psmnist").training.batch_size
        64
    """
    path, _, which = name.partition(":")
    if path.endswith(".py"):
        return _task_from_file(Path(path), which)
    if name not in _built_in():
        hint = did_you_mean(name, names())
        raise BadValue(f"task: expected one of {', '.join(names())}, or the path of a .py file, got {name!r}{hint}")
    return _built_in()[name]


def _task_from_file(path: Path, which: str) -> Task:
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
    tasks = _tasks_in(module)
    if not tasks:
        raise BadValue(f"task: expected TASK = Task(...) in {path}, found none")
    if which and which not in tasks:
        raise BadValue(f"task: {path} has {', '.join(tasks)}, not {which!r}")
    return tasks[which] if which else next(iter(tasks.values()))
