"""The sdist and the wheel: complete, with valid metadata, usable in a fresh environment."""

import importlib.metadata
import os
import re
import tarfile
import tomllib
import venv
import zipfile

import pytest
from packaging.requirements import Requirement

from docs.build.pages import ROOT
from tests.processes import python, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

USES = {path.stem: path for path in sorted((ROOT / "tests" / "extras").glob("*.py"))}
"""One script per extra that uses it; "core" uses the package without extras."""

ENGINES = {"dask", "ray", "spark"}
"""Extras that ``make env`` doesn't install; see test_distributed.py."""

COMPANIONS = {"postgres": ["train"]}  # extras that are only useful together with others


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Folder with the sdist and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


def test_the_version_is_the_same_everywhere():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(version)} – \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_every_extra_has_pinned_versions():
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    known = {name.lower().replace("_", "-") for name in pinned} | {"unicornn", "kauri"}
    for extra, wanted in PROJECT["optional-dependencies"].items():
        for text in wanted:
            assert re.split(r"[\[<>=!; ]", text)[0].lower().replace("_", "-") in known, (extra, text)


def test_tools_of_a_release_are_pinned_by_hash():
    lines = (ROOT / "requirements-release.txt").read_text(encoding="utf-8").splitlines()
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tools = [re.fullmatch(r"(\S+==\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert {tool and tool[1] for tool in tools} <= set(pinned), "run make release-hashes"
    assert {"build", "hatchling", "twine"} <= {tool[1].split("==")[0] for tool in tools}


def test_workflows_pin_actions_and_only_read():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^permissions:\n  contents: read\njobs:", text, re.M)
        assert not [use for use in re.findall(r"uses: (\S+)", text) if not re.search(r"@[0-9a-f]{40}$", use)]


@pytest.mark.slow
def test_metadata_is_valid(dist):
    python("-m", "twine", "check", "--strict", *dist.iterdir())


@pytest.mark.slow
def test_the_sdist_is_complete(dist):
    (path,) = dist.glob("*.tar.gz")
    tracked = set(run("git", "ls-files", cwd=ROOT).splitlines())
    with tarfile.open(path) as archive:
        there = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    missing = {name for name in tracked - there if not name.startswith(".github/") and (ROOT / name).exists()}
    assert not missing


@pytest.mark.slow
def test_the_wheel_contains_only_the_package(dist):
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"unicornn"}
    source = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*") if p.is_file()}
    assert {name for name in source if "__pycache__" not in name} <= set(names)


def normalised_name(requirement):
    return requirement.name.lower().replace("_", "-")


def requirements(*extras):
    """Requirements of the package with these extras, including extras they refer to."""
    found = list(PROJECT["dependencies"])
    for extra in extras:
        for text in PROJECT["optional-dependencies"][extra]:
            requirement = Requirement(text)
            found += requirements(*sorted(requirement.extras)) if normalised_name(requirement) == "unicornn" else [text]
    return found


def resolved(wanted):
    """Requirements, direct and indirect, each with the distribution installed here, or None."""
    found, todo = {}, [Requirement(text) for text in wanted]
    while todo:
        requirement = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            distribution = None
        new = str(requirement) not in found
        found[str(requirement)] = (requirement, distribution)
        if distribution is None or not new:
            continue
        for text in distribution.requires or []:
            more = Requirement(text)
            if any(more.marker is None or more.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
                more.marker = None
                todo.append(more)
    return list(found.values())


NOT_MET = {("ncde", "kauri")}
"""Requirements that the pinned versions leave out: a source package (see the Makefile)."""


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - ENGINES))
def test_pinned_versions_satisfy_the_extra(extra):
    for requirement, distribution in resolved(requirements(extra)):
        if (extra, normalised_name(requirement)) not in NOT_MET:
            assert distribution is not None, requirement
            assert requirement.specifier.contains(distribution.version, prereleases=True), requirement


def linked(distributions, folder):
    """Folder with links to the files of these distributions only."""
    folder.mkdir()
    for distribution in distributions:
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
    return folder


@pytest.fixture(scope="module")
def interpreter(dist, tmp_path_factory):
    """Interpreter of a fresh environment with only the wheel installed."""
    (path,) = dist.glob("*.whl")
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder)
    fresh = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    python("-m", "pip", "--python", fresh, "install", "--no-deps", "--no-index", path)
    return fresh


def test_every_extra_has_a_script():
    assert set(USES) | ENGINES == {"core", *PROJECT["optional-dependencies"]}


@pytest.mark.slow
@pytest.mark.parametrize("extra", USES)
def test_the_wheel_works_with_its_requirements(interpreter, extra, tmp_path):
    """The packages pip would install are linked from this environment."""
    extras = [] if extra == "core" else [extra, *COMPANIONS.get(extra, [])]
    there = [distribution for _, distribution in resolved(requirements(*extras)) if distribution]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNICORNN"))}
    environment["PYTHONPATH"] = str(linked(there, tmp_path / "packages"))
    here = tmp_path / "here"
    here.mkdir()
    run(interpreter, USES[extra], ROOT, PROJECT["version"], env=environment, cwd=here)
