"""Live networks with frames: staggered states that give a frame's energies at every hop, and layers over the frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unicornn._features import DEVIATION_EPS
from unicornn._layer import UnICORNN
from unicornn._ops.reference import ENERGY_FLOOR
from unicornn.frames import Frames
from unicornn.models import Network
from unicornn.readouts import Energy, Input, Last, Max
from unicornn.streams._engine import Array, Engine, Rows
from unicornn.streams._sequences import CarriedStates, History, Pushed, Sequences, StaggeredStates

OWN = (Max, Input)
"""Readouts that are computed here, from the outputs and inputs of the upper layers."""


def can_be_carried(network: Network) -> bool:
    """Whether the answers of a network with frames can be updated sample by sample, without looking back."""
    levels: Any = list(network.frames)
    layers = [network.rnn, *(layer for level in levels for layer in level.layers)]
    return (
        all(isinstance(layer, UnICORNN) and not layer.bidirectional for layer in layers)
        and network.patch == 1
        and not any(level.centre for level in levels)
        and not any(part.unsupported("stream") for part in network.readout.parts if not isinstance(part, OWN))
    )


class FrameStates(Sequences):
    """The state of a network with frames: an answer after every ``hop`` samples, over all samples so far.

    Args:
        network: Network with frames, whose answers can be carried.
        answers: Function from features (n, f) to answers (n, …).
        history: Number of samples that are kept. To take some back, a sequence starts again, so all must be kept.
    """

    def __init__(self, network: Network, answers: Callable[[Array], Array], history: int) -> None:
        levels: Any = list(network.frames)
        self.levels = [_Level(level) for level in levels]
        readout, self.parts = network.readout, network.readout.parts
        self.answers = answers
        if any(isinstance(part, OWN) for part in self.parts):
            readout = sum((part for part in self.parts if not isinstance(part, OWN)), start=Last())
        rnn: Any = network.rnn
        self.width = network.features.size
        self.upper = CarriedStates(Engine(rnn, readout), 1, 0)
        self.seen = Rows(
            largest=np.zeros((0, rnn.hidden_size)), sums=np.zeros((0, 2, rnn.input_size)),
            n=np.zeros(0, np.int64),
        )  # fmt: skip
        past = History(history, int(levels[0].input_size), self.upper.engine.np_dtype)
        inner = [table for each in (*self.levels, self.upper) for table in each.tables]
        super().__init__(past, (self.seen, 1), *inner)

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """All answers of each slot, whether or not ``return_all`` is set."""
        before, whose, bad = self.taken(slots), np.arange(len(slots)), np.zeros(len(slots), bool)
        left = count
        for level in (*self.levels, self.upper):
            inputs = u
            u, left, out = level.push(slots[whose], u, left, True)
            bad[whose] |= out
            some = left > 0
            whose, left = whose[some], left[some]
            if not some.any():
                u = u[:0]
                break
        ends = np.zeros(len(slots), np.int64)
        ends[whose] = left
        features = self._features(slots[whose], inputs, u, left)
        answers = self.answers(features.astype(self.upper.engine.np_dtype))
        self.put_back(slots, bad, before)
        return answers, ends, bad

    def _features(self, slots: Array, inputs: Array, F: Array, count: Array) -> Array:
        """Features in the order of the readout, from the inputs and features of the upper layers at every step."""
        if not len(F):
            return np.zeros((0, self.width))
        if not any(isinstance(part, OWN) for part in self.parts):
            return F
        m, begin, own = self.upper.engine.m, 0, []
        for slot, n in zip(slots, count, strict=True):
            x, steps = inputs[begin : begin + n].astype(np.float64), self.seen["n"][slot] + np.arange(1, n + 1)
            peaks = np.maximum.accumulate(np.abs(F[begin : begin + n, :m]), 0)
            peaks = np.maximum(peaks, self.seen["largest"][slot])
            sums = np.cumsum([self.seen["sums"][slot], *np.stack([x, x**2], 1)], 0)[1:]  # the same bits for all pushes
            mean, square = np.moveaxis(sums / steps[:, None, None], 1, 0)
            deviation = np.sqrt(np.maximum(square - mean**2, 0) + DEVIATION_EPS)
            own.append((peaks, np.concatenate([mean, deviation], 1)))
            self.seen["largest"][slot], self.seen["sums"][slot], self.seen["n"][slot] = peaks[-1], sums[-1], steps[-1]
            begin += n
        largest, moments = (np.concatenate(each) for each in zip(*own, strict=True))
        columns, at, engine = {"max": largest, "input": moments}, 0, self.upper.engine
        sizes = {"last": m, "mean": m, "energy": engine.L * m, "state": 2 * engine.L * m}
        for name in engine.read:
            columns[name], at = F[:, at : at + sizes[name]], at + sizes[name]
        return np.concatenate([columns[part.name] for part in self.parts], 1)


class _Level(Sequences):
    """Standardised log energies of all resolutions of one ``Frames`` at the end of every hop."""

    def __init__(self, frames: Any) -> None:
        self.frames: Frames = frames
        self.resolutions = [
            StaggeredStates(Engine(layer, Energy(norm=None)), W, frames.hop, 1, 0)
            for layer, W in zip(frames.layers, frames.length, strict=True)
        ]
        norm = frames.norm
        self.mean = norm.running_mean.numpy().astype(np.float64)
        self.scale = (norm.running_var.double() + norm.eps).rsqrt().numpy()
        tables = [table for each in self.resolutions for table in each.tables]
        super().__init__(History(0, self.frames.input_size, np.float64), *tables)

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        energies, bad = [], np.zeros(len(slots), bool)
        for each in self.resolutions:
            fresh = slots[each.steps["n"][slots] == 0]
            if lead := each.window - each.hop:  # the first frames begin before the sequence, with zeros
                zeros = np.zeros((len(fresh) * lead, u.shape[1]), u.dtype)
                each.push(fresh, zeros, np.full(len(fresh), lead), False)
            E, ends, out = each.push(slots, u, count, False)
            energies.append(E)
            bad |= out
        E = np.concatenate(energies, 1).astype(np.float64)
        if self.frames.floor > ENERGY_FLOOR:
            E = np.logaddexp(2 * E, 2 * np.log(self.frames.floor)) / 2
        return (E - self.mean) * self.scale, ends, bad
