"""The site builds without warnings, is complete, and works without a network."""

import importlib
import inspect
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.build.pages import ROOT

pytest.importorskip("sphinx")
from bs4 import BeautifulSoup
from sphinx.util.inventory import InventoryFile

from docs.build import site as extension
from tests.browser import complaints, opened
from tests.processes import python

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
MODULES = {name: importlib.import_module(name) for name in extension.public_modules()}


def test_every_public_class_and_function_has_an_example():
    """Other tests run the examples. Exceptions need none."""
    without = []
    for name, module in MODULES.items():
        for thing in (getattr(module, key) for key in extension.public_names(module)):
            if inspect.isroutine(thing) or (isinstance(thing, type) and not issubclass(thing, BaseException)):
                without += [] if ">>>" in (thing.__doc__ or "") else [f"{name}.{thing.__name__}"]
    assert without == ["unicornn.lab.cli.main"]


def test_tutorials_are_on_the_first_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in TUTORIALS:
        assert index.count(f"generated/tutorials/{path.stem}") == 2  # a card, and the table of contents


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The complete site, with executed tutorials and examples."""
    out = tmp_path_factory.mktemp("site")
    options = ("-q", "-W", "--keep-going", "-d", out / "doctrees")
    python("-m", "sphinx", *options, "docs", out / "html", cwd=ROOT)
    return out / "html"


@pytest.fixture(scope="module")
def pages(site):
    found = {path: BeautifulSoup(path.read_bytes(), "html.parser") for path in site.rglob("*.html")}
    assert len(found) > 30
    return found


@pytest.mark.slow
def test_reference_has_every_public_name(site):
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    public = {f"{name}.{key}" for name, module in MODULES.items() for key in extension.public_names(module)}
    assert public <= known


@pytest.mark.slow
def test_links_within_the_site_exist(pages):
    ids = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}
    broken = []
    for path, page in pages.items():
        for tag in page.find_all("a", href=True):
            link = urlsplit(tag["href"])
            if link.scheme or link.netloc or link.query:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            inside = unquote(link.fragment)
            if not target.exists() or (target in ids and inside and inside not in ids[target]):
                broken.append(f"{path.name}: {tag['href']}")
    assert not broken


@pytest.mark.slow
def test_page_needs_no_network(pages):
    for path, page in pages.items():
        loaded = [tag["src"] for tag in page.find_all(["script", "img", "iframe", "source"], src=True)]
        loaded += [tag["href"] for tag in page.find_all("link", href=True)]
        assert not [target for target in loaded if urlsplit(target).netloc], path.name
        assert not page.find_all(class_="system-message"), path.name


@pytest.mark.slow
def test_search_works_without_a_network(site, tmp_path):
    found, log = opened(site / "search.html", tmp_path, "?q=lyapunov")
    assert not complaints(log)
    results = BeautifulSoup(found, "html.parser").select("#search-results li a")
    assert "theory.html" in {urlsplit(result["href"]).path for result in results}


@pytest.mark.slow
def test_tutorials_are_executed_and_available_as_notebooks(pages, site):
    for path in TUTORIALS:
        page = pages[site / "generated" / "tutorials" / f"{path.stem}.html"]
        assert page.find_all(class_="sphx-glr-script-out")
        assert len(page.select("img.sphx-glr-single-img, img.sphx-glr-multi-img")) >= 3
        assert any(Path(tag["href"]).name == f"{path.stem}.ipynb" for tag in page.find_all("a", href=True))
    assert len(pages[site / "generated" / "tutorials" / "paper.html"].find_all("math")) >= 4
