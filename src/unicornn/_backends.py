"""The choice of the back-end."""

from __future__ import annotations

import importlib.util
import os
import warnings
from functools import cache

import torch

from unicornn import _checks as checks
from unicornn._extras import install_hint
from unicornn.errors import BadType, BadValue

BACKENDS = ("auto", "reference", "cpu", "triton")
HAS_TRITON = importlib.util.find_spec("triton") is not None  # without importing it


def pick_backend(backend: str, device: torch.device) -> str:
    """The back-end for tensors on ``device``: kernels if there are any, else the reference.

    "cuda" is torch's name for both NVIDIA and AMD GPUs. With TRITON_INTERPRET=1 in the environment, "triton" also
    accepts tensors on the CPU and runs the kernels in Triton's slow interpreter: for tests.

    Example:
        >>> import torch
        >>> pick_backend("auto", torch.device("cpu"))
        'cpu'
    """
    checks.choice("backend", backend, BACKENDS)
    if not isinstance(device, torch.device):
        raise BadType(f"device: expected a torch.device, got {checks.describe(device)}")
    kind = device.type
    if backend == "auto":
        if kind == "cpu":
            return "cpu"
        if kind == "cuda" and HAS_TRITON:
            return "triton" if _kernels_work(device) else "reference"
        if kind != "meta" and not torch.compiler.is_compiling():
            _warn_of_reference(kind)
        return "reference"
    if backend == "cpu" and kind != "cpu":
        raise BadValue(f"backend: 'cpu' needs tensors on the CPU, got {device}; expected 'auto' or 'reference'")
    if backend == "triton":
        if not HAS_TRITON:
            raise ImportError(f"backend: 'triton' needs the package triton: {install_hint('gpu')}")
        interpreted = os.environ.get("TRITON_INTERPRET", "0") == "1"
        if kind != "cuda" and not (kind == "cpu" and interpreted):
            raise BadValue(
                f"backend: 'triton' needs tensors on a GPU (cuda), got {device}; expected 'auto', 'reference' or 'cpu'"
            )
    return backend


def _kernels_work(device: torch.device) -> bool:
    from unicornn._self_test import kernels_work  # needs the layer

    return kernels_work(device)


_kernels_work._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compile calls it, without tracing


@cache
def _warn_of_reference(kind: str) -> None:
    hint = f"; {install_hint('gpu')} installs the kernels" if kind == "cuda" else ""
    warnings.warn(
        f"unicornn: there are no kernels for {kind!r}; using the reference, a plain torch loop, "
        f"slow and with memory that grows with the length{hint}",
        RuntimeWarning,
        stacklevel=2,
    )
