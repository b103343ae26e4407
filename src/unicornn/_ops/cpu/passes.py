"""Numba kernels that carry a group of sequences through all layers and all of time: forwards, backwards, or only back.

Time is cut into chunks of K steps, and all layers go through a chunk before the next one, as in ``stack``, which says
why. What a thread works on in a chunk stays in its cache, and it asks nobody: a group has memory of its own, and Python
is called once for the whole pass. Imported on first use, for it brings numba along.

Arrays are flat. Those of a layer l in a chunk have E = b·m numbers a row and lie one after another:

    x    (L, K, E)       the drives, which become t; forwards (K, E), of one layer after another
    keep (L, N E)        t of all steps, for ``store``
    y    (L, K + 1, E)   the outputs, from the state before the chunk on
    out  (L, K, E)       the outputs times the mask, if there is one
    g    (L, K, E)       ∂E/∂y, which become ∂E/∂x
"""

from typing import NamedTuple

import numpy as np

from unicornn._ops.cpu.jit import inline, kernel, view
from unicornn._ops.cpu.products import add_outer, multiply, padded
from unicornn._ops.cpu.recurrence import adjoint, advance, retreat
from unicornn._ops.cpu.sizes import B
from unicornn._ops.cpu.vectors import W, first, load, load_where, soon_read, spread, store, store_where

AHEAD = 2
"""Steps by which rows of a batch are asked for: each lies on other pages, where a processor does not look ahead."""


class Sizes(NamedTuple):
    """Of a group. K: steps in a chunk; skip: S of the residual connections; end: of the longest sequence."""

    K: int
    b: int
    d: int
    m: int
    L: int
    skip: int
    end: int


class Network(NamedTuple):
    """V and Λ of all layers: packed for the way up, and transposed for the way down; where each begins in these, and in
    their gradients (3, ·); the mask (L, E), if any."""

    up: np.ndarray
    down: np.ndarray
    at: np.ndarray
    mask: np.ndarray
    masked: bool


class Layers(NamedTuple):
    """What ``cpu_kernels`` calls S, A and P, of all layers; the grid's unit, α per unit, the limit of the range."""

    S: np.ndarray
    A: np.ndarray
    P: np.ndarray
    unit: float
    alpha: float
    limit: float


class Sequences(NamedTuple):
    """The rows of a tensor (N, batch, ·), flat: number of step n and sequence i are from n·step + i·sequence on, each
    the next by ``element``. order: the sequences of the group, by falling length; lengths: theirs."""

    data: np.ndarray
    step: int
    sequence: int
    element: int
    order: np.ndarray
    lengths: np.ndarray
    straight: bool


class Wanted(NamedTuple):
    """The outputs that are wanted: their steps, rising; their places in the list; and how many sequences that has."""

    steps: np.ndarray
    places: np.ndarray
    count: int


@kernel
def _running(active, lengths, n0, m):
    """How many elements of a row run at each step from n0 on."""
    count = len(lengths)
    for n in range(len(active)):
        while count > 0 and lengths[count - 1] <= n0 + n:
            count -= 1
        active[n] = count * m


# Loops over a row are written in vectors: LLVM, which cannot know that arrays do not overlap, makes none of them.


@inline
def _get(row, at, d, j):
    """Numbers j, j + 1, … of a row of d."""
    return load(row, at + j) if j + W <= d else load_where(first(d - j), row, at + j)


@inline
def _put(row, at, d, j, v):
    if j + W <= d:
        store(row, at + j, v)
    else:
        store_where(first(d - j), row, at + j, v)


@kernel
def _row(data, at, step, row, to, d):
    """row ← d numbers, each the next by ``step``."""
    if step == 1:
        for j in range(0, d, W):
            _put(row, to, d, j, _get(data, at, d, j))
    elif step == 0:  # the gradient of a sum or a mean
        for j in range(0, d, W):
            _put(row, to, d, j, spread(data[at]))
    else:
        for j in range(d):
            row[to + j] = data[at + j * step]


