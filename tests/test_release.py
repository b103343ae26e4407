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

USES = {
    "": """
import torch
import unicornn
from unicornn import UnICORNN, baselines, functional, models, streams, suggest_dt, theory

layer = UnICORNN(2, 8, num_layers=2)
u = torch.randn(100, 3, 2)
output, state = layer(u)
output.mean().backward()
assert not layer.inverse(u, state).y.any()
assert suggest_dt(10_000) > 0
assert theory.hamiltonian(layer, u).shape == (2, 100, 3)
assert baselines.MODELS["gru"](2, 8)(u)[0].shape == (100, 3, 8)
assert streams.Stream(layer).push({"a": u[:, 0].numpy()})["a"].shape == (8,)
try:
    import unicornn.estimators
except ImportError as error:
    assert "unicornn[fit]" in str(error), error
else:
    raise AssertionError("the estimators need more than the core")
""",
    "fit": """
import numpy as np
from unicornn.estimators import UnICORNNClassifier

X = np.sin(np.outer(np.repeat([0.2, 0.5], 6), np.arange(40)) + np.arange(12)[:, None])
model = UnICORNNClassifier(random_state=0).fit(X, np.repeat(["low", "high"], 6))
model.save_pretrained("model")
assert (UnICORNNClassifier.from_pretrained("model").predict(X) == model.predict(X)).all()
""",
    "train": """
from unicornn.lab import report, search, tasks, training
from unicornn.lab.cli import main

run = training.train(training.resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 4}), "run")
assert report.report(["run"], "report.html").exists()
""",
    "export": """
from unicornn import UnICORNN
from unicornn.export import onnx

onnx(UnICORNN(2, 4), "layer.onnx", kind="step")
""",
}
"""What every extra is for, by its name; "" is the core."""


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


def brought(wanted, extra=""):
    """The distributions that pip would install for some requirements, as far as they are installed here."""
    found, todo = {}, [Requirement(text) for text in wanted]
    while todo:
        requirement = todo.pop()
        for name in ("", *requirement.extras):
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            key = (requirement.name.lower().replace("_", "-"), name)
            if key in found or key[0] == "unicornn":
                continue
            found[key] = importlib.metadata.distribution(requirement.name)
            for text in found[key].requires or []:
                more = Requirement(text)
                if more.marker is None or more.marker.evaluate({"extra": name}):
                    more.marker = None
                    todo.append(more)
    return list(found.values())


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
    venv.create(folder, with_pip=True)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", str(path))
    return python


@pytest.mark.slow
@pytest.mark.parametrize("extra", USES, ids=lambda extra: extra or "core")
def test_the_wheel_works_with_what_it_asks_for(python, extra, tmp_path):
    """In an environment of its own, to which the packages that pip would bring are lent from this one."""
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(extra, [])]
    lent = linked(brought(wanted), tmp_path / "lent")
    code = f"import unicornn\nassert unicornn.__version__ == {PROJECT['version']!r}\n{USES[extra]}"
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNICORNN"))}
    run(python, "-c", code, env=alone | {"PYTHONPATH": str(lent)}, cwd=tmp_path)
