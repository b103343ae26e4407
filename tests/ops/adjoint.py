"""The recurrence of one layer over a chunk in plain PyTorch, on the grid, with Appendix B's adjoint derived by hand.

The middle level of the tests: checked against autograd on the reference, and the standard for the kernels. It has the
interface of ``triton.recurrence.Recurrence`` and runs wherever PyTorch has float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._ops.reference import fade_rate, kick
from unicornn._ops.schedule import Limits
from unicornn._state import GONE, RANGE, UNIT

Active = np.ndarray[Any, Any]


class Recurrence:
    """One layer: w, b (m,), a (m,) in float64, grid (2, b, m) int64. See ``triton.recurrence``."""

    limits = Limits(elements=1 << 19, steps=1024, multiple=16)

    @staticmethod
    def running(lengths: Tensor | None, b: int, n0: int, n1: int) -> Active:
        """Number of sequences, sorted by falling length, that run at each step from n0 to n1."""
        if lengths is None:
            return np.full(n1 - n0, b)
        return (lengths.cpu() > torch.arange(n0, n1)[:, None]).sum(1).numpy()

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None:
        self.w, self.b, self.a, self.alpha, self.unit = w, b, a, alpha, UNIT[w.dtype]
        self.state = grid.to(torch.float64 if w.dtype == torch.float32 else torch.int64, copy=True)
        self.end = self.state
        self.out_of_range = 0

    def _real(self, units: Tensor) -> Tensor:
        real = units.to(self.w.dtype) * self.unit
        return real.masked_fill(units == GONE, math.nan) if units.dtype == torch.int64 else real

    def _activated(self, y: Tensor, x: Tensor) -> Tensor:
        """tanh(w y + x + b); NaN where the drive is infinite."""
        v = self.w * y + (x + self.b)
        return torch.tanh(v + (v - v))

    def _kick(self, t: Tensor, Y: Tensor) -> Tensor:
        """a (t + α y) in grid units. The unit is a power of two, so dividing by it is exact."""
        return self._rounded(kick(t.double() / self.unit, Y.double(), self.a, self.alpha))

    def _drift(self, Z: Tensor) -> Tensor:
        """a z in grid units."""
        return self._rounded(self.a * Z.double())

    def _rounded(self, v: Tensor) -> Tensor:
        """To the nearest integer. In int64, NaN and out-of-range values become a sentinel (see ``_check``)."""
        v = v.round()
        if self.state.dtype == torch.int64:
            v = torch.where(v.abs() < RANGE / self.unit, v, GONE)
        return v.to(self.state.dtype)

    def _check(self) -> None:
        lost = ~(self.state.double().abs().sum(0) * self.unit < RANGE)
        self.out_of_range += int(lost.sum())
        if self.state.dtype == torch.int64:
            self.state.masked_fill_(lost, GONE)

    def advance(self, x: Tensor, y: Tensor, active: Active) -> None:
        Y, Z = self.state
        for n, k in enumerate(active):
            Z[:k] -= self._kick(self._activated(self._real(Y[:k]), x[n, :k]), Y[:k])
            Y[:k] += self._drift(Z[:k])
            self._check()
            y[n, :k], y[n, k:] = self._real(Y[:k]), 0

    def retreat(self, x: Tensor, y: Tensor, active: Active) -> None:
        self.end = self.state.clone()
        self._walk_back(x, y, active)

    def adjoint(self, x: Tensor, y: Tensor, g: Tensor, active: Active, recovered: bool) -> None:
        if recovered:
            self.state.copy_(self.end)
        self._walk_back(x, y, active, g)

    def _walk_back(self, x: Tensor, y: Tensor, active: Active, g: Tensor | None = None) -> None:
        """Eq. (7) over a chunk; with g also Suppl. Eq. (3) and Suppl. Eq. (5)."""
        Y, Z = self.state
        last = active[-1]
        y[len(active), :last], y[len(active), last:] = self._real(Y[:last]), 0
        for n, k in reversed(list(enumerate(active))):
            z_n = self._real(Z[:k])
            Y[:k] -= self._drift(Z[:k])
            y_n = self._real(Y[:k])
            t_n = self._activated(y_n, x[n, :k])
            Z[:k] += self._kick(t_n, Y[:k])
            self._check()
            shown = active[max(n - 1, 0)]  # including sequences that end with the step before
            y[n, :shown], y[n, shown:] = self._real(Y[:shown]), 0
            if g is not None:
                g[n, :k], g[n, k:] = self._pull_back(t_n.double(), y_n.double(), z_n.double(), g[n, :k]), 0

    def start_adjoint(self, gy: Tensor, gz: Tensor, horizon: float | None) -> None:
        self.fade = 0.0 if horizon is None else fade_rate(horizon)
        self.δy, self.δz = gy.double(), gz.double()
        self.gw, self.gb, self.ga = (torch.zeros_like(self.δy) for _ in range(3))

    def _pull_back(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor) -> Tensor:
        """∂E/∂x of a step from ∂E/∂y; y before the step, t in it and z after it, of the k running sequences."""
        w, a, α, k = self.w.double(), self.a, self.alpha, len(t)
        δy, δz = self.δy[:k], self.δz[:k]
        δy += g
        δz += a * δy
        gx = -a * δz * (1 - t**2)
        self.ga[:k] += δy * z - δz * (t + α * y)
        self.gw[:k] += gx * y
        self.gb[:k] += gx
        δy += gx * w - α * a * δz
        δy -= self.fade * δy
        δz -= self.fade * δz
        return gx

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        dtype = self.w.dtype
        gw, gb, ga = self.gw.sum(0), self.gb.sum(0), self.ga.sum(0)
        return gw.to(dtype), gb.to(dtype), ga, self.δy.to(dtype), self.δz.to(dtype)
