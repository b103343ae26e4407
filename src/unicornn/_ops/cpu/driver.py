"""All layers over a batch on the CPU: packs torch tensors for the Numba kernels, and shares groups of sequences out.

A batch is cut into groups of sequences, from the sizes alone, and each goes through the whole pass in one thread, with
memory of its own. So the number of threads changes no bit of any result; the number of groups changes only the order in
which the gradients of the parameters are added up.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._ops.adjoint import fade
from unicornn._ops.coefficients import Coefficients
from unicornn._ops.cpu import launch
from unicornn._ops.cpu.memory import empty, reused, zeros
from unicornn._ops.cpu.sizes import PANEL, B
from unicornn._state import RANGE, UNIT

CHUNK = 1 << 15
"""Elements of a layer in a chunk: 128 KiB in float32, so that what a thread works on stays in its L2 cache."""

LONGEST = 512
"""Steps in a chunk at most: short sequences should need no less memory than long ones."""

WORK = 1 << 18
"""Elements over all steps and layers that a group has at least: half a millisecond's work."""

MOST = 16
"""Groups of a batch at most."""

Array = np.ndarray[Any, Any]


@cache
def _constants(dtype: torch.dtype, alpha: float) -> tuple[Any, Any, Any]:
    """The grid's unit, α per unit and the limit of the range in units, in the kernels' types."""
    unit = UNIT[dtype]
    return _number(dtype)(unit), np.float64(alpha * unit), np.float64(RANGE / unit)


def _number(dtype: torch.dtype) -> Any:
    return np.float32 if dtype == torch.float32 else np.float64


def _passes(name: str) -> Any:
    return launch.kernel("unicornn._ops.cpu.passes", name)


