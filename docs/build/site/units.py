"""In tables a number stays on one line with its unit and with its deviation."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

BREAK = re.compile(r"(?<=\d) (?=(?:%|±|×|h|min|s|ms|µs|MB|MiB|GiB|seeds?)(?:\W|$))|(?<=±) (?=\d)")


def joined(text: str) -> str:
    """The text with a no-break space between a number and what belongs to it.

    Example:
        >>> joined("86.0 ± 0.1 % (3 seeds), 12 of 50").replace("\\xa0", "~")
        '86.0~±~0.1~% (3~seeds), 12 of 50'
    """
    return BREAK.sub("\xa0", text)


class Units(SphinxPostTransform):
    """Joins numbers and units in the cells of tables."""

    default_priority = 950

    def run(self, **kwargs: Any) -> None:
        for entry in self.document.findall(nodes.entry):
            for text in list(entry.findall(nodes.Text)):
                if text.parent is not None and (new := joined(text)) != text:
                    text.parent.replace(text, nodes.Text(new))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(Units)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
