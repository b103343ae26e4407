"""The largest time step with which gradients stay usable over sequences of a given length."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn.errors import BadType

NOISE = 0.0683
"""ln growth = NOISE w² σ^(4/3) a² N^(4/3) / (α + w) for a neuron driven by white noise, derived in docs/theory.md."""

LARGEST_W, LARGEST_V = 1.0, math.sqrt(6 / 65)
"""w and V of the most sensitive neuron of Appendix A's initialisation, for inputs of unit strength."""

TRIALS = 6
CLOSE = 1.25  # accepted ratio of the measured to the requested growth


def suggest_dt(length: int, *, alpha: float = 1.0, growth: float = 2.0, input: Tensor | None = None) -> float:
    """The Δt at which the logarithm of the gradient's growth over a sequence of ``length`` steps is about ``growth``.

    A driven, undamped oscillator is weakly chaotic, so gradients grow with the length of the sequence and with Δt; see
    "How gradients grow with the length" in docs/theory.md. Without ``input`` the result is a closed formula for white
    noise of unit strength and Appendix A's initialisation; it decreases as length^(-2/3). With ``input`` it is refined
    by measuring the gradient of a fixed random network (two layers of 32 neurons) on the input.

    Args:
        length: Length of the sequences (N).
        alpha: Parameter α of the layer.
        growth: Natural logarithm of the accepted growth of the gradient from the last step to the first; 2 is little.
        input: Sample of the layer's input, (N, b, d) or (N, d); at most four sequences are used. If its N differs from
            ``length``, growth is assumed to be proportional to N^(4/3).

    Example:
        >>> from unicornn import suggest_dt
        >>> [round(suggest_dt(N), 4) for N in (10_000, 100_000, 1_000_000)]
        [0.073, 0.0157, 0.0034]
    """
    N = checks.integer("length", length, 1)
    alpha, growth = checks.not_negative("alpha", alpha), checks.positive("growth", growth)
    largest = 2 / math.sqrt(alpha + LARGEST_W) / 2  # a = Δt/2: at least a dozen steps per period
    per_square = NOISE * LARGEST_W**2 * LARGEST_V ** (4 / 3) * N ** (4 / 3) / (alpha + LARGEST_W)
    dt = min(2 * math.sqrt(growth / per_square), largest)
    if input is None:
        return dt
    checks.dense("input", checks.array("input", input, (2, 3), "(N, b, d) or (N, d)"), meta=False)
    if not input.is_floating_point():
        raise BadType(f"input: expected floating-point numbers, got {input.dtype}")
    u = (input[:, None] if input.dim() == 2 else input[:, :4]).detach().float().cpu()
    return _measured(u, dt, largest, alpha, growth * (len(u) / N) ** (4 / 3))


def _measured(u: Tensor, dt: float, largest: float, alpha: float, growth: float) -> float:
    """The largest of some Δt, beginning with ``dt``, whose gradient growth is at most the requested one."""
    good, bad = 0.0, math.inf
    for _ in range(TRIALS):
        measured = _growth(u, dt, alpha)
        if measured <= CLOSE * growth:
            good = max(good, dt)
            if measured >= growth / CLOSE or dt == largest:
                break
        else:
            bad = min(bad, dt)
        # Growth is about proportional to Δt²; between a good and a bad Δt, try their geometric mean
        step = math.sqrt(growth / max(measured, growth / 16))
        dt = math.sqrt(good * bad) if good and bad < math.inf else min(dt * min(max(step, 0.25), 2.0), largest)
    return good or dt


def _growth(u: Tensor, dt: float, alpha: float) -> float:
    from unicornn.theory import gradient_growth

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = UnICORNN(u.shape[-1], 32, 2, dt=dt, alpha=alpha)
    return gradient_growth(layer, u).growth