@kernel
def _zero(row, to, d):
    for j in range(0, d, W):
        _put(row, to, d, j, spread(row.dtype.type(0)))


@kernel
def _times(y, mask, l, E, K, out):
    """out (K, E) ← the rows of y times those of layer l's mask."""
    for n in range(K):
        for j in range(0, E, W):
            _put(out, n * E, E, j, _get(y, n * E, E, j) * _get(mask, l * E, E, j))


@kernel
def _copy(a, b):
    _row(a, 0, 1, b, 0, len(b))


@kernel
def _row_of_many(data, at, ahead, row, to, d):
    """row ← d numbers that lie side by side, while those ``ahead`` of them, if they exist, are brought to the cache."""
    for j in range(0, d, W):
        soon_read(data, at + ahead + j)
        _put(row, to, d, j, _get(data, at, d, j))


@kernel
def _gather(s, n0, K, b, d, rows):
    """Rows of sequences into (K, b, d), zero in the padding."""
    data, order, lengths = _unowned(s)
    if s.straight and s.sequence == d * s.element:  # those of a step lie side by side
        for n in range(K):
            at = (n0 + n) * s.step + order[0] * s.sequence
            if s.element == 1:
                _row_of_many(data, at, AHEAD * s.step, rows, n * b * d, b * d)
            else:
                _row(data, at, s.element, rows, n * b * d, b * d)
        return
    for n in range(K):
        for i in range(b):
            to = (n * b + i) * d
            if n0 + n < lengths[i]:
                _row(data, (n0 + n) * s.step + order[i] * s.sequence, s.element, rows, to, d)
            else:
                _zero(rows, to, d)


@kernel
def _scatter(s, n0, K, b, d, rows):
    """Rows (K, b, d) to where the sequences have them."""
    data, order, _ = _unowned(s)
    for n in range(K):
        for i in range(b):
            _row(rows, (n * b + i) * d, 1, data, (n0 + n) * s.step + order[i] * s.sequence, d)


@inline
def _unowned(s):
    """The arrays of sequences, whose references are not counted at every element."""
    return view(s.data, 0, len(s.data)), view(s.order, 0, len(s.order)), view(s.lengths, 0, len(s.lengths))


@kernel
def _input(u, n0, K, z, rows):
    """The chunk's input (K, b, d): where it is, or gathered."""
    if u.straight and u.step == z.b * z.d and u.sequence == z.d and u.element == 1:
        return view(u.data, n0 * u.step, K * z.b * z.d)
    _gather(u, n0, K, z.b, z.d, rows)
    return rows


@kernel
def _matrix(l, link, z):
    """V (link 0) or Λ (1) of layer l: its number among all, and how many columns it has."""
    return (z.L + l - z.skip, z.d if l == z.skip else z.m) if link else (l, z.d if l == 0 else z.m)


@kernel
def _drive(l, K, z, net, rows, y, out, x):
    """x ← V yˡ⁻¹ + Λ yˡ⁻ˢ⁻¹ (the bias is the recurrence's)."""
    for link in range(2 if l >= z.skip else 1):
        below = _below(l if link == 0 else l - z.skip, K, z, net, rows, y, out)
        i, n = _matrix(l, link, z)
        M = view(net.up, net.at[0, i], n * padded(x, z.m))
        multiply(below, n, n, M, x, z.m, K * z.b, link == 1)


@kernel
def _below(k, K, z, net, rows, y, out):
    """What layer k + 1 sees: the input, or the output of layer k."""
    E = z.b * z.m
    if k == 0:
        return view(rows, 0, K * z.b * z.d)
    if net.masked:
        return view(out, (k - 1) * z.K * E, K * E)
    return view(y, (k - 1) * (z.K + 1) * E + E, K * E)


@kernel
def _own(a, l, L):
    """The part of layer l, of so many."""
    size = len(a) // L
    return view(a, l * size, size)


