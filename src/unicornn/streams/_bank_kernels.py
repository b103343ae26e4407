"""The kernel of ``_bank``, imported on first use because it imports numba."""

import numpy as np

from unicornn._ops.cpu.jit import kernel, view
from unicornn.estimators._oscillator_kernels import AT_ONCE, CHAINS, run_windows
from unicornn.estimators._pooling_kernels import add_rows


@kernel
def pool_windows(x, d, windows, layer, levels, pools, which):
    """Adds the windows first[r] to last[r] of each sequence r to row rows[r] of the pools. Its sample 0 is begin[r] of
    x (·, d), flat; its last window ends at sample end[r] at most, and sample -1 is what precedes sample 0. which: rows,
    begin, first, last and end."""
    rows, begin, first, last, end = which
    W, hop = windows.samples, windows.hop
    starts, values = np.empty(AT_ONCE, np.int64), np.empty((AT_ONCE, levels.shape[1]), np.float32)
    ends = np.empty(CHAINS * 2 * layer.w.size, np.float32)
    u = np.empty((W + (AT_ONCE - 1) * hop) * d, np.float32)
    for r in range(len(rows)):
        for k0 in range(first[r], last[r], AT_ONCE):
            count = min(AT_ONCE, last[r] - k0)
            size = min((count - 1) * hop + W, end[r] - k0 * hop)
            at = (begin[r] + k0 * hop) * d
            for c in range(d):
                scale = 1 / np.float64(windows.deviation[c])
                for i in range(c, size * d, d):
                    value = x[at + i] - x[at + i - d] if windows.differ else x[at + i]
                    u[i] = value * scale
            for k in range(count):
                starts[k] = k * hop
            run_windows(view(u, 0, size * d), d, windows, layer, view(starts, 0, count), values, ends)
            add_rows(values, 0, count, levels, pools, rows[r])
