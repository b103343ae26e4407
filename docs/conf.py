"""Configuration of the site: python -m sphinx docs build/site, or make docs. The site works without a network."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # docs.build, and the package of this tree

project = "unicornn"
author = "The unicornn developers"
copyright = "The unicornn developers, MIT licence"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docs.build.site",
]
exclude_patterns = ["build", "figures", "**/GALLERY_HEADER.rst", "tutorials", "__pycache__"]
default_role = "code"

html_theme = "furo"
html_title = f"unicornn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
ACCENT = {"light": "#6d28d9", "dark": "#c4b5fd"}
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []} | {
    f"{mode}_css_variables": {"color-brand-primary": colour, "color-brand-content": colour}
    for mode, colour in ACCENT.items()
}
pygments_style, pygments_dark_style = "friendly", "monokai"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_custom_sections = ["Shapes"]
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": ["tutorials", "../examples"],
    "gallery_dirs": ["generated/tutorials", "generated/examples"],
    "filename_pattern": r"/(?!respiratory_rate)\w+\.py$",  # respiratory_rate needs data files
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "min_reported_time": 5,
    "show_signature": False,
    "capture_repr": ("_repr_html_",),
    "image_scrapers": ("docs.build.site.scrape_figures",),
    "write_computation_times": False,
}
