"""Numba kernels that carry a group of sequences through all layers and all of time: forwards, backwards, or inverted.

Time is cut into chunks of K steps, and all layers run over a chunk before the next one, as in ``_ops.triton.driver``.
The working set of a chunk stays in the cache. A group has its own memory and Python makes one call per pass, so threads
never wait for each other. Imported on first use, because it imports numba.

Arrays are flat. A row has E = b·m elements; layers follow each other:

    x            (L, K, E)      drives, which become t; forwards (K, E), one layer after another
    activations  (L, N E)       t of all steps, for gradient="stored"
    y            (L, K + 1, E)  outputs, starting with the state before the chunk
    out          (L, K, E)      outputs times the mask, if there is one
    g            (L, K, E)      ∂E/∂y, which become ∂E/∂x
"""

from typing import NamedTuple

import numpy as np

from unicornn._ops.cpu.jit import helper, inline, kernel, view
from unicornn._ops.cpu.products import ONE, add_outer, drive, matrix_of, padded, panel_width, product
from unicornn._ops.cpu.recurrence import Constants, Layer, Pullback, adjoint, advance, retreat
from unicornn._ops.cpu.vectors import W, broadcast, first, load, load_where, prefetch_read, store, store_where

AHEAD = 2
"""Rows of a batch are prefetched this many steps ahead: each lies on other pages, which the hardware cannot predict."""


class Sizes(NamedTuple):
    """Sizes of a group. K: steps of a chunk. skip: S of the residual connections. end: length of the longest one."""

    K: int
    b: int
    d: int
    m: int
    L: int
    skip: int
    end: int


class Network(NamedTuple):
    """V and Λ of all layers, packed (up), and transposed and packed (down), and where each starts in these and in the
    gradients. mask (L, E), or empty."""

    up: np.ndarray
    down: np.ndarray
    up_at: np.ndarray
    down_at: np.ndarray
    g_at: np.ndarray
    mask: np.ndarray
    masked: bool


class Layers(NamedTuple):
    """States S, time steps A and parameters P of all layers, as ``recurrence`` lays them out."""

    S: np.ndarray
    A: np.ndarray
    P: np.ndarray
    constants: Constants


class Sequences(NamedTuple):
    """Rows of a tensor (N, batch, ·), flat, with its strides. order: the group's sequences by falling length, and their
    lengths. straight: whether these are neighbours in the batch and of full length."""

    data: np.ndarray
    step: int
    sequence: int
    element: int
    order: np.ndarray
    lengths: np.ndarray
    straight: bool


class Selection(NamedTuple):
    """Selected outputs: time steps, ascending; places in the list; its number of columns. every: all steps instead."""

    steps: np.ndarray
    places: np.ndarray
    columns: int
    every: bool


class Buffers(NamedTuple):
    """Scratch memory. rows: a chunk of u; g_rows: of its gradient. end: states after a chunk that is being inverted.
    out_of_range (L,): counts vectors that left the range. activations, states: t of every step and the states at the
    ends of chunks, if they are kept."""

    x: np.ndarray
    y: np.ndarray
    out: np.ndarray
    rows: np.ndarray
    g: np.ndarray
    g_rows: np.ndarray
    end: np.ndarray
    out_of_range: np.ndarray
    activations: np.ndarray
    states: np.ndarray
    kept: bool


class Adjoint(NamedTuple):
    """D and T of all layers, see ``recurrence``; the rates by which the adjoint fades; α as the sum of two numbers; the
    gradients of V and Λ, transposed; whether the output has a gradient; whether that of u is wanted."""

    D: np.ndarray
    T: np.ndarray
    fades: np.ndarray
    alpha: float
    alpha_rest: float
    g_matrices: np.ndarray
    given: bool
    need_u: bool


class _Chunk(NamedTuple):
    """K steps from n0 on, the number of running elements in each, and the input (K, b, d)."""

    n0: int
    K: int
    active: np.ndarray
    rows: np.ndarray


