"""The recurrence of one layer over a chunk on the GPU: prepares torch tensors for the Triton kernels and launches them.

``store`` keeps x here, not tanh: the state walks back exactly, so nothing has to be replayed, and the kernel that walks
back is the adjoint too. With ``invert`` the same kernel walks first without the adjoint, bottom up, for its y.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.adjoint import fade
from unicornn._state import RANGE, UNIT
from unicornn.errors import BadValue

CHUNK = 1 << 22
"""Elements of a layer (K·b·m) in a chunk: 16 MiB in float32, so that it stays in the L2 cache of a large card."""

LONGEST = 4096
"""Steps in a chunk at most. A launch costs as much as some hundred steps."""

LARGEST = 2.0**9
"""Time steps (and these times α) must be below it in float32 layers: fixed point has 31 bits."""


@cache
def _kernels() -> ModuleType:
    from unicornn._ops.triton import kernels as gpu_kernels

    return gpu_kernels


def check_steps(dt: tuple[float, ...], alpha: float) -> None:
    """Of a float32 layer."""
    if max(dt) * max(1.0, alpha) >= LARGEST:
        raise BadValue(f"dt, alpha: expected dt · max(1, alpha) < {LARGEST:.0f} on a GPU, got {max(dt)} and {alpha}")


def launch_shape(E: int, device: torch.device) -> tuple[int, int]:
    """Elements and warps of a program: one warp until each multiprocessor has eight of them, then four.

    A thread has one element: the time loop is a chain of dependent operations, which only other warps can hide.
    """
    if device.type != "cuda":  # the interpreter, which likes long vectors
        return 128, 4
    card = torch.cuda.get_device_properties(device)
    threads = card.warp_size
    warps = 1 if 8 * threads * card.multi_processor_count > E else 4
    return threads * warps, warps


class Recurrence:
    """One layer: w, b (m,), a (m,) in float64, grid (2, b, m) int64. The interface is ``stack.Recurrence``'s."""

    CHUNK, LONGEST = CHUNK, LONGEST
    reads_z = False

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None:
        _, self.batch, self.m = grid.shape
        self.E, self.dtype, self.device = self.batch * self.m, w.dtype, w.device
        self.S = grid.clone(memory_format=torch.contiguous_format)
        self.end = self.S
        self.bad = torch.zeros(self.E, dtype=torch.int32, device=w.device)
        self.constants = w.contiguous(), b.contiguous(), a.contiguous(), alpha * a
        block, warps = launch_shape(self.E, w.device)
        unit = UNIT[w.dtype]
        self.programs = (-(-self.E // block),)
        self.options: dict[str, Any] = {
            "B": block, "UNIT": unit, "EDGE": round(RANGE / unit) >> 32, "DOUBLE": w.dtype == torch.float64,
            "num_warps": warps, "enable_fp_fusion": False,
        }  # fmt: skip

    @staticmethod
    def product(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None:
        if add:
            x.addmm_(y, V.t())
        else:
            torch.mm(y, V.t(), out=x)

    @staticmethod
    def product_of_step(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None:
        Recurrence.product(y, V, x, add)

    @staticmethod
    def running(lengths: Tensor | None, b: int, n0: int, n1: int) -> Tensor | None:
        """How many steps of the chunk are within each sequence, (b,), or None: all."""
        return None if lengths is None else (lengths.clamp(n0, n1) - n0).to(torch.int32)

    @staticmethod
    def mark_shape(b: int, m: int) -> tuple[int, ...]:
        return (0,)

    def mark(self, to: Tensor) -> None:
        """Nothing: the state walks back."""

    recall = mark

    @property
    def state(self) -> Tensor:
        return self.S

    @property
    def out_of_range(self) -> int:
        return int(self.bad.sum())

    def _launch(self, name: str, K: int, active: Tensor | None, *args: Any, **options: Any) -> None:
        kernel = getattr(_kernels(), name)
        tensors, tail = args[:-1], args[-1]
        ends = self.bad if active is None else active
        options = self.options | options | {"RAGGED": active is not None}
        with torch.cuda.device_of(self.S):  # its current stream is where triton launches
            kernel[self.programs](*tensors, *self.constants, ends, self.bad, *tail, K, self.E, self.m, **options)

    def advance(self, x: Tensor, y: Tensor, active: Tensor | None) -> None:
        self._launch("advance", len(x), active, x, y, self.S, ())

    def retreat(self, x: Tensor, y: Tensor, z: Tensor, active: Tensor | None) -> None:
        self.end, self.S = self.S, torch.empty_like(self.S)
        unused = x, self.bad, self.bad, self.bad
        self._launch("retreat", len(x), active, x, y, self.end, self.S, unused, SHOW=True, ADJOINT=False, FADE=False)

    def start_adjoint(self, gy: Tensor, gz: Tensor, horizon: float | None) -> None:
        self.fading = horizon is not None
        share = 0.0 if horizon is None else fade(horizon)
        self.fade = torch.full((1,), share, dtype=self.dtype, device=self.device)  # Triton's numbers are float32
        self.δ = torch.stack([gy, gz]).to(self.dtype)
        self.T = torch.zeros(3, self.batch, self.m, dtype=torch.float64, device=self.device)

    def adjoint(self, x: Tensor, y: Tensor, z: Tensor, g: Tensor, active: Tensor | None) -> None:
        """After a retreat over the same chunk, from whose end it starts."""
        self._pull_back(x, y, g, self.end, active, SHOW=False)

    def replay_adjoint(self, x: Tensor, y: Tensor, z: Tensor, g: Tensor, active: Tensor | None) -> None:
        self._pull_back(x, y, g, self.S, active, SHOW=True)

    def _pull_back(self, x: Tensor, y: Tensor, g: Tensor, end: Tensor, active: Tensor | None, SHOW: bool) -> None:
        options = {"SHOW": SHOW, "ADJOINT": True, "FADE": self.fading}
        self._launch("retreat", len(x), active, x, y, end, self.S, (g, self.δ, self.T, self.fade), **options)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        gw, gb, ga = self.T.sum(1)
        return gw.to(self.dtype), gb.to(self.dtype), ga, self.δ[0], self.δ[1]
