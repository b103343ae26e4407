"""HTML from the templates. Autoescaping is on: text from files cannot become markup."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

import unicornn


class Plot(NamedTuple):
    """A plot and its caption."""

    figure: Figure
    caption: str
    wide: bool = False  # as wide as the page

    @property
    def data_uri(self) -> str:
        """The plot as an SVG image: as an image, its names cannot clash with another plot's and no script can run."""
        buffer = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": "unicornn", "svg.fonttype": "path"}):  # the same plot, the same bytes
            self.figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None})
        return f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def render(template: str, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """A page from a file in ``templates``."""
    environment = Environment(
        loader=PackageLoader("unicornn.lab.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= filters
    return environment.get_template(template).render(version=unicornn.__version__, **values)
