"""The recurrence of one layer over a chunk on the GPU: prepares tensors for the Triton kernels and launches them.

The kernel that inverts a chunk also computes the adjoint. With gradient="stored" it runs once per chunk, from the
stored x. With gradient="reversible" it first runs without the adjoint, bottom up, to recover y.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from unicornn._ops.reference import fade_rate
from unicornn._ops.schedule import Limits
from unicornn._state import RANGE, UNIT
from unicornn.errors import BadValue

LIMITS = Limits(elements=1 << 22, steps=4096, multiple=16)
"""A chunk of 16 MiB in float32 stays in the L2 cache of a large card. A launch costs as much as some hundred steps."""

LARGEST = 2.0**9
"""Upper limit of the time steps, and of these times α, in float32 layers: fixed point has 31 bits."""


@cache
def _kernels() -> ModuleType:
    from unicornn._ops.triton import kernels as gpu_kernels

    return gpu_kernels


def check_steps(dt: tuple[float, ...], alpha: float) -> None:
    """Checks dt and alpha of a float32 layer."""
    if max(dt) * max(1.0, alpha) >= LARGEST:
        raise BadValue(f"dt, alpha: expected dt · max(1, alpha) < {LARGEST:.0f} on a GPU, got {max(dt)} and {alpha}")


def launch_shape(E: int, device: torch.device) -> tuple[int, int]:
    """Elements and warps of a program: one warp until each multiprocessor has eight of them, then four.

    Each thread has one element. The time loop is a chain of dependent operations, whose latency only other warps hide.
    """
    if device.type != "cuda":  # the interpreter, which is faster with long vectors
        return 128, 4
    card = torch.cuda.get_device_properties(device)
    threads = card.warp_size
    warps = 1 if 8 * threads * card.multi_processor_count > E else 4
    return threads * warps, warps


class Recurrence:
    """One layer: w, b (m,), a (m,) in float64, grid (2, b, m) int64.

    Runs over chunks of K steps with x (K, b, m), the drive without bias, and y, the outputs, zero in the padding.
    ``active`` is what ``running`` returns. The tests run the driver with the same class in PyTorch.
    """

    limits = LIMITS

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None:
        _, self.batch, self.m = grid.shape
        self.E, self.dtype, self.device = self.batch * self.m, w.dtype, w.device
        self.S = grid.clone(memory_format=torch.contiguous_format)
        self.end = self.S
        self.bad = torch.zeros(self.E, dtype=torch.int32, device=w.device)
        self.constants = {"w": w.contiguous(), "b": b.contiguous(), "a": a.contiguous(), "κ": alpha * a}
        block, warps = launch_shape(self.E, w.device)
        unit = UNIT[w.dtype]
        self.programs = (-(-self.E // block),)
        self.options: dict[str, Any] = {
            "B": block, "UNIT": unit, "EDGE": round(RANGE / unit) >> 32, "DOUBLE": w.dtype == torch.float64,
            "num_warps": warps, "enable_fp_fusion": False,
        }  # fmt: skip

    @staticmethod
    def running(lengths: Tensor | None, b: int, n0: int, n1: int) -> Tensor | None:
        """Number of steps of the chunk within each sequence, (b,), or None if all sequences run through it."""
        return None if lengths is None else (lengths.clamp(n0, n1) - n0).to(torch.int32)

    @property
    def state(self) -> Tensor:
        """(2, b, m) in grid units."""
        return self.S

    @property
    def out_of_range(self) -> int:
        """Positive if the state left the range of the grid."""
        return int(self.bad.sum())

    def _launch(self, name: str, K: int, active: Tensor | None, **arguments: Any) -> None:
        """Launches a kernel with the arguments that all kernels take and these."""
        kernel = getattr(_kernels(), name)
        arguments |= self.constants | self.options | {"K": K, "E": self.E, "m": self.m, "bad": self.bad}
        arguments |= {"ends": self.bad if active is None else active, "RAGGED": active is not None}
        with torch.cuda.device_of(self.S):  # its current stream is where triton launches
            kernel[self.programs](**arguments)

    def advance(self, x: Tensor, y: Tensor, active: Tensor | None) -> None:
        """Forwards, Eq. (6): writes y (K, b, m)."""
        self._launch("advance", len(x), active, x=x, y=y, S=self.S)

    def retreat(self, x: Tensor, y: Tensor, active: Tensor | None) -> None:
        """Backwards, Eq. (7): writes y (K + 1, b, m), starting with the state before the chunk."""
        self.end, self.S = self.S, torch.empty_like(self.S)
        unused = dict.fromkeys(("δ", "T", "fade"), self.bad) | {"g": x}
        self._walk_back(x, y, active, self.end, SHOW=True, ADJOINT=False, FADE=False, **unused)

    def start_adjoint(self, gy: Tensor, gz: Tensor, horizon: float | None) -> None:
        """Sets the gradients of the final y and z, (b, m)."""
        self.fading = horizon is not None
        rate = 0.0 if horizon is None else fade_rate(horizon)
        self.fade = torch.full((1,), rate, dtype=self.dtype, device=self.device)  # Triton's scalars are float32
        self.δ = torch.stack([gy, gz]).to(self.dtype)
        self.T = torch.zeros(3, self.batch, self.m, dtype=torch.float64, device=self.device)

    def adjoint(self, x: Tensor, y: Tensor, g: Tensor, active: Tensor | None, recovered: bool) -> None:
        """Suppl. Eq. (3) and (5): g (K, b, m) changes from ∂E/∂y to ∂E/∂x. Writes y unless ``retreat`` has."""
        state, adjoint = self.end if recovered else self.S, {"g": g, "δ": self.δ, "T": self.T, "fade": self.fade}
        self._walk_back(x, y, active, state, SHOW=not recovered, ADJOINT=True, FADE=self.fading, **adjoint)

    def _walk_back(self, x: Tensor, y: Tensor, active: Tensor | None, state: Tensor, **arguments: Any) -> None:
        self._launch("retreat", len(x), active, x=x, y=y, S=state, before=self.S, **arguments)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gradients of w, b, a (m,) and of the initial y, z (b, m)."""
        gw, gb, ga = self.T.sum(1)
        return gw.to(self.dtype), gb.to(self.dtype), ga, self.δ[0], self.δ[1]
