"""A plot inside the page."""

from __future__ import annotations

import base64
import io
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure


def image(title: str, figure: Figure, caption: str, kind: str = "") -> str:
    """An image inside the page. As an image, an SVG's names cannot clash with another's, and nothing in it can run."""
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "unicornn", "svg.fonttype": "path"}):  # the same runs, the same page
        figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return (
        f'<figure{kind}><img alt="{escape(f"{title}: {caption}")}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
