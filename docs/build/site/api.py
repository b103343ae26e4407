"""The reference: a page for every public module, written from the code before Sphinx reads the pages.

Public is what the source says: names in ``__all__``, or else what a module defines or imports as itself
(``from a import b as b``) without an underscore.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from docs.build.pages import ROOT

SOURCE = ROOT / "src"
FOLDER = ROOT / "docs" / "generated" / "api"
ONE_FILE_EACH = ("unicornn.baselines", "unicornn.lab.tasks")
"""Packages whose modules are not pages: what they have for users is found in the package."""


def modules() -> list[str]:
    """The names of all public modules, packages before what they contain."""
    found = []
    for path in (SOURCE / "unicornn").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join(parts)
        if not any(part.startswith("_") for part in parts) and name.rpartition(".")[0] not in ONE_FILE_EACH:
            found.append(name)
    return sorted(found)


def names(module: ModuleType) -> list[str]:
    """The public names of a module, in its order, without its submodules."""
    if hasattr(module, "__all__"):
        found: list[str] = list(module.__all__)
    else:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        found = [name for node in tree.body for name in _bound(node) if not name.startswith("_")]
    return [name for name in found if not isinstance(getattr(module, name), ModuleType)]


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names if alias.asname == alias.name)
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def members(cls: type) -> list[str]:
    """What a class has of its own or from a base in this package, with a docstring; in the order of the source."""
    found: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("unicornn"):
            for name, value in vars(base).items():
                shown = callable(value) or isinstance(value, property | classmethod)
                if shown and not name.startswith("_") and name != "extra_repr" and inspect.getdoc(getattr(cls, name)):
                    found[name] = None
    return list(found)


def entry(module: ModuleType, name: str) -> list[str]:
    """The directive for one name."""
    thing = getattr(module, name)
    full = f"{module.__name__}.{name}"
    if isinstance(thing, type):
        if issubclass(thing, BaseException):
            return [f".. autoexception:: {full}", "   :show-inheritance:", ""]
        own = members(thing)
        return [f".. autoclass:: {full}", *([f"   :members: {', '.join(own)}"] if own else []), ""]
    if inspect.isroutine(thing):
        return [f".. autofunction:: {full}", ""]
    if ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", name)):
        return [f".. autodata:: {full}", "   :no-value:", ""]
    return [f".. py:data:: {full}", f"   :type: {type(thing).__name__}", ""]


def page(name: str) -> str:
    """The page of one module."""
    module = importlib.import_module(name)
    lines = [f"``{name}``", "=" * (len(name) + 4), "", f".. automodule:: {name}", ""]
    return "\n".join([*lines, *(line for each in names(module) for line in entry(module, each))])


def write(app: Sphinx) -> None:
    """Writes the pages that are new or have changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pages = {FOLDER / f"{name}.rst": page(name) for name in modules()}
    listed = "\n".join(f"   {path.stem}" for path in pages)
    head = "API reference\n=============\n\nEvery public name, with its docstring and an example that the tests run.\n"
    pages[FOLDER / "index.rst"] = f"{head}\n.. toctree::\n   :maxdepth: 2\n\n{listed}\n"
    for path in set(FOLDER.glob("*.rst")) - set(pages):
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
