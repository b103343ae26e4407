"""Tests a back-end against the reference on a small problem; on a GPU, before its kernels are used the first time."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unicornn import functional
from unicornn._files import parse_json, write_json
from unicornn._torch_internals import any_mode_active, driver_version
from unicornn.functional import Weights

TOLERANCE = 1e-4  # of float32 kernels, relative to the largest element
SIZES = {"N": 19, "b": 3, "d": 2, "m": 5, "L": 2}


def backend_problems(backend: str, device: torch.device) -> list[str]:
    """What is wrong with a back-end on a device; empty if outputs, states and gradients agree with the reference, one
    step agrees with the sequence, and reversal is exact."""
    reference = _results("reference", torch.device("cpu"), torch.float64)
    try:
        found = _results(backend, device, torch.float32)
    except Exception as error:  # of a compiler or a driver: anything
        return [f"{type(error).__name__}: {error}"]
    exact = found.pop("exact") or backend == "reference"
    problems = [] if exact else ["reversal: expected the initial state bit for bit, got another one"]
    for name, value in found.items():
        expected = reference[name]
        difference = float((value.double().cpu() - expected).abs().max() / expected.abs().max())
        if not difference <= TOLERANCE:  # also if it is NaN
            problems.append(f"{name}: expected at most {TOLERANCE:g} beside the reference, got {difference:.2g}")
    return problems


def _results(backend: str, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Outputs, states and gradients of a fixed problem, by name, and whether reversal is "exact"."""
    random = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64).to(device, dtype)

    N, b, d, m, L = SIZES.values()
    parameters = [[draw(m).abs(), draw(m, m if l else d), draw(m), draw(m)] for l in range(L)]
    weights = Weights(*([each[i].requires_grad_() for each in parameters] for i in range(4)))
    u, start, lengths = draw(N, b, d).requires_grad_(), (draw(L, b, m), draw(L, b, m)), [N, N // 2, 1]
    options: dict[str, Any] = {"dt": 0.2, "backend": backend}
    leaves = [u, *(t for each in parameters for t in each)]
    results: dict[str, Any] = {}
    for gradient in functional.GRADIENTS:
        output, state = functional.unicornn(u, weights, state=start, lengths=lengths, gradient=gradient, **options)
        gradients = torch.autograd.grad((output**2).sum() + state.z.sum(), leaves)
        results |= {f"{gradient} gradient {i}": g for i, g in enumerate(gradients)}
    results |= {"output": output.detach(), "final y": state.y.detach(), "final z": state.z.detach()}
    with torch.no_grad():
        back = functional.inverse(u, weights, state, lengths=lengths, **options)
        results["step"], _ = functional.step(u[0], weights, state=start, **options)
    results["exact"] = all(torch.equal(t, t0) for t, t0 in zip(back, start, strict=True))
    return results


_verdicts: dict[torch.device, bool] = {}


def kernels_work(device: torch.device) -> bool:
    """Whether the Triton kernels pass their test on a GPU; warns if they don't.

    Runs once for each device, driver and version of the software, and keeps the result in ``cache_file()``.
    """
    if device not in _verdicts:
        if any_mode_active():  # tensors may be fake
            return True
        _verdicts[device] = True  # while the kernels are tested
        _verdicts[device] = not _warned_problems(device)
    return _verdicts[device]


def _warned_problems(device: torch.device) -> list[str]:
    key, known = "; ".join(f"{name} {value}" for name, value in platform(device).items()), _read_cache()
    problems = known.get(key)
    if problems is None:
        problems = backend_problems("triton", device)
        with contextlib.suppress(OSError):  # tested again in the next process
            write_json(cache_file(), {**_read_cache(), key: problems})
    if problems:
        warnings.warn(
            f"unicornn: the Triton kernels fail their test on this GPU ({key}): {problems[0]}. The reference runs "
            f"instead, a plain torch loop: slow, with memory that grows with the length. Please report the output of "
            f"`unicornn doctor`. {cache_file()} keeps this result; delete it to test again",
            RuntimeWarning,
            stacklevel=2,
        )
    return list(problems)


def platform(device: torch.device) -> Mapping[str, str]:
    """What the result of the test depends on."""
    card = torch.cuda.get_device_properties(device)
    versions = {}
    for package in ("unicornn", "torch", "triton"):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "device": card.name, "capability": f"{card.major}.{card.minor}", "driver": driver_version(),
        "runtime": str(torch.version.cuda or torch.version.hip), **versions,
    }  # fmt: skip


def cache_file() -> Path:
    """The file of the results, below XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unicornn" / "kernels.json"


def _read_cache() -> dict[str, Any]:
    try:
        return parse_json(cache_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
