"""Growth of the gradient on its way back through a very long sequence, in logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unicornn._layer import UnICORNN
from unicornn.functional import Weights
from unicornn.theory._orbit import drive, float64_weights, prepared, run_driven

MIN_PIECE, MAX_PIECE = 16, 1024  # steps differentiated at once: a hundredth of the sequence, within these limits
LOG_LARGEST = math.log(torch.finfo(torch.float32).max)


@dataclass(frozen=True)
class GradientGrowth:
    """Size of the gradient along a sequence of N steps, for E the sum of the last outputs, as natural logarithms.

    Args:
        steps: Recorded steps k, rising from 0, (P,). At step N, which is not recorded, the size is 1 for each y of the
            last layer.
        neurons: Logarithm of the size of ∂E/∂(y_k, z_k) of each neuron, (P, L, b, m).
        input: Logarithm of the root mean square of ‖∂E/∂u‖ over the steps from this k to the next, (P, b).
        N: Length of the sequence.

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
        """Logarithm of the size of each layer's gradient, root mean square over the sequences, (P, L)."""
        return self._size(self.neurons.flatten(2))

    @property
    def total(self) -> Tensor:
        """Logarithm of the size of the whole gradient ∂E/∂(y_k, z_k), root mean square over the sequences, (P,)."""
        return self._size(self.neurons.flatten(1))

    def _size(self, logs: Tensor) -> Tensor:
        return (torch.logsumexp(2 * logs, -1) - math.log(self.neurons.shape[2])) / 2

    @property
    def growth(self) -> float:
        """Logarithm of the ratio of the size at the first step to that at the last."""
        return float(self.total[0]) - math.log(self.neurons.shape[-1]) / 2

    @property
    def exponent(self) -> float:
        """Growth of the logarithm per step, over the half of the sequence farther from its end.

        There, the growth by a power of the distance, which every undamped oscillator has, interferes least.
        """
        return float(self._slope(self.total))

    @property
    def exponents(self) -> Tensor:
        """Exponent of each neuron of each layer, mean over the sequences, (L, m)."""
        return self._slope(self.neurons.mean(2))

    @property
    def overflow(self) -> float:
        """Number of steps after which the gradient overflows float32; extrapolated by ``exponent`` beyond N.

        Infinite if the exponent is not positive. Too small for short sequences, in which powers of the distance look
        like exponentials.
        """
        largest = self.neurons.amax((1, 2, 3))
        beyond = (largest > LOG_LARGEST).nonzero()
        if len(beyond):
            return float(self.N - self.steps[beyond[-1, 0]])
        if self.exponent <= 0:
            return math.inf
        return self.N + (LOG_LARGEST - float(largest[0])) / self.exponent

    @property
    def ratio(self) -> float:
        """Ratio of the size of ∂E/∂u over the first 1 % of the steps to that over the last 1 %."""
        return math.exp(min(self._input_size(0.0, 0.01) - self._input_size(0.99, 1.0), 700.0))

    def _input_size(self, low: float, high: float) -> float:
        """Logarithm of the root mean square of ‖∂E/∂u‖ over the given fraction of the steps and all sequences."""
        begin, end = self.steps.double(), torch.cat([self.steps[1:], torch.tensor([self.N])]).double()
        inside = (end.clamp(max=high * self.N) - begin.clamp(min=low * self.N)).clamp_min(0)
        logs = 2 * self.input + inside.log()[:, None]
        return float(torch.logsumexp(logs.flatten(), 0) - math.log(float(inside.sum()) * self.input.shape[1])) / 2

    def _slope(self, sizes: Tensor) -> Tensor:
        """Least-squares slope over the first half of the steps, against the distance to the end."""
        half = max(2, len(self.steps) // 2)
        if len(self.steps) < 2:
            return torch.zeros_like(sizes[0])
        k, sizes = self.steps[:half].double(), sizes[:half]
        k = (k - k.mean()).view(-1, *[1] * (sizes.dim() - 1))
        return -(k * sizes).sum(0) / k.square().sum()


def gradient_growth(layer: UnICORNN, input: Tensor, state: Any = None) -> GradientGrowth:
    """Follows the gradient of the sum of the last outputs back to the first step.

    Nothing overflows at any length, and memory is constant: the layer's exact inverse recovers the states piece by
    piece, and the adjoint is rescaled after every piece. In float64 and without dropout. Arguments as for ``orbits``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> growth = theory.gradient_growth(UnICORNN(2, 16, 2, dt=0.5), torch.randn(20_000, 1, 2))
        >>> growth.exponent > 1e-3, growth.overflow < 50_000
        (True, True)
    """
    layer, u, state = prepared(layer, input, state)
    with torch.no_grad():
        _, state = layer(u, state, output="last")
    (N, b, _), L, m = u.shape, layer.num_layers, layer.hidden_size
    weights = float64_weights(layer)
    adjoint = weights.w[0].new_zeros(L, 2, b, m)  # ∂E/∂(y, z), divided by e^scale
    adjoint[-1, 0] = 1.0
    scale = adjoint.new_zeros(L, b, m)
    length = min(max(N // 100, MIN_PIECE), MAX_PIECE)
    cuts = range(0, N, length)
    neurons, inputs = [], []
    for n0 in reversed(cuts):
        piece = u[n0 : n0 + length]
        with torch.no_grad():
            state = layer.inverse(piece, state)
        common = scale.amax((0, 2))
        g, adjoint = _pull_back(layer, weights, piece, state, adjoint, torch.exp(scale[-1] - common[:, None]))
        inputs.append(g.square().sum(2).mean(0).log() / 2 + common)
        sizes = torch.hypot(adjoint[:, 0], adjoint[:, 1]).log() + scale
        neurons.append(sizes)
        # Neurons of the last layer are independent and their exponents can be far apart, so each has its own scale;
        # the other layers share one per sequence.
        rescaled = torch.where(sizes.isfinite(), sizes, scale)
        rescaled[:-1] = rescaled.amax((0, 2))[:, None]
        adjoint = adjoint * torch.exp(scale - rescaled)[:, None]
        scale = rescaled
    return GradientGrowth(torch.tensor(cuts), torch.stack(neurons[::-1]).cpu(), torch.stack(inputs[::-1]).cpu(), N)


def _pull_back(
    layer: UnICORNN, weights: Weights, u: Tensor, start: Sequence[Tensor], adjoint: Tensor, top_scale: Tensor
) -> tuple[Tensor, Tensor]:
    """∂E/∂u (K, b, d) and ∂E/∂start, from the adjoint (L, 2, b, m) of the state after the K steps of ``u``.

    top_scale: (b, m), factors from the scale of each neuron in the last layer to the scale of all other adjoints.
    """
    u = u.double().requires_grad_()
    starts = [torch.stack([start[0][l], start[1][l]]).double().requires_grad_() for l in range(weights.L)]
    below, finals = [u], []
    for l, first in enumerate(starts):
        x = drive(weights, l, below)
        top = x.detach().requires_grad_()  # cut below the last layer, so that its adjoints can be rescaled
        output, final = run_driven(layer, l, weights, top if l == weights.L - 1 else x, (first[0], first[1]))
        below.append(output)
        finals.append(torch.cat([final[0], final[1]]))
    g_top, g_start = torch.autograd.grad(finals[-1], [top, starts[-1]], adjoint[-1])
    g, *others = torch.autograd.grad([x, *finals[:-1]], [u, *starts[:-1]], [g_top * top_scale, *adjoint[:-1]])
    return g, torch.stack([*others, g_start])
