"""Readouts: the features of recurrent layers from which a network predicts.

The output of an undamped oscillator at the last step is a phase. For signals without a meaningful start, such as a
worm's movement or a heartbeat, it is close to random. The energy is not: it measures how strongly the input drove the
neuron's frequency.

A readout has the same text as a setting on the command line, in a config file and in a saved model: ``Last()`` is
"last", ``Last() + Energy(segments=8)`` is "last+energy(segments=8)".

Symbols: N length, b batch, m hidden size, L layers, k segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._energies import SCALE_UP
from unicornn._energies import log_energies as log_energies
from unicornn._ops.reference import ENERGY_FLOOR
from unicornn._ops.reference import energy as energy
from unicornn._terms import parse_terms
from unicornn.errors import BadType, BadValue

POOLS = ("mean", "moments", "concat")
NORMS = ("batch", "start")
STATE_EPS = 1e-7
"""Added to the variances of outputs and states, which are small where the time steps are."""
USES = {
    "bptt": "truncated back-propagation",
    "frames": "frames",
    "page": "the HTML page",
    "patch": "patch > 1",
    "sequence": "kind='sequence'",
    "step": "kind='step'",
    "stream": "live streams",
}


class LayerPass(NamedTuple):
    """One pass of recurrent layers over a batch, as readouts see it.

    rnn: the layers. output: all outputs (N, b, m) of the last segment, or the last ones (b, m) if no readout needs
    more. last: each sequence's last output (b, m). mean, largest: mean and largest absolute value of each sequence's
    outputs (b, m), if a readout needs it. states: the state at the end of each segment. inputs: mean and deviation of
    each sequence's inputs, (b, d) each, if a readout needs them.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.readouts import Last, LayerPass
        >>> y = torch.zeros(50, 4, 16)
        >>> Last().features(LayerPass(UnICORNN(3, 16), y, y[-1], None, None, [])).shape
        torch.Size([4, 16])
    """

    rnn: nn.Module
    output: Tensor
    last: Tensor
    mean: Tensor | None
    largest: Tensor | None
    states: list[Any]
    inputs: tuple[Tensor, Tensor] | None = None


class Readout:
    """Base class of the readouts. They are immutable, comparable, and combined by ``+``.

    Args:
        norm: Statistics by which features are standardised. "batch": those of each training batch, and running
            averages in evaluation. "start": those of the first 64 training batches, fixed from then on; better if the
            sequences of a batch have similar lengths, because the batch's own statistics would hide the length. None:
            features are used as they are.

    Example:
        >>> from unicornn.readouts import Energy, Last, parse
        >>> Last() + Energy(segments=8)
        last+energy(segments=8)
        >>> parse("last+energy(segments=8)") == Last() + Energy(segments=8)
        True
    """

    name: ClassVar[str]
    stream_name: ClassVar[str]
    """Name of the feature in the kernel of live streams."""
    all_outputs: ClassVar[bool] = False
    """Whether the output of every step is needed."""
    norm: str | None = None
    """Statistics by which features are standardised; None if they are used as they are."""
    eps: ClassVar[float] = 1e-5
    """Added to the variances by which they are standardised."""
    segments: int = 1
    from_rest: bool = False
    mirrored: bool = False
    uses: ClassVar[Sequence[str]] = tuple(USES)  # those that it supports
    reason: ClassVar[str] = ""  # why it does not support the others

    def __post_init__(self) -> None:
        if self.norm is not None:
            checks.choice("norm", self.norm, NORMS)

    @property
    def parts(self) -> tuple[Readout, ...]:
        """The single readouts of a combination, in the order of their features."""
        return (self,)

    def size(self, rnn: nn.Module) -> int:
        """Number of features for these layers."""
        m = int(rnn.hidden_size)  # type: ignore[arg-type]
        return int(getattr(rnn, "output_size", 2 * m if getattr(rnn, "bidirectional", False) else m))

    def features(self, layers: LayerPass) -> Tensor:
        """Features (b, size), or (N, b, size) for every step, before they are standardised."""
        raise NotImplementedError

    def unsupported(self, use: str) -> str | None:
        """The reason why a use (a key of ``USES``) is impossible, or None."""
        return None if use in self.uses else self.reason

    def check(self, use: str, argument: str) -> None:
        """Raises an error that names ``argument`` if this readout does not support a use."""
        for part in self.parts:
            if reason := part.unsupported(use):
                raise BadValue(
                    f"{argument}: expected a readout that supports {USES[use]}, got {part!r}, which {reason}"
                )

    def __add__(self, other: Readout) -> Readout:
        return _combined((*self.parts, *other.parts)) if isinstance(other, Readout) else NotImplemented

    def __repr__(self) -> str:
        changed = (f"{name}={value!r}" for name, value in vars(self).items() if value != getattr(type(self), name))
        options = ", ".join(changed)
        return f"{self.name}({options})" if options else self.name


@dataclass(frozen=True, repr=False)
class Last(Readout):
    """The last output of each sequence, as in the paper: (b, m).

    Outputs are small at the beginning of training: standardised ones (``norm``) are learned from much faster.

    Example:
        >>> from unicornn.readouts import Last
        >>> Last(norm="batch")
        last(norm='batch')
    """

    norm: str | None = None
    name = stream_name = "last"
    eps = STATE_EPS

    def features(self, layers: LayerPass) -> Tensor:
        return layers.last


@dataclass(frozen=True, repr=False)
class Mean(Readout):
    """The mean of each sequence's outputs, for properties of the whole sequence: (b, m).

    Example:
        >>> from unicornn.readouts import Energy, Mean
        >>> Mean() + Energy()
        mean+energy
    """

    norm: str | None = None
    name = stream_name = "mean"
    eps = STATE_EPS
    all_outputs = True
    uses, reason = tuple(USES.keys() - {"step"}), "averages the outputs of all steps"

    def features(self, layers: LayerPass) -> Tensor:
        assert layers.mean is not None
        return layers.mean


@dataclass(frozen=True, repr=False)
class Max(Readout):
    """The largest absolute value of each output over a sequence, standardised, for events anywhere in it: (b, m).

    Example:
        >>> from unicornn.readouts import Last, Max
        >>> Last() + Max()
        last+max
    """

    norm: str | None = "batch"
    name = "max"
    all_outputs = True
    uses, reason = ("frames", "page", "patch", "sequence"), "compares the outputs of all steps"

    def features(self, layers: LayerPass) -> Tensor:
        assert layers.largest is not None
        return layers.largest


@dataclass(frozen=True, repr=False)
class Input(Readout):
    """Mean and standard deviation of the layers' inputs over each sequence, standardised: (b, 2·d).

    With frames these are the signal's mean spectrum and how much it varies, which the head then sees directly.

    Example:
        >>> from unicornn.readouts import Input, Max
        >>> Max() + Input()
        max+input
    """

    norm: str | None = "batch"
    name = "input"
    uses, reason = ("frames", "page", "patch", "sequence"), "averages the inputs of all steps"

    def size(self, rnn: nn.Module) -> int:
        return 2 * int(rnn.input_size)  # type: ignore[arg-type]

    def features(self, layers: LayerPass) -> Tensor:
        assert layers.inputs is not None
        return torch.cat(layers.inputs, -1)


@dataclass(frozen=True, repr=False)
class EveryStep(Readout):
    """The output of every step, for predictions at each of them: (N, b, m). Cannot be combined with others.

    Args:
        state: Whether to read y of every layer, then z, at every step: (N, b, 2·L·m). The first layer reacts to an
            input at once, the last one only after all others. The layers run one after another, and memory for
            gradients grows with N. For UnICORNN in one direction.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Network
        >>> from unicornn.readouts import EveryStep
        >>> Network(UnICORNN(3, 16), 2, readout=EveryStep())(torch.randn(100, 4, 3)).shape
        torch.Size([100, 4, 2])
    """

    state: bool = False
    name = "every_step"
    all_outputs = True

    def __post_init__(self) -> None:
        checks.flag("state", self.state)

    @property
    def stream_name(self) -> str:  # type: ignore[override]
        return "state" if self.state else "last"

    def size(self, rnn: nn.Module) -> int:
        if self.state and (not hasattr(rnn, "time_steps") or rnn.bidirectional):
            raise BadValue(f"state: expected False unless the layers are UnICORNN in one direction, got {self!r}")
        return FinalState().size(rnn) if self.state else super().size(rnn)

    def features(self, layers: LayerPass) -> Tensor:
        return layers.output

    def unsupported(self, use: str) -> str | None:
        if self.state and use in ("sequence", "step"):
            return "reads all layers at every step"
        return "has an output at every step" if use in ("bptt", "frames", "page", "patch") else None


@dataclass(frozen=True, repr=False)
class Energy(Readout):
    """The logarithm of every neuron's energy, in all layers, standardised: (b, L·m), see ``log_energies``.

    Args:
        segments: Number of equal parts of each sequence (k). Energies are taken at the end of each.
        from_rest: Whether every segment starts from rest, instead of from the state at the end of the previous one.
            Undamped oscillators do not forget: with carried states, many cuts say little more than one of them.
        pool: How the segments are combined: "mean"; "moments", mean and standard deviation (b, 2·L·m); or "concat",
            all of them in order (b, k·L·m).
        mirrored: Whether energies are averaged over u and -u, for signals whose sign has no meaning.
        norm: See ``Readout``.

    Example:
        >>> from unicornn import UnICORNN
        >>> from unicornn.readouts import Energy
        >>> Energy(segments=8, from_rest=True, pool="moments").size(UnICORNN(3, 16, 2))
        64
    """

    segments: int = 1
    from_rest: bool = False
    pool: str = "mean"
    mirrored: bool = False
    norm: str | None = "batch"
    name = stream_name = "energy"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("segments", self.segments, 1, checks.SIZE)
        checks.flag("from_rest", self.from_rest)
        checks.choice("pool", self.pool, POOLS)
        checks.flag("mirrored", self.mirrored)

    def size(self, rnn: nn.Module) -> int:
        both = bool(getattr(rnn, "bidirectional", False))
        if self.segments > 1 and both:
            raise BadValue(f"segments: expected 1 with both directions, got {self.segments}")
        per_segment = int(rnn.num_layers) * (2 if both else 1) * int(rnn.hidden_size)  # type: ignore[arg-type]
        return per_segment * {"mean": 1, "moments": 2, "concat": self.segments}[self.pool]

    def features(self, layers: LayerPass) -> Tensor:
        E = torch.stack([log_energies(layers.rnn, state) for state in layers.states])  # (k, b, L·m)
        if self.mirrored:
            E = E.unflatten(1, (2, -1)).mean(1)
        if self.pool == "concat":
            return E.transpose(0, 1).flatten(1)
        mean = E.mean(0)
        if self.pool == "mean":
            return mean
        # ENERGY_FLOOR keeps the gradient of the root finite where all segments are equal.
        variance = ((SCALE_UP * (E - mean)) ** 2).mean(0).add(SCALE_UP**2 * ENERGY_FLOOR)
        return torch.cat([mean, variance.sqrt().div(SCALE_UP)], 1)

    def unsupported(self, use: str) -> str | None:
        if self.mirrored and use not in ("patch", "sequence"):
            return "reads every sequence twice (mirrored=False does not)"
        if self.segments > 1 and use in ("bptt", "step", "stream"):
            return "divides whole sequences into segments (segments=1 does not)"
        return None


@dataclass(frozen=True, repr=False)
class FinalState(Readout):
    """The state of all layers at the end of each sequence, standardised: y of every layer, then z, (b, 2·L·m).

    For a baseline, all tensors of its state. The better choice where what has to be remembered may be in any layer, or
    in the velocities: a linear map of y and z can undo any rotation, so the phase at the end does not matter.

    Example:
        >>> from unicornn import UnICORNN
        >>> from unicornn.readouts import FinalState
        >>> FinalState(norm="start").size(UnICORNN(3, 16, 2))
        64
    """

    norm: str | None = "batch"
    name = stream_name = "state"
    eps = STATE_EPS

    def size(self, rnn: nn.Module) -> int:
        return int(rnn.state_rows) * sum(rnn.state_widths)  # type: ignore[arg-type]

    def features(self, layers: LayerPass) -> Tensor:
        return torch.cat([t.transpose(0, 1).flatten(1) for t in layers.states[-1]], 1)


_KINDS: tuple[type[Readout], ...] = (Last, Mean, Max, Energy, FinalState, Input, EveryStep)


@dataclass(frozen=True, repr=False)
class _Combination(Readout):
    """Several readouts side by side, in the order of ``_KINDS``."""

    each: tuple[Readout, ...]
    segments: int
    from_rest: bool

    @property
    def parts(self) -> tuple[Readout, ...]:
        return self.each

    def size(self, rnn: nn.Module) -> int:
        return sum(part.size(rnn) for part in self.each)

    def __repr__(self) -> str:
        return "+".join(map(repr, self.each))


def _combined(parts: Sequence[Readout]) -> Readout:
    chosen = tuple(part for kind in _KINDS for part in dict.fromkeys(parts) if isinstance(part, kind))
    if len(chosen) == 1:
        return chosen[0]
    text = "+".join(map(repr, chosen))
    if len({type(part) for part in chosen}) < len(chosen):
        raise BadValue(f"readout: expected every kind of readout at most once, got {text!r}")
    if any(isinstance(part, EveryStep) or part.mirrored for part in chosen):
        raise BadValue(f"readout: expected every_step and mirrored energies without other readouts, got {text!r}")
    return _Combination(chosen, max(part.segments for part in chosen), any(part.from_rest for part in chosen))


def parse(readout: str | Readout) -> Readout:
    """The readout of a text such as "last", "last+energy" or "energy(segments=8, from_rest=True, pool='moments')".

    Names are "last", "mean", "max", "energy", "state", "input" and "every_step"; options are literals, or words
    without quotes, which are easier to write in a shell: "energy(pool=moments)". Nothing is evaluated.

    Example:
        >>> from unicornn.readouts import parse
        >>> parse("energy(segments=8)+last")
        last+energy(segments=8)
    """
    if isinstance(readout, Readout):
        return readout
    names = {kind.name: kind for kind in _KINDS}
    try:
        return _combined([names[name](**options) for name, options in parse_terms(readout)])
    except (BadType, BadValue):
        raise
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        known = ", ".join(map(repr, names))
        raise BadValue(
            f"readout: expected one of {known}, with options as in 'energy(segments=8)', or several as in "
            f"'last+energy', got {checks.describe(readout)}"
        ) from error


__all__ = [
    "Energy", "EveryStep", "FinalState", "Input", "Last", "LayerPass", "Max", "Mean", "Readout", "energy",
    "log_energies", "parse",
]  # fmt: skip
