"""Opens a page in headless Chromium."""

import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--allow-file-access-from-files",
    "--virtual-time-budget=10000", "--dump-dom",
)  # fmt: skip


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
