"""Triton kernels of the recurrence: one layer over one chunk of time, forwards and backwards.

Neurons and sequences are independent: a step works on one flat row of E = b·m elements, a program on B neighbouring
elements, a thread on one. Loads and stores are coalesced; nothing is shared, reduced or atomic. The time loop is inside
the kernel and the state in registers, while x (and the gradient) of the next DEPTH steps are being loaded.

The state is an int64 in grid units. In a float32 layer the increments are computed without float64, in which consumer
cards are 64 times slower: y and z are split into a high part (units of 2^22) and a low part of 22 bits, time steps are
31-bit fixed point, and products of 32 by 32 bits are summed in 64 bits, one instruction each. docs/gpu.md compares the
machine code of both: this one has more instructions and a longer chain, but takes a fraction of the time where float64
is slow, and not much more elsewhere. Integers wrap around, so a step can be undone for any state. In a float64 layer
all increments are float64.

Contraction is off (launch option ``enable_fp_fusion``) and every fused multiply-add is explicit: tanh, the only
operation that both directions round, gives the same bits in both. Imported on first use, because it imports triton.
"""

import math

import triton
import triton.language as tl

DEPTH = tl.constexpr(4)  # steps whose inputs are loaded ahead: the queues below are written for four
_MAGIC = tl.constexpr(1.5 * 2.0**23)  # the bits of v + _MAGIC are those of v, rounded, plus _BITS, for |v| < 2^22
_BITS = tl.constexpr(0x4B400000)
_C1, _C2, _C3, _C4, _C5, _C6, _C7 = (tl.constexpr(math.log(2) ** k / math.factorial(k)) for k in range(1, 8))
_GONE = tl.constexpr(-(2**63))  # a state that is not a number


@triton.jit
def tanh(v):
    """-m / (2 + m) with m = exp(-2|v|) - 1, as in ``cpu.jit``: accurate to a few ulps, and exactly ±1 for large v.

    Each time step waits for it, so in float32 it consists of short chains of multiply-adds.
    """
    if v.dtype == tl.float64:
        q = tl.maximum(-2.0 * tl.abs(v), -40.0, tl.PropagateNan.ALL)
        e = tl.exp(q)
        m = tl.where(e == 1.0, q, (e - 1.0) * (q / tl.log(tl.where(e == 1.0, 0.5, e))))  # Kahan's exp(q) - 1
        t = m / (2.0 + m)
        return tl.where(v < 0, t, -t)
    else:
        q = tl.maximum(-2.8853900817779268 * tl.abs(v), -29.0, tl.PropagateNan.ALL)  # exp(-2|v|) = 2^q
        s = q + _MAGIC
        r = q - (s - _MAGIC)  # q = k + r
        rr = r * r
        p = tl.fma(r, _C3, _C2)
        p = tl.fma(rr, tl.fma(rr, tl.fma(r, _C7, _C6), tl.fma(r, _C5, _C4)), p)
        p = tl.fma(rr, p, r * _C1)  # 2^r - 1
        power = ((s.to(tl.int32, bitcast=True) + 127) << 23).to(tl.float32, bitcast=True)  # 2^k
        m, e = tl.fma(power, p, power - 1.0), tl.fma(power, p, power)
        d = 2.0 + m
        near = tl.fma(e, tl.fma(e, 0.3475, -0.8425), 1.0)  # 1 / d to 2 %, and exactly at the far end
        near = tl.fma(near, tl.fma(-d, near, 1.0), near)  # Newton
        t = tl.where(v < 0, m, -m) * near
        return tl.fma(t, tl.fma(-d, near, 1.0), t)


# Numbers of the grid


@triton.jit
def split(X):
    """The high part, offset by 2^31 to be positive, and the low one of 22 bits."""
    return ((X >> 22) ^ 0x80000000).to(tl.uint32), (X & 0x3FFFFF).to(tl.uint32)


@triton.jit
def real(X, UNIT: tl.constexpr, DOUBLE: tl.constexpr):
    """X·UNIT, rounded once (twice from 2^46 units on)."""
    if DOUBLE:
        return X.to(tl.float64) * UNIT
    else:
        high, low = split(X)
        high = (high ^ 0x80000000).to(tl.int32, bitcast=True).to(tl.float32)
        low = (low | 0x4B000000).to(tl.float32, bitcast=True) - 2.0**23
        return tl.fma(high, 2.0**22 * UNIT, low * UNIT)


@triton.jit
def wide(p, q, r):
    """p·q + r, of 32, 32 and 64 bits."""
    return (p.to(tl.uint64) * q.to(tl.uint64) + r.to(tl.uint64, bitcast=True)).to(tl.int64, bitcast=True)


