"""The page on which a network thinks: its answers are Python's, backwards it comes to rest, and it fits on a phone."""

import json
import re
from html import unescape

import pytest
import torch

from tests.browser import complaints, opened
from unicornn import UnICORNN, models
from unicornn.baselines import LSTM
from unicornn.errors import BadType, BadValue
from unicornn.lab.show import Sample, show

CLASSES = ["slow", "</script><b>fast</b>", "$title"]

# The page in frames as wide as a phone and a laptop; it is played, turned round and scrubbed as a reader would.
MEASURE = """<!doctype html><title>measure</title>
<pre id="measured"></pre>
<iframe src="%s" style="width:390px;height:800px"></iframe><iframe src="%s" style="width:1280px;height:800px"></iframe>
<script>
const wait = ms => new Promise(done => setTimeout(done, ms));
addEventListener("load", async () => {
  await wait(500);
  const measured = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement, $ = id => page.getElementById(id);
    const press = key => page.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    frame.contentWindow.requestAnimationFrame = next => setTimeout(next, 16);  // virtual time draws no frames
    const agreement = $("agreement").textContent;
    for (let k = 0; k < 12; k++) press("+");
    press("End");
    const end = $("now").textContent, answers = $("answers").textContent;
    press("ArrowLeft");
    await wait(300);
    const back = $("now").textContent;
    const focused = $("slower");  // whose own the space bar is, while it has the focus
    focused.dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true, cancelable: true}));
    const still = $("play").textContent;
    press(" ");
    await wait(300);
    measured.push({
      still,
      agreement, end, answers, back, again: $("now").textContent, width: root.clientWidth, needed: root.scrollWidth,
      canvases: page.querySelectorAll("canvas").length, options: page.querySelectorAll("option").length,
      bold: page.querySelectorAll("main b").length,
      requests: frame.contentWindow.performance.getEntriesByType("resource").length,
    });
  }
  document.getElementById("measured").textContent = JSON.stringify(measured);
});
</script>"""


def network(**reading):
    rnn = UnICORNN(2 * reading.get("patch", 1), 12, 3, dt=0.3, skip_layers=2, init="spread")
    net = models.Classifier(rnn, 3, **reading)
    net(torch.randn(60, 8, 2))  # the energies' and the states' mean and deviation
    return net


def samples(n=2, N=101):
    return [Sample(f"number {i} <i>", torch.randn(N, 2), i) for i in range(n)]


@pytest.mark.parametrize(
    "reading",
    [{}, {"readout": "mean"}, {"readout": "last+energy", "patch": 3}, {"readout": "energy", "segments": 4},
     {"readout": "energy", "segments": 4, "segment_pool": "concat"},
     {"readout": "mean+energy", "segments": 4, "segment_pool": "moments", "segment_start": "rest"},
     {"readout": "state"}, {"readout": "energy+state", "segments": 4, "segment_pool": "concat"}],
    ids=str,
)  # fmt: skip
def test_in_a_browser(tmp_path, reading):
    page = show(network(**reading), samples(), tmp_path / "page.html", title="A <b>title</b>", classes=CLASSES)
    (tmp_path / "measure.html").write_text(MEASURE % (page.as_uri(), page.as_uri()))
    document, log = opened(tmp_path / "measure.html", tmp_path)
    assert not complaints(log)
    phone, laptop = json.loads(unescape(re.search(r'<pre id="measured">(.*?)</pre>', document, flags=re.S).group(1)))
    steps = -(-101 // reading.get("patch", 1))
    for seen in (phone, laptop):
        difference, rest = seen["agreement"].split("; ")
        assert float(difference) < 1e-4
        assert rest == "back at the start, all oscillators are at rest"
        assert seen["end"] == f"step {steps} of {steps}"
        assert seen["back"] == f"step 0 of {steps}"
        assert seen["still"] == "▶ play"
        assert seen["again"] == f"step {steps} of {steps}"
        assert seen["needed"] <= seen["width"]
        assert (seen["canvases"], seen["options"], seen["bold"], seen["requests"]) == (4, 2, 0, 0)
        assert "</script><b>fast</b>" in seen["answers"]


def test_a_regression(tmp_path):
    net = models.Regressor(UnICORNN(2, 5), 1)
    net.standardise(torch.tensor([70.0, 80.0]))
    page = show(net, [Sample("one", torch.randn(30, 2), 75.0)], tmp_path / "page.html")
    document, log = opened(page, tmp_path)
    assert not complaints(log)
    agreement = re.search(r'<output id="agreement">(.*?);', document).group(1)
    assert float(agreement) < 1e-4
    assert "truth: 75" in document


def test_what_cannot_be_shown(tmp_path):
    path = tmp_path / "page.html"
    with pytest.raises(BadType, match="network: expected a network of signals with a UnICORNN"):
        show(models.Classifier(LSTM(2, 5), 3), samples(), path)
    with pytest.raises(BadValue, match="one direction and a readout at the end"):
        show(models.SequenceToSequence(UnICORNN(2, 5), 3), samples(), path)
    with pytest.raises(BadValue, match="network: expected mirrored=False"):
        show(models.Classifier(UnICORNN(2, 5), 3, readout="energy", mirrored=True), samples(), path)
    with pytest.raises(BadValue, match="samples: expected at least one"):
        show(network(), [], path)
    with pytest.raises(BadValue, match=r"samples\[0\].u: expected shape \(N, 2\), got \(5, 3\)"):
        show(network(), [Sample("wide", torch.randn(5, 3))], path)
    with pytest.raises(BadValue, match="samples: expected finite numbers in 'gap', got NaN or infinity"):
        show(network(), [Sample("gap", torch.full((5, 2), torch.nan))], path)
    with pytest.raises(BadValue, match="classes: expected 3 names"):
        show(network(), samples(), path, classes=["a"])
    assert not path.exists()
