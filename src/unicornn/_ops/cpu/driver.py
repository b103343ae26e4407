"""All layers over a batch on the CPU: packs tensors for the Numba kernels and distributes groups of sequences.

A batch is divided into groups of sequences, from the sizes alone. Each group runs through the whole pass in one thread
and one kernel call, with its own memory. The number of threads therefore changes no bit of any result; the number of
groups changes only the order in which the gradients of the parameters are summed.

``_ops.triton.driver`` could call the same Numba kernels once per layer and chunk. A prototype of that, with products by
torch and the best of five chunk sizes, took 2.1 times as long as this driver for N=1000, b=d=m=128 and 1.9 times as
long for N=17984, b=8, d=6, m=32 (training step of two layers, reversible, one thread). Hence two drivers, which share
``schedule``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._ops.cpu import launch
from unicornn._ops.cpu.memory import blocked, empty, reused, unblocked, zeros
from unicornn._ops.cpu.sizes import PANEL, B, blocks
from unicornn._ops.problem import Gradients, Problem
from unicornn._ops.reference import fade_rate
from unicornn._ops.schedule import Array, Limits, Schedule
from unicornn._state import RANGE, UNIT

LIMITS = Limits(elements=1 << 15, steps=512)
"""A chunk of 128 KiB in float32: the working set of a thread stays in its L2 cache. The limit on steps keeps the memory
for short sequences below that for long ones."""

GROUP_WORK = 1 << 18
"""Elements over all steps and layers in a group, at least: half a millisecond of work."""

MAX_GROUPS = 16


@cache
def grid_constants(dtype: torch.dtype, alpha: float) -> Any:
    """Unit of the grid, α per unit and the limit of the range in units, in the kernels' types."""
    unit = UNIT[dtype]
    constants = launch.kernel("unicornn._ops.cpu.recurrence", "Constants")
    return constants(number_type(dtype)(unit), np.float64(alpha * unit), np.float64(RANGE / unit))


def number_type(dtype: torch.dtype) -> Any:
    return np.float32 if dtype == torch.float32 else np.float64


def state_type(dtype: torch.dtype) -> Any:
    """NumPy type in which the kernels keep the grid units of a layer of this dtype."""
    return np.float64 if dtype == torch.float32 else np.int64


