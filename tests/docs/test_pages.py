"""The code in README and docs runs."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


SLOW = ("training.md",)  # it trains and searches
RUN = [pytest.param(page, marks=pytest.mark.slow if page.name in SLOW else (), id=page.name) for page in PAGES]


@pytest.mark.parametrize("page", RUN)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    torch.use_deterministic_algorithms(False)
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S):
        exec(block, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
