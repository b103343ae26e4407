"""The kernel of ``_pooling``, imported on first use because it imports numba."""

import numpy as np

from unicornn._ops.cpu.jit import helper, kernel, view


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


@helper
def add_rows(values, start, end, levels, pools, n):
    """Adds consecutive windows, rows of values (k, F), to the pools of series n."""
    F, q = levels.shape[1], levels.shape[0] - 1
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
        _cross(x, view(levels, q * F, F), view(pools.counts, (n * (q + 1) + q) * F, F), side)


@kernel
def pool(values, rows, cuts, levels, pools):
    """Adds values (k, F) to the pools of the series ``rows``, whose windows are between consecutive ``cuts``."""
    for k in range(len(rows)):
        add_rows(values, cuts[k], cuts[k + 1], levels, pools, rows[k])
