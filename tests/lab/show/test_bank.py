"""Banks in JavaScript: probabilities are Python's, and what is not supported is rejected."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.browser import measured_in_frames
from unicornn.errors import BadType, BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.lab.fit._data import Data
from unicornn.lab.show import write_file_page, write_script

RNG = np.random.default_rng(0)
KIND = np.array(["slow", "</script><b>fast</b>", "$noise"] * 8)


def signals(d, N=90):
    """Sines of two frequencies with noise, and noise; channels follow each other."""
    phase = RNG.uniform(0, 6, (24, 1, 1)) - np.arange(d)
    frequency = np.array([0.2, 0.5, 0] * 8)[:, None, None]
    return 70 + np.sin(frequency * np.arange(N)[:, None] + phase) + 0.3 * RNG.normal(size=(24, N, d))


def in_node(script, series):
    """Probabilities (n, k) by the script, or the message of its error."""
    if (node := shutil.which("node")) is None:
        pytest.skip("no JavaScript: node is not installed")
    program = (
        f"const bank = require({json.dumps(str(script))}), series = JSON.parse(require('fs').readFileSync(0));"
        "try { console.log(JSON.stringify(series.map(x => bank.predict(x)))); }"
        "catch (error) { console.log(JSON.stringify(error.message)); }"
    )
    text = json.dumps([np.asarray(x).tolist() for x in series])
    done = subprocess.run([node, "-e", program], input=text, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("d", "options"),
    [(1, {}), (3, {}), (1, {"live": True}), (2, {"scale": "series"})],
    ids=["one channel", "channels", "live", "own scale"],
)
def test_probabilities_in_node(tmp_path, d, options):
    X = signals(d)
    model = UnICORNNClassifier(random_state=0, **options).fit(X, KIND)
    series = [*signals(d)[:4], X[0, :41], X[1, :7], X[2, :2], np.full((60, d), 71.0), np.repeat(X[0], 2, axis=0)]
    found = in_node(write_script(model, tmp_path / "bank.js"), series)
    assert np.abs(found - model.predict_proba(series)).max() < 1e-4


def test_series_that_the_script_rejects(tmp_path):
    script = write_script(UnICORNNClassifier(random_state=0).fit(signals(2, 20), KIND), tmp_path / "bank.js")
    for wrong in ([[1]], [[1, 2], [1, None]], [1, 2], []):
        assert in_node(script, [wrong]).startswith("series: expected rows of 2 finite numbers, got ")


# Draws on the series, and restores it.
MEASURE = """async (page, window) => {
  const $ = id => page.getElementById(id), canvas = $("signal"), box = canvas.getBoundingClientRect();
  const numbers = () => [...page.querySelectorAll(".number")].map(each => each.textContent).join("");
  const point = (kind, x) => canvas.dispatchEvent(
    new window.PointerEvent(kind, {clientX: box.left + x * box.width, clientY: box.top + 20, pointerId: 1}));
  canvas.setPointerCapture = () => {};  // of a pointer that does not exist
  const before = numbers();
  point("pointerdown", 0.1);
  point("pointermove", 0.9);
  point("pointerup", 0.9);
  const drawn = numbers();
  $("restore").click();
  return {
    before, drawn, restored: numbers(), agreement: $("agreement").textContent, truth: $("truth").textContent,
    options: page.querySelectorAll("option").length, bold: page.querySelectorAll("main b").length,
  };
}"""


def test_page_in_a_browser(tmp_path):
    X = signals(2, 40)
    model = UnICORNNClassifier(random_state=0).fit(X, KIND)
    series = Data("arrays", [*X[:4]], list("abcd"), ["x", "y"], KIND[:4])
    page = write_file_page(model, series, tmp_path / "page.html")
    for seen in measured_in_frames(page, tmp_path, MEASURE):
        assert float(seen["agreement"]) < 1e-4
        assert seen["before"] == seen["restored"] != seen["drawn"]
        assert (seen["truth"], seen["options"], seen["bold"]) == ("truth: slow", 4, 0)


def test_models_that_are_rejected(tmp_path):
    X, path = signals(1, 20), tmp_path / "bank.js"
    gaps = X.copy()
    gaps[0, 3] = np.nan
    for model, error in (
        (UnICORNNRegressor(random_state=0).fit(X, X[:, 0, 0]), BadType),
        (UnICORNNClassifier(missing="mask", random_state=0).fit(gaps, KIND), BadValue),
        (UnICORNNClassifier("network", max_epochs=1, hidden_size=4).fit(X, KIND), BadValue),
        (UnICORNNClassifier(), BadValue),
        ("bank", BadType),
    ):
        with pytest.raises(error, match=r"^model: expected "):
            write_script(model, path)
    assert not path.exists()
