"""HTML from the templates. Autoescaping is on: text from files cannot become markup."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

import unicornn
from unicornn._files import atomic_write


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


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Writes one self-contained page from a file in ``templates``, completely or not at all."""
    environment = Environment(
        loader=PackageLoader("unicornn.lab.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    page = environment.get_template(template).render(version=unicornn.__version__, **values)
    with atomic_write(path, "w") as file:
        file.write(page)
    return path
