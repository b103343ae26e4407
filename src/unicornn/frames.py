"""Raw signals as frames of energies: recurrent layers over short, overlapping frames, each read from rest.

An undamped oscillator that runs over a whole recording accumulates everything it has seen. Over a frame, from rest, its
energy measures the strength of one frequency band. The log energies of all oscillators form one step for further
layers: a learned spectrogram, hundreds of times shorter than the signal.

Symbols: N length, b batch, d input features, m oscillators, W length of a frame, F number of frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._features import Standardise
from unicornn._layer import UnICORNN
from unicornn.errors import BadType, BadValue
from unicornn.readouts import log_energies

FASTEST = 1.4
"""Largest initial time step of ``oscillators``: 1.55 radians per step, a quarter of the sampling rate. Time steps below
2 are stable for α = 1, and at half the sampling rate twice the frequency still exists."""
LARGEST_ANGLE = 3.0
"""Largest angle per step of an oscillator after ``Frames.resample``; π is the limit of any sampling rate."""
PERIODS = 0.8
"""Number of periods of the slowest oscillator in a frame."""


class Frames(nn.Module):
    """Log energies of recurrent layers at the end of overlapping frames, standardised: (N, b, d) to (F, b, features).

    Frame i is the W steps that end with step (i + 1)·hop, so F = N / hop, rounded up. Steps before the first and after
    the last are zeros. All frames run in parallel, from rest, on views of the signal, so overlaps are not copied.

    Args:
        layers: Recurrent layers, UnICORNN or one of ``unicornn.baselines``; several for several resolutions.
        length: Number of steps of a frame (W), one per resolution. All resolutions end frames at the same steps.
        hop: Number of steps between the ends of frames, at most the shortest ``length``.
        floor: Energy below which the logarithm is nearly constant, so that silence is not amplified.
        centre: Whether the mean over each sequence's frames is subtracted from its log energies. This removes what
            multiplies all of a recording: its volume, and the frequency response of a microphone or a voice.

    Shapes: input (N, b, d), lengths (b,) or None; returns features (F, b, L·m of all resolutions), zero in the padding,
    and the number of frames of each sequence (b,) or None.

    Example:
        >>> import torch
        >>> from unicornn.frames import Frames, oscillators
        >>> frames = Frames([oscillators(1, 32, 64), oscillators(1, 32, 256)], [64, 256], hop=64)
        >>> features, lengths = frames(torch.randn(1000, 4, 1), torch.tensor([1000, 500, 64, 3]))
        >>> features.shape, lengths
        (torch.Size([16, 4, 64]), tensor([16,  8,  1,  1]))
    """

    def __init__(
        self, layers: nn.Module | Sequence[nn.Module], length: int | Sequence[int] = 256, hop: int = 128,
        *, floor: float = 1e-3, centre: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = nn.ModuleList([layers] if isinstance(layers, nn.Module) else layers)
        self.length = tuple(
            checks.integer("length", W, 1) for W in (length if isinstance(length, Sequence) else [length])
        )
        if not len(self.layers) == len(self.length) >= 1:
            raise BadValue(f"length: expected one per layer ({len(self.layers)}), got {len(self.length)}")
        self.hop, self.floor = checks.integer("hop", hop, 1), checks.positive("floor", floor)
        self.centre = checks.flag("centre", centre)
        if hop > min(self.length):
            raise BadValue(f"hop: expected at most the length of a frame, {min(self.length)}, got {hop}")
        for layer in self.layers:
            if not hasattr(layer, "state_rows") or getattr(layer, "batch_first", False):
                raise BadType(f"layers: expected UnICORNN or baselines, time first, got {type(layer).__name__}")
        rnns: list[Any] = list(self.layers)
        self.input_size = int(rnns[0].input_size)
        self.size = sum(int(rnn.state_rows * rnn.hidden_size) for rnn in rnns)
        self.norm = Standardise(self.size)

    def extra_repr(self) -> str:
        return f"length={self.length}, hop={self.hop}, floor={self.floor}, centre={self.centre}"

    def forward(self, u: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if not isinstance(u, Tensor) or u.dim() != 3 or 0 in u.shape:
            raise BadValue(f"u: expected a tensor of shape (N, b, d), got {checks.describe(u)}")
        inside = None
        if lengths is not None:
            lengths = checks.tensor("lengths", checks.indices("lengths", lengths, u.device), (u.shape[1],), "(b,)")
            u = torch.where(_before(lengths, u.shape[0], u)[:, :, None], u, 0.0)
            lengths = (lengths + self.hop - 1) // self.hop
            inside = _before(lengths, (u.shape[0] + self.hop - 1) // self.hop, u)
        features = self.energies(u)
        if self.centre:
            weight = 1 / features.shape[0] if inside is None else (inside / inside.sum(0)).to(u.dtype)[:, :, None]
            features = features - (weight * features).sum(0)
        if inside is None or not self.training:
            features = self.norm(features.flatten(0, 1)).view_as(features)
            return features if inside is None else torch.where(inside[:, :, None], features, 0.0), lengths
        standardised = torch.zeros_like(features)
        standardised[inside] = self.norm(features[inside])  # padding does not count in the statistics
        return standardised, lengths

    @torch.no_grad()
    def resample(self, factor: float) -> None:
        """Adapts the frames to signals sampled ``factor`` times as often, without training.

        Frames keep their duration and oscillators their frequencies: an oscillator of time step a turns by
        2 asin(a Ω / 2) per step, Ω² = α + w. Frequencies that the new rate cannot represent are moved to its limit.

        Example:
            >>> from unicornn.frames import Frames, oscillators
            >>> frames = Frames(oscillators(1, 32, 256), 256, 128)
            >>> frames.resample(0.5)
            >>> frames.length, frames.hop
            ((128,), 64)
        """
        sizes = [W * checks.positive("factor", factor) for W in (*self.length, self.hop)]
        if any(size != int(size) or size < 1 for size in sizes):
            raise BadValue(f"factor: expected whole numbers of steps in frames and hop, got {sizes}")
        layers = [layer for layer in self.layers if isinstance(layer, UnICORNN)]
        if len(layers) < len(self.layers):
            raise BadType(f"layers: expected UnICORNN, whose time steps can be scaled, got {self.layers}")
        *lengths, self.hop = map(int, sizes)
        self.length = tuple(lengths)
        for layer in layers:
            for a, w, c, dt in zip(layer.time_steps(), layer.w, layer.c, layer._dt, strict=True):
                omega = (layer.alpha + w).clamp(min=1e-6).sqrt()
                angle = 2 * torch.asin((a * omega / 2).clamp(max=1.0)) / factor
                scaled = 2 * torch.sin(angle.clamp(max=LARGEST_ANGLE) / 2) / omega
                c.copy_(torch.logit((scaled / dt).clamp(max=1 - 1e-6)))

    def energies(self, u: Tensor) -> Tensor:
        """Log energies (F, b, features) before they are standardised, of sequences u (N, b, d) of equal length."""
        pairs = zip(self.layers, self.length, strict=True)
        return torch.cat([self._resolution(layer, W, u) for layer, W in pairs], -1)

    def _resolution(self, layer: nn.Module, W: int, u: Tensor) -> Tensor:
        (N, b, d), hop = u.shape, self.hop
        F = -(-N // hop)
        rows = -(-(W - hop) // hop) + F  # per sequence; the last ones reach into the next sequence and are dropped
        # With every sequence a multiple of hop long, the frames of all of them are equally far apart: one view.
        padded = nn.functional.pad(u.transpose(0, 1), (0, 0, W - hop, rows * hop - (W - hop) - N))
        views = padded.reshape(b * rows * hop, d).unfold(0, W, hop).permute(2, 0, 1)  # (W, b·rows - some, d)
        _, state = layer(views, output="last")
        E = log_energies(layer, state, self.floor)
        return nn.functional.pad(E, (0, 0, 0, b * rows - len(E))).view(b, rows, -1)[:, :F].transpose(0, 1)


def _before(ends: Tensor, N: int, like: Tensor) -> Tensor:
    """Whether each of N steps is before the end of each sequence, (N, b)."""
    return torch.arange(N, device=like.device)[:, None] < ends.to(like.device)


def oscillators(input_size: int, hidden_size: int, length: int = 256, *, fastest: float = FASTEST) -> UnICORNN:
    """A layer of oscillators with evenly spaced logarithms of their time steps, for frames of ``length`` steps.

    The slowest one takes a little longer than a frame for one period. Weights are small, so that the oscillators are
    nearly linear at first: a bank of band-pass filters, all of whose frequencies, widths and inputs can be trained.

    Args:
        input_size: Number of input features (d).
        hidden_size: Number of oscillators (m).
        length: Number of steps of a frame.
        fastest: Largest effective time step a < 2; its frequency is 2 asin(a / 2) radians per step.

    Example:
        >>> from unicornn.frames import oscillators
        >>> [round(a, 2) for a in oscillators(1, 5, 100).time_steps()[0].tolist()]
        [0.05, 0.12, 0.27, 0.61, 1.4]
    """
    if not 0 < checks.positive("fastest", fastest) < 2:
        raise BadValue(f"fastest: expected a number between 0 and 2, got {fastest}")
    layer = UnICORNN(input_size, hidden_size, dt=2.0, alpha=1.0)
    slowest = min(2 * math.pi * PERIODS / checks.integer("length", length, 1), fastest / 2)
    share = torch.logspace(math.log10(slowest), math.log10(fastest), hidden_size, dtype=torch.float64) / 2
    with torch.no_grad():
        layer.c[0].copy_(torch.logit(share))
        nn.init.uniform_(layer.w[0], 0.0, 0.3)
        nn.init.uniform_(layer.b[0], -0.5, 0.5)
        nn.init.normal_(layer.V[0], std=0.5 / math.sqrt(input_size))
    return layer


__all__ = ["Frames", "oscillators"]
