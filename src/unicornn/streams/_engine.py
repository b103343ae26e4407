"""Arrays with one row per sequence, and the kernel that advances rows of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._layer import UnICORNN
from unicornn._ops.cpu import launch
from unicornn._ops.cpu.sizes import ROWS, B
from unicornn._ops.cpu.step import empty_packed
from unicornn._weights import time_steps
from unicornn.readouts import Readout

Array = np.ndarray[Any, Any]


class Rows(dict[str, Array]):
    """Arrays by name, all with the same number of rows."""

    def grow(self, rows: int) -> None:
        """Enlarges the arrays to at least this number of rows."""
        have = len(next(iter(self.values())))
        if rows > have:
            for name, array in self.items():
                self[name] = np.zeros((max(rows, 2 * have, 16), *array.shape[1:]), array.dtype)
                self[name][:have] = array

    def reset(self, rows: Any) -> None:
        """Sets rows to zero: the state at rest, nothing counted."""
        for array in self.values():
            array[rows] = 0

    def taken(self, rows: Any) -> dict[str, Array]:
        """A copy of these rows."""
        return {name: array[rows].copy() for name, array in self.items()}

    def put(self, rows: Any, arrays: Mapping[str, Array]) -> None:
        for name, array in self.items():
            array[rows] = arrays[name]

    saved = taken
    restore = put


def _kernel(module: str, name: str) -> Any:
    return launch.kernel(f"unicornn._ops.cpu.{module}", name)


def product(F: Array, weight: Tensor) -> Array:
    """F (n, f) times weightᵀ (f, k), with the same bits for every number of rows n."""
    out = np.empty((len(F), len(weight)), F.dtype)
    kernel = _kernel("step_kernels", "product")
    launch.call(kernel, weight.dtype, np.ascontiguousarray(F), weight.detach().contiguous().numpy(), out, False)
    return out


class Engine(Rows):
    """A copy of a model's layers, packed for the kernel, and rows of states.

    S: states in grid units. sums: sums of the outputs, if their mean is read. steps: number of steps so far.

    Args:
        rnn: Recurrent layers of one direction.
        readout: Features that are computed, before they are standardised.
    """

    def __init__(self, rnn: UnICORNN, readout: Readout) -> None:
        self.L, self.m, self.d = rnn.num_layers, rnn.hidden_size, rnn.input_size
        self.dtype = torch.float64 if rnn.w[0].dtype == torch.float64 else torch.float32
        self.np_dtype = np.float64 if self.dtype == torch.float64 else np.float32
        self.alpha = float(rnn.alpha)
        self.read = [part.stream_name for part in readout.parts]
        self.width = readout.size(rnn)
        self._pack(rnn)
        self.blocks = -(-self.m // B)
        kind = np.int64 if self.dtype == torch.float64 else np.float64
        super().__init__(
            S=np.zeros((0, self.L * self.blocks * 2 * B), kind),
            sums=np.zeros((0, self.m if "mean" in self.read else 0)),
            steps=np.zeros(0, np.int64),
        )

    def _pack(self, rnn: UnICORNN) -> None:
        own = rnn.weights.map(lambda t: t.detach().to("cpu", self.dtype, copy=True).contiguous())
        at = np.zeros((self.L, 6), np.int64)
        for l in range(self.L):
            at[l, :4] = [letter[l].data_ptr() for letter in (own.w, own.b, own.c, own.V)]
            if l >= own.S:
                at[l, 4] = own.Lambda[l].data_ptr()  # type: ignore[index,union-attr]
        c, a = torch.stack(list(own.c)).numpy(), time_steps(own.c, rnn.dt, torch.float64).numpy()
        self.net = empty_packed(self.dtype, self.L, self.m, self.d, own.S, self.alpha)
        launch.call(_kernel("step_kernels", "pack_layers"), self.dtype, at, c, a, self.net)

    def carry(
        self, slot: Array, u: Array, begin: Array, count: Array, asked: Array, commit: bool = True
    ) -> tuple[Array, Array]:
        """Advances each row ``slot`` by ``count`` samples of u (·, d), starting at ``begin``.

        ``asked`` is 0 for no features, 1 for those after the last sample, and 2 for those after each sample. Without
        ``commit`` the rows keep their states.

        Returns the features, (rows, width), or (len(u), width) for asked = 2, and which rows left the range of states
        and therefore were not changed.
        """
        u = np.ascontiguousarray(u, self.np_dtype)
        order = np.argsort(-count, kind="stable")
        each = bool(len(asked)) and int(asked.max()) == 2
        F = np.empty((len(u) if each else len(slot), self.width), self.np_dtype)
        bad = np.zeros(len(slot), np.int64)
        wanted = _kernel("stream_kernels", "Wanted")(
            *(name in self.read for name in ("last", "mean", "energy", "state")), commit, self.alpha
        )
        flat = u.reshape(-1)
        samples = _kernel("stream_kernels", "Samples")(flat, begin[order], count[order], slot[order], asked[order])
        states = _kernel("stream_kernels", "States")(self["S"], self["sums"], self["steps"])
        blocks = -(-len(slot) // ROWS)
        threads = min(torch.get_num_threads(), blocks // 2)
        carry = _kernel("stream_kernels", "carry")
        launch.share_out(carry, self.dtype, blocks, threads, self.net, samples, states, wanted, F, bad)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return (F if each else F[back]), bad[back] > 0

    def withdraw(self, row: int, u: Array) -> None:
        """Takes back the last samples u (n, d) of a row, exactly. Sums of outputs cannot be taken back."""
        u = np.ascontiguousarray(u, self.np_dtype)
        launch.call(_kernel("stream_kernels", "withdraw"), self.dtype, self.net, u, self["S"][row])
        self["steps"][row] -= len(u)

    def saved(self, rows: Any) -> dict[str, Array]:
        """``grid``: y and z in grid units, int64, (rows, L, 2, m); ``sums`` and ``steps``."""
        blocks = self["S"][rows].reshape(-1, self.L, self.blocks, 2, B).transpose(0, 1, 3, 2, 4)
        grid = blocks.reshape(-1, self.L, 2, self.blocks * B)[..., : self.m].astype(np.int64)
        return {"grid": grid, "sums": self["sums"][rows], "steps": self["steps"][rows]}

    def restore(self, rows: Any, arrays: Mapping[str, Array]) -> None:
        grid = arrays["grid"]
        padded = np.zeros((len(grid), self.L, 2, self.blocks * B), self["S"].dtype)
        padded[..., : self.m] = grid
        blocks = padded.reshape(len(grid), self.L, 2, self.blocks, B).transpose(0, 1, 3, 2, 4)
        self.put(rows, {**arrays, "S": np.ascontiguousarray(blocks).reshape(len(grid), -1)})
