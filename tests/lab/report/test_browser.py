"""In a real browser: nothing to complain about, all plots there, no sideways scrolling on a laptop or a phone."""

import json
import re
from html import unescape

import pytest

from tests.browser import complaints, opened

WIDTHS = (390, 1280)

# Headless Chromium has no windows as narrow as a phone, so the page is measured in frames.
MEASURE = """<!doctype html><title>measure</title>
<pre id="measured"></pre>
%s
<script>
addEventListener("load", () => {
  const measured = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement, images = [...page.images];
    page.querySelectorAll("details").forEach(each => each.open = true);
    return {
      width: root.clientWidth, needed: root.scrollWidth, scripts: page.scripts.length, images: images.length,
      shown: images.filter(each => each.naturalWidth > 0 && each.clientWidth > 200).length,
      sideways: [...page.querySelectorAll(".scroll")].filter(each => each.scrollWidth > each.clientWidth).length,
      sections: page.querySelectorAll("section[id]").length, text: page.body.innerText,
      beyond: [...page.querySelectorAll("main *")].filter(each =>
        !each.closest(".scroll table, pre") && each.getBoundingClientRect().right > root.clientWidth).length,
    };
  });
  document.getElementById("measured").textContent = JSON.stringify(measured);
});
</script>"""


def measured_in_frames(page, folder):
    """What was measured of a page at each width, and the browser's log."""
    style = "width:{}px;height:900px;border:0"
    frames = "\n".join(f'<iframe src="{page.as_uri()}" style="{style.format(w)}"></iframe>' for w in WIDTHS)
    (folder / "measure.html").write_text(MEASURE % frames)
    document, log = opened(folder / "measure.html", folder)
    measured = re.search(r'<pre id="measured">(.*?)</pre>', document, flags=re.S)
    assert measured, log
    return dict(zip(WIDTHS, json.loads(unescape(measured.group(1))), strict=True)), log


@pytest.fixture(scope="module")
def browsed(everything, tmp_path_factory):
    return measured_in_frames(everything, tmp_path_factory.mktemp("browser"))


def test_nothing_is_logged(browsed):
    assert not complaints(browsed[1])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits(browsed, width):
    measured = browsed[0][width]
    assert width - 20 <= measured["width"] <= width
    assert measured["needed"] <= measured["width"]
    assert measured["beyond"] == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_all_there(browsed, width):
    measured = browsed[0][width]
    assert measured["images"] == measured["shown"] >= 20
    assert (measured["sections"], measured["scripts"]) == (6, 0)
    for text in ("97.2 ± 0.4 %", "<script>alert('x')</script>", "unicornn train regress --seed 2"):
        assert text in measured["text"]