# Loops over rows are written with vectors: LLVM cannot know that arrays do not overlap, and would not vectorise them.


@inline
def _get(row, at, d, j):
    """Elements j, j + 1, … of a row of d."""
    return load(row, at + j) if j + W <= d else load_where(first(d - j), row, at + j)


@inline
def _put(row, at, d, j, v):
    if j + W <= d:
        store(row, at + j, v)
    else:
        store_where(first(d - j), row, at + j, v)


@helper
def _copy_row(data, at, stride, row, to, d):
    """row ← d elements of data that are ``stride`` apart."""
    if stride == 1:
        for j in range(0, d, W):
            _put(row, to, d, j, _get(data, at, d, j))
    elif stride == 0:  # the gradient of a sum or a mean
        for j in range(0, d, W):
            _put(row, to, d, j, broadcast(data[at]))
    else:
        for j in range(d):
            row[to + j] = data[at + j * stride]


@helper
def _zero(row, to, d):
    for j in range(0, d, W):
        _put(row, to, d, j, broadcast(row.dtype.type(0)))


@helper
def _times_mask(y, mask, l, E, K, out):
    """out (K, E) ← rows of y times those of layer l's mask."""
    for n in range(K):
        for j in range(0, E, W):
            _put(out, n * E, E, j, _get(y, n * E, E, j) * _get(mask, l * E, E, j))


@helper
def _copy(a, b):
    _copy_row(a, 0, 1, b, 0, len(b))


@inline
def _borrowed(s):
    """The arrays of sequences without reference counting at every element."""
    return view(s.data, 0, len(s.data)), view(s.order, 0, len(s.order)), view(s.lengths, 0, len(s.lengths))


@helper
def _gather(s, n0, K, b, d, rows):
    """rows (K, b, d) ← the sequences, zero in the padding."""
    data, order, lengths = _borrowed(s)
    if s.straight and s.sequence == d * s.element:  # the rows of a step are contiguous
        for n in range(K):
            at = (n0 + n) * s.step + order[0] * s.sequence
            if s.element == 1:
                for j in range(0, b * d, W):
                    prefetch_read(data, at + AHEAD * s.step + j)
                    _put(rows, n * b * d, b * d, j, _get(data, at, b * d, j))
            else:
                _copy_row(data, at, s.element, rows, n * b * d, b * d)
        return
    for n in range(K):
        for i in range(b):
            to = (n * b + i) * d
            if n0 + n < lengths[i]:
                _copy_row(data, (n0 + n) * s.step + order[i] * s.sequence, s.element, rows, to, d)
            else:
                _zero(rows, to, d)


@helper
def _scatter(s, n0, K, b, d, rows):
    """The sequences ← rows (K, b, d)."""
    data, order, _ = _borrowed(s)
    for n in range(K):
        for i in range(b):
            _copy_row(rows, (n * b + i) * d, 1, data, (n0 + n) * s.step + order[i] * s.sequence, d)


@helper
def _chunk(n0, z, u, active, rows):
    """The chunk from n0 on; its input is gathered in ``rows`` unless it can be read in place."""
    K, count = min(z.K, z.end - n0), len(u.lengths)
    for n in range(K):
        while count > 0 and u.lengths[count - 1] <= n0 + n:
            count -= 1
        active[n] = count * z.m
    if u.straight and u.step == z.b * z.d and u.sequence == z.d and u.element == 1:
        return _Chunk(n0, K, view(active, 0, K), view(u.data, n0 * u.step, K * z.b * z.d))
    _gather(u, n0, K, z.b, z.d, rows)
    return _Chunk(n0, K, view(active, 0, K), view(rows, 0, K * z.b * z.d))


@helper
def _part(a, l, L):
    """The l-th of L equal parts."""
    size = len(a) // L
    return view(a, l * size, size)


@inline
def _layer(layers, S, l, L):
    return Layer(_part(S, l, L), _part(layers.A, l, L), _part(layers.P, l, L))