@triton.jit
def floor_int64(v):
    """v rounded down, or the nearest int64: a state to which that is added is out of range and detected."""
    return tl.floor(tl.minimum(tl.maximum(v, -(2.0**63)), 2.0**63 - 2.0**10)).to(tl.int64)


@triton.jit
def kick(t, Y, a, κ, At, Ay, by, top, low, UNIT: tl.constexpr, DOUBLE: tl.constexpr):
    """a t + κ y in grid units, rounded."""
    if DOUBLE:
        t = tl.where(t == t, t, 0.0)  # NaN as an integer is undefined
        return floor_int64(tl.fma(a, t * (1 / UNIT), tl.fma(κ, Y.to(tl.float64), 0.5)))
    else:
        s = tl.fma(t, 2.0**14, _MAGIC)
        high_t = s.to(tl.uint32, bitcast=True)
        low_t = tl.fma(tl.fma(t, 2.0**14, _MAGIC - s), 2.0**22, _MAGIC).to(tl.uint32, bitcast=True)
        high_y, low_y = split(Y)
        low = wide(low_t, At, wide(low_y, Ay, low)) >> 22
        return (wide(high_t, At, wide(high_y, Ay, top)) + low) >> by


@triton.jit
def drift(Z, a, Az, by, top, low, DOUBLE: tl.constexpr):
    """a z in grid units, rounded."""
    if DOUBLE:
        return floor_int64(tl.fma(a, Z.to(tl.float64), 0.5))
    else:
        high_z, low_z = split(Z)
        return (wide(high_z, Az, top) + (wide(low_z, Az, low) >> 22)) >> by


@triton.jit
def fixed_point(v, by):
    """v·2^(22 + by) as a number of 31 bits."""
    power = (by + (1023 + 22) << 52).to(tl.float64, bitcast=True)
    return tl.minimum(tl.floor(tl.fma(v, power, 0.5)), 2.0**31 - 1).to(tl.int64)


@triton.jit
def scale(v):
    """The largest shift for which v fits in 31 bits."""
    exponent = ((v.to(tl.int64, bitcast=True) >> 52) & 0x7FF) - 1022  # v is below two to this power
    return tl.minimum(tl.maximum(9 - exponent, 0), 40)


@triton.jit
def time_steps(a, κ):
    """Fixed-point factors of t and y in the kick and of z in the drift, and the shifts that undo their scale.

    The sums of products of the high and of the low parts each start with a constant that compensates for the offsets of
    ``split`` and ``kick`` and makes the shifts round to nearest.
    """
    kick_by, drift_by = scale(tl.maximum(a, κ)), scale(a)
    At, Ay, Az = fixed_point(a, kick_by), fixed_point(κ, kick_by), fixed_point(a, drift_by)
    kick_top, kick_low = -At * _BITS - (Ay << 31), half(kick_by) - At * _BITS
    drift_top, drift_low = -(Az << 31), half(drift_by)
    At, Ay, Az = At.to(tl.uint32), Ay.to(tl.uint32), Az.to(tl.uint32)
    return At, Ay, Az, kick_by, drift_by, kick_top, kick_low, drift_top, drift_low


@triton.jit
def half(by):
    """Half of the unit that two shifts, by 22 bits and by this, round to."""
    return (by * 0 + 1) << (by + 21)


@triton.jit
def enter(S, w, b, a, κ, e, E, m):
    """Loads the state, w, b, a and κ of the elements e. The bias is NaN if one of the others is."""
    ok, i = e < E, e % m
    Y, Z = tl.load(S + e, ok, 0), tl.load(S + E + e, ok, 0)
    w, b = tl.load(w + i, ok, 0.0), tl.load(b + i, ok, 0.0)
    a, κ = tl.load(a + i, ok, 0.0), tl.load(κ + i, ok, 0.0)
    b = tl.where((Y == _GONE) | (Z == _GONE) | (a != a), float("nan"), b)
    return Y, Z, w, b, tl.where(a == a, a, 0.0), tl.where(a == a, κ, 0.0)


@triton.jit
def leave(S, bad, e, E, Y, Z, b, far, ok, EDGE: tl.constexpr):
    """Stores the state, and whether it left the range or is NaN."""
    well = b == b
    tl.store(S + e, tl.where(well, Y, _GONE), ok)
    tl.store(S + E + e, tl.where(well, Z, _GONE), ok)
    out = tl.where(well & ((far & (-2 * EDGE)) == 0), 0, 1)
    tl.store(bad + e, tl.load(bad + e, ok, 0) | out, ok)


