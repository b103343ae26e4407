"""Features of whole sequences: runs recurrent layers over a batch, segment by segment, and applies a readout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import functional
from unicornn._bidirectional import layer_by_layer
from unicornn._weights import Weights
from unicornn.errors import BadValue
from unicornn.readouts import EveryStep, Input, LayerPass, Max, Mean, Readout

MOMENTUM = 0.1
"""Smallest weight of a new batch in the running mean and variance."""
DEVIATION_EPS = 1e-6
"""Added to variances over time, whose roots have infinite gradients at 0."""
FIRST_BATCHES = 64
"""Number of batches from which norm="start" takes mean and variance."""


def segments(u: Tensor, lengths: Tensor | None, k: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The k segments of each sequence in order: (n, b, d), and their lengths (b,).

    Each sequence is divided at its own length, into segments that differ by at most one step.
    """
    if k == 1:
        yield u, lengths
        return
    N = u.shape[0]
    if not torch.compiler.is_compiling():
        shortest = N if lengths is None else int(lengths.min())
        if k > shortest:
            raise BadValue(f"segments: expected at most the {shortest} steps of the shortest sequence, got {k}")
    for i in range(k):
        if lengths is None:
            yield u[i * N // k : (i + 1) * N // k], None
            continue
        begin, end = (lengths * i // k).to(u.device), (lengths * (i + 1) // k).to(u.device)
        steps = begin + torch.arange((N + k - 1) // k, device=u.device)[:, None]  # a size that can be traced
        yield u[steps.clamp(max=N - 1), torch.arange(u.shape[1], device=u.device)], end - begin


def moments(u: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each sequence in u (N, b, d), without padding: (b, d) each."""
    if lengths is None:
        mean, square = u.mean(0), u.var(0, correction=0)
    else:
        weight = (torch.arange(u.shape[0], device=u.device)[:, None] < lengths.to(u.device)) / lengths.to(u.device)
        weight = weight.to(u.dtype)[:, :, None]
        mean = (weight * u).sum(0)
        square = (weight * (u - mean) ** 2).sum(0)
    return mean, square.add(DEVIATION_EPS).sqrt()


def every_state(rnn: Any, u: Tensor, lengths: Tensor | None = None) -> Tensor:
    """y of every layer of a UnICORNN, then z, at every step of u (N, b, d): (N, b, 2·L·m), zero in the padding.

    z is the difference of successive y, divided by the time step (Eq. (6)).
    """
    mask, steps, ys, zs = rnn._mask(None, u.shape[1]), rnn.time_steps(), [], []

    def run(l: int, source: Tensor, one: Weights) -> Tensor:
        horizon = None if rnn.horizon is None else rnn.horizon[l]
        y, _ = functional.unicornn(
            source, one, dt=rnn.dt[l], alpha=rnn.alpha, lengths=lengths, horizon=horizon, gradient=rnn.gradient,
            backend=rnn.backend,
        )  # fmt: skip
        before = torch.cat([torch.zeros_like(y[:1]), y[:-1]])
        if horizon is not None:  # the step from there to z counts as well
            before = before.detach().lerp(before, math.exp(-1 / horizon))
        z = (y - before) / steps[l]
        if lengths is not None:
            inside = torch.arange(len(u), device=u.device)[:, None] < lengths.to(u.device)
            z = torch.where(inside[:, :, None], z, 0.0)
        ys.append(y)
        zs.append(z)
        return y if mask is None else y * mask[l]

    layer_by_layer(u, rnn.weights, lengths, run)
    return torch.cat([*ys, *zs], 2)


class Standardise(nn.BatchNorm1d):
    """Batch normalisation of features (b, size) without parameters.

    In evaluation, and for a batch of one, which has no variance, the running statistics apply. The first batches have
    equal weight in these, so they are correct from the first batch on.

    Args:
        size: Number of features.
        eps: Number added to the variance.
        norm: "batch" for the statistics of each batch; "start" for those of the first batches of training.
    """

    num_batches_tracked: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, size: int, eps: float = 1e-5, norm: str = "batch") -> None:
        super().__init__(size, eps, affine=False)
        self.norm = norm

    def _apply(self, *args: Any, **options: Any) -> Any:
        """Keeps the statistics in float32 if the module is converted to half precision, as batch_norm requires."""
        super()._apply(*args, **options)
        if self.running_mean.dtype in (torch.float16, torch.bfloat16):
            self.running_mean, self.running_var = self.running_mean.float(), self.running_var.float()
        return self

    def forward(self, input: Tensor) -> Tensor:
        if self.training and self.norm == "start":
            self._accumulate(input.detach())
        if self.training and (len(input) == 1 or self.norm == "start"):
            mean, variance = self.running_mean.clone(), self.running_var.clone()
            return nn.functional.batch_norm(input, mean, variance, eps=self.eps)
        if self.training:
            self.momentum = max(MOMENTUM, 1 / (1 + int(self.num_batches_tracked)))
        return super().forward(input)

    def _accumulate(self, input: Tensor) -> None:
        """Adds one of the first batches, with equal weight; the variance is that within and between batches."""
        if self.num_batches_tracked < FIRST_BATCHES:
            weight = 1 / (1 + int(self.num_batches_tracked))
            shift = input.mean(0) - self.running_mean
            variance = input.var(0, correction=0) + (1 - weight) * shift**2
            self.running_var += weight * (variance - self.running_var)
            self.running_mean += weight * shift
            self.num_batches_tracked += 1


class Features(nn.Module):
    """A readout applied to whole sequences: (b, size), or (N, b, size) for every step.

    The layers run over the segments one after another, so memory is that of the layers, and the gradient covers all
    segments.

    Args:
        rnn: Recurrent layers. They are not a submodule of this module.
        readout: Which features are read.
    """

    def __init__(self, rnn: nn.Module, readout: Readout) -> None:
        super().__init__()
        self.readout = readout
        self.sizes = {part.name: part.size(rnn) for part in readout.parts}
        self.size = sum(self.sizes.values())
        self.norms = nn.ModuleDict({
            part.name: Standardise(self.sizes[part.name], part.eps, part.norm)
            for part in readout.parts if part.norm is not None
        })  # fmt: skip

    def extra_repr(self) -> str:
        return repr(self.readout)

    def forward(
        self,
        rnn: nn.Module,
        u: Tensor,
        lengths: Tensor | None = None,
        state: Any = None,
        before: tuple[Any, Any] = (0.0, 0),
    ) -> Tensor:
        """Reads the sequences u (N, b, d).

        Args:
            rnn: Recurrent layers.
            u: Sequences (N, b, d).
            lengths: Lengths of the sequences (b,), or None.
            state: Initial state of the layers.
            before: Sum of the outputs (b, m) that led to this state, and their number (b, 1).
        """
        readout = self.readout
        if readout == EveryStep(state=True):
            return every_state(rnn, u, lengths)
        if readout.mirrored:  # u and -u as one batch
            u, lengths = torch.cat([u, -u], 1), None if lengths is None else lengths.repeat(2)
        averages = any(isinstance(part, Mean) for part in readout.parts)
        inputs = moments(u, lengths) if any(isinstance(part, Input) for part in readout.parts) else None
        wanted = "all" if any(part.all_outputs for part in readout.parts) else "last"
        total, steps = before
        largest = None
        states = []
        for i, (part, n) in enumerate(segments(u, lengths, readout.segments)):
            start = None if i and readout.from_rest else state
            output, state = rnn(part, start, lengths=n, output=wanted)
            states.append(state)
            if averages:
                total = total + output.sum(0)  # zero in the padding
            if any(isinstance(part, Max) for part in readout.parts):
                found = output.abs().amax(0)
                largest = found if largest is None else torch.maximum(largest, found)
        last, mean = output, None
        if wanted == "all":
            last = output[-1] if n is None else output[n.to(u.device) - 1, torch.arange(u.shape[1], device=u.device)]
        if averages:
            mean = total / (steps + (u.shape[0] if lengths is None else lengths.to(u.device)[:, None]))
        layers = LayerPass(rnn, output, last, mean, largest, states, inputs)
        features = []
        for each in readout.parts:
            raw = each.features(layers)
            features.append(self.norms[each.name](raw) if each.name in self.norms else raw)
        return torch.cat(features, -1)

    def standardisation(self) -> tuple[Tensor, Tensor]:
        """Mean and 1 / standard deviation of all features in evaluation, (size,) each and in float64."""
        mean, scale = torch.zeros(self.size, dtype=torch.float64), torch.ones(self.size, dtype=torch.float64)
        start = 0
        for name, size in self.sizes.items():
            if name in self.norms:
                norm: Any = self.norms[name]
                mean[start : start + size] = norm.running_mean
                scale[start : start + size] = (norm.running_var.double() + norm.eps).rsqrt()
            start += size
        return mean, scale
