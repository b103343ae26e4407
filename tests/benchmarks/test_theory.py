"""The measurements of docs/theory.md run on small sizes, and their results fill the page."""

import json

import pytest

from docs.build import pages, theory  # noqa: F401  it registers parts
from tests.benchmarks.run import run
from unicornn.theory.plots import Plot


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
    for _, source, arguments, declared, _ in pages.MARKED.findall((pages.ROOT / "docs" / "theory.md").read_text()):
        if source.startswith("growth") == bool(what) and source != "growth_of_tasks":  # not in the quick run
            assert pages.part_lines(source, arguments, declared or None)
