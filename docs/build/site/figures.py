"""Pictures of the tutorials: figures of pyplot, and those that are the value of a cell, as in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper


def scraper(block: Any, variables: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What is to be shown after a cell."""
    text = matplotlib_scraper(block, variables, settings)
    value = variables["example_globals"].get("___")  # sphinx-gallery's name for a cell's value
    if isinstance(value, Figure):
        path = next(variables["image_path_iterator"])
        value.savefig(path, dpi=100)
        text += figure_rst([path], settings["src_dir"])
    return text
