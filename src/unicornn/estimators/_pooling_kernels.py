"""The kernel of ``_pooling``, imported on first use because it imports numba."""

import numpy as np

from unicornn._ops.cpu.jit import helper, inline, kernel, view

GROUP = 8  # neighbours that compete; oscillators are ordered by their time scale


@kernel
def _add(x, number, total, square, moment, high, low):
    for i in range(x.size):
        exact = np.float64(x[i])
        total[i] += exact
        square[i] += exact * exact
        moment[i] += number * exact
        high[i] = max(high[i], x[i])
        low[i] = max(low[i], -x[i])


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
def _compete(x, middle, unit, wins, losses, won):
    """In each group of neighbours: whose standardised value is largest and smallest, and the largest value."""
    for start in range(0, x.size, GROUP):
        high = low = start
        highest = lowest = (x[start] - middle[start]) * unit[start]
        for i in range(start + 1, min(start + GROUP, x.size)):
            value = (x[i] - middle[i]) * unit[i]
            high, highest = (i, value) if value > highest else (high, highest)
            low, lowest = (i, value) if value < lowest else (low, lowest)
        wins[high] += 1
        losses[low] += 1
        won[high] += highest


@helper
def add_rows(values, start, end, levels, pools, n):
    """Adds consecutive windows, rows of values (k, F), to the pools of series n. levels: ``Oscillators.all_levels``."""
    F, q, E = levels.shape[1], levels.shape[0] - 2, pools.contests.shape[2]
    middle, unit = view(levels, q * F, F), view(levels, (q + 1) * F, F)
    side = view(pools.side, n * F, F)
    for row in range(start, end):
        x = view(values, row * F, F)
        _add(
            x, np.float64(pools.seen[n]), view(pools.sums, 3 * n * F, F), view(pools.sums, (3 * n + 1) * F, F),
            view(pools.sums, (3 * n + 2) * F, F), view(pools.extremes, 2 * n * F, F),
            view(pools.extremes, (2 * n + 1) * F, F),
        )  # fmt: skip
        pools.seen[n] += 1
        for j in range(q):
            _count(x, view(levels, j * F, F), view(pools.counts, (n * (q + 1) + j) * F, F))
        _cross(x, middle, view(pools.counts, (n * (q + 1) + q) * F, F), side)
        _compete(
            view(x, F - E, E), view(middle, F - E, E), view(unit, F - E, E), view(pools.contests, 3 * n * E, E),
            view(pools.contests, (3 * n + 1) * E, E), view(pools.contests, (3 * n + 2) * E, E),
        )  # fmt: skip


@kernel
def pool(values, rows, cuts, levels, pools):
    """Adds values (k, F) to the pools of the series ``rows``, whose windows are between consecutive ``cuts``."""
    for k in range(len(rows)):
        add_rows(values, cuts[k], cuts[k + 1], levels, pools, rows[k])
