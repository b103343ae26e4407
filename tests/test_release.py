"""The distributions: complete, described well, and good for use in an environment of their own."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile

import pytest

from docs.build.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CORE = """
import importlib.abc, sys

ALLOWED = {"unicornn", "torch", "numpy", "numba", "llvmlite"}

class Bare(importlib.abc.MetaPathFinder):
    '''As if only what ``pip install unicornn`` brings were there: torch may look for more, this package may not.'''
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while frame and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        asked = frame.f_globals.get("__name__", "") if frame else ""
        if asked.split(".")[0] == "unicornn" and name.split(".")[0] not in ALLOWED | set(sys.stdlib_module_names):
            raise ModuleNotFoundError(f"No module named {name!r} in a bare environment", name=name)
        return None

sys.meta_path.insert(0, Bare())
import torch
import unicornn
from unicornn import UnICORNN, baselines, functional, models, streams, suggest_dt, theory

assert PREFIX in unicornn.__file__, unicornn.__file__
assert unicornn.__version__ == VERSION
layer = UnICORNN(2, 8, num_layers=2)
u = torch.randn(100, 3, 2)
output, state = layer(u)
output.mean().backward()
assert not layer.inverse(u, state).y.any()
assert suggest_dt(10_000) > 0
assert theory.hamiltonian(layer, u).shape == (2, 100, 3)
assert baselines.MODELS["gru"](2, 8)(u)[0].shape == (100, 3, 8)
stream = streams.Stream(layer)
assert stream.push({"a": u[:, 0].numpy()})["a"].shape == (8,)
try:
    import unicornn.estimators
except ImportError as error:
    print(error)
else:
    raise AssertionError("the estimators need more than the core")
"""


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


@pytest.mark.slow
def test_the_wheel_works_with_the_core_only(dist, tmp_path):
    """In an environment of its own, which borrows torch, numpy and numba from this one."""
    (path,) = dist.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", str(path))
    (here,) = {p for p in sys.path if p.endswith("site-packages") and sys.prefix in p}
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    code = f"import sys; sys.path.append({here!r}); PREFIX, VERSION = {site!r}, {PROJECT['version']!r}\n{CORE}"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert "unicornn[fit]" in run(python, "-c", code, env=clean, cwd=tmp_path)


def test_the_code_for_the_bare_environment_is_code():
    ast.parse(CORE)
