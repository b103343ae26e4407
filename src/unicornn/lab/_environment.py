"""A record of the environment: the command, the date, the machine and the versions."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("unicornn", "torch", "numba", "numpy", "optuna", "scikit-learn", "triton")


def command() -> str:
    """The ``unicornn`` command line of this process, without the password of a database; "" for other programs."""
    name = Path(sys.argv[0])
    ours = name.name.startswith("unicornn") or name.parts[-2:] == ("unicornn", "__main__.py")
    words = [re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", word) for word in sys.argv[1:]]
    return f"unicornn {shlex.join(words)}" if ours else ""


def environment() -> dict[str, Any]:
    """Date, machine, threads and versions."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "processes": int(os.environ.get("WORLD_SIZE", 1)),
        "versions": versions,
    }
