"""The recurrence of one layer over a chunk on the CPU: packs torch tensors for the Numba kernels and calls them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._ops import adjoint, launch
from unicornn._ops.block import B
from unicornn._state import RANGE, UNIT


def _kernel(name: str) -> Any:
    return launch.kernel("unicornn._ops.cpu_kernels", name)


@cache
def _constants(dtype: torch.dtype, alpha: float) -> tuple[Any, Any, Any]:
    """The grid's unit, α per unit and the limit of the range in units, in the kernels' types."""
    unit = UNIT[dtype]
    number = np.float32 if dtype == torch.float32 else np.float64
    return number(unit), np.float64(alpha * unit), np.float64(RANGE / unit)


class Recurrence:
    """One layer: w, b (m,), a (m,) in float64, grid (2, b, m) int64. The interface is ``stack.Recurrence``'s."""

    CHUNK = 1 << 19  # small enough for the cache, large enough for the matrix product
    LONGEST = 1024  # short sequences should need no less memory than long ones
    reads_z = True

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None:
        _, self.batch, self.m = grid.shape
        self.E = self.batch * self.m
        self.blocks = -(-self.E // B)
        self.dtype, self.alpha = w.dtype, alpha
        self.constants = _constants(w.dtype, alpha)
        self.w, self.a = self._tile(w), self._tile(a)
        self.P = torch.stack([self.w, self._tile(b), torch.zeros_like(self.w)], 1)
        self.A = torch.stack([self.a, self.a / UNIT[w.dtype]], 1)
        state = torch.float64 if w.dtype == torch.float32 else torch.int64
        self.S = torch.stack([self._blocks(grid[0].to(state)), self._blocks(grid[1].to(state))], 1)
        self._P, self._A, self._S = self._flat(self.P), self._flat(self.A), self._flat(self.S)
        self.out_of_range = 0

    def _blocks(self, v: Tensor) -> Tensor:
        """(b, m) as (blocks, B), zero at the end."""
        flat = v.reshape(-1)
        return torch.nn.functional.pad(flat, (0, self.blocks * B - self.E)).view(self.blocks, B)

    def _tile(self, v: Tensor) -> Tensor:
        return self._blocks(v.expand(self.batch, self.m))

    def _unblock(self, v: Tensor) -> Tensor:
        """(blocks, B) as (b, m)."""
        return v.reshape(-1)[: self.E].reshape(self.batch, self.m)

    def _flat(self, v: Tensor) -> np.ndarray[Any, Any]:
        return v.view(self.blocks, -1).numpy()

    def _rows(self, v: Tensor) -> np.ndarray[Any, Any]:
        return v.view(-1, self.E).numpy()

    @staticmethod
    def product(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None:
        if add:
            x.addmm_(y, V.t())
        else:
            torch.mm(y, V.t(), out=x)

    @staticmethod
    def product_of_step(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None:
        kernel = launch.kernel("unicornn._ops.step_kernels", "product")
        launch.call(kernel, y.dtype, y.numpy(), V.numpy(), x.numpy(), add)

    @staticmethod
    def running(lengths: Tensor | None, b: int, n0: int, n1: int) -> np.ndarray[Any, Any]:
        return adjoint.Recurrence.running(lengths, b, n0, n1)

    @staticmethod
    def mark_shape(b: int, m: int) -> tuple[int, ...]:
        return -(-b * m // B), 2, B

    def mark(self, to: Tensor) -> None:
        to.copy_(self.S)

    def recall(self, mark: Tensor) -> None:
        self.S.copy_(mark)

    @property
    def state(self) -> Tensor:
        return torch.stack([self._unblock(self.S[:, 0]), self._unblock(self.S[:, 1])])

    def _run(self, name: str, active: np.ndarray[Any, Any], rows: tuple[Tensor, ...], *args: Any) -> int:
        rest = *map(self._rows, rows), *args, active * self.m
        return launch.share_out(_kernel(name), self.dtype, self.blocks, launch.threads(self.blocks), *rest)

    def advance(self, x: Tensor, y: Tensor, active: np.ndarray[Any, Any]) -> None:
        self.out_of_range += self._run("advance", active, (x, y), self._S, self._A, self._P, *self.constants)

    def retreat(self, x: Tensor, y: Tensor, z: Tensor, active: np.ndarray[Any, Any]) -> None:
        self.out_of_range += self._run("retreat", active, (x, y, z), self._S, self._A, self._P, *self.constants)

    def start_adjoint(self, gy: Tensor, gz: Tensor, horizon: float | None) -> None:
        zero, a = torch.zeros_like(self.w), self.a.to(self.dtype)
        rest = (self.a - a).to(self.dtype)
        self.D = torch.stack([self.w, a, rest, self._blocks(gy), self._blocks(gz), zero, zero, zero], 1)
        self.T = torch.zeros(self.blocks, 3, B, dtype=torch.float64)
        self._D, self._T = self._flat(self.D), self._flat(self.T)
        number = type(self.constants[0])
        fade = None if horizon is None else number(adjoint.fade(horizon))  # of None, Numba makes a kernel of its own
        self.split = number(self.alpha), number(self.alpha - float(number(self.alpha))), fade

    def adjoint(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor, active: np.ndarray[Any, Any]) -> None:
        self._run("adjoint", active, (t, y, z, g), self._D, self._T, *self.split)

    def replay_adjoint(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor, active: np.ndarray[Any, Any]) -> None:
        state = self._S, self._A, self._D, self._T
        self._run("replay_adjoint", active, (t, y, z, g), *state, *self.constants, *self.split)

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        # NumPy adds up the batch in one thread, in one order.
        gw, gb, ga = (torch.from_numpy(self._unblock(self.T[:, k]).numpy().sum(0)) for k in range(3))
        return gw.to(self.dtype), gb.to(self.dtype), ga, self._unblock(self.D[:, 3]), self._unblock(self.D[:, 4])
