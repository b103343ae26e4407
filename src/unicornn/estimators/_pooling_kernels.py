"""The kernel of ``_pooling``, imported on first use because it imports numba."""

import numpy as np

from unicornn._ops.cpu.jit import helper, inline, kernel, view

GROUP = 8  # neighbours that compete; oscillators are ordered by their time scale
TIE = np.float32(1e-3)  # deviations


@kernel
def _add(x, total, high, low):
    for i in range(x.size):
        total[i] += np.float64(x[i])
        high[i] = max(high[i], x[i])
        low[i] = max(low[i], -x[i])


@kernel
def _add_moments(x, number, square, moment):
    for i in range(x.size):
        exact = np.float64(x[i])
        square[i] += exact * exact
        moment[i] += number * exact


@kernel
def _count(x, level, above):
    for i in range(x.size):
        above[i] += x[i] > level[i]


@kernel
def _cross(x, middle, crossed, side):
    for i in range(x.size):
        now = 1.0 if x[i] > middle[i] else 0.0
        crossed[i] += 1.0 if side[i] + now == 1.0 else 0.0  # 0 and 1; -1 is neither
        side[i] = now


@inline
def compete(x, middle, unit, wins, losses, won):
    """In each group of neighbours: whose standardised value is largest and smallest, and the largest value.

    The first of several values that differ by less than ``TIE`` counts: windows in which nothing happens give the
    median of every oscillator, and rounding would decide.
    """
    for start in range(0, x.size, GROUP):
        end = min(start + GROUP, x.size)
        highest = lowest = (x[start] - middle[start]) * unit[start]
        for i in range(start + 1, end):
            value = (x[i] - middle[i]) * unit[i]
            highest, lowest = max(highest, value), min(lowest, value)
        high = low = end
        for i in range(end - 1, start - 1, -1):
            value = (x[i] - middle[i]) * unit[i]
            high = i if value >= highest - TIE else high
            low = i if value <= lowest + TIE else low
        wins[high] += 1
        losses[low] += 1
        won[high] += highest


@helper
def add_rows(values, start, end, levels, pools, n):
    """Adds consecutive windows, rows of values (k, F), to the pools of series n. levels: ``Oscillators.all_levels``."""
    F, q, E = levels.shape[1], levels.shape[0] - 2, pools.side.shape[1]
    middle, unit = view(levels, q * F + F - E, E), view(levels, (q + 1) * F + F - E, E)
    total, side = view(pools.totals, n * F, F), view(pools.side, n * E, E)
    high, low = view(pools.extremes, 2 * n * F, F), view(pools.extremes, (2 * n + 1) * F, F)
    square, moment = view(pools.moments, 2 * n * E, E), view(pools.moments, (2 * n + 1) * E, E)
    for row in range(start, end):
        energies = view(values, row * F + F - E, E)
        _add(view(values, row * F, F), total, high, low)
        _add_moments(energies, np.float64(pools.seen[n]), square, moment)
        pools.seen[n] += 1
        for j in range(q):
            _count(energies, view(levels, j * F + F - E, E), view(pools.counts, (n * (q + 1) + j) * E, E))
        _cross(energies, middle, view(pools.counts, (n * (q + 1) + q) * E, E), side)
        if pools.contests.size:
            wins, losses = view(pools.contests, 3 * n * E, E), view(pools.contests, (3 * n + 1) * E, E)
            compete(energies, middle, unit, wins, losses, view(pools.contests, (3 * n + 2) * E, E))


@kernel
def pool(values, rows, cuts, levels, pools):
    """Adds values (k, F) to the pools of the series ``rows``, whose windows are between consecutive ``cuts``."""
    for k in range(len(rows)):
        add_rows(values, cuts[k], cuts[k + 1], levels, pools, rows[k])