def groups(N: int, b: int, m: int, L: int) -> list[slice]:
    """Sequences of each group. A step is a long chain of operations, so a group has at least one block."""
    count = max(1, min(b, b * m // B, N * b * m * L // GROUP_WORK, MAX_GROUPS))
    return [slice(g * b // count, (g + 1) * b // count) for g in range(count)]


def _saved_sizes(N: int, b: int, m: int, L: int) -> tuple[int, int]:
    """Numbers that a group of b sequences stores: t of every step and layer, and the states at the ends of chunks."""
    return L * N * b * m, -(-N // LIMITS.chunk_length(N, b, m)) * L * blocks(b * m) * 2 * B


def _array(t: Tensor) -> Array:
    return t.detach().resolve_neg().numpy()


def _span(t: Tensor) -> Array:
    """Memory of a tensor from its first number to its last, flat."""
    last = sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True))
    return t.as_strided((last + 1 if t.numel() else 0,), (1,)).numpy()


def _joined(parts: Sequence[Array]) -> Tensor:
    """States (2, L, ·, m) of the groups as one tensor."""
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(parts, 2)))


def _packed_sizes(p: Problem) -> list[tuple[int, int, int]]:
    """Numbers in each of V and Λ: packed, transposed and packed, as they are."""
    m, wide = p.w.shape[1], PANEL // p.u.element_size()
    columns = [V.shape[1] for V in (*p.V, *p.Lambda)]
    return [(n * (-(-m // wide) * wide), -(-n // wide) * wide * m, n * m) for n in columns]


class _Scratch(threading.local):
    """Memory that a thread reuses from group to group: it is in its cache, and its pages exist."""

    def __init__(self, like: Tensor) -> None:
        self.like, self.arrays = like, dict[str, Array]()

    def get(self, name: str, size: int) -> Array:
        if name not in self.arrays or self.arrays[name].size < size:
            self.arrays[name] = empty(self.like, size).numpy()
        return self.arrays[name][:size]


class Stack:
    """L layers over the sequences of a ``Problem``, forwards from its state or back to it. See ``triton.driver``."""

    def __init__(self, p: Problem, saved: Sequence[Tensor] = ()) -> None:
        self.p, self.u, self.dtype = p, p.u.detach().resolve_neg(), number_type(p.u.dtype)
        (self.N, self.b, self.d), (self.L, self.m) = p.u.shape, p.w.shape
        self.stored = [t.numpy() for t in saved[:2]] if p.keep == "stored" else None
        self.packed = saved[2].numpy() if saved else None
        self.matrices = [*p.V, *p.Lambda]
        self.sizes = np.array(_packed_sizes(p)).T
        self.at = np.ascontiguousarray(self.sizes.cumsum(1) - self.sizes)
        self.w, self.bias, self.a = (_array(t)[:, None, :] for t in (p.w, p.b, p.a))
        self.mask = None if p.mask is None else _array(p.mask)
        self.groups: list[_Group] = []
        self.scratch = _Scratch(self.u)

    @staticmethod
    def saved_shapes(p: Problem) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Shapes and dtypes of the tensors that the backward pass needs: activations, states at the ends of chunks,
        packed matrices."""
        (N, b, _), (L, m) = p.u.shape, p.w.shape
        t = states = packed = 0
        if p.keep == "stored":
            sizes = [_saved_sizes(N, part.stop - part.start, m, L) for part in groups(N, b, m, L)]
            t, states = (sum(size) for size in zip(*sizes, strict=True))
        if p.keep != "nothing":
            packed = sum(up + down for up, down, _ in _packed_sizes(p))
        state = torch.float64 if p.w.dtype == torch.float32 else torch.int64
        return [((t,), p.u.dtype), ((states,), state), ((packed,), p.u.dtype)]

    def _pack(self, backward: bool) -> None:
        """Packs V and Λ for products on the way up and, transposed, on the way down.

        The backward pass uses the arrays of the forward pass, if they were saved.
        """
        up, down = self.sizes[:2].sum(1)
        saved = self.packed is not None and self.packed.size > 0
        memory: Any = self.packed if saved else zeros(up + down if backward else up, dtype=self.dtype)
        self.up, self.down = memory[:up], memory[up:]
        if saved and backward:
            return
        pack = launch.kernel("unicornn._ops.cpu.products", "pack")
        for i, V in enumerate(map(_array, self.matrices)):
            launch.call(pack, self.u.dtype, V.reshape(-1), self.up[self.at[0, i] :], *V.shape)
            if self.down.size:
                launch.call(pack, self.u.dtype, V.T.reshape(-1), self.down[self.at[1, i] :], *V.T.shape)

    def _run(self, job: Callable[[_Group], Any]) -> list[Any]:
        """Results of the job for every group, each group in one thread."""
        t = states = 0
        jobs: list[Callable[[], tuple[_Group, Any]]] = []
        for part in groups(self.N, self.b, self.m, self.L):
            sizes = _saved_sizes(self.N, part.stop - part.start, self.m, self.L)
            stored = None
            if self.stored is not None:
                stored = self.stored[0][t : t + sizes[0]], self.stored[1][states : states + sizes[1]]
            t, states = t + sizes[0], states + sizes[1]
            jobs.append(partial(self._run_group, job, part, stored))
        done = launch.together(jobs)
        self.groups = [group for group, _ in done]
        return [result for _, result in done]

    def _run_group(self, job: Callable[[_Group], Any], part: slice, stored: Any) -> tuple[_Group, Any]:
        group = _Group(self, part, stored)
        return group, job(group)

    @property
    def state(self) -> Tensor:
        """(2, L, b, m) in grid units; NaN in float64 where it left the range."""
        state = _joined([group.state for group in self.groups])
        if state.is_floating_point() and self.out_of_range:
            state.masked_fill_(~(state.abs().sum(0) < RANGE / UNIT[self.p.w.dtype]), math.nan)
        return state

    @property
    def end(self) -> int:
        """Length of the longest sequence."""
        return max(group.schedule.end for group in self.groups)

    @property
    def out_of_range(self) -> list[int]:
        """Layers, counted from 1, whose state left the range of the grid."""
        return [l + 1 for l in range(self.L) if any(group.out_of_range[l] for group in self.groups)]

    def forward(self) -> Tensor:
        """Carries the state through the sequences; returns the output of every step or of the selected ones."""
        self._pack(backward=False)
        output = reused(self.u, self.p.output_rows, self.b, self.m)
        self._run(lambda group: group.forward(output))
        if self.p.every:
            for group in self.groups:
                output[group.schedule.end :, group.part] = 0
        return output

    def inverse(self) -> None:
        """Carries the state back to the start of the sequences."""
        self._pack(backward=False)
        self._run(lambda group: group.inverse())

    def backward(self, g_output: Tensor | None, g_state: Tensor, need_u: bool) -> Gradients:
        """Gradients from those of the output, if any, and of the final state (2, L, b, m)."""
        self._pack(backward=True)
        p, gu = self.p, empty(self.u, self.N if need_u else 0, self.b, self.d)
        g_output = None if g_output is None else g_output.detach().resolve_neg()
        incoming = g_output, _array(g_state), gu if need_u else None
        found = self._run(lambda group: group.backward(*incoming))
        for group in self.groups if need_u else ():
            gu[group.schedule.end :, group.part] = 0
        g_start = _joined([g for g, *_ in found])
        sums, flat = (torch.from_numpy(reduce(np.add, terms)) for terms in list(zip(*found, strict=True))[1:])
        gw, gb, ga = sums
        parts = flat.split([V.numel() for V in self.matrices])
        gV = [part.view(V.shape[1], -1).T.contiguous() for part, V in zip(parts, self.matrices, strict=True)]
        full = p.w.dtype
        return Gradients(gu, g_start, gw.to(full), gV[: self.L], gb.to(full), ga, gV[self.L :])


class _Group:
    """Some sequences of a batch, with the memory for a pass over them. See ``passes`` for the bundles."""

    def __init__(self, stack: Stack, part: slice, stored: tuple[Array, Array] | None) -> None:
        p, self.part, self.u, self.scratch = stack.p, part, stack.u, stack.scratch
        self.schedule = schedule = Schedule.for_sequences(p, part, LIMITS)
        self.L, self.b, self.m = stack.L, len(schedule.order), stack.m
        self.w, self.a, self.horizon, self.alpha = stack.w, stack.a, p.horizon, p.alpha
        self.dtype, self.g_size = stack.dtype, int(stack.sizes[2].sum())
        state = _array(p.grid)[:, :, schedule.order]
        self.S = blocked([*state], state_type(p.w.dtype))
        A = blocked([np.broadcast_to(stack.a, state[0].shape), stack.a / UNIT[p.w.dtype]], np.float64)
        P = blocked([stack.w, stack.bias, np.zeros_like(state[0], self.dtype)], self.dtype)
        self.layers = _bundle("Layers")(self.S, A, P, grid_constants(p.w.dtype, p.alpha))
        self.sizes = _bundle("Sizes")(schedule.K, self.b, stack.d, self.m, self.L, p.S, schedule.end)
        mask = np.empty(0, self.dtype) if stack.mask is None else stack.mask[:, schedule.order].reshape(-1)
        self.net = _bundle("Network")(stack.up, stack.down, *stack.at, mask, stack.mask is not None)
        self.selection = _bundle("Selection")(schedule.steps, schedule.places, self.b, p.every)
        self.stored = stored
        self.out_of_range = np.zeros(self.L, np.int64)

    def _sequences(self, t: Tensor | None) -> Any:
        """A tensor (N, batch, ·) as the kernels see it."""
        data, strides = (np.empty(0, self.dtype), (0, 0, 0)) if t is None else (_span(t), t.stride())
        straight = bool(self.schedule.lengths[-1] == len(self.u))
        return _bundle("Sequences")(data, *strides, self.schedule.order, self.schedule.lengths, straight)

    def _buffers(self, x_layers: int, inverts: bool, g: bool = False, gu: bool = False) -> Any:
        """Scratch memory: x of some layers, the states after a chunk if it inverts, gradients of y and of u."""
        (K, b, d, m, L, _, _), masked = self.sizes, self.net.masked
        size = K * b * m
        return _bundle("Buffers")(
            x=self.scratch.get("x", size * x_layers),
            y=self.scratch.get("y", (K + 1) * b * m * L),
            out=self.scratch.get("out", size * L if masked else 0),
            rows=self.scratch.get("rows", K * b * d),
            g=self.scratch.get("g", size * L if g else 0),
            g_rows=self.scratch.get("g_rows", K * b * d if gu else 0),
            end=zeros(self.S.size if inverts else 0, dtype=self.S.dtype),
            out_of_range=self.out_of_range,
            activations=self.stored[0] if self.stored else np.empty(0, self.dtype),
            states=self.stored[1] if self.stored else np.empty(0, self.S.dtype),
            kept=self.stored is not None,
        )

    def _call(self, name: str, *args: Any) -> None:
        kernel = launch.kernel("unicornn._ops.cpu.passes", name)
        launch.call(kernel, self.u.dtype, self.sizes, self.net, self.layers, self._sequences(self.u), *args)

    def forward(self, output: Tensor) -> None:
        buffers = self._buffers(x_layers=1, inverts=False)
        self._call("forward", self._sequences(output), self.selection, buffers)
        if self.stored is not None:
            self.stored[0][self.L * self.schedule.end * self.b * self.m :] = 0

    def inverse(self) -> None:
        self._call("inverse", self._buffers(x_layers=self.L, inverts=True))

    def backward(self, g_output: Tensor | None, g_state: Array, gu: Tensor | None) -> tuple[Array, Array, Array]:
        """Gradients of the initial state (2, L, b, m), of w, b, a (3, L, m), and of the matrices, transposed, flat."""
        L, number, inverts = self.L, self.dtype, self.stored is None
        buffers = self._buffers(L if inverts else 0, inverts, g=True, gu=gu is not None)
        start = g_state[:, :, self.schedule.order].astype(number)
        high, zero = self.a.astype(number), np.zeros_like(start[0])
        D = blocked([self.w, high, (self.a - high).astype(number), *start, zero, zero, zero], number)
        T = zeros(L * blocks(self.b * self.m) * 3 * B, dtype=np.float64)
        fades = np.array([fade_rate(H) for H in self.horizon or ()] or [0.0] * L, number)
        alpha = number(self.alpha)
        g_matrices = zeros(self.g_size, dtype=number)
        adjoint = _bundle("Adjoint")(
            D, T, fades, alpha, number(self.alpha - float(alpha)), g_matrices, g_output is not None, gu is not None
        )
        incoming = self._sequences(g_output), self._sequences(gu)
        self._call("backward", *incoming, self.selection, adjoint, buffers)
        g_start = unblocked(D, L, self.b, self.m)[3:5]
        return g_start[:, :, self.schedule.unsorted], unblocked(T, L, self.b, self.m).sum(2), g_matrices

    @property
    def state(self) -> Array:
        return unblocked(self.S, self.L, self.b, self.m)[:, :, self.schedule.unsorted]


def _bundle(name: str) -> Any:
    return launch.kernel("unicornn._ops.cpu.passes", name)