@triton.jit
def seen(far, Y, Z, EDGE: tl.constexpr):
    """Accumulates bits that are set once y or z is out of range: in range, both terms are below 2 EDGE, a power of
    two."""
    return far | ((Y >> 32).to(tl.int32) + EDGE) | ((Z >> 32).to(tl.int32) + EDGE)


@triton.jit
def taken_over(v, b, far, EDGE: tl.constexpr):
    """The bias: NaN from now on, if the drive v of the tanh is not finite or the state has left the range."""
    return tl.where((far & (-2 * EDGE)) == 0, tl.fma(v, 0.0, b), float("nan"))


@triton.jit
def store_output(y, now, b, run, ok, RAGGED: tl.constexpr):
    """Stores y: NaN where the state is not a number, zero in the padding."""
    now = tl.where(b == b, now, b)
    if RAGGED:
        now = tl.where(run, now, 0.0)
    tl.store(y, now.to(y.dtype.element_ty), ok)


@triton.jit
def add(u, near, rest, v, DOUBLE: tl.constexpr):
    """u + a v. In float32 a is the sum of two numbers, because a rounded time step would detune its oscillator."""
    u = tl.fma(near, v, u)
    return u if DOUBLE else tl.fma(rest, v, u)


# A chunk. An integer state cannot hold NaN, so the bias becomes NaN instead and stays so.
# `ends` holds, per sequence, the number of steps of the chunk within its length, if they differ (RAGGED).


