"""All layers over chunks of time, forwards and in reverse: memory O(N b d + L b m), whatever N.

Time is cut into chunks of K steps, and all layers are carried through a chunk before the next one. Forwards only the
carried states are kept. Backwards, chunk by chunk, layer 1 is inverted from its carried state (its input is stored),
which gives the input of layer 2, and so on to the top; then the adjoint runs down again within the chunk. With
``store``, t = tanh(…) of every step and the states at the cuts are kept instead, and replayed.

A matrix product must give the same bits each time it is made, so the cuts follow from the sizes alone, and operands
lie at the same place relative to a cache line. Inside, sequences are sorted by falling length, so that those still
running at a step come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from unicornn._ops.coefficients import Coefficients
from unicornn._ops.cpu.memory import aligned, empty, reused

LINE = 16
"""Chunks begin at multiples of this many steps, hence on a cache line."""


class Recurrence(Protocol):
    """One layer over a chunk of time: what a back-end has to provide. See ``adjoint.Recurrence`` for its meaning.

    CHUNK: elements of a layer (K·b·m) in a chunk, LONGEST: steps in a chunk, both at most; reads_z: whether the adjoint
    wants the z of a chunk in memory; ``product_of_step``: ``product`` where N = 1, that of ``step``, so that each can
    undo the other; ``running``: which sequences run at which steps, in the form its methods take.
    """

    CHUNK: int
    LONGEST: int
    reads_z: bool

    def __init__(self, w: Tensor, b: Tensor, a: Tensor, alpha: float, grid: Tensor) -> None: ...
    @property
    def state(self) -> Tensor: ...
    @property
    def out_of_range(self) -> int: ...
    @staticmethod
    def running(lengths: Tensor | None, b: int, n0: int, n1: int) -> Any: ...
    @staticmethod
    def product(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None: ...
    @staticmethod
    def product_of_step(y: Tensor, V: Tensor, x: Tensor, add: bool) -> None: ...
    @staticmethod
    def mark_shape(b: int, m: int) -> tuple[int, ...]: ...
    def mark(self, to: Tensor) -> None: ...
    def recall(self, mark: Tensor) -> None: ...
    def advance(self, x: Tensor, y: Tensor, active: Any) -> None: ...
    def retreat(self, x: Tensor, y: Tensor, z: Tensor, active: Any) -> None: ...
    def start_adjoint(self, gy: Tensor, gz: Tensor, horizon: float | None) -> None: ...
    def adjoint(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor, active: Any) -> None: ...
    def replay_adjoint(self, t: Tensor, y: Tensor, z: Tensor, g: Tensor, active: Any) -> None: ...
    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]: ...


def chunk_length(recurrence: type[Recurrence], N: int, b: int, m: int) -> int:
    """K, from the sizes alone."""
    K = recurrence.CHUNK // (b * m) // LINE * LINE
    return min(max(K, LINE), recurrence.LONGEST, max(N, 1))


def kept_length(N: int, b: int, m: int) -> int:
    """Room for t of one layer, rounded up to a cache line."""
    return -(-N * b * m // LINE) * LINE


@dataclass(frozen=True)
class Chunk:
    index: int
    n0: int
    n1: int
    active: Any  # what ``running`` says


class Stack:
    """L layers over the input u (N, b, d), from or back to a state, grid (2, L, b, m) int64.

    mask (L, b, m) or None; lengths (b,) or None; steps (k, b) or None: the time steps whose output is wanted.
    """

    def __init__(
        self,
        recurrence: type[Recurrence],
        coefficients: Coefficients,
        u: Tensor,
        grid: Tensor,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> None:
        self.u = u
        k = coefficients
        (self.N, self.batch, self.d), (self.L, self.m) = u.shape, k.w.shape
        self.S = k.S
        self.K = chunk_length(recurrence, self.N, self.batch, self.m)
        self.V, self.Lambda = ([aligned(matrix) for matrix in letter] for letter in (k.V, k.Lambda))
        self.order = self.lengths = None
        if lengths is not None:
            self.order = torch.argsort(lengths, descending=True, stable=True)
            self.lengths = lengths[self.order]
            self.back = torch.argsort(self.order)
            grid, mask = grid[:, :, self.order], None if mask is None else mask[:, self.order]
        self.mask = mask
        self.recurrence = recurrence
        self.layers = [recurrence(k.w[l], k.b[l], k.a[l], k.alpha, grid[:, l]) for l in range(self.L)]
        self.end = self.shortest = self.N
        if self.lengths is not None:
            self.end, self.shortest = self.lengths[[0, -1]].tolist()
        self.cuts = range(0, self.end, self.K)
        self._sort_steps(steps)

    # What the caller sees, in the caller's order of sequences

    def _unsorted(self, v: Tensor, dim: int) -> Tensor:
        return v if self.order is None else v.index_select(dim, self.back)

    def _sorted(self, v: Tensor, dim: int) -> Tensor:
        return v if self.order is None else v.index_select(dim, self.order)

    @property
    def state(self) -> Tensor:
        """(2, L, b, m) in grid units."""
        return self._unsorted(torch.stack([layer.state for layer in self.layers], 1), 2)

    @property
    def out_of_range(self) -> list[int]:
        """The layers (from 1) whose state left the grid's range."""
        return [l + 1 for l, layer in enumerate(self.layers) if layer.out_of_range]

    def _sort_steps(self, steps: Tensor | None) -> None:
        if steps is None:
            self.when = torch.zeros(0, dtype=torch.long)
            return
        self.when, where = self._sorted(steps, 1).reshape(-1).cpu().sort(stable=True)
        self.where = where.to(self.u.device)

    def _wanted(self, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor]:
        """Of the wanted outputs, those in the chunk: their places in the (k, b) list, their rows and sequences."""
        i0, i1 = torch.searchsorted(self.when, torch.tensor([chunk.n0, chunk.n1])).tolist()
        places = self.where[i0:i1]
        return places, self.when[i0:i1].to(places.device) - chunk.n0, places % self.batch

    # Chunks and their memory

    def _chunk(self, n0: int) -> Chunk:
        n1 = min(n0 + self.K, self.end)
        return Chunk(n0 // self.K, n0, n1, self.recurrence.running(self.lengths, self.batch, n0, n1))

    def _buffers(self, count: int, before: bool = False) -> list[Tensor]:
        """(K, b, m) each; with ``before`` one row more in front, the others beginning on a cache line."""
        row = self.batch * self.m
        lead = -(-row // LINE) * LINE if before else 0
        rows, offset = (self.K + 1, lead - row) if before else (self.K, 0)
        size = -(-(lead + self.K * row) // LINE) * LINE
        flat = empty(self.u, count, size)
        return [f[offset : offset + rows * row].view(rows, self.batch, self.m) for f in flat]

    def _inputs(self, cuts: range) -> Iterator[tuple[Chunk, Tensor]]:
        """Chunks of the input (K, b, d), contiguous, aligned, sorted, zero in the padding."""
        work: Tensor | None = None
        for chunk in map(self._chunk, cuts):
            part = self.u[chunk.n0 : chunk.n1]
            if self.order is None and part.is_contiguous() and part.data_ptr() % 64 == 0:
                yield chunk, part
                continue
            if work is None:
                work = empty(self.u, self.K, self.batch, self.d)
            rows = work[: chunk.n1 - chunk.n0]
            if self.order is None or self.lengths is None:
                rows.copy_(part)
            else:
                torch.index_select(part, 1, self.order, out=rows)
                if self.shortest < chunk.n1:
                    n = torch.arange(chunk.n0, chunk.n1, device=rows.device)
                    rows.masked_fill_((n[:, None] >= self.lengths)[:, :, None], 0)
            yield chunk, rows

    def _kept(self, keep: Tensor, l: int, chunk: Chunk) -> Tensor:
        row = self.batch * self.m
        return keep[l, chunk.n0 * row : chunk.n1 * row].view(-1, self.batch, self.m)

    def _drive(self, l: int, below: Sequence[Tensor], x: Tensor) -> None:
        """x ← V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹; ``below`` holds u, y¹, …, yˡ⁻¹ (the bias is the recurrence's)."""
        flat = x.view(-1, self.m)
        product = self.recurrence.product if self.N > 1 else self.recurrence.product_of_step
        product(below[l].flatten(0, 1), self.V[l], flat, False)
        if (k := l - self.S) >= 0:
            product(below[k].flatten(0, 1), self.Lambda[k], flat, True)

    # The three passes

    def forward(self, every: bool, keep: Tensor | None, marks: Tensor | None) -> Tensor:
        """Carries the state through the sequence; returns the output: all of it, or that of the wanted steps.

        keep (L, N b m, rounded up to a cache line) and marks (chunks, L, …) receive what ``backward`` needs to replay.
        """
        wanted = self.when.numel() // self.batch
        output = reused(self.u, self.N if every else wanted, self.batch, self.m)
        xs = self._buffers(0 if keep is not None else self.L)
        ys = self._buffers(self.L)
        outs = self._buffers(0 if self.mask is None else self.L)
        for chunk, rows in self._inputs(self.cuts):
            K, below = len(rows), [rows]
            y, out = [b[:K] for b in ys], [b[:K] for b in outs]
            if every and self.order is None:  # the top layer may write where the caller will read
                (y if self.mask is None else out)[-1] = output[chunk.n0 : chunk.n1]
            for l, layer in enumerate(self.layers):
                x = xs[l][:K] if keep is None else self._kept(keep, l, chunk)
                if marks is not None:
                    layer.mark(marks[chunk.index, l])
                self._drive(l, below, x)
                layer.advance(x, y[l], chunk.active)
                below.append(self._masked(l, y[l], out))
            if every and self.order is not None:
                torch.index_select(below[-1], 1, self.back, out=output[chunk.n0 : chunk.n1])
            elif wanted:
                places, step, sequence = self._wanted(chunk)
                output.view(-1, self.m)[places] = below[-1][step, sequence]
        if keep is not None:
            keep[:, self.end * self.batch * self.m :] = 0
        if every:
            output[self.end :] = 0
            return output
        return self._unsorted(output, 1)

    def inverse(self) -> None:
        """Carries the state back to the beginning."""
        xs, outs = self._buffers(1), self._buffers(0 if self.mask is None else self.L)
        zs = self._buffers(1) if self.recurrence.reads_z else xs
        ys = self._buffers(self.L, before=True)
        for chunk, rows in self._inputs(self.cuts[::-1]):
            self._recover(chunk, rows, xs * self.L, ys, zs * self.L, outs)

    def _recover(
        self, chunk: Chunk, rows: Tensor, xs: list[Tensor], ys: list[Tensor], zs: list[Tensor], outs: list[Tensor]
    ) -> list[Tensor]:
        """Inverts all layers over a chunk, bottom up; returns u, y¹, …, yᴸ as the layers above see them."""
        K, below = len(rows), [rows]
        for l, layer in enumerate(self.layers):
            x, y = xs[l][:K], ys[l][: K + 1]
            self._drive(l, below, x)
            layer.retreat(x, y, zs[l][:K], chunk.active)
            below.append(self._masked(l, y[1:], outs))
        return below

    def _masked(self, l: int, y: Tensor, outs: list[Tensor]) -> Tensor:
        return y if self.mask is None else torch.mul(y, self.mask[l], out=outs[l][: len(y)])

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
        """Gradients of u (empty if not needed), the initial state (2, L, b, m), w, b, a (L, m), V and Lambda.

        horizon: H of every layer, in steps, or nothing: the adjoint of a layer fades by e^(-1/H) at each step.
        """
        g_state = self._sorted(g_state, 2)
        for l, layer in enumerate(self.layers):
            layer.start_adjoint(g_state[0, l], g_state[1, l], horizon[l] if horizon else None)
        gu = empty(self.u, self.N if need_u else 0, self.batch, self.d)
        full = g_state.dtype  # in half precision, sums over chunks are not
        gV, gLambda = ([torch.zeros_like(V, dtype=full) for V in matrices] for matrices in (self.V, self.Lambda))
        if not every and g_output is not None:
            g_output = self._sorted(g_output, 1)

        stored = keep is not None
        xs = self._buffers(0 if stored else self.L)
        gs = self._buffers(self.L)
        zs = self._buffers(self.L) if self.recurrence.reads_z else gs
        outs = self._buffers(0 if self.mask is None else self.L)
        ys = self._buffers(self.L, before=True)
        work = empty(self.u, self.K if need_u else 0, self.batch, self.d)
        for chunk, rows in self._inputs(self.cuts[::-1]):
            K, active = len(rows), chunk.active
            below = [rows] if stored else self._recover(chunk, rows, xs, ys, zs, outs)
            self._gradient_of_output(chunk, g_output, every, gs[-1][:K])
            begun = {self.L}  # of u, y¹, …, yᴸ, those whose gradient has a first term
            for l in range(self.L - 1, -1, -1):
                layer, gx = self.layers[l], gs[l][:K]
                if self.mask is not None:
                    gx *= self.mask[l]
                if keep is not None and marks is not None:
                    layer.recall(marks[chunk.index, l])
                    layer.replay_adjoint(self._kept(keep, l, chunk), ys[l][: K + 1], zs[l][:K], gx, active)
                else:
                    layer.adjoint(xs[l][:K], ys[l][: K + 1], zs[l][:K], gx, active)
                for k, matrix, _ in self._links(l, gV, gLambda):
                    if k == 0 and not need_u:
                        continue
                    target = (work if k == 0 else gs[k - 1])[:K]
                    target.flatten(0, 1).addmm_(gx.flatten(0, 1), matrix, beta=1 if k in begun else 0)
                    begun.add(k)
            for l in range(self.L):
                for k, _, g_matrix in self._links(l, gV, gLambda):
                    gx_t, y = gs[l][:K].flatten(0, 1).t(), below[k].flatten(0, 1)
                    if y.dtype == full:
                        g_matrix.addmm_(gx_t, y)
                    else:
                        g_matrix += gx_t @ y
                if stored:
                    below.append(self._masked(l, ys[l][1 : K + 1], outs))
            if need_u:
                gu[chunk.n0 : chunk.n1] = self._unsorted(work[:K], 1)
        if need_u:
            gu[self.end :] = 0
        gw, gb, ga, gy, gz = (torch.stack(g) for g in zip(*(layer.gradients() for layer in self.layers), strict=True))
        gV, gLambda = ([g.to(self.u.dtype) for g in letter] for letter in (gV, gLambda))
        return gu, self._unsorted(torch.stack([gy, gz]), 2), gw, gb, ga, gV, gLambda

    def _links(self, l: int, gV: list[Tensor], gLambda: list[Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Where layer l gets its input from (0: u, k: the output of layer k), through which matrix; its gradient."""
        yield l, self.V[l], gV[l]
        if (k := l - self.S) >= 0:
            yield k, self.Lambda[k], gLambda[k]

    def _gradient_of_output(self, chunk: Chunk, g_output: Tensor | None, every: bool, into: Tensor) -> None:
        if g_output is not None and every:
            into.copy_(self._sorted(g_output[chunk.n0 : chunk.n1], 1))
            return
        into.zero_()
        if g_output is not None and self.when.numel():
            places, step, sequence = self._wanted(chunk)
            into.index_put_((step, sequence), g_output.reshape(-1, self.m)[places], accumulate=True)
