"""Numba kernels of live sequences: any number of them, each advanced by all of its new samples, and their features.

The state of a sequence is a row of S: per layer and block of B neurons Y, Z in grid units, 2 rows of B. The rows of a
call are sorted by falling number of samples, so that those still running come first. A block of ROWS rows is carried
through all of its samples in local memory and written back at the end, unless a state left the range. Layout and
arithmetic are those of ``step_kernels``: a sequence's results do not depend on the other rows. Imported on first use,
because it imports numba.
"""

import math
from typing import NamedTuple

import numpy as np

from unicornn._ops.cpu.jit import helper, kernel, view
from unicornn._ops.cpu.products import ONE, drive, padded
from unicornn._ops.cpu.recurrence import advance_row, retreat
from unicornn._ops.cpu.sizes import ROWS, B
from unicornn._ops.cpu.step_kernels import block_of
from unicornn._ops.reference import ENERGY_FLOOR, ENERGY_SERIES


class Samples(NamedTuple):
    """New samples. u: those of all rows, (·, d), flat; row r has ``count[r]`` of them, from ``begin[r]`` on. slot: its
    row in ``States``. asked: 0 for no features, 1 after the last sample, in row r, 2 after each, from row begin[r]."""

    u: np.ndarray
    begin: np.ndarray
    count: np.ndarray
    slot: np.ndarray
    asked: np.ndarray


class States(NamedTuple):
    """S: states; sums: of the outputs so far; steps: number of steps so far. One row per sequence."""

    S: np.ndarray
    sums: np.ndarray
    steps: np.ndarray


class Wanted(NamedTuple):
    """Features to compute: the last output, the mean output, log energies, the state. commit: whether to update the
    states. alpha: α."""

    last: bool
    mean: bool
    energy: bool
    state: bool
    commit: bool
    alpha: float


@helper
def log_energy(y, z, w, alpha):
    """½ log(E² + ε²) of the energy E; see ``reference.energy``."""
    t = w * y
    if abs(t) < ENERGY_SERIES:
        slope = t / 2 * (1 - t * t / 6 + 2 * t * t * t * t / 45)
    else:
        slope = (abs(t) + math.log1p(math.expm1(-2 * abs(t)) / 2)) / t
    E = z * z / 2 + alpha / 2 * y * y + slope * y
    return math.log(E * E + ENERGY_FLOOR * ENERGY_FLOOR) / 2


@helper
def _write_features(f, wanted, top, total, steps, S, net):
    """f ← features of a sequence, in the order of ``Wanted``; the state as y of all layers, then z of all layers."""
    L, m, o, unit = net.L, net.m, 0, np.float64(net.constants.unit)
    if wanted.last:
        for i in range(m):
            f[i] = top[i]
        o = m
    if wanted.mean:
        for i in range(m):
            f[o + i] = total[i] / steps
        o += m
    states_at = o + L * m if wanted.energy else o
    for l in range(L):
        for i in range(m):
            k = (l * -(-m // B) + i // B) * 2 * B + i % B
            y, z = S[k] * unit, S[B + k] * unit
            if wanted.energy:
                f[o + l * m + i] = log_energy(y, z, np.float64(net.P[k]), wanted.alpha)
            if wanted.state:
                f[states_at + l * m + i], f[states_at + (L + l) * m + i] = y, z


@helper
def _step(net, u, now, x, own, rows, bad):
    """One step of the first rows: from inputs u writes the outputs ``now`` of all layers and updates the states."""
    ld, blocks = padded(u, net.m), -(-net.m // B)
    for l in range(net.L):
        drive(l, net, (net.M, net.at), u, (now, ld, ROWS * ld), x, ld, rows)
        for j in range(blocks):
            for r in range(rows):
                S = view(own, r * own.shape[1] + (l * blocks + j) * 2 * B, 2 * B)
                t, y = view(x, r * ld + j * B, B), view(now, (l * ROWS + r) * ld + j * B, B)
                bad[r] += advance_row(t, y, block_of(net, S, l, j), net.constants, min(B, net.m - j * B))


@kernel
def carry(net, samples, states, wanted, F, bad, k0, k1):
    """Advances the blocks k0 to k1 of ROWS sequences by their samples and writes features to F (·, width).

    bad (rows,): counts states that left the range; such a sequence keeps its state.
    """
    u, begin, count, slot, asked = samples
    m, d, ld, width = net.m, net.d, padded(u, net.m), F.shape[1]
    most = min(ROWS, len(count))
    own, now = np.empty((most, states.S.shape[1]), states.S.dtype), np.empty(net.L * ROWS * ld, u.dtype)
    x, inputs = np.empty(most * ld, u.dtype), np.empty(most * d, u.dtype)
    totals = np.empty((most, states.sums.shape[1]))
    for k in range(k0, k1):
        start = k * ROWS
        rows = min(ROWS, len(count) - start)
        for r in range(rows):
            own[r], totals[r] = states.S[slot[start + r]], states.sums[slot[start + r]]
        for n in range(count[start]):
            while count[start + rows - 1] <= n:
                rows -= 1
            for r in range(rows):
                for i in range(d):
                    inputs[r * d + i] = u[(begin[start + r] + n) * d + i]
            _step(net, inputs, now, x, own, rows, view(bad, start, rows))
            for r in range(rows):
                top, total = view(now, ((net.L - 1) * ROWS + r) * ld, m), view(totals, r * totals.shape[1], m)
                if wanted.mean:
                    for i in range(m):
                        total[i] += np.float64(top[i])
                answer = asked[start + r]
                if answer == 2 or (answer == 1 and n == count[start + r] - 1):
                    f = view(F, (begin[start + r] + n if answer == 2 else start + r) * width, width)
                    steps, S = states.steps[slot[start + r]] + n + 1, view(own, r * own.shape[1], own.shape[1])
                    _write_features(f, wanted, top, total, steps, S, net)
        if wanted.commit:
            for r in range(min(ROWS, len(count) - start)):
                if bad[start + r] == 0:
                    states.S[slot[start + r]], states.sums[slot[start + r]] = own[r], totals[r]
                    states.steps[slot[start + r]] += count[start + r]


@kernel
def withdraw(net, u, S):
    """Takes back the last samples u (n, d) of a sequence, the last one first: Eq. (7) from its state S, a row of
    ``States.S``. All layers are driven by the outputs that they had after a step."""
    m, ld, blocks = net.m, padded(u, net.m), -(-net.m // B)
    now, x, y = np.empty(net.L * ROWS * ld, u.dtype), np.empty(ld, u.dtype), np.empty(2 * B, u.dtype)
    for n in range(len(u) - 1, -1, -1):
        for l in range(net.L):
            for i in range(m):
                now[l * ROWS * ld + i] = S[(l * blocks + i // B) * 2 * B + i % B] * np.float64(net.constants.unit)
        for l in range(net.L):
            drive(l, net, (net.M, net.at), u[n], (now, ld, ROWS * ld), x, ld, ONE)
            for j in range(blocks):
                e, own = min(B, m - j * B), view(S, (l * blocks + j) * 2 * B, 2 * B)
                active = np.full(1, e)
                retreat(view(x, j * B, e), y, block_of(net, own, l, j), net.constants, active, e)
