"""Fits, predictions and features on Dask, Ray and Spark: in a separate environment, with two workers each."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock

from unicornn import distributed
from unicornn.errors import BadType, BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor

ROOT = Path(__file__).parents[1]
ENGINES = ("dask", "ray", "spark")
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 10))
FRAME = pd.DataFrame({"series": np.repeat([f"s{i:02}" for i in range(60)], 10), "time": np.tile(range(10), 60)})
FRAME = FRAME.assign(x=x.ravel(), y=np.repeat(x[:, 0], 10), group=np.repeat(np.arange(60) // 6, 10))


@pytest.fixture(scope="session")
def python():
    """Interpreter of an environment with this one's packages and the engines; kept between runs."""
    constraints = ROOT / "constraints.txt"
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    packages = [each for engine in ENGINES for each in wanted[engine] if not each.startswith("unicornn")]
    folder = Path(tempfile.gettempdir()) / f"unicornn-engines-{sysconfig.get_python_version()}-{os.getuid()}"
    python, complete = folder / "bin" / "python", folder / "complete"
    state = f"{packages}\n{sys.prefix}\n{constraints.read_text()}"
    with FileLock(f"{folder}.lock"):  # one of pytest's processes installs
        if not complete.exists() or complete.read_text() != state:
            venv.create(folder, with_pip=True, clear=True)
            (packages_folder,) = folder.glob("lib/python*/site-packages")
            (packages_folder / "main.pth").write_text(sysconfig.get_path("purelib"))
            command = [python, "-m", "pip", "install", "-q", "-c", constraints, *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                pytest.skip(f"the engines cannot be installed: {done.stderr[-300:]}")
            complete.write_text(state)
    return python


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_agrees_with_pandas(python, engine):
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "tests.engines", engine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def fit(frame, **more):
    estimator = UnICORNNRegressor(random_state=0)
    return distributed.fit(estimator, frame, "y", groups="group", **{"time": "time", "max_features": 50, **more})


def test_pandas_frames_are_fitted_as_parts():
    model, shuffled = fit(FRAME, sample=20), fit(FRAME.sample(frac=1, random_state=0), sample=20)
    parts = [(x[i : i + 15], x[i : i + 15, 0], np.arange(i, i + 15) // 6) for i in range(0, 60, 15)]
    in_parts = UnICORNNRegressor(random_state=0).fit_parts(parts, sample=20, max_features=50)
    table = distributed.predict(model, FRAME)
    assert table["prediction"].tolist() == in_parts.predict(x).tolist()
    assert table.equals(distributed.predict(shuffled, FRAME))
    assert np.array_equal(np.stack(distributed.features(model, FRAME)["features"]), in_parts.transform(x))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"x": np.nan}, "NaN"), ({"y": 7.0}, "one value"), ({"time": 4}, "time"), ({"x": "?"}, "numbers")],
)
def test_malformed_series_are_reported_by_name(change, message):
    frame = FRAME.astype({name: object for name, value in change.items() if isinstance(value, str)})
    for name, value in change.items():
        frame.loc[35, name] = value
    with pytest.raises(BadValue, match="series 's03'"):
        fit(frame, sample=20)
    model = fit(frame, sample=20, malformed="report")
    assert list(model.about_["malformed"]) == ["s03"]
    assert message in model.about_["malformed"]["s03"]
    assert model.about_["series"] == 59
    if "y" not in change:
        table = distributed.predict(model, frame, time="time", malformed="report").set_index("series")
        assert table["error"].notna().tolist() == [name == "s03" for name in table.index]
        assert table["prediction"].isna().tolist() == table["error"].notna().tolist()


@pytest.mark.parametrize(
    "change", [{"frame": x}, {"target": "z"}, {"time": "z"}, {"malformed": "ignore"}, {"sample": 1}]
)
def test_bad_arguments_are_named(change):
    (name,) = change
    arguments = {"estimator": UnICORNNClassifier(), "frame": FRAME, "target": "y", **change}
    with pytest.raises((BadType, BadValue), match=f"^{name}: "):
        distributed.fit(**arguments)
