"""Sums of names with options as text."""

from __future__ import annotations

import ast
from typing import Any


def parse_terms(text: Any) -> list[tuple[str, dict[str, Any]]]:
    """Names and options of a text such as "last+energy(segments=8)". Options are literals, or words without quotes.

    Nothing is evaluated. Raises one of Python's errors for anything else.
    """
    if not isinstance(text, str) or len(text) > 1000:
        raise ValueError("not a text of up to 1,000 characters")
    return [_name_and_options(node) for node in _terms(ast.parse(text.strip(), mode="eval").body)]


def _terms(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def _name_and_options(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if isinstance(node, ast.Name):
        return node.id, {}
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("neither a name nor a name with options")
    values = {str(each.arg): each.value for each in node.keywords}
    return node.func.id, {name: v.id if isinstance(v, ast.Name) else ast.literal_eval(v) for name, v in values.items()}
