"""The code in README and docs runs, links exist, and the map in CONTRIBUTING.md matches the tree."""

import re

import pytest
import torch

from docs.build.pages import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = ("training.md",)  # it trains and searches
RUN = [pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name) for page in PAGES]
MAP = re.findall(r"^    +(\S+)  +\S", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
MAPPED = {name.rstrip("/") for name in MAP if not name.startswith("make")} | {"src"}


@pytest.mark.parametrize("page", RUN)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    torch.use_deterministic_algorithms(False)
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(block, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_map_of_the_tree_is_complete():
    places = [ROOT / "src/unicornn/lab", ROOT / "src/unicornn", ROOT]
    for name in MAPPED - {"src", "src/unicornn"}:
        assert any((place / name).exists() for place in places), name
    contents = {path.name for place in places for path in place.iterdir() if path.is_dir() or place != ROOT}
    assert {name for name in contents if name[0] not in "._"} - {"runs", "build", "dist", "py.typed"} <= MAPPED
