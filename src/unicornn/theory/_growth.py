"""How the gradient grows on its way back through the sequence: per layer, per neuron, and when float32 ends."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn._layer import UnICORNN
from unicornn.errors import BadType, BadValue
from unicornn.theory._orbit import in_float64

LEAST, PIECE = 16, 1024  # steps that are differentiated at once: a hundredth of the sequence, within these limits
POINTS = 2048  # along the sequence at which sizes are noted, at most
LARGEST = math.log(torch.finfo(torch.float32).max)


@dataclass(frozen=True)
class GradientGrowth:
    """The size of the gradient along a sequence of N steps, for E the sum of the last outputs, as natural logarithms.

    steps: (P,), the steps k at which it was noted, rising, from 0. At N, which is not among them, it is 1 for each y of
    the last layer.
    neurons: (P, L, b, m), log of the size of ∂E/∂(y_k, z_k) of each neuron of each layer.
    input: (P, b), log of the root mean square of ‖∂E/∂u‖ over the steps from this k to the next.
    N: the length.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> growth = theory.gradient_growth(UnICORNN(2, 4, num_layers=2), torch.randn(500, 3, 2))
        >>> growth.N, growth.neurons.shape[1:]
        (500, torch.Size([2, 3, 4]))
    """

    steps: Tensor
    neurons: Tensor
    input: Tensor
    N: int

    @cached_property
    def layers(self) -> Tensor:
        """(P, L): log of the size of each layer's gradient, the root mean square over the sequences."""
        return self._size(self.neurons.flatten(2))

    @property
    def total(self) -> Tensor:
        """(P,): log of the size of the whole gradient ∂E/∂(y_k, z_k), the root mean square over the sequences."""
        return self._size(self.neurons.flatten(1))

    def _size(self, logs: Tensor) -> Tensor:
        return (torch.logsumexp(2 * logs, -1) - math.log(self.neurons.shape[2])) / 2

    @property
    def growth(self) -> float:
        """ln of how many times the size at the first step is that at the last."""
        return float(self.total[0]) - math.log(self.neurons.shape[-1]) / 2

    @property
    def exponent(self) -> float:
        """By how much the logarithm of the gradient grows per step, over the half of the sequence far from its end.

        There a growth by a power of the distance, which every undamped oscillator has, is least in the way.
        """
        return float(self._slope(self.total))

    @property
    def exponents(self) -> Tensor:
        """(L, m): the same for each neuron of each layer, the mean over the sequences."""
        return self._slope(self.neurons.mean(2))

    @property
    def overflow(self) -> float:
        """Steps after which the gradient is larger than float32 can hold; extrapolated by ``exponent`` if not yet.

        Infinite if the exponent is not positive. From a short sequence too small a number, for powers of the distance
        look like exponentials there.
        """
        largest = self.neurons.amax((1, 2, 3))
        beyond = (largest > LARGEST).nonzero()
        if len(beyond):
            return float(self.N - self.steps[beyond[-1, 0]])
        if self.exponent <= 0:
            return math.inf
        return self.N + (LARGEST - float(largest[0])) / self.exponent

    @property
    def ratio(self) -> float:
        """How many times the size of ∂E/∂u over the first 1 % of the steps is that over the last 1 %."""
        return math.exp(min(self._mean_input(0.0, 0.01) - self._mean_input(0.99, 1.0), 700.0))

    def _mean_input(self, low: float, high: float) -> float:
        """log of the root mean square of ‖∂E/∂u‖ over a share of the steps and all sequences."""
        begin, end = self.steps.double(), torch.cat([self.steps[1:], torch.tensor([self.N])]).double()
        inside = (end.clamp(max=high * self.N) - begin.clamp(min=low * self.N)).clamp_min(0)
        logs = 2 * self.input + inside.log()[:, None]
        return float(torch.logsumexp(logs.flatten(), 0) - math.log(float(inside.sum()) * self.input.shape[1])) / 2

    def _slope(self, sizes: Tensor) -> Tensor:
        """Least squares over the first half of the steps; the distance to the end is what it grows with."""
        half = max(2, len(self.steps) // 2)
        if len(self.steps) < 2:
            return torch.zeros_like(sizes[0])
        k, sizes = self.steps[:half].double(), sizes[:half]
        k = (k - k.mean()).view(-1, *[1] * (sizes.dim() - 1))
        return -(k * sizes).sum(0) / k.square().sum()


def gradient_growth(layer: UnICORNN, input: Tensor, state: Any = None) -> GradientGrowth:
    """Follows the gradient of the last outputs' sum back through all layers to the first step, in logarithms.

    Nothing overflows, whatever the length, and memory does not grow with it: states are recovered by the layer's
    exact inverse, piece by piece, and the adjoint is rescaled after every piece. In float64; without dropout.

    Args: as ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> growth = theory.gradient_growth(UnICORNN(2, 16, 2, dt=0.5), torch.randn(20_000, 1, 2))
        >>> growth.exponent > 1e-3, growth.overflow < 50_000
        (True, True)
    """
    if not isinstance(layer, UnICORNN):
        raise BadType(f"layer: expected a UnICORNN, got {type(layer).__name__}")
    if layer.bidirectional:
        raise BadValue("layer: expected bidirectional=False, for time has one direction here")
    layer = copy.deepcopy(layer).eval()
    u, batched = layer._time_first(input.detach() if isinstance(input, Tensor) else input)
    state, layer.batch_first = layer._with_batch(state, u.shape[1] if batched else None), False
    with torch.no_grad():
        _, state = layer(u, state, output="last")
        return _Sweep(layer, u).back(state)


class _Sweep:
    """One pass from the end of u (N, b, d) to its beginning."""

    def __init__(self, layer: UnICORNN, u: Tensor) -> None:
        from unicornn.theory import _growth_kernels

        self.layer, self.u, self.kernels = layer, u, _growth_kernels
        self.dtype = torch.float64 if layer.w[0].dtype == torch.float64 else torch.float32
        (self.N, self.b, _), self.m, self.L = u.shape, layer.hidden_size, layer.num_layers
        w, self.V, self.bias, _, Lambda = in_float64(layer)
        self.Lambda = Lambda or [None] * self.L
        a = layer.time_steps().detach().double()
        self.w, self.a = ([v.repeat(self.b).numpy() for v in vectors] for vectors in (w, a))

    def back(self, state: Any) -> GradientGrowth:
        """From the final state to the first step.

        Logarithms are taken out of the adjoint δ: of the last layer's neurons, which do not depend on each other, one
        each, for their exponents may be far apart; of all other layers one for each sequence.
        """
        δ = np.zeros((self.L, 2, self.b, self.m))  # δy, δz
        δ[-1, 0] = 1.0
        scale = np.zeros((self.L, self.b, self.m))
        piece = min(max(self.N // 100, LEAST), PIECE)
        cuts = list(range(0, self.N, piece))
        stride = -(-len(cuts) // POINTS)
        kept, noted, squares = [], [], []
        for i, n0 in reversed(list(enumerate(cuts))):
            u = self.u[n0 : n0 + piece]
            state = self.layer.inverse(u, state)
            common = scale.max((0, 2))
            square = self._piece(u.double(), state, δ, np.exp(scale[-1] - common[:, None]))
            with np.errstate(divide="ignore"):
                squares.append(np.log(square) / 2 + common)
                sizes = np.log(np.hypot(δ[:, 0], δ[:, 1])) + scale
            if i % stride == 0:
                kept.append(n0)
                noted.append((sizes, squares))
                squares = []
            new = np.where(np.isfinite(sizes), sizes, scale)
            new[:-1] = new.max((0, 2))[:, None]
            δ *= np.exp(scale - new)[:, None]
            scale = new
        neurons = torch.from_numpy(np.stack([sizes for sizes, _ in noted[::-1]]))
        inputs = torch.from_numpy(np.stack([_mean(s) for _, s in noted[::-1]]))
        return GradientGrowth(torch.tensor(kept[::-1]), neurons, inputs, self.N)

    def _piece(self, u: Tensor, state: Any, δ: np.ndarray[Any, Any], top: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Forwards through a piece from its first state, then the adjoint δ back; the mean of ‖∂E/∂u‖² (b,).

        top: (b, m), by which the last layer's adjoint has to be multiplied to be in the others' units.
        """
        K, below, slopes = len(u), [u], []
        for l in range(self.L):
            x = below[l] @ self.V[l].t() + self.bias[l]
            if (Lambda := self.Lambda[l]) is not None:
                x += below[l - self.layer.skip_layers] @ Lambda.t()
            drive, out = x.reshape(K, -1).to(self.dtype).numpy(), np.empty((K, self.b * self.m))
            y, z = (t[l].double().flatten().numpy().copy() for t in state)
            self.kernels.forward(drive, out, y, z, self.w[l], self.a[l], self.layer.alpha)
            below.append(torch.from_numpy(out).view(K, self.b, self.m))
            slopes.append(drive)
        g = [torch.zeros_like(t) for t in below]
        for l in range(self.L - 1, -1, -1):
            row = g[l + 1].view(K, -1).numpy()
            δy, δz = δ[l].reshape(2, -1)
            self.kernels.backward(slopes[l], row, δy, δz, self.w[l], self.a[l], self.layer.alpha)
            if l == self.L - 1:
                g[l + 1] *= torch.from_numpy(top)
            g[l] += g[l + 1] @ self.V[l]
            if (Lambda := self.Lambda[l]) is not None:
                g[l - self.layer.skip_layers] += g[l + 1] @ Lambda
        return g[0].square().sum(2).mean(0).numpy()


def _mean(logs: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """log of the root mean square of pieces whose logarithms these are."""
    result: np.ndarray[Any, Any] = np.logaddexp.reduce(2 * np.stack(logs), axis=0)
    return (result - math.log(len(logs))) / 2
