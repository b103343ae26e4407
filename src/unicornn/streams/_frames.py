"""Live networks with frames: staggered states that give a frame's energies at every hop, and layers over the frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unicornn._layer import UnICORNN
from unicornn._ops.reference import ENERGY_FLOOR
from unicornn.frames import Frames
from unicornn.models import Network
from unicornn.readouts import Energy, Last, Max
from unicornn.streams._engine import Array, Engine, Limits, Rows
from unicornn.streams._sequences import CarriedStates, History, Pushed, Sequences, StaggeredStates, needed, rows_of


def can_be_carried(network: Network) -> bool:
    """Whether the answers of a network with frames can be updated sample by sample, without looking back."""
    levels: Any = list(network.frames)
    layers = [network.rnn, *(layer for level in levels for layer in level.layers)]
    return (
        all(isinstance(layer, UnICORNN) and not layer.bidirectional for layer in layers)
        and network.patch == 1
        and not any(level.centre for level in levels)
        and not any(part.unsupported("stream") for part in network.readout.parts if not isinstance(part, Max))
    )


class FrameStates(Sequences):
    """The state of a network with frames: an answer after every ``hop`` samples, for all samples so far.

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
        if any(isinstance(part, Max) for part in self.parts):
            readout = sum((part for part in self.parts if not isinstance(part, Max)), start=Last())
        rnn: Any = network.rnn
        self.upper = CarriedStates(Engine(rnn, readout), 1, 0)
        self.largest = Rows(largest=np.zeros((0, rnn.hidden_size), self.upper.engine.np_dtype))
        past = History(history, int(levels[0].input_size), self.upper.engine.np_dtype)
        inner = [table for each in (*self.levels, self.upper) for table in each.tables]
        super().__init__(past, (self.largest, 1), *inner)

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """All answers of each slot, whether or not ``return_all`` is set."""
        before, whose, bad = self.taken(slots), np.arange(len(slots)), np.zeros(len(slots), bool)
        left = count
        for level in (*self.levels, self.upper):
            u, left, out = level.push(slots[whose], u, left, True)
            bad[whose] |= out
            some = left > 0
            whose, left = whose[some], left[some]
            if not some.any():
                u = np.zeros((0, self.upper.engine.width), dtype=u.dtype)
                break
        self.put_back(slots, bad, before)
        ends = np.zeros(len(slots), np.int64)
        ends[whose] = left
        return self.answers(self._features(slots[whose], u, left)), ends, bad

    def _features(self, slots: Array, F: Array, count: Array) -> Array:
        """Features in the order of the readout, from those of the upper layers."""
        m, largest = self.upper.engine.m, self.largest["largest"]
        if not any(isinstance(part, Max) for part in self.parts):
            return F
        peaks, begin = np.abs(F[:, :m]), 0
        for slot, n in zip(slots, count, strict=True):
            own = peaks[begin : begin + n]
            np.maximum.accumulate(np.maximum(own, largest[slot], out=own), 0, out=own)
            largest[slot], begin = own[-1], begin + n
        kept = [part.name for part in self.parts if not isinstance(part, Max)]
        F = F if "last" in kept else F[:, m:]
        first = m * sum(name in ("last", "mean") for name in kept)  # the largest values follow them
        return np.concatenate([F[:, :first], peaks, F[:, first:]], 1)

    def saved(self, slots: Array) -> dict[str, Array]:
        return {
            f"{i}.{name}": array
            for i, (table, lanes) in enumerate(self.tables)
            for name, array in table.saved(rows_of(slots, lanes)).items()
        }

    def restore(self, slots: Array, arrays: dict[str, Array]) -> None:
        for i, (table, lanes) in enumerate(self.tables):
            own = {name.partition(".")[2]: t for name, t in arrays.items() if name.startswith(f"{i}.")}
            table.restore(rows_of(slots, lanes), own)

    @property
    def limits(self) -> Limits:
        return {
            f"{i}.{name}": limit for i, (table, _) in enumerate(self.tables) for name, limit in table.limits.items()
        }

    def take_back(self, slot: int, count: int, past: Array) -> None:
        """Starts again: maxima cannot be reversed."""
        n = int(self.history["total"][slot]) - count
        since = needed(past, count + n, "history")[:n]
        for table, lanes in self.tables[1:]:
            table.reset(rows_of([slot], lanes))
        if n:
            self.push(np.array([slot]), since, np.array([n]), False)


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
