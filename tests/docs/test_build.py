"""The generated parts of the pages match the results and the code."""

import re

import pytest

from docs.build import baselines, speed
from docs.build.__main__ import FIGURE_FOLDER, PAGES
from docs.build.pages import FIGURES, MARKED, PARTS, ROOT, fill_page, load_results, part_lines, table
from unicornn import UnICORNN, models
from unicornn.baselines import MODELS
from unicornn.lab.bench import _jobs, _measure, bench

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


def test_unknown_marker_is_an_error():
    with pytest.raises(ValueError, match="<!-- unknown -->"):
        fill_page("<!-- unknown -->\n<!-- /unknown -->")


@pytest.mark.parametrize(
    ("rows", "row", "rule", "line"),
    [
        ([{"a, b": "|x|"}], "{a, b}", "---", r"| \|x\| |"),
        ({"lstm": 2.5}, "{key} {value:.2f}", "---", "| lstm 2.50 |"),
        ({"lstm": {"ms": 3}}, "{key} {ms}", "---", "| lstm 3 |"),
        ([{"ms": None}], "{ms:.1f} ms", "---:", "| – |"),
        ([{"ms": 1.25}], "{ms:.1f} ± 0.1 ms", "---:", "| 1.2 ± 0.1 ms |"),
    ],
)
def test_table_row(rows, row, rule, line):
    assert table(rows, "heading", row) == ["| heading |", f"| {rule} |", line]


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


@pytest.mark.slow
def test_results_of_bench_fill_the_pages(tmp_path, monkeypatch):
    """A benchmark of toy sizes contains every field that the tables and figures need."""
    monkeypatch.setattr(_jobs, "run_in_process", _measure.measure)
    monkeypatch.setattr(_measure, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(
        _measure, "memory_increase", lambda step: 1.0
    )  # toy sizes need too little memory to be measured
    sizes = {"batch_size": 2, "d": 3, "hidden_size": 4, "seconds": 0.01, "out": tmp_path}
    names = ["lstm", "lem", "lstm:2", "gru:2"]
    results = dict.fromkeys(("bench/speed", "bench/lengths", "bench/baselines"), bench(names, lengths=(4, 8), **sizes))
    long = bench(names, lengths=(9,), **sizes)
    results |= dict.fromkeys(("bench/worms", "bench/one", "bench/baselines-worms"), long)
    for module in (baselines, speed):
        monkeypatch.setattr(module, "load_results", lambda name: results.get(name) or load_results(name))
    rows = PARTS["cost_of_baselines"]()
    assert len(rows) == 2 + 2 + len(names)  # two lines of heading, two gradient methods
    assert "N=9, b=2, d=3, m=4" in rows[0]
    page = [marked.group(2, 3, 4) for marked in MARKED.finditer((ROOT / "docs" / "speed.md").read_text("utf-8"))]
    steps = [line for source, *others in page if source == "training_steps" for line in part_lines(source, *others)]
    assert len(steps) == 3 * (2 + 5)  # in each table, two lines of heading
    assert "–" not in "".join([*steps, *part_lines("stream_step", "", "{m} {ours:.0f} {theirs:.0f} {ratio}")])
    assert FIGURES["lengths"]().axes
    assert FIGURES["bench"]().axes
