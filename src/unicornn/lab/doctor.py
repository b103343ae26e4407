"""``unicornn doctor``: what is installed, which back-ends work and how fast, and what to do about problems."""

from __future__ import annotations

import getpass
import importlib.util
import os
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import torch

from unicornn import UnICORNN
from unicornn._backends import HAS_TRITON
from unicornn._extras import install_hint
from unicornn._self_test import backend_problems, cache_file
from unicornn.baselines import MODELS
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import ratio, rounds, training_step

EXTRAS = ("fit", "train", "export", "gpu")
SPEED = {"N": 500, "b": 16, "d": 32, "m": 64}  # of the training step that is timed
SPEED_SECONDS = 3.0
MODULES = {"scikit-learn": "sklearn", "huggingface-hub": "huggingface_hub"}  # where the names differ
CACHES = {  # variable that moves a cache
    "Numba": "NUMBA_CACHE_DIR", "Triton": "TRITON_CACHE_DIR", "inductor": "TORCHINDUCTOR_CACHE_DIR",
    "kernel tests": "XDG_CACHE_HOME",
}  # fmt: skip


def examine() -> dict[str, Any]:
    """Tests this installation; takes some seconds.

    Returns: "environment": date, machine and versions. "extras": missing packages by extra. "backends": by name and
        device, what is wrong with it. "speed": a training step of UnICORNN and of ``nn.LSTM``. "caches": path of each
        cache, and whether it is writable. "problems": dictionaries of a problem and its fix.

    Example:
        >>> from unicornn.lab.doctor import examine
        >>> examine()["backends"]["cpu on cpu"]
        []
    """
    report: dict[str, Any] = {
        "environment": environment(),
        "extras": {extra: _missing_packages(extra) for extra in EXTRAS},
        "backends": {f"{name} on {device}": backend_problems(name, device) for name, device in _backends()},
        "speed": _speed(),
        "caches": {name: {"path": str(path), "writable": _writable(path)} for name, path in _caches().items()},
    }
    report["problems"] = [{"problem": problem, "fix": fix} for problem, fix in _problems(report)]
    return report


def _missing_packages(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    try:
        lines = requires("unicornn") or []
    except PackageNotFoundError:  # run from its sources
        return []
    packages = [re.split(r"[^\w.-]", line)[0] for line in lines if re.search(rf"""extra == ["']{extra}["']""", line)]
    return [name for name in packages if importlib.util.find_spec(MODULES.get(name, name)) is None]


def _backends() -> Iterator[tuple[str, torch.device]]:
    """The back-ends that can run here, with their devices."""
    cpu = torch.device("cpu")
    yield from (("reference", cpu), ("cpu", cpu))
    if HAS_TRITON and os.environ.get("TRITON_INTERPRET", "0") == "1":
        yield "triton", cpu
    elif HAS_TRITON:
        yield from (("triton", torch.device("cuda", i)) for i in range(torch.cuda.device_count()))


def _speed() -> dict[str, float]:
    """Milliseconds of a training step of ``nn.LSTM`` and of ours (``ours_ms``), one layer each, and their ratio."""
    N, b, d, m = SPEED.values()
    ours, lstm = UnICORNN(d, m), MODELS["lstm"](d, m)
    u = torch.randn(N, b, d)
    return ratio(rounds(partial(training_step, ours, u), partial(training_step, lstm, u), SPEED_SECONDS))


def _caches() -> dict[str, Path]:
    """The folders in which compiled kernels are kept; Numba's only if there is one."""
    from unicornn._ops.cpu.jit import least

    home, numba = Path.home(), least._cache.cache_path
    temporary = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    return {
        "Numba": Path(numba) if numba else Path(),
        "Triton": Path(os.environ.get(CACHES["Triton"]) or home / ".triton" / "cache"),
        "inductor": Path(os.environ.get(CACHES["inductor"]) or temporary),
        "kernel tests": cache_file().parent,
    }


def _writable(path: Path) -> bool:
    """Whether files can be written to a folder, which may have to be created first."""
    if path == Path():
        return False
    existing = next(each for each in (path, *path.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _problems(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Problems and their fixes."""
    for name, problems in report["backends"].items():
        if problems:
            yield f"{name}: {problems[0]}", "backend='reference' is slow but right; please report this output"
    if torch.cuda.is_available() and not HAS_TRITON:
        yield "there is a GPU, but no Triton: the reference runs there", install_hint("gpu")
    for name, cache in report["caches"].items():
        if not cache["writable"]:
            where = cache["path"] if cache["path"] != "." else "no folder"
            yield f"{name}: kernels are compiled in every process ({where} is not writable)", f"set {CACHES[name]}"
    if report["speed"]["ratio"] < 1:
        yield "a training step takes longer than that of nn.LSTM", "stop other programs, or torch.set_num_threads(1)"