@triton.jit(do_not_specialize=["K", "E", "m"])
def advance(
    x, y, S, w, b, a, κ, ends, bad, K, E, m,
    B: tl.constexpr, UNIT: tl.constexpr, EDGE: tl.constexpr, DOUBLE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Forwards, Eq. (6): reads x (K, E), writes y (K, E), carries S (2, E). w, b, a, κ = α a: (m,)."""
    e = tl.program_id(0) * B + tl.arange(0, B)
    ok = e < E
    until = tl.where(ok, K, 0)  # steps to load
    end = tl.load(ends + e // m, ok, 0) if RAGGED else K
    Y, Z, w, b, a, κ = enter(S, w, b, a, κ, e, E, m)
    At, Ay, Az, kick_by, drift_by, kick_top, kick_low, drift_top, drift_low = time_steps(a, κ)
    now = real(Y, UNIT, DOUBLE)
    far = tl.zeros([B], tl.int32)

    x += e
    y += e
    x0, x1 = tl.load(x, ok, 0.0), tl.load(x + E, until > 1, 0.0)
    x2, x3 = tl.load(x + 2 * E, until > 2, 0.0), tl.load(x + 3 * E, until > 3, 0.0)
    for n in tl.range(K, loop_unroll_factor=1 if DOUBLE else DEPTH):
        v = tl.fma(w, now, x0.to(w.dtype) + b)
        t = tanh(v)
        x0, x1, x2 = x1, x2, x3
        x3 = tl.load(x + 4 * E, n + 4 < until, 0.0)
        run = n < end
        Z1 = Z - kick(t, Y, a, κ, At, Ay, kick_by, kick_top, kick_low, UNIT, DOUBLE)
        Y1 = Y + drift(Z1, a, Az, drift_by, drift_top, drift_low, DOUBLE)
        if RAGGED:
            v, Y1, Z1 = tl.where(run, v, 0.0), tl.where(run, Y1, Y), tl.where(run, Z1, Z)
        Y, Z = Y1, Z1
        far = seen(far, Y, Z, EDGE)
        b = taken_over(v, b, far, EDGE)
        now = real(Y, UNIT, DOUBLE)
        store_output(y, now, b, run, ok, RAGGED)
        x += E
        y += E
    leave(S, bad, e, E, Y, Z, b, far, ok, EDGE)


@triton.jit(do_not_specialize=["K", "E", "m"])
def retreat(
    x, y, S, before, w, b, a, κ, ends, bad, g, δ, T, fade, K, E, m,
    B: tl.constexpr, UNIT: tl.constexpr, EDGE: tl.constexpr, DOUBLE: tl.constexpr, RAGGED: tl.constexpr,
    SHOW: tl.constexpr, ADJOINT: tl.constexpr, FADE: tl.constexpr,
):  # fmt: skip
    """Backwards, Eq. (7): reads x (K, E), carries the state from S to before (2, E each).

    SHOW: writes y (K + 1, E), starting with the state before the chunk. ADJOINT, Suppl. Eq. (3) and Suppl. Eq. (5):
    g (K, E) changes from ∂E/∂y to ∂E/∂x, zero in the padding; carries δ (2, E); T (3, E) accumulates the gradients of
    w, b, a. FADE: δ loses the fraction at ``fade`` at each step.
    """
    e = tl.program_id(0) * B + tl.arange(0, B)
    ok = e < E
    until = tl.where(ok, K, 0)  # steps to load
    end = tl.load(ends + e // m, ok, 0) if RAGGED else K
    Y, Z, w, b, a, κ = enter(S, w, b, a, κ, e, E, m)
    At, Ay, Az, kick_by, drift_by, kick_top, kick_low, drift_top, drift_low = time_steps(a, κ)
    now = real(Y, UNIT, DOUBLE)
    far = tl.zeros([B], tl.int32)

    last = e + (K - 1).to(tl.int64) * E
    x += last
    x0, x1 = tl.load(x, ok, 0.0), tl.load(x - E, until > 1, 0.0)
    x2, x3 = tl.load(x - 2 * E, until > 2, 0.0), tl.load(x - 3 * E, until > 3, 0.0)
    if SHOW:
        y += last + E
    if ADJOINT:
        g += last
        g0, g1 = tl.load(g, ok, 0.0), tl.load(g - E, until > 1, 0.0)
        g2, g3 = tl.load(g - 2 * E, until > 2, 0.0), tl.load(g - 3 * E, until > 3, 0.0)
        α = (κ / tl.where(a > 0, a, 1.0)).to(w.dtype)
        a_near, κ_near = a.to(w.dtype), κ.to(w.dtype)  # and their rounding errors in float32
        a_rest, κ_rest = (a - a_near.to(tl.float64)).to(w.dtype), (κ - κ_near.to(tl.float64)).to(w.dtype)
        δy, δz = tl.load(δ + e, ok, 0.0), tl.load(δ + E + e, ok, 0.0)
        gw, gb, ga = δy * 0, δy * 0, δy * 0
        lost = tl.load(fade) if FADE else 0.0
    for back in tl.range(K, loop_unroll_factor=1 if DOUBLE else DEPTH):
        run = K - 1 - back < end
        if SHOW:
            store_output(y, now, b, run, ok, RAGGED)
            y -= E
        Y1 = Y - drift(Z, a, Az, drift_by, drift_top, drift_low, DOUBLE)
        if RAGGED:
            Y1 = tl.where(run, Y1, Y)
        now = real(Y1, UNIT, DOUBLE)
        v = tl.fma(w, now, x0.to(w.dtype) + b)
        t = tanh(v)
        x0, x1, x2 = x1, x2, x3
        x3 = tl.load(x - 4 * E, back + 4 < until, 0.0)
        x -= E
        Z1 = Z + kick(t, Y1, a, κ, At, Ay, kick_by, kick_top, kick_low, UNIT, DOUBLE)
        if RAGGED:
            v, t, Z1 = tl.where(run, v, 0.0), tl.where(run, t, 0.0), tl.where(run, Z1, Z)
        if ADJOINT:
            δy1 = δy + g0.to(w.dtype)
            δz1 = add(δz, a_near, a_rest, δy1, DOUBLE)
            gx = add(0.0, a_near, a_rest, δz1, DOUBLE) * (t * t - 1.0)
            terms = tl.fma(-δz1, tl.fma(α, now, t), δy1 * real(Z, UNIT, DOUBLE))
            down = add(tl.fma(gx, w, δy1), κ_near, κ_rest, -δz1, DOUBLE)
            if FADE:
                down, δz1 = tl.fma(-lost, down, down), tl.fma(-lost, δz1, δz1)
            if RAGGED:
                gx, terms = tl.where(run, gx, 0.0), tl.where(run, terms, 0.0)
                down, δz1 = tl.where(run, down, δy), tl.where(run, δz1, δz)
            gw, gb, ga = tl.fma(gx, now, gw), gb + gx, ga + terms
            δy, δz = down, δz1
            tl.store(g, gx.to(g.dtype.element_ty), ok)
            g0, g1, g2 = g1, g2, g3
            g3 = tl.load(g - 4 * E, back + 4 < until, 0.0)
            g -= E
        Y, Z = Y1, Z1
        far = seen(far, Y, Z, EDGE)
        b = taken_over(v, b, far, EDGE)
    if SHOW:
        store_output(y, now, b, True, ok, False)
    if ADJOINT:
        tl.store(δ + e, δy, ok)
        tl.store(δ + E + e, δz, ok)
        tl.store(T + e, tl.load(T + e, ok, 0.0) + gw.to(tl.float64), ok)
        tl.store(T + E + e, tl.load(T + E + e, ok, 0.0) + gb.to(tl.float64), ok)
        tl.store(T + 2 * E + e, tl.load(T + 2 * E + e, ok, 0.0) + ga.to(tl.float64), ok)
    leave(before, bad, e, E, Y, Z, b, far, ok, EDGE)