@helper
def _outputs(z, net, buffers):
    """The outputs of all layers, and the distances of their rows and of the layers."""
    E = z.b * z.m
    return (buffers.out, z.m, z.K * E) if net.masked else (view(buffers.y, E, len(buffers.y) - E), z.m, (z.K + 1) * E)


@helper
def _below(k, chunk, outputs, E):
    """The input of layer k + 1: u, or the output of layer k."""
    return chunk.rows if k == 0 else view(outputs[0], (k - 1) * outputs[2], chunk.K * E)


@kernel
def forward(z, net, layers, u, output, selection, buffers):
    """Carries the state through the sequences; writes the output and what is buffers."""
    E, active, constants = z.b * z.m, np.empty(z.K, np.int64), layers.constants
    direct = selection.every and output.straight and not net.masked
    outputs, i = _outputs(z, net, buffers), 0
    for n0 in range(0, z.end, z.K):
        chunk = _chunk(n0, z, u, active, buffers.rows)
        K = chunk.K
        for l in range(z.L):
            x, y, stride = view(buffers.x, 0, K * E), view(buffers.y, l * (z.K + 1) * E + E, K * E), E
            t = view(buffers.activations, (l * z.end + n0) * E, K * E) if buffers.kept else x
            drive(l, z, (net.up, net.up_at), chunk.rows, outputs, x, z.m, K * z.b)
            layer = _layer(layers, layers.S, l, z.L)
            if direct and l == z.L - 1:
                at, stride = n0 * output.step + output.order[0] * output.sequence, output.step
                y = view(output.data, at, (K - 1) * stride + E)
            buffers.out_of_range[l] += advance(x, t, y, stride, layer, constants, chunk.active, E)
            if buffers.kept:
                _copy(layer.S, view(buffers.states, (n0 // z.K * z.L + l) * len(layer.S), len(layer.S)))
            if net.masked:
                _times_mask(y, net.mask, l, E, K, view(buffers.out, l * z.K * E, K * E))
        top = _below(z.L, chunk, outputs, E)
        if selection.every and not direct:
            _scatter(output, n0, K, z.b, z.m, top)
        while i < len(selection.steps) and selection.steps[i] < n0 + K:
            row, column = divmod(selection.places[i], selection.columns)
            to = row * output.step + output.order[column] * output.sequence
            _copy(view(top, ((selection.steps[i] - n0) * z.b + column) * z.m, z.m), view(output.data, to, z.m))
            i += 1


@helper
def _recover(chunk, z, net, layers, buffers):
    """Inverts all layers over a chunk, bottom up; ``buffers.end`` receives the states after it."""
    E, K = z.b * z.m, chunk.K
    for l in range(z.L):
        layer = _layer(layers, layers.S, l, z.L)
        x, y = view(buffers.x, l * z.K * E, K * E), view(buffers.y, l * (z.K + 1) * E, (K + 1) * E)
        drive(l, z, (net.up, net.up_at), chunk.rows, _outputs(z, net, buffers), x, z.m, K * z.b)
        _copy(layer.S, _part(buffers.end, l, z.L))
        buffers.out_of_range[l] += retreat(x, y, layer, layers.constants, chunk.active, E)
        if net.masked:
            _times_mask(view(y, E, K * E), net.mask, l, E, K, view(buffers.out, l * z.K * E, K * E))


@kernel
def inverse(z, net, layers, u, buffers):
    """Carries the state back to the start of the sequences."""
    active = np.empty(z.K, np.int64)
    for n0 in range((z.end - 1) // z.K * z.K, -1, -z.K):
        _recover(_chunk(n0, z, u, active, buffers.rows), z, net, layers, buffers)


@helper
def _gradient_of_output(chunk, z, g_output, given, selection, i, g):
    """g (K, b, m) ← ∂E/∂output of the chunk. i: number of selected outputs before its end; returns that before its
    start."""
    if given and selection.every:
        _gather(g_output, chunk.n0, chunk.K, z.b, z.m, g)
        return i
    _zero(g, 0, chunk.K * z.b * z.m)
    while given and i > 0 and selection.steps[i - 1] >= chunk.n0:
        i -= 1
        row, column = divmod(selection.places[i], selection.columns)
        at = row * g_output.step + g_output.order[column] * g_output.sequence
        to = ((selection.steps[i] - chunk.n0) * z.b + column) * z.m
        for j in range(z.m):
            g[to + j] += g_output.data[at + j * g_output.element]
    return i


@helper
def _layer_adjoint(l, chunk, z, net, layers, adj, buffers):
    """The adjoint of layer l over a chunk: its g becomes ∂E/∂x."""
    E, K = z.b * z.m, chunk.K
    y, g = view(buffers.y, l * (z.K + 1) * E, (K + 1) * E), view(buffers.g, l * z.K * E, K * E)
    t, S = view(buffers.x, l * z.K * E, K * E), buffers.end
    if buffers.kept:
        t, S = view(buffers.activations, (l * z.end + chunk.n0) * E, K * E), layers.S
    layer = _layer(layers, S, l, z.L)
    if buffers.kept:
        _copy(view(buffers.states, (chunk.n0 // z.K * z.L + l) * len(layer.S), len(layer.S)), layer.S)
    if net.masked:
        _times_mask(g, net.mask, l, E, K, g)
    back = Pullback(_part(adj.D, l, z.L), _part(adj.T, l, z.L), adj.alpha, adj.alpha_rest)
    if adj.fades[l] > 0:
        adjoint(t, y, g, layer, layers.constants, back, adj.fades[l], chunk.active, E)
    else:
        adjoint(t, y, g, layer, layers.constants, back, None, chunk.active, E)
    if buffers.kept and net.masked:
        _times_mask(view(y, E, K * E), net.mask, l, E, K, view(buffers.out, l * z.K * E, K * E))


@kernel
def backward(z, net, layers, u, g_output, gu, selection, adj, buffers):
    """Appendix B, chunk by chunk from the last: writes the gradients of V and Λ, transposed, of u if needed, and what
    ``adjoint`` accumulates."""
    E, active, i = z.b * z.m, np.empty(z.K, np.int64), len(selection.steps)
    outputs = _outputs(z, net, buffers)
    begun = np.empty(z.L + 1, np.bool_)  # which of u, y¹, …, yᴸ have a first term in their gradient
    for n0 in range((z.end - 1) // z.K * z.K, -1, -z.K):
        chunk = _chunk(n0, z, u, active, buffers.rows)
        K = chunk.K
        if not buffers.kept:
            _recover(chunk, z, net, layers, buffers)
        top = view(buffers.g, (z.L - 1) * z.K * E, K * E)
        i = _gradient_of_output(chunk, z, g_output, adj.given, selection, i, top)
        begun[:] = False
        for l in range(z.L - 1, -1, -1):
            _layer_adjoint(l, chunk, z, net, layers, adj, buffers)
            g, w = view(buffers.g, l * z.K * E, K * E), panel_width(buffers.g)
            for link in range(2 if l >= z.skip else 1):
                k, j, n = matrix_of(l, link, z)
                if k > 0 or adj.need_u:
                    to = view(buffers.g_rows, 0, K * z.b * n) if k == 0 else view(buffers.g, (k - 1) * z.K * E, K * E)
                    M = view(net.down, net.down_at[j], z.m * padded(g, n))
                    product(g, (z.m, ONE), M, (w, z.m * w), z.m, to, K * z.b, n, begun[k])
                    begun[k] = True
        for l in range(z.L):
            for link in range(2 if l >= z.skip else 1):
                k, j, n = matrix_of(l, link, z)
                g, to = view(buffers.g, l * z.K * E, K * E), view(adj.g_matrices, net.g_at[j], n * z.m)
                add_outer(_below(k, chunk, outputs, E), n, g, z.m, K * z.b, to)
        if adj.need_u:
            _scatter(gu, n0, K, z.b, z.d, buffers.g_rows)