@kernel
def forward(z, net, layers, u, output, every, wanted, keep, marks, stored, x, y, out, rows, out_of_range):
    """Carries the state through the sequences; writes the output, t and the states at the cuts."""
    E, active = z.b * z.m, np.empty(z.K, np.int64)
    blocks = -(-E // B)
    direct = every and output.straight and not net.masked
    i = 0
    for n0 in range(0, z.end, z.K):
        K = min(z.K, z.end - n0)
        act = view(active, 0, K)
        _running(act, u.lengths, n0, z.m)
        first = _input(u, n0, K, z, rows)
        for l in range(z.L):
            x_l = view(x, 0, K * E)
            t_l = view(keep, (l * z.end + n0) * E, K * E) if stored else x_l
            y_l = view(y, l * (z.K + 1) * E + E, K * E)
            _drive(l, K, z, net, first, y, out, x_l)
            S, A, P = _own(layers.S, l, z.L), _own(layers.A, l, z.L), _own(layers.P, l, z.L)
            of = layers.unit, layers.alpha, layers.limit
            if direct and l == z.L - 1:
                at = n0 * output.step + output.order[0] * output.sequence
                to = view(output.data, at, (K - 1) * output.step + E)
                out_of_range[l] += advance(x_l, t_l, to, S, A, P, of[0], of[1], of[2], act, E, output.step, 0, blocks)
            else:
                out_of_range[l] += advance(x_l, t_l, y_l, S, A, P, of[0], of[1], of[2], act, E, E, 0, blocks)
            if stored:
                _copy(S, view(marks, (n0 // z.K * z.L + l) * len(S), len(S)))
            if net.masked:
                _times(y_l, net.mask, l, E, K, view(out, l * z.K * E, K * E))
        top = _below(z.L, K, z, net, first, y, out)
        if every and not direct:
            _scatter(output, n0, K, z.b, z.m, top)
        while i < len(wanted.steps) and wanted.steps[i] < n0 + K:
            place, sequence = wanted.places[i] // wanted.count, wanted.places[i] % wanted.count
            to = place * output.step + output.order[sequence] * output.sequence
            _copy(view(top, ((wanted.steps[i] - n0) * z.b + sequence) * z.m, z.m), view(output.data, to, z.m))
            i += 1


@kernel
def _recover(K, z, net, layers, end, act, first, x, y, out, out_of_range):
    """Inverts all layers over a chunk, bottom up; ``end`` receives the states after it."""
    E = z.b * z.m
    for l in range(z.L):
        S, A, P = _own(layers.S, l, z.L), _own(layers.A, l, z.L), _own(layers.P, l, z.L)
        x_l, y_l = view(x, l * z.K * E, K * E), view(y, l * (z.K + 1) * E, (K + 1) * E)
        _drive(l, K, z, net, first, y, out, x_l)
        _copy(S, _own(end, l, z.L))
        out_of_range[l] += retreat(x_l, y_l, S, A, P, layers.unit, layers.alpha, layers.limit, act, E, 0, -(-E // B))
        if net.masked:
            _times(view(y_l, E, K * E), net.mask, l, E, K, view(out, l * z.K * E, K * E))


@kernel
def inverse(z, net, layers, u, end, x, y, out, rows, out_of_range):
    """Carries the state back to the beginning."""
    active = np.empty(z.K, np.int64)
    for n0 in range((z.end - 1) // z.K * z.K, -1, -z.K):
        K = min(z.K, z.end - n0)
        act = view(active, 0, K)
        _running(act, u.lengths, n0, z.m)
        first = _input(u, n0, K, z, rows)
        _recover(K, z, net, layers, end, act, first, x, y, out, out_of_range)


@kernel
def _gradient_of_output(n0, K, z, g_output, given, every, wanted, i, g):
    """g (K, b, m) ← ∂E/∂output of the chunk; i outputs of the list are wanted before its end. Returns how many before
    its beginning."""
    if given and every:
        _gather(g_output, n0, K, z.b, z.m, g)
        return i
    _zero(g, 0, K * z.b * z.m)
    while given and i > 0 and wanted.steps[i - 1] >= n0:
        i -= 1
        place, sequence = wanted.places[i] // wanted.count, wanted.places[i] % wanted.count
        at = place * g_output.step + g_output.order[sequence] * g_output.sequence
        to = ((wanted.steps[i] - n0) * z.b + sequence) * z.m
        for j in range(z.m):
            g[to + j] += g_output.data[at + j * g_output.element]
    return i


@kernel
def backward(
    z, net, layers, u, g_output, given, every, wanted, keep, marks, stored, D, T, fades, single, rest, gu, need_u, gM,
    end, x, y, out, g, g_rows, rows, out_of_range,
):  # fmt: skip
    """Appendix B, chunk by chunk from the last: the gradients of V and Λ, transposed, of u if need be, and what
    ``adjoint`` gathers."""
    E, active, i = z.b * z.m, np.empty(z.K, np.int64), len(wanted.steps)
    blocks, begun = -(-E // B), np.empty(z.L + 1, np.bool_)
    for n0 in range((z.end - 1) // z.K * z.K, -1, -z.K):
        K = min(z.K, z.end - n0)
        act = view(active, 0, K)
        _running(act, u.lengths, n0, z.m)
        first = _input(u, n0, K, z, rows)
        if not stored:
            _recover(K, z, net, layers, end, act, first, x, y, out, out_of_range)
        i = _gradient_of_output(n0, K, z, g_output, given, every, wanted, i, view(g, (z.L - 1) * z.K * E, K * E))
        begun[:] = False
        for l in range(z.L - 1, -1, -1):
            A, D_l, T_l = _own(layers.A, l, z.L), _own(D, l, z.L), _own(T, l, z.L)
            x_l, S = view(x, l * z.K * E, K * E), _own(end, l, z.L)
            if stored:
                x_l, S = view(keep, (l * z.end + n0) * E, K * E), _own(layers.S, l, z.L)
                _copy(view(marks, (n0 // z.K * z.L + l) * len(S), len(S)), S)
            y_l, g_l = view(y, l * (z.K + 1) * E, (K + 1) * E), view(g, l * z.K * E, K * E)
            if net.masked:
                _times(g_l, net.mask, l, E, K, g_l)
            of = layers.unit, layers.alpha, layers.limit
            if fades[l] > 0:
                adjoint(x_l, y_l, g_l, S, A, D_l, T_l, of[0], of[1], of[2], single, rest, fades[l], act, E, 0, blocks)
            else:
                adjoint(x_l, y_l, g_l, S, A, D_l, T_l, of[0], of[1], of[2], single, rest, None, act, E, 0, blocks)
            if stored and net.masked:
                _times(view(y_l, E, K * E), net.mask, l, E, K, view(out, l * z.K * E, K * E))
            for link in range(2 if l >= z.skip else 1):
                k = l if link == 0 else l - z.skip
                if k == 0 and not need_u:
                    continue
                j, n = _matrix(l, link, z)
                to = view(g_rows, 0, K * z.b * n) if k == 0 else view(g, (k - 1) * z.K * E, K * E)
                M = view(net.down, net.at[1, j], z.m * padded(g_l, n))
                multiply(g_l, z.m, z.m, M, to, n, K * z.b, begun[k])
                begun[k] = True
        for l in range(z.L):
            g_l = view(g, l * z.K * E, K * E)
            for link in range(2 if l >= z.skip else 1):
                below = _below(l if link == 0 else l - z.skip, K, z, net, first, y, out)
                j, n = _matrix(l, link, z)
                to = view(gM, net.at[2, j], n * z.m)
                add_outer(below, n, g_l, z.m, K * z.b, to)
        if need_u:
            _scatter(gu, n0, K, z.b, z.d, g_rows)
