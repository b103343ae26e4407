"""The kernel of ``_attribution``, imported on first use because it imports numba."""

import numpy as np

from unicornn._ops.cpu.jit import kernel, view
from unicornn.estimators._pooling_kernels import compete


@kernel
def weigh_windows(values, first, levels, mean, inverse, sign, least, weights):
    """Weights (rows, P) of the windows ``first``, … in the pooled features that are sums: max(sign · part - least, 0).

    values: (n, F), of which the last E are energies. levels: ``Oscillators.all_levels``. mean, inverse: (E,), of the
    energies; 1 / (n · deviation). sign, least: (P,).
    """
    (n, F), E, q, zero = values.shape, mean.size, len(levels) - 2, np.float32(0)
    extra = (sign.size - F) // E - 2 - q  # pools: 0, with a trend 1, with competition 4
    middle, unit = view(levels, q * F + F - E, E), view(levels, (q + 1) * F + F - E, E)
    share, crossing = np.float32(1 / n), np.float32(0.5 / max(n - 1, 1))
    slope = 1 / (n * np.sqrt(max(n * n - 1, 1) / 12))
    for row in range(len(weights)):
        k, parts = first + row, view(weights, row * sign.size, sign.size)
        x = view(values, k * F + F - E, E)
        before = view(values, max(k - 1, 0) * F + F - E, E)
        after = view(values, min(k + 1, n - 1) * F + F - E, E)
        for i in range(F):
            parts[i] = values[k, i] * share
        at = view(parts, F, sign.size - F)
        for i in range(E):
            at[i] = (x[i] - mean[i]) ** 2 * inverse[i]
        for j in range(q):
            level, own = view(levels, j * F + F - E, E), view(at, (j + 1) * E, E)
            for i in range(E):
                own[i] = share if x[i] > level[i] else zero
        crossed = view(at, (q + 1) * E, E)
        for i in range(E):
            one = crossing if (x[i] > middle[i]) != (before[i] > middle[i]) else zero
            crossed[i] = one + (crossing if (x[i] > middle[i]) != (after[i] > middle[i]) else zero)
        if extra > 0:
            trend, index = view(at, (q + 2) * E, E), np.float32((k - (n - 1) / 2) * slope)
            for i in range(E):
                trend[i] = (x[i] - mean[i]) * index
        if extra > 1:
            contests = view(at, (q + 3) * E, 3 * E)
            contests[:] = 0
            compete(x, middle, unit, contests, view(contests, E, E), view(contests, 2 * E, E))
            for i in range(3 * E):
                contests[i] *= share
        for i in range(sign.size):
            parts[i] = max(sign[i] * parts[i] - least[i], zero)
