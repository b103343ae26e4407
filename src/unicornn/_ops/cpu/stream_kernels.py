"""Numba kernels of live sequences: any number of them, each by as many steps as it has samples, and what is read off.

The state of a sequence is a row of S: per layer and block of B neurons Y, Z in grid units, 2 rows of B. Rows of a call
come with falling numbers of samples, so that those still running come first; a block of ROWS of them is carried through
all of its samples in memory of its own, and only then written back, unless a state left the range. Layout and
arithmetic are those of ``step_kernels``: a sequence's numbers do not depend on its company.

Imported on first use, for it brings numba along.
"""

import math

import numpy as np

from unicornn._ops.cpu.jit import kernel, view
from unicornn._ops.cpu.products import padded
from unicornn._ops.cpu.sizes import ROWS, B
from unicornn._ops.cpu.step_kernels import drive
from unicornn._ops.cpu.step_rows import carry_kept, show

_SMALL = 1e-8  # ``_readouts.SMALL``


@kernel
def _log_energy(y, z, w, alpha):
    """½ log(E² + ε²) of ½z² + ½αy² + log cosh(w y) / w; see ``_readouts.energy``."""
    t = w * y
    if abs(t) < 0.03:
        slope = t / 2 * (1 - t * t / 6 + 2 * t * t * t * t / 45)
    else:
        slope = (abs(t) + math.log1p(math.expm1(-2 * abs(t)) / 2)) / t
    E = z * z / 2 + alpha / 2 * y * y + slope * y
    return math.log(E * E + _SMALL * _SMALL) / 2


@kernel
def _read(f, last, mean, energy, state, top, total, count, S, P, unit, alpha, L, m):
    """f ← the features of a sequence: its last output, the mean of all, the logarithms of its energies, its state."""
    o, blocks = 0, -(-m // B)
    if last:
        for i in range(m):
            f[i] = top[i]
        o = m
    if mean:
        for i in range(m):
            f[o + i] = total[i] / count
        o += m
    if energy:
        for l in range(L):
            for i in range(m):
                k, j = l * blocks + i // B, i % B
                y, z = S[k * 2 * B + j] * np.float64(unit), S[k * 2 * B + B + j] * np.float64(unit)
                f[o + l * m + i] = _log_energy(y, z, np.float64(P[k * 2 * B + j]), alpha)
        o += L * m
    if state:  # y of all layers, then z of all layers
        for l in range(L):
            for i in range(m):
                k, j = l * blocks + i // B, i % B
                f[o + l * m + i] = S[k * 2 * B + j] * np.float64(unit)
                f[o + (L + l) * m + i] = S[k * 2 * B + B + j] * np.float64(unit)


@kernel
def carry(
    u, begin, count, slot, asked, S, sums, steps, F, M, P, A, wants, unit, per_unit, limit, alpha, L, m, d, skip, bad,
    k0, k1,
):  # fmt: skip
    """Sequences on by their samples, blocks k0 to k1 of ROWS of them.

    u: the samples (·, d) of all, flat. Of row r they are ``count[r]`` from ``begin[r]`` on; its state is row
    ``slot[r]`` of S, the sum of its outputs that of ``sums``, the number of its steps that of ``steps``.
    asked (rows,): 0 for no answer, 1 for one after the last sample, in row r of F, 2 for one after each, in the rows
    ``begin[r]``, … of F. wants: of the last output, the mean, the energies, the state, whether to write back.
    bad (rows,): counts states that left the range; such a sequence is not written back.
    """
    blocks, ld, size, width = -(-m // B), padded(u, m), S.shape[1], F.shape[1]
    most, (last, mean, energy, state, commit) = min(ROWS, len(count)), wants
    own, now = np.empty((most, size), S.dtype), np.empty(L * ROWS * ld, u.dtype)
    x, inputs, totals = np.empty(most * ld, u.dtype), np.empty(most * d, u.dtype), np.empty((most, sums.shape[1]))
    for k in range(k0, k1):
        first = k * ROWS
        rows = min(ROWS, len(count) - first)
        for r in range(rows):
            own[r], totals[r] = S[slot[first + r]], sums[slot[first + r]]
            for l in range(L):
                for j in range(blocks):
                    lo = j * B
                    y, s = view(now, (l * ROWS + r) * ld + lo, B), view(own, r * size + (l * blocks + j) * 2 * B, B)
                    show(y, s, unit, min(B, m - lo))
        for n in range(count[first]):
            while count[first + rows - 1] <= n:
                rows -= 1
            for r in range(rows):
                for i in range(d):
                    inputs[r * d + i] = u[(begin[first + r] + n) * d + i]
            mo = 0
            for l in range(L):
                mo = drive(l, mo, inputs, d, now, ld, ROWS * ld, x, M, rows, m, d, skip)
                for j in range(blocks):
                    lo, o = j * B, l * blocks + j
                    e = min(B, m - lo)
                    p, a = view(P, o * 2 * B, 2 * B), view(A, o * 2 * B, 2 * B)
                    for r in range(rows):
                        s = view(own, r * size + o * 2 * B, 2 * B)
                        t, y = view(x, r * ld + lo, B), view(now, (l * ROWS + r) * ld + lo, B)
                        bad[first + r] += carry_kept(t, y, s, a, p, unit, per_unit, limit, e)
            for r in range(rows):
                top, total = view(now, ((L - 1) * ROWS + r) * ld, m), view(totals, r * totals.shape[1], m)
                if mean:
                    for i in range(m):
                        total[i] += np.float64(top[i])
                answer = asked[first + r]
                if answer == 2 or (answer == 1 and n == count[first + r] - 1):
                    f = view(F, (begin[first + r] + n if answer == 2 else first + r) * width, width)
                    so_far = steps[slot[first + r]] + n + 1
                    s = view(own, r * size, size)
                    _read(f, last, mean, energy, state, top, total, so_far, s, P, unit, alpha, L, m)
        if commit:
            for r in range(min(ROWS, len(count) - first)):
                if bad[first + r] == 0:
                    S[slot[first + r]], sums[slot[first + r]] = own[r], totals[r]
                    steps[slot[first + r]] += count[first + r]
