"""The distributions: complete, described well, and good for use in an environment of their own."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile

import pytest
from packaging.requirements import Requirement

from docs.build.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

USES = {path.stem: path for path in sorted((ROOT / "tests" / "extras").glob("*.py"))}
"""A script for every extra, which does what the extra is for; "core" is for none."""

BESIDE = {"postgres": ["train"]}  # what else an extra is of use with


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the sdist and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
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


@pytest.mark.slow
def test_the_distributions_are_described_well(dist):
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir()))


@pytest.mark.slow
def test_the_sdist_is_complete(dist):
    (path,) = dist.glob("*.tar.gz")
    tracked = set(run("git", "ls-files", cwd=ROOT).splitlines())
    with tarfile.open(path) as archive:
        there = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    missing = {name for name in tracked - there if not name.startswith(".github/") and (ROOT / name).exists()}
    assert not missing


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(dist):
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"unicornn"}
    source = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*") if p.is_file()}
    assert {name for name in source if "__pycache__" not in name} <= set(names)


def named(requirement):
    return requirement.name.lower().replace("_", "-")


def wanted_by(*extras):
    """What the package asks for, with these extras, and the extras that they stand for."""
    found = list(PROJECT["dependencies"])
    for extra in extras:
        for text in PROJECT["optional-dependencies"][extra]:
            requirement = Requirement(text)
            found += wanted_by(*sorted(requirement.extras)) if named(requirement) == "unicornn" else [text]
    return found


def brought(wanted):
    """What pip would install for some requirements: pairs of a requirement and the distribution that is installed here,
    or None."""
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


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_the_pinned_versions_are_what_the_extra_asks_for(extra):
    for requirement, distribution in brought(wanted_by(extra)):
        if (extra, named(requirement)) not in NOT_MET:
            assert distribution is not None, requirement
            assert requirement.specifier.contains(distribution.version, prereleases=True), requirement


def linked(distributions, folder):
    """A folder with links to what these distributions, and no others, have installed."""
    folder.mkdir()
    for distribution in distributions:
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
    return folder


@pytest.fixture(scope="module")
def python(dist, tmp_path_factory):
    """The interpreter of a fresh environment with the wheel and nothing else."""
    (path,) = dist.glob("*.whl")
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(path))
    return python


def test_every_extra_has_a_use():
    assert set(USES) == {"core", *PROJECT["optional-dependencies"]}


@pytest.mark.slow
@pytest.mark.parametrize("extra", USES)
def test_the_wheel_works_with_what_it_asks_for(python, extra, tmp_path):
    """In an environment of its own, to which the packages that pip would bring are lent from this one."""
    extras = [] if extra == "core" else [extra, *BESIDE.get(extra, [])]
    there = [distribution for _, distribution in brought(wanted_by(*extras)) if distribution]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNICORNN"))}
    alone["PYTHONPATH"] = str(linked(there, tmp_path / "lent"))
    here = tmp_path / "here"
    here.mkdir()
    run(python, str(USES[extra]), str(ROOT), PROJECT["version"], env=alone, cwd=here)
