"""The measurements of docs/theory.md run on small sizes, and their results fill the page."""

import json

import pytest

from docs.build import pages, theory
from tests.benchmarks.run import run
from unicornn.theory.plots import Plot

GROWTH = {"fits", "growth speed", "layers", "lengths", "paper", "suggested"}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "files"), [((), {"theory", "theory_plots"}), (("growth",), {"growth"})])
def test_results_fill_the_page(what, files, tmp_path, monkeypatch):
    run("benchmarks.theory", *what, "--quick", "--out", tmp_path)
    results = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert set(results) == files
    about = results[what[0] if what else "theory"]
    assert {"command", "seed", "protocol", "date", "versions", "seconds"} <= set(about)
    drawn = [about["plot"]] if what else results["theory_plots"].values()
    assert len(drawn) == (1 if what else 4)
    assert all(Plot.from_dict(values).draw().axes for values in drawn)
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    for (page, name), build in pages.PARTS.items():
        if page == theory.PAGE and (name in GROWTH) == bool(what) and name != "paper":  # the quick run omits the tasks
            assert build()
