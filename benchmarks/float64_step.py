"""The other way to make exact increments on a GPU, for comparison: a state of whole numbers in float64.

As ``gpu_kernels.advance`` in all else (tanh, loads ahead), but without its check of the range, which is in its favour.
"""

import triton
import triton.language as tl

from unicornn._ops.gpu_kernels import DEPTH, tanh

_ROUND = tl.constexpr(1.5 * 2.0**52)  # added and taken away again, it rounds to whole numbers


@triton.jit(do_not_specialize=["K", "E", "m"])
def advance(x, y, S, w, b, a, κ, K, E, m, B: tl.constexpr, UNIT: tl.constexpr):
    e = tl.program_id(0) * B + tl.arange(0, B)
    ok = e < E
    until = tl.where(ok, K, 0)
    i = e % m
    w, b = tl.load(w + i, ok, 0.0), tl.load(b + i, ok, 0.0)
    a, κ = tl.load(a + i, ok, 0.0), tl.load(κ + i, ok, 0.0)
    in_units = a / UNIT
    Y, Z = tl.load(S + e, ok, 0.0), tl.load(S + E + e, ok, 0.0)
    now = (Y * UNIT).to(tl.float32)

    x += e
    y += e
    x0, x1 = tl.load(x, ok, 0.0), tl.load(x + E, until > 1, 0.0)
    x2, x3 = tl.load(x + 2 * E, until > 2, 0.0), tl.load(x + 3 * E, until > 3, 0.0)
    for n in tl.range(K, loop_unroll_factor=DEPTH):
        t = tanh(tl.fma(w, now, x0 + b))
        x0, x1, x2 = x1, x2, x3
        x3 = tl.load(x + 4 * E, n + 4 < until, 0.0)
        Z -= tl.fma(in_units, t.to(tl.float64), tl.fma(κ, Y, _ROUND)) - _ROUND
        Y += tl.fma(a, Z, _ROUND) - _ROUND
        now = Y.to(tl.float32) * UNIT
        tl.store(y, now, ok)
        x += E
        y += E
    tl.store(S + e, Y, ok)
    tl.store(S + E + e, Z, ok)
