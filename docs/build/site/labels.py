"""Labels of the paper in running text become links to the table of docs/labels.md, with the PDF's number as a hint."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from docs.build.pages import ROOT

PAGE = "labels"
LABEL = re.compile(r"\b(?:eq|tab|fig|prop):[A-Za-z0-9_]*[A-Za-z0-9]")
ROW = re.compile(r"^\| `([^`]+)` \| (.*?) \| (.*?) \|$", re.MULTILINE)
KEPT = (nodes.reference, nodes.literal_block, nodes.title, nodes.math, nodes.math_block, nodes.raw)
"""What labels are left alone in."""


def table() -> dict[str, str]:
    """What the PDF calls each label."""
    text = (ROOT / "docs" / f"{PAGE}.md").read_text(encoding="utf-8")
    return {label: f"{number}, in {section}" for label, number, section in ROW.findall(text)}


def anchor(label: str) -> str:
    """The id of a label's row.

    Example:
        >>> anchor("eq:inv_ucrn")
        'eq-inv-ucrn'
    """
    return re.sub(r"[^a-zA-Z0-9]+", "-", label).lower()


class Rows(SphinxPostTransform):
    """Gives the rows of the table their ids."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        if self.env.current_document.docname == PAGE:
            for row in self.document.findall(nodes.row):
                row["ids"].append(anchor(row.children[0].astext()))


class Links(SphinxPostTransform):
    """Makes links of labels in running text."""

    default_priority = 200

    def run(self, **kwargs: Any) -> None:
        known, here = table(), self.env.current_document.docname
        if here == PAGE:
            return
        for text in list(self.document.findall(nodes.Text)):
            if any(isinstance(parent, KEPT) for parent in ancestors(text)) or not LABEL.search(text):
                continue
            new: list[nodes.Node] = []
            end = 0
            for match in LABEL.finditer(text):
                if (label := match[0]) in known:
                    new += [nodes.Text(text[end : match.start()]), self.link(here, label, known[label])]
                    end = match.end()
            text.parent.replace(text, [*new, nodes.Text(text[end:])])

    def link(self, here: str, label: str, number: str) -> nodes.reference:
        builder = self.app.builder
        return make_refnode(builder, here, PAGE, anchor(label), nodes.Text(label), f"{number} of the paper")


def ancestors(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(Rows)
    app.add_post_transform(Links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
