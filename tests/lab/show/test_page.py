"""The page of a network: its answers are Python's, it runs back to rest, and it fits on a phone."""

import re

import pytest
import torch

from tests.browser import complaints, measured_in_frames, opened
from unicornn import UnICORNN, models
from unicornn.baselines import LSTM
from unicornn.errors import BadType, BadValue
from unicornn.frames import Frames, oscillators
from unicornn.lab.show import Sample, write_page

CLASSES = ["slow", "</script><b>fast</b>", "$title"]

# Plays the page forwards and backwards by keyboard.
MEASURE = """async (page, window) => {
  const $ = id => page.getElementById(id);
  const press = key => page.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  window.requestAnimationFrame = next => setTimeout(next, 16);  // there are no frames in virtual time
  const agreement = $("agreement").textContent, started = $("play").textContent;
  press("Home");
  const blank = [...page.querySelectorAll(".answers.waiting .number")].map(each => each.textContent).join("");
  for (let k = 0; k < 12; k++) press("+");
  press("End");
  const end = $("now").textContent, answers = $("answers").textContent;
  press("ArrowLeft");
  await wait(300);
  const back = $("now").textContent;
  const focused = $("slower");  // the space bar belongs to a button that has the focus
  focused.dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true, cancelable: true}));
  const still = $("play").textContent;
  press(" ");
  await wait(300);
  return {
    agreement, started, blank, end, answers, back, still, again: $("now").textContent,
    canvases: page.querySelectorAll("canvas").length, options: page.querySelectorAll("option").length,
    bold: page.querySelectorAll("main b").length, requests: window.performance.getEntriesByType("resource").length,
  };
}"""


def network(readout="last", patch=1):
    rnn = UnICORNN(2 * patch, 12, 3, dt=0.3, skip_layers=2, init="spread")
    net = models.Classifier(rnn, 3, readout=readout, patch=patch, head_size=5)
    net(torch.randn(60, 8, 2))  # sets the mean and deviation of the features
    return net


def network_with_frames():
    levels = [Frames([oscillators(2, 5, 8), oscillators(2, 4, 22)], [8, 22], 6, centre=True)]
    levels.append(Frames(oscillators(9, 7, 5), 5, 2))
    rnn = UnICORNN(7, 12, 1, dt=0.3, init="spread")
    net = models.Classifier(rnn, 3, frames=levels, readout="mean+max+state+input")
    net(torch.randn(60, 8, 2))
    return net


def samples(n=2, N=101):
    return [Sample(f"number {i} <i>", torch.randn(N, 2), i) for i in range(n)]


@pytest.mark.parametrize(
    ("readout", "patch"),
    [("frames", 12), ("last(norm=batch)", 1), ("mean", 1), ("last+energy", 3), ("energy(segments=4)", 1),
     ("energy(segments=4, pool='concat')", 1), ("mean+energy(segments=4, from_rest=True, pool='moments')", 1),
     ("state", 1), ("energy(segments=4, pool='concat')+state", 1)],
)  # fmt: skip
def test_in_a_browser(tmp_path, readout, patch):
    net = network_with_frames() if readout == "frames" else network(readout, patch)
    page = write_page(net, samples(), tmp_path / "page.html", title="A <b>title</b>", classes=CLASSES)
    steps = -(-101 // patch)
    for seen in measured_in_frames(page, tmp_path, MEASURE):
        difference, rest = seen["agreement"].split("; ")
        assert float(difference) < 1e-4
        assert rest == "back at the start, all oscillators are at rest"
        assert (seen["started"], seen["blank"]) == ("❚❚ pause", "–––")
        assert seen["end"] == f"step {steps} of {steps}"
        assert seen["back"] == f"step 0 of {steps}"
        assert seen["still"] == "▶ play"
        assert seen["again"] == f"step {steps} of {steps}"
        assert (seen["canvases"], seen["options"], seen["bold"], seen["requests"]) == (4, 2, 0, 0)
        assert "</script><b>fast</b>" in seen["answers"]


def test_a_regression(tmp_path):
    net = models.Regressor(UnICORNN(2, 5), 1)
    net.standardise(torch.tensor([70.0, 80.0]))
    page = write_page(net, [Sample("one", torch.randn(30, 2), 75.0)], tmp_path / "page.html")
    document, log = opened(page, tmp_path)
    assert not complaints(log)
    agreement = re.search(r'<output id="agreement">(.*?);', document).group(1)
    assert float(agreement) < 1e-4
    assert "truth: 75" in document


def test_networks_and_samples_that_are_rejected(tmp_path):
    path, layer = tmp_path / "page.html", UnICORNN(2, 5)
    for rejected in (
        models.Classifier(LSTM(2, 5), 3),
        models.Classifier(UnICORNN(2, 5, bidirectional=True), 3),
        models.SequenceToSequence(layer, 3),
        models.Classifier(layer, 3, readout="energy(mirrored=True)"),
    ):
        with pytest.raises((BadType, BadValue), match=r"^network: "):
            write_page(rejected, samples(), path)
    for bad in ([], [Sample("wide", torch.randn(5, 3))], [Sample("gap", torch.full((5, 2), torch.nan))]):
        with pytest.raises(BadValue, match=r"^samples(\[0\].u)?: "):
            write_page(network(), bad, path)
    with pytest.raises(BadValue, match=r"^classes: "):
        write_page(network(), samples(), path, classes=["a"])
    assert not path.exists()
