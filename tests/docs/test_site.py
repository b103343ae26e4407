"""The site: built without a warning, complete, and whole without a network."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import unicornn
from docs.build.pages import ROOT

pytest.importorskip("sphinx")
from bs4 import BeautifulSoup
from sphinx.util.inventory import InventoryFile

from docs.build.site import api, docstrings, labels, units
from tests.browser import complaints, opened

COMMAND = ["-m", "sphinx", "-q", "-W", "--keep-going"]


def public_modules():
    """Found by importing, where ``api`` reads the source."""
    yield "unicornn"
    for found in pkgutil.walk_packages(unicornn.__path__, "unicornn."):
        parents = found.name.rpartition(".")[0]
        if not any(part.startswith("_") for part in found.name.split(".")) and parents not in api.ONE_FILE_EACH:
            yield found.name


def public_names(name):
    """Classes and functions that are this package's, by their names at runtime."""
    module = importlib.import_module(name)
    for key in getattr(module, "__all__", vars(module)):
        thing = getattr(module, key)
        home = getattr(thing, "__module__", "")
        if not key.startswith("_") and callable(thing) and isinstance(home, str) and home.startswith(name):
            yield f"{name}.{key}"


def test_every_public_module_has_a_page():
    assert set(public_modules()) == set(api.modules())


@pytest.mark.parametrize("name", api.modules())
def test_every_public_name_is_in_the_reference(name):
    page = api.page(name)
    for full in public_names(name):
        assert f":: {full}\n" in page, full


def test_every_public_class_and_function_has_an_example():
    """The tests of the package run them. The command has none, and neither have errors."""
    without = []
    for name in api.modules():
        module = importlib.import_module(name)
        for thing in (getattr(module, key) for key in api.names(module)):
            if inspect.isroutine(thing) or (isinstance(thing, type) and not issubclass(thing, BaseException)):
                without += [] if ">>>" in (thing.__doc__ or "") else [f"{name}.{thing.__name__}"]
    assert without == ["unicornn.lab.cli.main"]


def test_labels_have_rows_to_lead_to():
    assert labels.table()["Eq. (6)"].startswith("(6), in")
    assert len({labels.anchor(label) for label in labels.table()}) == len(labels.table())


@pytest.mark.parametrize(
    ("line", "escaped"),
    [
        ("|y_n| and classes_.", r"\|y_n\| and classes\_."),
        ("``|y|``, ``n_iter_``", "``|y|``, ``n_iter_``"),
        (":param input_size: d.", r":param input_size: \d."),
        ("snake_case stays", "snake_case stays"),
    ],
)
def test_docstrings_are_text(line, escaped):
    assert docstrings.escape(line) == escaped


def test_numbers_stay_with_their_units():
    said = units.joined("86.0 ± 0.1 % (3 seeds), 12 of 50, 45 min 7 s, 3 steps")
    assert said.replace("\xa0", "~") == "86.0~±~0.1~% (3~seeds), 12 of 50, 45~min 7~s, 3 steps"


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", TUTORIALS + EXAMPLES, ids=lambda path: path.stem)
def test_a_script_of_the_gallery_has_a_title(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].removeprefix("r") == '"""'
    assert lines[2] == "=" * len(lines[1])


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_on_the_first_page(path):
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert index.count(f"generated/tutorials/{path.stem}") == 2  # the door, and the contents


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site, its tutorials and examples executed."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, *COMMAND, "-d", str(out / "doctrees"), "docs", str(out / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def pages(site):
    found = {path: BeautifulSoup(path.read_bytes(), "html.parser") for path in site.rglob("*.html")}
    assert len(found) > 30
    return found


@pytest.mark.slow
def test_the_reference_has_every_public_name(site):
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    missing = [full for name in public_modules() for full in public_names(name) if full not in known]
    assert not missing


@pytest.mark.slow
def test_links_within_the_site_lead_somewhere(pages):
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
def test_a_page_needs_no_network(pages):
    for path, page in pages.items():
        loaded = [tag["src"] for tag in page.find_all(["script", "img", "iframe", "source"], src=True)]
        loaded += [tag["href"] for tag in page.find_all("link", href=True)]
        assert not [target for target in loaded if urlsplit(target).netloc], path.name
        assert not page.find_all(class_="system-message"), path.name


@pytest.mark.slow
def test_the_search_finds_without_a_network(site, tmp_path):
    found, log = opened(site / "search.html", tmp_path, "?q=lyapunov")
    assert not complaints(log)
    results = BeautifulSoup(found, "html.parser").select("#search-results li a")
    assert "theory.html" in {urlsplit(result["href"]).path for result in results}


@pytest.mark.slow
def test_equations_and_labels_are_rendered(pages, site):
    paper = pages[site / "generated" / "tutorials" / "paper.html"]
    assert len(paper.find_all("math")) >= 4
    links = {tag.get_text(): tag for tag in paper.find_all("a", href=True)}
    assert links["Eq. (6)"]["href"].endswith("labels.html#eq-ucrn")
    assert links["Eq. (6)"]["title"].startswith("(6), in")


@pytest.mark.slow
def test_tutorials_were_executed_and_are_notebooks(pages, site):
    for path in (ROOT / "docs" / "tutorials").glob("*.py"):
        page = pages[site / "generated" / "tutorials" / f"{path.stem}.html"]
        assert page.find_all(class_="sphx-glr-script-out")
        assert len(page.select("img.sphx-glr-single-img, img.sphx-glr-multi-img")) >= 3
        assert any(Path(tag["href"]).name == f"{path.stem}.ipynb" for tag in page.find_all("a", href=True))
