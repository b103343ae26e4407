"""Opens a page in headless Chromium."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--allow-file-access-from-files",
    "--virtual-time-budget=10000", "--dump-dom",
)  # fmt: skip

WIDTHS = (390, 1280)  # of a phone and a laptop

# Headless Chromium has no windows as narrow as a phone, so a page is measured in frames.
MEASURE = """<!doctype html><title>measure</title>
<pre id="measured"></pre>
%s
<script>
const wait = ms => new Promise(done => setTimeout(done, ms));
const measure = %s;
addEventListener("load", async () => {
  await wait(500);
  const measured = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement;
    const found = await measure(page, frame.contentWindow);
    measured.push({width: root.clientWidth, needed: root.scrollWidth, ...found});
  }
  document.getElementById("measured").textContent = JSON.stringify(measured);
});
</script>"""


def opened(page, folder, query=""):
    """The document after the scripts have run, and the browser's log. Skips the test if there is no browser."""
    chrome = next(filter(None, map(shutil.which, NAMES)), None)
    if chrome is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    command = [chrome, *FLAGS, f"--user-data-dir={folder / 'profile'}", page.as_uri() + query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout, done.stderr


def complaints(log):
    """Lines that the page wrote to the console."""
    return [line for line in log.splitlines() if "CONSOLE" in line]


def measured_in_frames(page, folder, measure):
    """Results of the JavaScript function ``measure`` of a document and its window, on a phone and on a laptop.

    The page must not write to the console or scroll horizontally.
    """
    frame = '<iframe src="{}" style="width:{}px;height:900px;border:0"></iframe>'
    frames = "\n".join(frame.format(page.as_uri(), width) for width in WIDTHS)
    (folder / "measure.html").write_text(MEASURE % (frames, measure))
    document, log = opened(folder / "measure.html", folder)
    found = re.search(r'<pre id="measured">(.*?)</pre>', document, flags=re.S)
    assert found, log
    assert not complaints(log)
    measured = json.loads(unescape(found[1]))
    for width, each in zip(WIDTHS, measured, strict=True):
        assert each["needed"] <= each["width"] <= width
    return measured
