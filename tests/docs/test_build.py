"""The generated parts of the pages match the results and the code."""

import re

import pytest

from docs.build.__main__ import FIGURE_FOLDER, PAGES
from docs.build.pages import FIGURES, MARKED, PARTS, ROOT, fill_page
from unicornn import UnICORNN, models
from unicornn.baselines import MODELS
from unicornn.lab.bench import _jobs

ALL_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BASELINES = (ROOT / "docs" / "baselines.md").read_text()
LAYERS = {"unicornn": UnICORNN, **MODELS}
SIZES = {  # the formula and the count at d = m = 128 in the table of parameters
    name: (formula, int(count.replace(",", "")))
    for name, formula, count in re.findall(r"^\| `([\w-]+)` \| ([\w+()²/-]+) \| ([\d,]+) \|", BASELINES, re.MULTILINE)
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_up_to_date(page):
    text = page.read_text()
    assert fill_page(text) == text, "run make docs"


def test_every_registered_part_has_a_marker():
    assert set(PARTS) <= {match[2] for page in PAGES for match in MARKED.finditer(page.read_text())}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_drawn_and_shown(name):
    assert FIGURES[name]().axes
    assert (FIGURE_FOLDER / f"{name}.png").stat().st_size > 5000
    assert any(f"figures/{name}.png)" in page.read_text() for page in ALL_PAGES)


def test_every_figure_file_is_registered():
    files = {str(path.relative_to(FIGURE_FOLDER).with_suffix("")) for path in FIGURE_FOLDER.rglob("*.png")}
    assert files == set(FIGURES)


def test_tables_of_facts_have_every_baseline():
    assert list(SIZES) == list(LAYERS)
    assert re.findall(r"^\| \*\*.*?\| `([\w-]+)` \|", BASELINES, re.MULTILINE) == list(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("m", [1, 2, 9, 128])
def test_formulas_count_the_parameters(name, m):
    d = m if m == 128 or name in ("sru", "lru", "linoss") else 5
    formula, at_128 = SIZES[name]
    formula = re.sub(r"(\d)([dm(])", r"\1*\2", formula.replace("²", "**2").replace("m(", "m*("))
    count = models.free_parameters(LAYERS[name](d, m, 1, **_jobs.OPTIONS.get(name, {})))
    assert eval(formula, {"d": d, "m": m}) == count
    assert m != 128 or at_128 == count
