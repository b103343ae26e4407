"""Kernels of a bank: from a series to the pools of one layer, a few windows at a time, so that all stays in the cache.

W, the number of lanes, is not the length of a window here; windows have ``samples``. Imported on first use, because it
imports numba.
"""

from typing import NamedTuple

import numpy as np

from unicornn._ops.cpu.jit import helper, inline, kernel, log, tanh, view
from unicornn._ops.cpu.recurrence import energy, rounding_step
from unicornn._ops.cpu.vectors import W, broadcast, first, fma, load, store, store_where
from unicornn.estimators._pooling_kernels import add_rows

CHAINS = 4  # oscillators' vectors that run side by side: a step is one long chain of operations
AT_ONCE = 64  # windows between two updates of the pools
MARGIN = np.float32(1e-3)  # added to energies before the logarithm


class Windows(NamedTuple):
    """Windows of a view. shape: whether the window's mean is subtracted; differ: whether the input is increments, and
    by_own: of the series standardised by its own deviation; aligned: whether one more window ends with the series;
    deviation (d,): unit of the input."""

    samples: int
    pace: int
    hop: int
    shape: bool
    differ: bool
    by_own: bool
    aligned: bool
    deviation: np.ndarray


class Layer(NamedTuple):
    """m oscillators in M lanes: w, b, a, each (M,) in float32; V (sides, d, M), sides being 2 for pairs. phases:
    whether y is among the quantities. frequency (M,): square root of α + w."""

    m: int
    sides: int
    phases: bool
    alpha: np.float32
    w: np.ndarray
    b: np.ndarray
    a: np.ndarray
    frequency: np.ndarray
    V: np.ndarray


