"""The generated parts of the pages are what the results and the code say."""

import re

import pytest

from docs.build import baselines, readme, speed
from docs.build.__main__ import FIGURES, PAGES, written
from docs.build.facts import FACTS
from docs.build.pages import ROOT, fill, measured, table
from unicornn.baselines import MODELS
from unicornn.lab.bench import _jobs as jobs
from unicornn.lab.bench import _measure as measure
from unicornn.lab.bench import bench


@pytest.mark.parametrize("module", PAGES, ids=lambda module: module.PAGE)
def test_a_page_is_up_to_date(module):
    assert written(module) == (ROOT / module.PAGE).read_text(), "run make docs"


@pytest.mark.parametrize("module", PAGES, ids=lambda module: module.PAGE)
def test_every_plot_is_drawn_and_shown(module, tmp_path):
    text = (ROOT / module.PAGE).read_text()
    for name, plot in module.plots().items():
        assert f"figures/{name}.png)" in text
        assert (FIGURES / f"{name}.png").stat().st_size > 5000
        assert plot.axes


def test_every_plot_in_the_folder_is_on_a_page():
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for path in FIGURES.rglob("*.png"):
        assert f"figures/{path.relative_to(FIGURES)}" in pages


def test_pictures_live_in_one_place():
    assert not list((ROOT / "results").rglob("*.png"))


def test_a_block_is_filled_where_it_is_and_missed_where_it_is_not():
    assert fill("a\n<!-- x -->\nold\n<!-- /x -->\nb", {"x": ["new"]}) == "a\n<!-- x -->\nnew\n<!-- /x -->\nb"
    with pytest.raises(ValueError, match="<!-- y -->"):
        fill("a", {"y": []})


def test_a_bar_in_a_cell_does_not_end_it():
    assert table(["a"], [["|x|"]])[-1] == r"| \|x\| |"


def test_every_baseline_has_its_facts():
    assert list(FACTS) == ["unicornn", *MODELS]


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("m", [1, 2, 9])
def test_formulas_count_the_parameters(name, m):
    d = m if name in ("sru", "lru", "linoss") else 5
    formula = FACTS[name].parameters.replace("²", "**2").replace("m(", "m*(")
    formula = re.sub(r"(\d)([dm(])", r"\1*\2", formula)
    assert eval(formula, {"d": d, "m": m}) == baselines.parameters(name, d, m)


@pytest.mark.slow
def test_what_the_bench_leaves_fills_the_pages(tmp_path, monkeypatch):
    """A bench of toy sizes has all that the writers ask for."""
    monkeypatch.setattr(jobs, "run_in_process", measure.measure)
    monkeypatch.setattr(measure, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(measure, "product_rate", lambda: 9.0)
    sizes = {"batch_size": 2, "d": 3, "hidden_size": 4, "seconds": 0.01}
    names = ["lstm", "lem", "lstm:2", "gru:2"]
    lengths = {"speed": (4, 8), "worms": (9,), "one": (9,), "lengths": (4, 8), "baselines": (4, 8)}
    lengths["baselines-worms"] = (9,)
    results = {f"bench/{name}": bench(names, lengths=Ns, **sizes, out=tmp_path) for name, Ns in lengths.items()}
    for module in (baselines, speed, readme):
        monkeypatch.setattr(module, "measured", lambda name: results.get(name) or measured(name))
    rows = baselines.blocks()["measured"]
    assert len(rows) == 2 + 2 + len(names)
    assert {row.count("|") for row in rows} == {7}
    assert "N=9, b=2, d=3, m=4" in rows[0]
    assert len(readme.blocks()["speed"]) == 2 + 4 + 2
    assert speed.blocks()["stream"][0].endswith("times as long.")
    for module in (baselines, speed, readme):
        for plot in module.plots().values():
            plot.savefig(tmp_path / "plot.png")


def test_memory_in_words():
    assert baselines.memory_in_words({"250": 20.0, "2000": 21.0}, 0.6) == "constant, 21 MiB"
    assert baselines.memory_in_words({"250": 20.0, "2000": 160.0}, 80.0) == "O(N), 80 MiB per 1000 steps"
    assert baselines.memory_in_words({"250": -0.2, "1000": 0.1}, 0.4) == "constant, below 1 MiB"
    assert baselines.memory_in_words({}, None) == "–"
