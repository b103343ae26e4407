"""What a network reads off its recurrent layers: the last output, the mean of all, the energies of the oscillators, the
state in which the layers are left.

An undamped oscillator's output at the last step is a phase: where the start of a sequence means nothing, as in a
recording of a worm or a heart, it is as good as random. Its energy is not: it says how strongly the input drove this
neuron's frequency.

Letters: N length, b batch, m hidden, L layers; k segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn._ops.reference import ENERGY_FLOOR
from unicornn._ops.reference import energy as energy
from unicornn.errors import BadValue

READOUTS = ("last", "mean", "energy", "state")
POOLS = ("mean", "concat", "moments")
STARTS = ("carried", "rest")
NORMS = ("batch", "start")
MOMENTUM = 0.1  # the weight of a new batch in the mean and the deviation of features, at least
FIRST = 64  # batches from which mean and deviation are taken with feature_norm="start"
SMALL = ENERGY_FLOOR
STILL = 1e-7
"""Added to the variances of states, which are small where the time steps are."""
UP = 2.0**20
"""Sums with a small number are done so much larger, and then made small again: onnxscript takes 1e-8 for zero."""


def readouts(value: str | Sequence[str]) -> tuple[str, ...]:
    """The readouts by name: one, several as "last+energy" or as a sequence; each once, in the order of ``READOUTS``.

    Example:
        >>> from unicornn._readouts import readouts
        >>> readouts("energy+last")
        ('last', 'energy')
    """
    names = value.split("+") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not names or not all(name in READOUTS for name in names):
        known = ", ".join(map(repr, READOUTS))
        raise BadValue(f"readout: expected one of {known}, or several, as in 'last+energy', got {value!r}")
    return tuple(name for name in READOUTS if name in names)


def log_energies(rnn: nn.Module, state: Sequence[Tensor]) -> Tensor:
    """The logarithm of each neuron's energy, of all layers side by side: (b, L·m) of a state (L, b, m).

    It is ½ log(E² + ε²), which is log E but near and below E = 0. A baseline has no energy: for it E is the sum of the
    squares of those tensors in its state that have one number for each neuron (h² + c² of an LSTM).

    Args:
        rnn: UnICORNN or one of ``unicornn.baselines``.
        state: what it returned, of a batch.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn._readouts import log_energies
        >>> layer = UnICORNN(3, 16, 2)
        >>> log_energies(layer, layer(torch.randn(100, 4, 3))[1]).shape
        torch.Size([4, 32])
    """
    if isinstance(rnn, UnICORNN):
        E = energy(state[0], state[1], torch.stack(list(rnn.w))[:, None], rnn.alpha)
    else:
        E = torch.stack([h**2 for h in state if h.shape[-1] == rnn.hidden_size]).sum(0)
    return torch.log((UP * E) ** 2 + (UP * SMALL) ** 2).div(2).sub(math.log(UP)).transpose(0, 1).flatten(1)


def pieces(u: Tensor, lengths: Tensor | None, k: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The k equal pieces of each sequence, one after another: (n, b, d), and their lengths (b,).

    Each sequence is cut at its own length; of pieces that cannot be equal, none is longer by more than one step.

    Example:
        >>> import torch
        >>> from unicornn._readouts import pieces
        >>> u = torch.arange(6.0)[:, None, None].expand(6, 2, 1)
        >>> [(piece[:, 1, 0].tolist(), n.tolist()) for piece, n in pieces(u, torch.tensor([6, 2]), 2)]
        [([0.0, 1.0, 2.0], [3, 1]), ([1.0, 2.0, 3.0], [3, 1])]
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


class Standardised(nn.BatchNorm1d):
    """Features (b, k) with mean 0 and deviation 1 over the batch, or over those seen so far: in ``eval()``, and of a
    batch of one, which has no deviation. The first batches count equally, so that these are right from the first on.

    With ``norm="start"`` the mean and the deviation are those over the first ``FIRST`` batches of training, and stay:
    for batches that differ from each other, as of sequences of similar length, which their own norms would make alike.

    Example:
        >>> import torch
        >>> from unicornn._readouts import Standardised
        >>> Standardised(3)(torch.randn(1, 3)).shape
        torch.Size([1, 3])
    """

    num_batches_tracked: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, eps: float = 1e-5, norm: str = "batch") -> None:
        super().__init__(features, eps, affine=False)
        self.norm = norm

    def forward(self, input: Tensor) -> Tensor:
        if self.training and self.norm == "start":
            self._take_in(input.detach())
        if self.training and (len(input) == 1 or self.norm == "start"):
            mean, variance = self.running_mean.clone(), self.running_var.clone()
            return nn.functional.batch_norm(input, mean, variance, eps=self.eps)
        if self.training:
            self.momentum = max(MOMENTUM, 1 / (1 + int(self.num_batches_tracked)))
        return super().forward(input)

    def _take_in(self, input: Tensor) -> None:
        """One of the first batches, all of which count equally; the deviation is that within and between them."""
        if self.num_batches_tracked < FIRST:
            share = 1 / (1 + int(self.num_batches_tracked))
            shift = input.mean(0) - self.running_mean
            spread = input.var(0, correction=0) + (1 - share) * shift**2
            self.running_var += share * (spread - self.running_var)
            self.running_mean += share * shift
            self.num_batches_tracked += 1


class Features(nn.Module):
    """What is read off recurrent layers over whole sequences, (b, ``size``).

    The layers run over the segments one after another, from the state in which they were left or from rest, so that
    the energies at the cuts come out of them: memory is that of the layers, and the gradient goes through all of it.

    Args:
        rnn: the layers; they are not of this module.
        readout: which, see ``readouts``. "last": each sequence's last output. "mean": that of all its outputs.
            "energy": the logarithm of each neuron's energy, of all layers, see ``log_energies``, standardised. "state":
            all numbers of the state at its end, y and z of every layer, standardised.
        segments: how many equal pieces of each sequence energies are taken at the end of.
        segment_pool: "mean" of the segments, "moments", their mean and their standard deviation, or "concat", side by
            side, where their order matters.
        segment_start: "carried", or from "rest". An undamped oscillator forgets nothing: carried along, its energy at
            a cut has everything before it in it, and the mean over many cuts knows hardly more than one. From rest,
            each segment counts by itself.
        mirrored: energies are the means of those for u and for -u, for signals whose sign means nothing.
        feature_norm: by what energies and states are standardised, see ``Standardised``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn._readouts import Features
        >>> layer = UnICORNN(3, 16, 2)
        >>> features = Features(layer, "last+energy", segments=8)
        >>> features(layer, torch.randn(100, 4, 3)).shape
        torch.Size([4, 48])
    """

    def __init__(
        self,
        rnn: nn.Module,
        readout: str | Sequence[str],
        segments: int = 1,
        segment_pool: str = "mean",
        segment_start: str = "carried",
        mirrored: bool = False,
        feature_norm: str = "batch",
    ) -> None:
        super().__init__()
        self.readouts = readouts(readout)
        checks.choice("feature_norm", feature_norm, NORMS)
        self.segments = checks.integer("segments", segments, 1)
        self.segment_pool = checks.choice("segment_pool", segment_pool, POOLS)
        self.segment_start = checks.choice("segment_start", segment_start, STARTS)
        self.mirrored = checks.flag("mirrored", mirrored)
        if mirrored and self.readouts != ("energy",):
            raise BadValue(f"mirrored: expected False but for readout='energy', got True with {readout!r}")
        both = bool(getattr(rnn, "bidirectional", False))
        if self.segments > 1 and ("energy" not in self.readouts or both):
            expected = "1 with both directions" if both else "1 without readout='energy'"
            raise BadValue(f"segments: expected {expected}, got {segments}")
        m, L = int(rnn.hidden_size), int(rnn.num_layers)  # type: ignore[arg-type]
        width = int(getattr(rnn, "output_size", 2 * m if both else m))
        self.size = sum(width for name in self.readouts if name in ("last", "mean"))
        if "energy" in self.readouts:
            energies = L * (2 if both else 1) * m * {"mean": 1, "moments": 2, "concat": self.segments}[segment_pool]
            self.standardise = Standardised(energies, norm=feature_norm)
            self.size += energies
        if "state" in self.readouts:
            numbers = int(rnn.state_rows) * sum(rnn.state_widths)  # type: ignore[arg-type]
            self.standardise_state = Standardised(numbers, STILL, feature_norm)
            self.size += numbers

    def extra_repr(self) -> str:
        text = "+".join(self.readouts)
        if self.segments > 1:
            text += f", segments={self.segments}, segment_pool={self.segment_pool!r}"
            text += f", segment_start={self.segment_start!r}"
        return text + (", mirrored" if self.mirrored else "")

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
            rnn: the layers.
            lengths: (b,), or None.
            state: in which the layers start.
            before: the sum of the outputs (b, m) that led there, and of how many steps, (b, 1).
        """
        if self.mirrored:  # side by side, as one batch of both
            u, lengths = torch.cat([u, -u], 1), None if lengths is None else lengths.repeat(2)
        every = "mean" in self.readouts
        total, steps = before
        energies = []
        for i, (piece, n) in enumerate(pieces(u, lengths, self.segments)):
            if i and self.segment_start == "rest":
                state = None
            output, state = rnn(piece, state, lengths=n, output="all" if every else "last")
            if every:
                total = total + output.sum(0)  # zero in the padding
                ends = None if n is None else n.to(u.device) - 1
                output = output[-1] if ends is None else output[ends, torch.arange(len(ends), device=u.device)]
            if "energy" in self.readouts:
                E = log_energies(rnn, state)
                energies.append(E.unflatten(0, (2, -1)).mean(0) if self.mirrored else E)
        found = {"last": output}
        if every:
            found["mean"] = total / (steps + (len(u) if lengths is None else lengths.to(u.device)[:, None]))
        if energies:
            found["energy"] = self.standardise(pooled(torch.stack(energies), self.segment_pool))
        if "state" in self.readouts:
            found["state"] = self.standardise_state(torch.cat([t.transpose(0, 1).flatten(1) for t in state], 1))
        return torch.cat([found[name] for name in self.readouts], 1)


def pooled(energies: Tensor, pool: str) -> Tensor:
    """Energies (k, b, m) of k segments as features of each sequence: (b, m), (b, 2m) or (b, k·m).

    Example:
        >>> import torch
        >>> from unicornn._readouts import pooled
        >>> pooled(torch.tensor([[[1.0]], [[3.0]]]), "moments")
        tensor([[2., 1.]])
    """
    if pool == "concat":
        return energies.transpose(0, 1).flatten(1)
    mean = energies.mean(0)
    if pool == "mean":
        return mean
    variance = ((UP * (energies - mean)) ** 2).mean(0).add(UP**2 * SMALL)  # of equal ones, the root has a gradient
    deviation = variance.sqrt().div(UP)
    return torch.cat([mean, deviation], 1)
