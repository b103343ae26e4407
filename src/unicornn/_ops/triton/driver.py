"""All layers over chunks of time, forwards and in reverse: memory O(N b d + L b m) for any N.

Time is cut into chunks of K steps, and all layers run over a chunk before the next chunk starts. The forward pass keeps
only the carried states. The backward pass inverts layer 1 over a chunk from its carried state (its input is stored),
which gives the input of layer 2, and so on to the top; then the adjoint runs down again within the chunk. With
keep="stored" the drive x of every step is kept, and a layer is inverted together with its adjoint.

A matrix product must give the same bits whenever it is repeated, so chunks depend on the sizes alone, and operands have
the same alignment relative to a cache line.

The CPU has a separate driver, ``cpu.driver``, which explains why. Both share ``schedule``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unicornn._ops.cpu.memory import aligned, empty, reused
from unicornn._ops.problem import Gradients, Problem
from unicornn._ops.schedule import Schedule
from unicornn._ops.triton.recurrence import Recurrence

LINE = 16
"""Elements of a cache line, at most: chunks start at multiples of it."""


class _Chunk(NamedTuple):
    n0: int
    n1: int
    active: Any


class Stack:
    """L layers over the sequences of a ``Problem``, forwards from its state or back to it."""

    def __init__(self, p: Problem, saved: Sequence[Tensor] = (), recurrence: type[Recurrence] = Recurrence) -> None:
        self.p, self.recurrence = p, recurrence
        (self.N, self.batch, self.d), (self.L, self.m) = p.u.shape, p.w.shape
        self.schedule = Schedule.for_sequences(p, slice(0, self.batch), recurrence.limits)
        self.K, self.end = self.schedule.K, self.schedule.end
        self.V, self.Lambda = ([aligned(matrix) for matrix in letter] for letter in (p.V, p.Lambda))
        self.order, self.lengths = None, None
        if p.lengths is not None:
            self.order, self.lengths, self.unsorted = (
                torch.from_numpy(v).to(p.u.device)
                for v in (self.schedule.order, self.schedule.lengths, self.schedule.unsorted)
            )
        grid = self._sorted(p.grid, 2)
        self.mask = None if p.mask is None else self._sorted(p.mask, 1)
        self.layers = [recurrence(p.w[l], p.b[l], p.a[l], p.alpha, grid[:, l]) for l in range(self.L)]
        self.stored = saved[0] if p.keep == "stored" else None

    @staticmethod
    def saved_shapes(p: Problem) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Shapes and dtypes of the tensors that the backward pass needs: x of every layer and step, and two empty."""
        row = p.u.shape[1] * p.w.shape[1]
        shape = (len(p.w), -(-len(p.u) * row // LINE) * LINE) if p.keep == "stored" else (0,)
        return [(shape, p.u.dtype), ((0,), p.u.dtype), ((0,), p.u.dtype)]

    # Results, in the caller's order of sequences

    def _unsorted(self, v: Tensor, dim: int) -> Tensor:
        return v if self.order is None else v.index_select(dim, self.unsorted)

    def _sorted(self, v: Tensor, dim: int) -> Tensor:
        return v if self.order is None else v.index_select(dim, self.order)

    @property
    def state(self) -> Tensor:
        """(2, L, b, m) in grid units."""
        return self._unsorted(torch.stack([layer.state for layer in self.layers], 1), 2)

    @property
    def out_of_range(self) -> list[int]:
        """Layers, counted from 1, whose state left the range of the grid."""
        return [l + 1 for l, layer in enumerate(self.layers) if layer.out_of_range]

    def _selected(self, chunk: _Chunk) -> tuple[Tensor, Tensor, Tensor]:
        """Selected outputs in the chunk: their places in the list (k, b), their rows and their sequences."""
        i0, i1 = self.schedule.steps.searchsorted([chunk.n0, chunk.n1])
        places, steps = (
            torch.from_numpy(v[i0:i1]).to(self.p.u.device) for v in (self.schedule.places, self.schedule.steps)
        )
        return places, steps - chunk.n0, places % self.batch

    # Chunks and their buffers

    def _buffers(self, count: int, before: bool = False) -> list[Tensor]:
        """``count`` buffers (K, b, m); with ``before`` one row more in front, the others starting on a cache line."""
        row = self.batch * self.m
        lead = -(-row // LINE) * LINE if before else 0
        rows, offset = (self.K + 1, lead - row) if before else (self.K, 0)
        flat = empty(self.p.u, count, -(-(lead + self.K * row) // LINE) * LINE)
        return [f[offset : offset + rows * row].view(rows, self.batch, self.m) for f in flat]

    def _inputs(self, reverse: bool) -> Iterator[tuple[_Chunk, Tensor]]:
        """Chunks with their input (K, b, d), contiguous, aligned, sorted, zero in the padding."""
        work: Tensor | None = None
        for n0 in reversed(self.schedule.chunks) if reverse else self.schedule.chunks:
            n1 = min(n0 + self.K, self.end)
            chunk = _Chunk(n0, n1, self.recurrence.running(self.lengths, self.batch, n0, n1))
            part = self.p.u[n0:n1]
            if self.order is None and part.is_contiguous() and part.data_ptr() % 64 == 0:
                yield chunk, part
                continue
            if work is None:
                work = empty(self.p.u, self.K, self.batch, self.d)
            rows = work[: n1 - n0]
            if self.order is None or self.lengths is None:
                rows.copy_(part)
            else:
                torch.index_select(part, 1, self.order, out=rows)
                if self.schedule.lengths[-1] < n1:
                    n = torch.arange(n0, n1, device=rows.device)
                    rows.masked_fill_((n[:, None] >= self.lengths)[:, :, None], 0)
            yield chunk, rows

    def _drives(self, chunk: _Chunk, buffers: list[Tensor]) -> list[Tensor]:
        """x of every layer in the chunk: where it is stored, or a buffer."""
        if self.stored is None:
            return [x[: chunk.n1 - chunk.n0] for x in buffers]
        row = self.batch * self.m
        return [x[chunk.n0 * row : chunk.n1 * row].view(-1, self.batch, self.m) for x in self.stored]

    def _links(self, l: int) -> Iterator[tuple[int, Tensor]]:
        """Inputs of layer l (0: u, k: the output of layer k) and the matrices applied to them."""
        yield l, self.V[l]
        if (k := l - self.p.S) >= 0:
            yield k, self.Lambda[k]

    def _drive(self, l: int, below: Sequence[Tensor], x: Tensor) -> None:
        """x ← V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹, without the bias; ``below`` holds u, y¹, …, yˡ⁻¹."""
        for i, (k, matrix) in enumerate(self._links(l)):
            x.view(-1, self.m).addmm_(below[k].flatten(0, 1), matrix.t(), beta=i)

    def _masked(self, l: int, y: Tensor, outs: list[Tensor]) -> Tensor:
        return y if self.mask is None else torch.mul(y, self.mask[l], out=outs[l][: len(y)])

    # The three passes

    def forward(self) -> Tensor:
        """Carries the state through the sequences; returns the output of every step or of the selected ones."""
        p, direct = self.p, self.p.every and self.order is None
        output = reused(p.u, p.output_rows, self.batch, self.m)
        xs = self._buffers(0 if p.keep == "stored" else self.L)
        ys, outs = self._buffers(self.L), self._buffers(0 if self.mask is None else self.L)
        for chunk, rows in self._inputs(reverse=False):
            K, below = len(rows), [rows]
            y, out = [b[:K] for b in ys], [b[:K] for b in outs]
            if direct:  # the top layer writes straight to the output
                (y if self.mask is None else out)[-1] = output[chunk.n0 : chunk.n1]
            for l, (layer, x) in enumerate(zip(self.layers, self._drives(chunk, xs), strict=True)):
                self._drive(l, below, x)
                layer.advance(x, y[l], chunk.active)
                below.append(self._masked(l, y[l], out))
            if p.every and not direct:
                torch.index_select(below[-1], 1, self.unsorted, out=output[chunk.n0 : chunk.n1])
            elif not p.every and p.steps is not None:
                places, step, sequence = self._selected(chunk)
                output.view(-1, self.m)[places] = below[-1][step, sequence]
        if self.stored is not None:
            self.stored[:, self.end * self.batch * self.m :] = 0
        if p.every:
            output[self.end :] = 0
            return output
        return self._unsorted(output, 1)

    def inverse(self) -> None:
        """Carries the state back to the start of the sequences."""
        xs, ys = self._buffers(1) * self.L, self._buffers(self.L, before=True)
        outs = self._buffers(0 if self.mask is None else self.L)
        for chunk, rows in self._inputs(reverse=True):
            self._recover(chunk, rows, xs, ys, outs)

    def _recover(
        self, chunk: _Chunk, rows: Tensor, xs: list[Tensor], ys: list[Tensor], outs: list[Tensor]
    ) -> list[Tensor]:
        """Inverts all layers over a chunk, bottom up; returns u, y¹, …, yᴸ as the layers above see them."""
        K, below = len(rows), [rows]
        for l, layer in enumerate(self.layers):
            self._drive(l, below, xs[l][:K])
            layer.retreat(xs[l][:K], ys[l][: K + 1], chunk.active)
            below.append(self._masked(l, ys[l][1 : K + 1], outs))
        return below

    def backward(self, g_output: Tensor | None, g_state: Tensor, need_u: bool) -> Gradients:
        """Gradients from those of the output, if any, and of the final state (2, L, b, m)."""
        p, g_state = self.p, self._sorted(g_state, 2)
        for l, layer in enumerate(self.layers):
            layer.start_adjoint(g_state[0, l], g_state[1, l], p.horizon[l] if p.horizon else None)
        if g_output is not None and not p.every:
            g_output = self._sorted(g_output, 1)
        gu = empty(p.u, self.N if need_u else 0, self.batch, self.d)
        full = g_state.dtype  # sums over chunks are never in half precision
        gV, gLambda = ([torch.zeros_like(V, dtype=full) for V in matrices] for matrices in (self.V, self.Lambda))
        recovered = self.stored is None
        xs = self._buffers(self.L if recovered else 0)
        gs, ys = self._buffers(self.L), self._buffers(self.L, before=True)
        outs = self._buffers(0 if self.mask is None else self.L)
        work = empty(p.u, self.K if need_u else 0, self.batch, self.d)
        for chunk, rows in self._inputs(reverse=True):
            K = len(rows)
            below = self._recover(chunk, rows, xs, ys, outs) if recovered else [rows]
            self._gradient_of_output(chunk, g_output, gs[-1][:K])
            begun = {self.L}  # of u, y¹, …, yᴸ, those whose gradient has a first term
            for l, x in reversed(list(enumerate(self._drives(chunk, xs)))):
                gx = gs[l][:K]
                if self.mask is not None:
                    gx *= self.mask[l]
                self.layers[l].adjoint(x, ys[l][: K + 1], gx, chunk.active, recovered)
                for k, matrix in self._links(l):
                    if k > 0 or need_u:
                        target = (work if k == 0 else gs[k - 1])[:K]
                        target.flatten(0, 1).addmm_(gx.flatten(0, 1), matrix, beta=1 if k in begun else 0)
                        begun.add(k)
            for l in range(self.L):
                for (k, _), g_matrix in zip(self._links(l), (gV[l], *gLambda[max(l - p.S, 0) :]), strict=False):
                    gx_t, y = gs[l][:K].flatten(0, 1).t(), below[k].flatten(0, 1)
                    if y.dtype == full:
                        g_matrix.addmm_(gx_t, y)
                    else:
                        g_matrix += gx_t @ y
                if not recovered:
                    below.append(self._masked(l, ys[l][1 : K + 1], outs))
            if need_u:
                gu[chunk.n0 : chunk.n1] = self._unsorted(work[:K], 1)
        gu[self.end :] = 0
        gw, gb, ga, gy, gz = (torch.stack(g) for g in zip(*(layer.gradients() for layer in self.layers), strict=True))
        gV, gLambda = ([g.to(p.u.dtype) for g in letter] for letter in (gV, gLambda))
        return Gradients(gu, self._unsorted(torch.stack([gy, gz]), 2), gw, gV, gb, ga, gLambda)

    def _gradient_of_output(self, chunk: _Chunk, g_output: Tensor | None, into: Tensor) -> None:
        if g_output is not None and self.p.every:
            into.copy_(self._sorted(g_output[chunk.n0 : chunk.n1], 1))
            return
        into.zero_()
        if g_output is not None and self.p.steps is not None:
            places, step, sequence = self._selected(chunk)
            into.index_put_((step, sequence), g_output.reshape(-1, self.m)[places], accumulate=True)
