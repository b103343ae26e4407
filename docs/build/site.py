"""The Sphinx extension of this site: API pages, docstrings as plain text, MathML equations, figures of tutorials.

Sphinx's autosummary does not see names that a package re-exports with ``from a import b as b``, so the API pages list
the public names of each module explicitly; autodoc does the rest.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import shutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.ext.autodoc.typehints import record_typehints
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.inspect import signature, stringify_signature
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

import unicornn

ONE_PAGE = ("unicornn.baselines.", "unicornn.lab.tasks.")  # packages whose modules have no separate pages

GROUPS = {  # of the API index, by the second part of a module's name; all other modules are in the first
    "Layers and networks": "",
    "Estimators, streams and export": "estimators distributed streams export",
    "Theory and baselines": "theory baselines",
    "Experiments": "lab",
}
BOUND = re.compile(r"^(?:from \S+ import (\w+) as \1$|(?:def|class) (\w+)|([A-Z]\w*)(?::.*)? = )", re.MULTILINE)
LITERAL = re.compile(r"(``.*?``|:[a-z:]+:`.*?`|`[^`]+`_?)")
MARKUP = re.compile(r"(?<!\\)(\||(?<=\w)_(?=[^\w`]|$))")


def public_modules() -> list[str]:
    """The names of all modules without an underscore, packages before their contents."""
    names = [found.name for found in pkgutil.walk_packages(unicornn.__path__, "unicornn.")]
    return ["unicornn", *(name for name in sorted(names) if "._" not in name and not name.startswith(ONE_PAGE))]


def public_names(module: ModuleType) -> list[str]:
    """``__all__`` of a module, or the names without an underscore that it defines or re-exports, except modules."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    names = ["".join(groups) for groups in BOUND.findall(inspect.getsource(module))]
    return [name for name in names if name[0] != "_" and not isinstance(getattr(module, name), ModuleType)]


def api_page(name: str) -> str:
    """The source of the page of one module."""
    module = importlib.import_module(name)
    lines = [f"``{name}``", "=" * (len(name) + 4), "", f".. automodule:: {name}", ""]
    for each in public_names(module):
        thing, full = getattr(module, each), f"{name}.{each}"
        if isinstance(thing, type) and issubclass(thing, BaseException):
            lines += [f".. autoexception:: {full}", "   :show-inheritance:", ""]
        elif isinstance(thing, type):
            lines += [f".. autoclass:: {full}", "   :members:", "   :inherited-members:", ""]
        elif inspect.isroutine(thing):
            lines += [f".. autofunction:: {full}", ""]
        elif ("", each) in ModuleAnalyzer.for_module(name).find_attr_docs():
            lines += [f".. autodata:: {full}", "   :no-value:", ""]
        else:
            lines += [f".. py:data:: {each}", f"   :type: {type(thing).__name__}", ""]  # automodule sets the module
    return "\n".join(lines)


def group(module: str) -> str:
    """The title of a module's group in the API index."""
    part = f"{module}.".split(".")[1]
    return next((title for title, parts in GROUPS.items() if part and part in parts.split()), next(iter(GROUPS)))


def first_sentence(thing: Any) -> str:
    """The first sentence of a docstring, on one line; "" without one."""
    doc = "" if isinstance(thing, dict | tuple | str | int | float) else inspect.getdoc(thing) or ""
    return escape(re.split(r"(?<=\.)(?<!Eq\.)(?<!Fig\.)\s(?=[A-Z])", " ".join(doc.split("\n\n")[0].split()))[0])


def api_index(modules: list[str]) -> str:
    """The source of the index: a table per group of modules, one line per name."""
    lines = ["API reference", "=============", "", "Every public name, with its docstring and a tested example.", ""]
    for title, members in itertools.groupby(modules, group):
        lines += [title, "-" * len(title), "", ".. list-table::", "   :widths: 35 65", ""]
        for name in members:
            module = importlib.import_module(name)
            lines += [f"   * - :doc:`{name} <{name}>`", f"     - **{first_sentence(module)}**"]
            for each in public_names(module):
                role = "class" if isinstance(getattr(module, each), type) else "func"
                role = role if callable(getattr(module, each)) else "data"
                lines += [f"   * - :py:{role}:`~{name}.{each}`", f"     - {first_sentence(getattr(module, each))}"]
        lines.append("")
    return "\n".join([*lines, ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in modules), ""])


def write_api_pages(app: Sphinx) -> None:
    modules = sorted(public_modules(), key=lambda name: list(GROUPS).index(group(name)))
    pages = {name: api_page(name) for name in modules} | {"index": api_index(modules)}
    folder = app.srcdir / "generated" / "api"
    shutil.rmtree(folder, ignore_errors=True)  # pages of modules that no longer exist
    folder.mkdir(parents=True)
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")


def skip_foreign_members(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Leaves out attributes, undocumented members, and those that a class inherits from other packages."""
    function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
    foreign = not str(getattr(function, "__module__", "")).startswith("unicornn")
    shown = callable(member) or isinstance(member, property | classmethod | staticmethod)
    return skip or foreign or not shown or not inspect.getdoc(member) or name == "extra_repr"


def escape(line: str) -> str:
    """The line with bars and underscores at the ends of words escaped, outside literals."""
    pieces = LITERAL.split(line)
    return "".join(piece if number % 2 else MARKUP.sub(r"\\\1", piece) for number, piece in enumerate(pieces))


def escape_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escapes a docstring outside code; indented lines after a colon become a code block."""
    doctest, block = False, -1  # block: the least indentation of the current block of code
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        doctest = bool(line.strip()) and (doctest or line.lstrip().startswith(">>>"))
        if block >= 0 and line.strip() and indent < block:
            block = -1
        if doctest or block >= 0 or line.lstrip().startswith(".. "):
            continue
        lines[number] = escape(line)
        after = next((other for other in lines[number + 1 :] if other.strip()), "")
        if line.endswith(":") and lines[number + 1 : number + 2] == [""] and after.startswith(" " * (indent + 4)):
            lines[number], block = lines[number] + ":", indent + 4


def constructor_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Takes argument types from the constructor instead of from attributes with the same names, and the arguments too
    where a base class hides them behind ``__new__``."""
    if what != "class":
        return None
    record_typehints(app, what, name, thing.__init__, options, arguments or "", returns or "")
    app.env.current_document.autodoc_annotations[name].pop("return", None)
    if arguments != "(*args, **kwargs)":
        return None
    full = signature(thing.__init__)
    without_self = full.replace(parameters=list(full.parameters.values())[1:])
    return stringify_signature(without_self, show_annotation=False, show_return_annotation=False), None


def inline_math(writer: Any, node: nodes.math) -> None:
    """MathML is drawn by the browser: no script, no font, no network."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def display_math(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def scrape_figures(block: Any, variables: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The plots of a cell: those of pyplot, and a Figure that is its value, as in a notebook."""
    text = matplotlib_scraper(block, variables, settings)
    value = variables["example_globals"].get("___")  # sphinx-gallery's name for a cell's value
    if isinstance(value, Figure):
        path = next(variables["image_path_iterator"])
        value.savefig(path, dpi=100)
        text += figure_rst([path], settings["src_dir"])
    return text


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_api_pages)
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("autodoc-process-docstring", escape_docstring, priority=600)  # after Napoleon
    app.connect("autodoc-process-signature", constructor_signature, priority=600)
    app.add_html_math_renderer("mathml", (inline_math, None), (display_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