def groups(N: int, b: int, m: int, L: int) -> list[slice]:
    """The sequences of each group. A step is a long chain of operations, so a group should have a block at least."""
    count = max(1, min(b, b * m // B, N * b * m * L // WORK, MOST))
    return [slice(g * b // count, (g + 1) * b // count) for g in range(count)]


def chunk_length(N: int, b: int, m: int) -> int:
    """K, from the sizes alone."""
    return max(1, min(CHUNK // (b * m), LONGEST, N))


def blocks(b: int, m: int) -> int:
    return -(-b * m // B)


def room(N: int, b: int, m: int, L: int) -> tuple[int, int]:
    """How many numbers ``store`` keeps: t of every step and layer, and the states at the cuts."""
    kept = [_kept(N, part.stop - part.start, m, L) for part in groups(N, b, m, L)]
    return sum(t for t, _ in kept), sum(marks for _, marks in kept)


def _kept(N: int, b: int, m: int, L: int) -> tuple[int, int]:
    """Of one group."""
    return L * N * b * m, -(-N // chunk_length(N, b, m)) * L * blocks(b, m) * 2 * B


def _line(t: Tensor) -> Array:
    """A tensor's memory from its first number to its last."""
    last = sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True))
    return t.detach().as_strided((last + 1 if t.numel() else 0,), (1,)).numpy()


def _blocked(v: Array, dtype: Any = None) -> Array:
    """(L, rows, b, m) as (L, blocks, rows, B), zero at the end, flat."""
    L, rows, b, m = v.shape
    whole = np.zeros((L, rows, blocks(b, m) * B), dtype or v.dtype)
    whole[:, :, : b * m] = v.reshape(L, rows, b * m)
    blocked = zeros(L, blocks(b, m), rows, B, dtype=whole.dtype)
    blocked[:] = whole.reshape(L, rows, -1, B).swapaxes(1, 2)
    return blocked.reshape(-1)


def _unblocked(v: Array, L: int, b: int, m: int) -> Array:
    """(L, blocks, rows, B), flat, as (rows, L, b, m)."""
    rows = v.size // (L * blocks(b, m) * B)
    whole = v.reshape(L, -1, rows, B).transpose(2, 0, 1, 3).reshape(rows, L, -1)
    return whole[:, :, : b * m].reshape(rows, L, b, m)


def _joined(parts: Sequence[Array]) -> Tensor:
    """States (2, L, ·, m) of the groups, side by side."""
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(parts, 2)))


class _Group:
    """Some sequences of a batch, with the memory for a pass over them."""

    def __init__(self, whole: Stack, part: slice) -> None:
        self.whole: Stack = weakref.proxy(whole)  # a cycle would keep the memory until the garbage collector finds it
        self.part = part
        k, (N, _, d), (self.L, self.m) = whole.coefficients, whole.u.shape, whole.coefficients.w.shape
        self.b = part.stop - part.start
        order, lengths = np.arange(part.start, part.stop), np.full(self.b, N)
        if whole.lengths is not None:
            own = whole.lengths[part].numpy()
            falling = np.argsort(-own, kind="stable")
            order, lengths = order[falling], own[falling]
        self.order, self.lengths = order, np.ascontiguousarray(lengths)
        self.K, self.end = chunk_length(N, self.b, self.m), int(lengths[0])
        self.sizes = _passes("Sizes")(self.K, self.b, d, self.m, self.L, k.S, self.end)
        state = np.float64 if k.w.dtype == torch.float32 else np.int64
        self.S = _blocked(whole.grid.numpy()[:, :, order].swapaxes(0, 1), state)
        w, bias, a = (np.broadcast_to(t.numpy()[:, None, None], (self.L, 1, self.b, self.m)) for t in (k.w, k.b, k.a))
        self.A = _blocked(np.concatenate([a, a / UNIT[k.w.dtype]], 1))
        self.P = _blocked(np.concatenate([w, bias, np.zeros_like(w)], 1))
        self.w, self.a = w, a
        self.layers = _passes("Layers")(self.S, self.A, self.P, *whole.constants)
        self.out_of_range = np.zeros(self.L, np.int64)
        masked = whole.mask is not None
        mask = np.empty(0, self.w.dtype) if whole.mask is None else whole.mask.numpy()[:, order].reshape(-1)
        self.net = _passes("Network")(*whole.matrices, mask, masked)
        E = self.b * self.m
        self.y = whole.scratch("y", (self.K + 1) * E * self.L)
        self.out = whole.scratch("out", self.K * E * self.L if masked else 0)
        self.rows = whole.scratch("rows", self.K * self.b * d)

    def _x(self) -> Array:
        return self.whole.scratch("x", self.K * self.b * self.m * self.L)

    def _sequences(self, t: Tensor | None) -> Any:
        """As the kernels see a tensor (N, batch, ·)."""
        line, strides = (self.rows[:0], (0, 0, 0)) if t is None else (_line(t), t.stride())
        straight = self.whole.lengths is None
        return _passes("Sequences")(line, *strides, self.order, self.lengths, straight)

    def _wanted(self) -> Any:
        """The outputs of this group's sequences that are wanted, by falling length as the group has them."""
        if self.whole.steps is None:
            steps = places = np.zeros(0, np.int64)
        else:
            own = self.whole.steps.numpy()[:, self.order].reshape(-1)
            places = np.argsort(own, kind="stable")
            steps = own[places]
        return _passes("Wanted")(steps, places, self.b)

    def _run(self, name: str, *args: Any) -> None:
        launch.call(_passes(name), self.whole.u.dtype, self.sizes, self.net, self.layers, *args)

    def forward(self, output: Tensor, every: bool, keep: Array | None, marks: Array | None) -> None:
        stored = keep is not None and marks is not None
        x = self.whole.scratch("x", self.K * self.b * self.m)
        room = (keep, marks, True) if stored else (x, self.S, False)
        u, to = self._sequences(self.whole.u), self._sequences(output)
        memory = x, self.y, self.out, self.rows, self.out_of_range
        self._run("forward", u, to, every, self._wanted(), *room, *memory)
        if keep is not None:
            keep[self.L * self.end * self.b * self.m :] = 0

    def inverse(self) -> None:
        u, end = self._sequences(self.whole.u), zeros(self.S.size, dtype=self.S.dtype)
        self._run("inverse", u, end, self._x(), self.y, self.out, self.rows, self.out_of_range)

    def backward(
        self,
        g_output: Tensor | None,
        g_state: Tensor,
        every: bool,
        keep: Array | None,
        marks: Array | None,
        gu: Tensor | None,
        horizon: Sequence[float],
    ) -> tuple[Array, Array, Array]:
        """Gradients of the initial state (2, L, b, m), of w, b, a (3, L, m), and of the matrices, transposed, flat."""
        L, number, dtype = self.L, _number(self.whole.u.dtype), self.w.dtype
        stored = keep is not None and marks is not None
        x, end = (self.rows[:0], self.S) if stored else (self._x(), zeros(self.S.size, dtype=self.S.dtype))
        room = (keep, marks, True) if stored else (x, self.S, False)
        a = self.a.astype(dtype)
        start = g_state.numpy()[:, :, self.order].astype(dtype)
        zero = np.zeros_like(start[0][:, None])
        D = _blocked(
            np.concatenate([self.w, a, (self.a - a).astype(dtype), *(g[:, None] for g in start), zero, zero, zero], 1)
        )
        T = zeros(L * blocks(self.b, self.m) * 3 * B, dtype=np.float64)
        fades = np.array([fade(H) for H in horizon] or [0.0] * L, dtype)
        alpha = self.whole.coefficients.alpha
        single = number(alpha)
        g_matrices = zeros(sum(V.numel() for V in self.whole.all_V), dtype=dtype)
        g_rows = self.whole.scratch("g_rows", self.rows.size if gu is not None else 0)
        g = self.whole.scratch("g", self.K * self.b * self.m * L)
        self._run(
            "backward", self._sequences(self.whole.u), self._sequences(g_output), g_output is not None, every,
            self._wanted(), *room, D, T, fades, single, number(alpha - float(single)), self._sequences(gu),
            gu is not None, g_matrices, end, x, self.y, self.out, g, g_rows, self.rows, self.out_of_range,
        )  # fmt: skip
        sums = _unblocked(T, L, self.b, self.m).sum(2)
        g_start = _unblocked(D, L, self.b, self.m)[3:5]
        return g_start[:, :, self._back()], sums, g_matrices

    def _back(self) -> Array:
        """Where the sequences of the group are among those sorted by length."""
        return np.argsort(self.order)

    @property
    def state(self) -> Array:
        return _unblocked(self.S, self.L, self.b, self.m)[:, :, self._back()]


class Stack:
    """L layers over the input u (N, b, d), from or back to a state, grid (2, L, b, m) int64. As ``stack.Stack``."""

    def __init__(
        self,
        coefficients: Coefficients,
        u: Tensor,
        grid: Tensor,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> None:
        k = coefficients
        plain: Callable[[Tensor], Tensor] = lambda t: t.detach().resolve_neg()  # noqa: E731
        self.coefficients = Coefficients(
            plain(k.w), [*map(plain, k.V)], plain(k.b), plain(k.a), [*map(plain, k.Lambda)], k.alpha
        )
        self.u, self.grid = plain(u), grid
        self.mask, self.lengths, self.steps = (None if t is None else plain(t) for t in (mask, lengths, steps))
        self.constants = _constants(u.dtype, k.alpha)
        (N, b, _), (L, m) = u.shape, k.w.shape
        self.parts = groups(N, b, m, L)
        self.groups: list[_Group] = []
        self.all_V = [*self.coefficients.V, *self.coefficients.Lambda]
        self.matrices = self._packed()
        self._scratch = threading.local()

    def scratch(self, name: str, size: int) -> Array:
        """Memory for so many numbers, which a thread hands on from group to group: in its cache, and not new."""
        rooms: dict[str, Array] = self._scratch.__dict__
        if name not in rooms or rooms[name].size < size:
            rooms[name] = empty(self.coefficients.w, size).numpy()
        return rooms[name][:size]

    def _packed(self) -> tuple[Array, Array, Array]:
        """V and Λ of all layers for the products, each as it is and transposed, and so on, see ``Network``."""
        wide = PANEL // self.u.element_size()
        m, columns = self.coefficients.w.shape[1], np.array([V.shape[1] for V in self.all_V])
        sizes = np.stack([columns * (-(-m // wide) * wide), -(-columns // wide) * wide * m, columns * m])
        at = sizes.cumsum(1) - sizes
        up, down = (zeros(size, dtype=_number(self.u.dtype)) for size in sizes[:2].sum(1))
        pack = launch.kernel("unicornn._ops.cpu.products", "pack")
        for i, V in enumerate(self.all_V):
            for to, M, start in ((up, V, at[0, i]), (down, V.T, at[1, i])):
                launch.call(pack, self.u.dtype, M.reshape(-1).numpy(), to[start:], *M.shape)
        return up, down, at

    def _share_out(self, job: Callable[..., Any], keep: Tensor | None = None, marks: Tensor | None = None) -> list[Any]:
        """What the job returns for every group, each in a thread, given the group and its part of what is kept."""
        (N, _, _), (L, m) = self.u.shape, self.coefficients.w.shape
        jobs: list[Callable[[], Any]] = []
        i = j = 0
        for part in self.parts:
            size, cuts = _kept(N, part.stop - part.start, m, L)
            own: tuple[Array | None, Array | None] = (None, None)
            if keep is not None and marks is not None:
                own = keep.numpy()[i : i + size], marks.numpy()[j : j + cuts]
            jobs.append(partial(self._do, job, part, *own))
            i, j = i + size, j + cuts
        done = launch.together(jobs)
        self.groups = [group for group, _ in done]
        return [result for _, result in done]

    def _do(self, job: Callable[..., Any], part: slice, keep: Array | None, marks: Array | None) -> tuple[_Group, Any]:
        group = _Group(self, part)
        return group, job(group, keep, marks)

    @property
    def state(self) -> Tensor:
        """(2, L, b, m) in grid units."""
        return _joined([group.state for group in self.groups])

    @property
    def end(self) -> int:
        """The longest sequence's."""
        return max(group.end for group in self.groups)

    @property
    def out_of_range(self) -> list[int]:
        """The layers (from 1) whose state left the grid's range."""
        return [l + 1 for l in range(len(self.coefficients.w)) if any(group.out_of_range[l] for group in self.groups)]

    def forward(self, every: bool, keep: Tensor | None, marks: Tensor | None) -> Tensor:
        """Carries the state through the sequence; returns the output: all of it, or that of the wanted steps.

        keep and marks, each as long as ``room`` says, receive what ``backward`` needs to walk back.
        """
        (N, b, _), m = self.u.shape, self.coefficients.w.shape[1]
        output = reused(self.u, N if every else (0 if self.steps is None else len(self.steps)), b, m)
        self._share_out(lambda group, *room: group.forward(output, every, *room), keep, marks)
        if every:
            output[self.end :] = 0
            for group in self.groups if self.lengths is not None else ():
                output[group.end : self.end, group.part] = 0
        return output

    def inverse(self) -> None:
        """Carries the state back to the beginning."""
        self._share_out(lambda group, *room: group.inverse())

    def backward(
        self,
        g_output: Tensor | None,
        g_state: Tensor,
        every: bool,
        keep: Tensor | None,
        marks: Tensor | None,
        need_u: bool,
        horizon: Sequence[float] = (),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Gradients of u (empty if not needed), the initial state (2, L, b, m), w, b, a (L, m), V and Lambda."""
        gu = empty(self.u, len(self.u) if need_u else 0, *self.u.shape[1:])
        g_output = None if g_output is None else g_output.detach().resolve_neg()
        g_state = g_state.detach().resolve_neg()
        to = gu if need_u else None
        job = lambda group, *room: group.backward(g_output, g_state, every, *room, to, horizon)  # noqa: E731
        found = self._share_out(job, keep, marks)
        for group in self.groups if need_u else ():
            gu[group.end :, group.part] = 0
        g_start = _joined([g for g, *_ in found])
        sums, g_matrices = (torch.from_numpy(reduce(np.add, term)) for term in list(zip(*found, strict=True))[1:])
        gw, gb, ga = sums
        k = self.coefficients
        parts = g_matrices.split([V.numel() for V in self.all_V])
        gV = [part.view(V.shape[1], -1).T.contiguous() for part, V in zip(parts, self.all_V, strict=True)]
        return gu, g_start, gw.to(k.w.dtype), gb.to(k.w.dtype), ga, gV[: len(k.V)], gV[len(k.V) :]
