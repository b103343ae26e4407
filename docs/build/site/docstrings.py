"""Docstrings are written to be read as they are: |y_n| and classes_ are not markup of reStructuredText in them, and
indented lines after a colon are code."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc.typehints import record_typehints
from sphinx.util.inspect import signature, stringify_signature

LITERAL = re.compile(r"(``.*?``|:[a-z:]+:`.*?`|`[^`]+`_?)")
MARKUP = re.compile(r"(?<!\\)(\||(?<=\w)_(?=[^\w`]|$))")
LETTER = re.compile(r"^(\s*(?::\w[^:]*: )?)([A-Za-z]\.)$")  # "d." alone would begin a list
ATTRIBUTE = re.compile(r"^(    )([\w, ]+): ")


def escape(line: str) -> str:
    r"""The line with bars and underscores at the ends of words escaped, outside literals.

    Example:
        >>> print(escape("|y_n| of ``|y|``, and classes_, n_iter_."))
        \|y_n\| of ``|y|``, and classes\_, n_iter\_.
    """
    pieces = LITERAL.split(LETTER.sub(r"\1\\\2", line))
    return "".join(piece if number % 2 else MARKUP.sub(r"\\\1", piece) for number, piece in enumerate(pieces))


def list_attributes(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Makes a list of the section "Attributes", whose entries may have several names: ``w, b, c: per layer (m,).``"""
    if "Attributes:" not in lines:
        return
    start = lines.index("Attributes:") + 1
    end = next((n for n in range(start, len(lines)) if lines[n] and not lines[n].startswith("    ")), len(lines))
    found: list[str] = []
    for line in lines[start:end]:
        if ATTRIBUTE.match(line):
            found.append(ATTRIBUTE.sub(r"\1- **\2**: ", line))
        elif line.startswith("     ") or not line:
            found.append(line)
        else:
            found += ["", line]
    lines[start:end] = ["", *found]


def escape_all(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escapes a docstring in place, but for its code."""
    example, block = False, -1  # in a doctest; the least indentation of a block of code
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if block >= 0 and line.strip() and indent < block:
            block = -1
        if example or block >= 0 or line.lstrip().startswith(".. "):
            continue
        lines[number] = escape(line)
        after = next((other for other in lines[number + 1 :] if other.strip()), "")
        if line.endswith(":") and lines[number + 1 : number + 2] == [""] and after.startswith(" " * (indent + 4)):
            lines[number], block = lines[number] + ":", indent + 4


def signature_of_constructor(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Takes the types of arguments from the constructor, where Sphinx takes those of attributes with their names, and
    the arguments too if a base class has a ``__new__`` that hides them."""
    if what != "class":
        return None
    record_typehints(app, what, name, thing.__init__, options, arguments or "", returns or "")
    app.env.current_document.autodoc_annotations[name].pop("return", None)
    if arguments != "(*args, **kwargs)":
        return None
    own = signature(thing.__init__)
    shown = own.replace(parameters=list(own.parameters.values())[1:])
    return stringify_signature(shown, show_annotation=False, show_return_annotation=False), None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", list_attributes, priority=400)  # before Napoleon
    app.connect("autodoc-process-docstring", escape_all, priority=600)  # after it
    app.connect("autodoc-process-signature", signature_of_constructor, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
