"""In a real browser: nothing to complain about, all plots there, no sideways scrolling on a laptop or a phone."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (390, 1280)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--allow-file-access-from-files",
    "--virtual-time-budget=10000", "--dump-dom",
)  # fmt: skip

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
      sections: page.querySelectorAll("section[id]").length, text: page.body.innerText,
      beyond: [...page.querySelectorAll("main *")].filter(each =>
        !each.closest(".scroll table, pre") && each.getBoundingClientRect().right > root.clientWidth).length,
    };
  });
  document.getElementById("measured").textContent = JSON.stringify(measured);
});
</script>"""


@pytest.fixture(scope="module")
def browsed(everything, tmp_path_factory):
    """What was measured of the page at each width, and the browser's log."""
    chrome = next(filter(None, map(shutil.which, NAMES)), None)
    if chrome is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    folder = tmp_path_factory.mktemp("browser")
    style = "width:{}px;height:900px;border:0"
    frames = "\n".join(f'<iframe src="{everything.as_uri()}" style="{style.format(w)}"></iframe>' for w in WIDTHS)
    (folder / "measure.html").write_text(MEASURE % frames)
    command = [chrome, *FLAGS, f"--user-data-dir={folder / 'profile'}", (folder / "measure.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    measured = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, flags=re.S)
    assert measured, done.stderr
    return dict(zip(WIDTHS, json.loads(unescape(measured.group(1))), strict=True)), done.stderr


def test_nothing_is_logged(browsed):
    assert not [line for line in browsed[1].splitlines() if "CONSOLE" in line]


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
