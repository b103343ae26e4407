"""The recurrence of one layer over a chunk in plain torch, with Appendix B's adjoint derived by hand.

The middle rung of the ladder: checked against the reference under autograd, and the standard for the kernels. It has
the kernels' interface (see ``stack.Recurrence``) and their grid, and runs wherever torch has float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._state import GONE, RANGE, UNIT


def fade(horizon: float) -> float:
    """1 - e^(-1/H): the share of the adjoint that each step takes away. Unlike e^(-1/H) exact in float32.

    Example:
        >>> fade(1000.0)
        0.0009995001666250085
    """
    return -math.expm1(-1 / horizon)


class Recurrence:
    """One layer: w, b (m,), a (m,) in float64, grid (2, b, m) int64."""

    CHUNK, LONGEST, reads_z = 1 << 19, 1024, True

    @staticmethod
    def running(lengths: Tensor | None, b: int, n0: int, n1: int) -> np.ndarray[Any, Any]:
        """How many sequences, sorted by falling length, run at each step from n0 to n1."""
        if lengths is None:
            return np.full(n1 - n0, b)
        return (lengths.cpu() > torch.arange(n0, n1)[:, None]).sum(1).numpy()

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None:
        self.w, self.b, self.a, self.alpha, self.unit = w, b, a, alpha, UNIT[w.dtype]
        self.state = grid.to(torch.float64 if w.dtype == torch.float32 else torch.int64, copy=True)
        self.out_of_range = 0

    @staticmethod
    def product(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None:
        """x (rows, m) ← y (rows, n) Vᵀ, or this added to x."""
        x.copy_(y @ V.t() + x if add else y @ V.t())

    @staticmethod
    def product_of_step(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None:
        Recurrence.product(y, V, x, add)

    @staticmethod
    def mark_shape(b: int, m: int) -> tuple[int, ...]:
        return 2, b, m

    def mark(self, to: Tensor) -> None:
        to.copy_(self.state)

    def recall(self, mark: Tensor) -> None:
        self.state.copy_(mark)

    def _real(self, units: Tensor) -> Tensor:
        real = units.to(self.w.dtype) * self.unit
        return real.masked_fill(units == GONE, math.nan) if units.dtype == torch.int64 else real

    def _activated(self, y: Tensor, x: Tensor) -> Tensor:
        """tanh(w y + x + b); no number where the drive is infinite."""
        v = self.w * y + (x + self.b)
        return torch.tanh(v + (v - v))

    def _kick(self, t: Tensor, Y: Tensor) -> Tensor:
        """a (t + α y), rounded to the grid."""
        force = t.double() + self.alpha * (Y.double() * self.unit)
        return self._whole(self.a / self.unit * force)

    def _drift(self, Z: Tensor) -> Tensor:
        """a z, rounded to the grid."""
        return self._whole(self.a * Z.double())

    def _whole(self, v: Tensor) -> Tensor:
        """Rounded; as an integer, what is none or is beyond the range takes the state out of it (see ``_check``)."""
        v = v.round()
        if self.state.dtype == torch.int64:
            v = torch.where(v.abs() < RANGE / self.unit, v, GONE)
        return v.to(self.state.dtype)

    def _check(self) -> None:
        lost = ~(self.state.double().abs().sum(0) * self.unit < RANGE)
        self.out_of_range += int(lost.sum())
        if self.state.dtype == torch.int64:
            self.state.masked_fill_(lost, GONE)

    def advance(self, x: Tensor, y: Tensor, active: np.ndarray[Any, Any]) -> None:
        """Forwards: x (K, b, m) becomes t = tanh(w y + x + b); y (K, b, m) is written, zero in the padding."""
        Y, Z = self.state
        for n, k in enumerate(active):
            before = self._real(Y[:k])
            x[n, :k] = self._activated(before, x[n, :k])
            Z[:k] -= self._kick(x[n, :k], Y[:k])
            Y[:k] += self._drift(Z[:k])
            self._check()
            y[n, :k], y[n, k:] = self._real(Y[:k]), 0

    def replay(self, t: Tensor, y: Tensor, z: Tensor, active: np.ndarray[Any, Any]) -> None:
        """Forwards again from stored t (K, b, m): y (K + 1, b, m) from the state before the chunk on, z (K, b, m)."""
        Y, Z = self.state
        y[0] = self._real(Y)
        for n, k in enumerate(active):
            Z[:k] -= self._kick(t[n, :k], Y[:k])
            Y[:k] += self._drift(Z[:k])
            self._check()
            y[n + 1, :k], y[n + 1, k:], z[n, :k] = self._real(Y[:k]), 0, self._real(Z[:k])

    def retreat(self, x: Tensor, y: Tensor, z: Tensor, active: np.ndarray[Any, Any]) -> None:
        """Backwards, Eq. (7): x (K, b, m) becomes t; y and z as in the replay."""
        Y, Z = self.state
        running = 0
        for n, k in reversed(list(enumerate(active))):
            y[n + 1, running:k], y[n + 1, k:] = self._real(Y[running:k]), 0  # sequences that end here; padding
            running = k
            z[n, :k] = self._real(Z[:k])
            Y[:k] -= self._drift(Z[:k])
            y[n, :k] = self._real(Y[:k])
            x[n, :k] = self._activated(y[n, :k], x[n, :k])
            Z[:k] += self._kick(x[n, :k], Y[:k])
            self._check()

    def start_adjoint(self, gy: Tensor, gz: Tensor, horizon: float | None) -> None:
        """From the gradients of the final y and z, (b, m)."""
        self.fade = 0.0 if horizon is None else fade(horizon)
        self.δy, self.δz = gy.double(), gz.double()
        self.gw, self.gb, self.ga = (torch.zeros_like(self.δy) for _ in range(3))

    def adjoint(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor, active: np.ndarray[Any, Any]) -> None:
        """Suppl. Eq. (3), Suppl. Eq. (5): g (K, b, m) comes as ∂E/∂y and leaves as ∂E/∂x, zero in the padding."""
        w, a, α = self.w.double(), self.a, self.alpha
        for n, k in reversed(list(enumerate(active))):
            δy, δz, t_n, y_n, z_n = self.δy[:k], self.δz[:k], t[n, :k].double(), y[n, :k].double(), z[n, :k].double()
            δy += g[n, :k]
            δz += a * δy
            gx = -a * δz * (1 - t_n**2)
            self.ga[:k] += δy * z_n - δz * (t_n + α * y_n)
            self.gw[:k] += gx * y_n
            self.gb[:k] += gx
            δy += gx * w - α * a * δz
            δy -= self.fade * δy
            δz -= self.fade * δz
            g[n, :k], g[n, k:] = gx, 0

    def replay_adjoint(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor, active: np.ndarray[Any, Any]) -> None:
        """The replay, and then the adjoint."""
        self.replay(t, y, z, active)
        self.adjoint(t, y, z, g, active)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gradients of w, b, a (m,) and of the initial y, z (b, m)."""
        dtype = self.w.dtype
        gw, gb, ga = self.gw.sum(0), self.gb.sum(0), self.ga.sum(0)
        return gw.to(dtype), gb.to(dtype), ga, self.δy.to(dtype), self.δz.to(dtype)
