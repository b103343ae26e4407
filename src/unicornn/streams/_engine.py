"""States in rows, and the kernel that carries them on: what a stream is made of, without its keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unicornn._layer import UnICORNN
from unicornn._ops.cpu import launch
from unicornn._ops.cpu.sizes import ROWS, B
from unicornn._ops.cpu.step import empty_packed
from unicornn._weights import time_steps

Array = np.ndarray[Any, Any]


def _kernel(module: str, name: str) -> Any:
    return launch.kernel(f"unicornn._ops.cpu.{module}", name)


class Engine:
    """The layers of a model, copied and packed, and rows of states.

    Args:
        rnn: of one direction.
        readouts: which of "last", "mean", "energy" and "state" are read off, in this order.
    """

    def __init__(self, rnn: UnICORNN, readouts: tuple[str, ...]) -> None:
        self.L, self.m, self.d = rnn.num_layers, rnn.hidden_size, rnn.input_size
        self.dtype = torch.float64 if rnn.w[0].dtype == torch.float64 else torch.float32
        self.number = np.float64 if self.dtype == torch.float64 else np.float32
        self.alpha, self.readouts = float(rnn.alpha), readouts
        sizes = {"last": self.m, "mean": self.m, "energy": self.L * self.m, "state": 2 * self.L * self.m}
        self.width = sum(sizes[name] for name in readouts)
        self._pack(rnn)
        self.blocks = -(-self.m // B)
        kind = np.int64 if self.dtype == torch.float64 else np.float64
        self.S: Array = np.zeros((0, self.L * self.blocks * 2 * B), kind)
        self.sums: Array = np.zeros((0, self.m if "mean" in readouts else 0))
        self.steps: Array = np.zeros(0, np.int64)

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

    def grow(self, rows: int) -> None:
        """Room for so many rows, or more."""
        have = len(self.steps)
        if rows > have:
            more = max(rows, 2 * have) - have
            self.S, self.sums, self.steps = (
                np.concatenate([t, np.zeros((more, *t.shape[1:]), t.dtype)]) for t in (self.S, self.sums, self.steps)
            )

    def reset(self, rows: Any) -> None:
        """Rows at rest."""
        self.S[rows], self.sums[rows], self.steps[rows] = 0, 0, 0

    def copy(self, rows: Any) -> tuple[Array, Array, Array]:
        return self.S[rows], self.sums[rows], self.steps[rows]

    def put(self, rows: Any, parts: tuple[Array, Array, Array]) -> None:
        self.S[rows], self.sums[rows], self.steps[rows] = parts

    def carry(
        self, slot: Array, u: Array, begin: Array, count: Array, asked: Array, commit: bool = True
    ) -> tuple[Array, Array]:
        """Rows ``slot`` on by the ``count`` samples from ``begin`` on of u (·, d).

        Returns the features, (rows, width), or with ``asked`` = 2 (len(u), width), and which rows are out of range and
        so were left as they were.
        """
        order = np.argsort(-count, kind="stable")
        each = bool(len(asked)) and int(asked.max()) == 2
        F = np.empty((len(u) if each else len(slot), self.width), self.number)
        bad = np.zeros(len(slot), np.int64)
        wanted = _kernel("stream_kernels", "Wanted")(
            *(name in self.readouts for name in ("last", "mean", "energy", "state")), commit, self.alpha
        )
        flat = np.ascontiguousarray(u).reshape(-1)
        samples = _kernel("stream_kernels", "Samples")(flat, begin[order], count[order], slot[order], asked[order])
        states = _kernel("stream_kernels", "States")(self.S, self.sums, self.steps)
        blocks = -(-len(slot) // ROWS)
        threads = min(torch.get_num_threads(), blocks // 2)
        carry = _kernel("stream_kernels", "carry")
        launch.share_out(carry, self.dtype, blocks, threads, self.net, samples, states, wanted, F, bad)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return (F if each else F[back]), bad[back] > 0

    def saved(self, rows: Any) -> dict[str, Array]:
        """For a file: Y and Z in grid units, int64, (rows, L, 2, m); the sums of the outputs; how many there were."""
        blocks = self.S[rows].reshape(-1, self.L, self.blocks, 2, B).transpose(0, 1, 3, 2, 4)
        grid = blocks.reshape(-1, self.L, 2, self.blocks * B)[..., : self.m].astype(np.int64)
        return {"grid": grid, "sums": self.sums[rows], "steps": self.steps[rows]}

    def restore(self, rows: Any, arrays: dict[str, Array]) -> None:
        grid = arrays["grid"]
        room = np.zeros((len(grid), self.L, 2, self.blocks * B), self.S.dtype)
        room[..., : self.m] = grid
        blocks = room.reshape(len(grid), self.L, 2, self.blocks, B).transpose(0, 1, 3, 2, 4)
        self.put(rows, (np.ascontiguousarray(blocks).reshape(len(grid), -1), arrays["sums"], arrays["steps"]))