@kernel
def prepare(x, d, windows, u):
    """Input (n, d) of the oscillators from a series x (N, d), both flat; returns n."""
    N = x.size // d
    n, width = max(1, N // windows.pace), min(windows.pace, N)
    for c in range(d):
        scale = 1 / np.float64(windows.deviation[c])
        if windows.by_own:
            mean, variance = 0.0, 0.0
            for i in range(N):
                mean += x[i * d + c] / N
            for i in range(N):
                variance += (x[i * d + c] - mean) ** 2 / N
            scale /= np.sqrt(variance) + 1e-6
        before = 0.0
        for i in range(n):
            total = 0.0
            for k in range(i * width, (i + 1) * width):
                total += x[k * d + c]
            total /= width
            u[i * d + c] = (0.0 if i == 0 else total - before) * scale if windows.differ else total * scale
            before = total
    return n


@inline
def _start(u, at, length, d, layer, V, i, shape):
    """Constant part of the drive: b, minus V times the mean of the window for ``shape``."""
    x = load(layer.b, i)
    if shape:
        for c in range(d):
            total = np.float32(0)
            for k in range(length):
                total += u[at + k * d + c]
            x = fma(load(layer.V, V + c * layer.w.size), -total / np.float32(length), x)
    return x


@inline
def _step(u, at, d, layer, V, i, drive, y, z):
    """A step of one vector from the sample at ``at``."""
    for c in range(d):
        drive = fma(load(layer.V, V + c * layer.w.size), u[at + c], drive)
    return rounding_step(tanh(fma(load(layer.w, i), y, drive)), y, z, load(layer.a, i), layer.alpha)


@helper
def _run(u, d, layer, starts, length, shape, ends):
    """Runs four chains from rest: four windows, or two with two sides. ends (4, 2, M): y and z at the ends."""
    M, zero = layer.w.size, broadcast(np.float32(0))
    o0, o1, o2, o3 = starts[0] * d, starts[1] * d, starts[2] * d, starts[3] * d
    for i in range(0, M, W):
        V, other = i, i + (layer.sides - 1) * d * M
        b0 = _start(u, o0, length, d, layer, V, i, shape)
        b1 = _start(u, o1, length, d, layer, other, i, shape)
        b2 = _start(u, o2, length, d, layer, V, i, shape)
        b3 = _start(u, o3, length, d, layer, other, i, shape)
        y0, z0, y1, z1, y2, z2, y3, z3 = zero, zero, zero, zero, zero, zero, zero, zero
        for k in range(0, length * d, d):
            y0, z0 = _step(u, o0 + k, d, layer, V, i, b0, y0, z0)
            y1, z1 = _step(u, o1 + k, d, layer, other, i, b1, y1, z1)
            y2, z2 = _step(u, o2 + k, d, layer, V, i, b2, y2, z2)
            y3, z3 = _step(u, o3 + k, d, layer, other, i, b3, y3, z3)
        store(ends, i, y0)
        store(ends, M + i, z0)
        store(ends, 2 * M + i, y1)
        store(ends, 3 * M + i, z1)
        store(ends, 4 * M + i, y2)
        store(ends, 5 * M + i, z2)
        store(ends, 6 * M + i, y3)
        store(ends, 7 * M + i, z3)


@inline
def _energies(ends, at, layer, i):
    M = layer.w.size
    return energy(load(ends, at + i), load(ends, at + M + i), load(layer.w, i), layer.alpha)


@helper
def _quantities(ends, at, layer, values, row):
    """Quantities of single oscillators, y if ``phases`` and log energies, into a row of ``values``."""
    m = layer.m
    for i in range(0, m, W):
        inside, after = first(m - i), row + i
        if layer.phases:
            store_where(inside, values, after, load(ends, at + i))
            after += m
        store_where(inside, values, after, log(_energies(ends, at, layer, i) + MARGIN))


@helper
def _pair_quantities(ends, at, layer, values, row):
    """Angular momentum and inner product of pairs, over the sum of their energies, into a row of ``values``."""
    M, m = layer.w.size, layer.m
    other = at + 2 * M
    for i in range(0, m, W):
        inside, omega = first(m - i), load(layer.frequency, i)
        y0, z0, y1, z1 = (load(ends, at + i), load(ends, at + M + i), load(ends, other + i), load(ends, other + M + i))
        total = _energies(ends, at, layer, i) + _energies(ends, other, layer, i) + MARGIN
        store_where(inside, values, row + i, omega * (y0 * z1 - y1 * z0) / total)
        store_where(inside, values, row + m + i, (z0 * z1 + omega * omega * y0 * y1) / total)


@helper
def run_windows(u, d, windows, layer, starts, values, ends):
    """The quantities at the ends of the windows ``starts`` (k,) of the input u (n, d) into rows of ``values``."""
    length, each = min(u.size // d, windows.samples), CHAINS // layer.sides
    four = np.empty(CHAINS, np.int64)
    for k in range(0, starts.size, each):
        for j in range(CHAINS):
            four[j] = starts[min(k + j // layer.sides, starts.size - 1)]
        _run(u, d, layer, four, length, windows.shape, ends)
        for j in range(min(each, starts.size - k)):
            at, row = j * layer.sides * 2 * layer.w.size, (k + j) * values.shape[1]
            if layer.sides == 2:
                _pair_quantities(ends, at, layer, values, row)
            else:
                _quantities(ends, at, layer, values, row)


@kernel
def prepare_series(x, cuts, d, windows, u):
    """Inputs of all series one after the other; returns their number of samples."""
    samples = 0
    for n in range(len(cuts) - 1):
        size = (cuts[n + 1] - cuts[n]) * d
        samples += prepare(view(x, cuts[n] * d, size), d, windows, view(u, samples * d, size))
    return samples


@kernel
def run_series(x, cuts, d, windows, layer, starts, bounds, values):
    """The quantities (k, F) at the ends of windows; series n has those between bounds[n] and bounds[n + 1]."""
    u, ends = np.empty(x.size, np.float32), np.empty(CHAINS * 2 * layer.w.size, np.float32)
    for n in range(len(cuts) - 1):
        samples = prepare(view(x, cuts[n] * d, (cuts[n + 1] - cuts[n]) * d), d, windows, u)
        k0, k1 = bounds[n], bounds[n + 1]
        run_windows(view(u, 0, samples * d), d, windows, layer, view(starts, k0, k1 - k0), values[k0:k1], ends)


@kernel
def pool_series(x, cuts, d, windows, layer, levels, pools):
    """Adds all windows of series to their pools. Series n consists of the steps cuts[n] to cuts[n + 1] of x, flat."""
    longest = 0
    for n in range(len(cuts) - 1):
        longest = max(longest, cuts[n + 1] - cuts[n])
    u, starts = np.empty(longest * d, np.float32), np.empty(AT_ONCE, np.int64)
    values = np.empty((AT_ONCE, levels.shape[1]), np.float32)
    ends = np.empty(CHAINS * 2 * layer.w.size, np.float32)
    for n in range(len(cuts) - 1):
        samples = prepare(view(x, cuts[n] * d, (cuts[n + 1] - cuts[n]) * d), d, windows, u)
        last = max(0, samples - windows.samples)
        count = 1 + (-(-last // windows.hop) if windows.aligned else last // windows.hop)
        for k0 in range(0, count, AT_ONCE):
            rows = min(AT_ONCE, count - k0)
            for k in range(rows):
                starts[k] = min((k0 + k) * windows.hop, last)
            run_windows(view(u, 0, samples * d), d, windows, layer, view(starts, 0, rows), values, ends)
            add_rows(values, 0, rows, levels, pools, n)
