"""Live sequences of a bank: pools of window statistics, and the last samples of every octave."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from unicornn._ops.cpu import launch
from unicornn.estimators._pooling import Pools
from unicornn.estimators._ridge import CLIP
from unicornn.streams._engine import Array, Rows, product
from unicornn.streams._sequences import History, Pushed, Sequences, by_owner

ANSWERS_AT_ONCE = 256  # to save memory


class Summaries(NamedTuple):
    """Running statistics of every channel of n sequences, from which ``LIVE_NAMES`` are computed.

    ends: (n, 2, d), first and last value. sums: (n, 4, d), of the values minus the first one, their squares, their
    products with the step, and the absolute increments. extremes: (n, 4, d), minimum, maximum, and their first steps.
    seen: (n,), number of steps.
    """

    ends: Array
    sums: Array
    extremes: Array
    seen: Array

    @classmethod
    def empty(cls, n: int, d: int) -> Summaries:
        return cls(np.zeros((n, 2, d)), np.zeros((n, 4, d)), np.zeros((n, 4, d)), np.zeros(n, np.int64))

    def add(self, rows: Array, sizes: Array, x: Array) -> None:
        """Adds values x (·, d), of which each of the ``rows`` has ``sizes`` >= 1."""
        at, new = np.cumsum(sizes) - sizes, self.seen[rows] == 0
        self.ends[rows[new]] = x[at[new], None]
        owner = np.repeat(np.arange(len(rows)), sizes)
        time = (np.arange(len(x)) + (self.seen[rows] - at)[owner])[:, None]
        centred, before = x - self.ends[rows, 0][owner], np.concatenate([x[:1], x[:-1]])
        before[at] = self.ends[rows, 1]
        parts = (centred, centred**2, centred * time, np.abs(x - before))
        np.add.at(self.sums, rows[owner], np.stack(parts, 1))  # one by one: no bit depends on how many are added
        for i, (least, better) in enumerate(((np.minimum, np.less), (np.maximum, np.greater))):
            best = least.reduceat(x, at)
            first = np.minimum.reduceat(np.where(x == best[owner], time, np.inf), at)
            changed = new[:, None] | better(best, self.extremes[rows, i])
            self.extremes[rows, i] = np.where(changed, best, self.extremes[rows, i])
            self.extremes[rows, 2 + i] = np.where(changed, first, self.extremes[rows, 2 + i])
        self.ends[rows, 1] = x[at + sizes - 1]
        self.seen[rows] += sizes

    def features(self) -> Array:
        """``LIVE_NAMES`` of each channel, (n, 10 d) in float32."""
        N = self.seen[:, None].astype(np.float64)
        (first, last), (low, high, low_at, high_at) = self.ends.swapaxes(0, 1), self.extremes.swapaxes(0, 1)
        total, square, moment, increments = self.sums.swapaxes(0, 1)
        mean, span = total / N, np.maximum(N - 1, 1)
        deviation = np.sqrt(np.maximum(square / N - mean**2, 0))
        trend = (moment / N - mean * (N - 1) / 2) / span
        found = [first + mean, deviation, low, high, first, last, trend]
        found += [values / span for values in (increments, low_at, high_at)]
        return np.concatenate(found, 1, dtype=np.float32)


class Table(Rows):
    """The arrays of a tuple, ``Pools`` or ``Summaries``, with one row per sequence."""

    def __init__(self, empty: Any) -> None:
        self.empty = empty
        super().__init__({name: array[:0] for name, array in empty._asdict().items()})

    def reset(self, rows: Any) -> None:
        for array, start in zip(self.values(), self.empty, strict=True):
            array[rows] = start

    def get(self, rows: Any = None) -> Any:  # type: ignore[override]
        """A copy of some rows as a tuple, or all rows, to be changed in place."""
        return type(self.empty)(*(self.values() if rows is None else [array[rows] for array in self.values()]))


class Runs:
    """Samples of several sequences at one rate, one sequence after the other, each preceded by its last samples.

    x: (·, d). begin: position in x of each sequence's sample 0, which may have been forgotten. before, after: number of
    samples of each sequence without and with the new ones.
    """

    def __init__(self, tails: Array, before: Array, new: Array, count: Array) -> None:
        T, d = tails.shape[1:]
        ends = np.cumsum(count + T)
        self.begin, self.before, self.after = ends - count - before, before, before + count
        self.x = np.empty((int(ends[-1]), d))
        self.x[(ends - count - T)[:, None] + np.arange(T)] = tails
        self.x[np.repeat(ends - np.cumsum(count), count) + np.arange(len(new))] = new
        first = self.begin[(before == 0) & (count > 0)]
        self.x[first - 1] = self.x[first]  # the increment of the first sample is zero
        self.tails = self.x[(ends - T)[:, None] + np.arange(T)]

    def halved(self) -> tuple[Array, Array]:
        """Means of two samples each, those that the new samples complete, and how many each sequence has."""
        last = self.after // 2
        count = last - self.before // 2
        at = np.repeat(self.begin + 2 * (last - np.cumsum(count)), count) + 2 * np.arange(int(count.sum()))
        return (self.x[at] + self.x[at + 1]) / 2, count


class PooledWindows(Sequences):
    """Running pools of a bank fitted with live=True, and answers over all samples so far, every ``hop`` samples.

    The samples of an octave are means over 1, 2, 4, … steps. Its last ones are kept, as many as a window has, and a
    window runs from rest when it is complete: its mean, from which "shape" measures, is not known before.

    Args:
        estimator: Classifier or regressor with such a bank.
        hop: Number of samples between two answers.
        history: Number of samples that are kept. To take some back, a sequence starts again, so all must be kept.
    """

    def __init__(self, estimator: Any, hop: int, history: int) -> None:
        bank, self.estimator, self.hop = estimator._bank, estimator, hop
        d, ridge = bank.n_channels_, estimator._ridge
        self.views = [layer.view for layer in bank._layers]
        self.layers = [(layer, (*layer.for_kernels(), layer.all_levels)) for layer in bank._layers]
        self.rates = max(view.pace for view in self.views).bit_length()
        self.same: dict[tuple[int, int, int], list[int]] = {}  # layers by the size, distance and rate of their windows
        for i, view in enumerate(self.views):
            self.same.setdefault((view.W, view.hop, view.pace.bit_length() - 1), []).append(i)
        T = max(view.W for view in self.views) + 1
        self.samples = Rows(tails=np.zeros((0, self.rates, T, d)), n=np.zeros(0, np.int64))
        self.pools = [Table(Pools.empty(1, layer)) for layer in bank._layers]
        self.summaries = Table(Summaries.empty(1, d))
        tables = [(table, 1) for table in (self.samples, *self.pools, self.summaries)]
        super().__init__(History(history, d, np.float32), *tables)
        self.mean, self.scale, self.intercept = ridge.mean, 1 / ridge.deviation, ridge.intercept
        self.coefficients = torch.from_numpy(np.ascontiguousarray(ridge.coefficients.T))  # (k, p)

    def push(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        """Rounds up to each answer, or only to the last one, and one for the samples after it."""
        begin, left = np.cumsum(count) - count, count.copy()
        whose, answers = [np.zeros(0, np.int64)], [self._finished(np.zeros((0, len(self.intercept))))]
        while left.any():
            here = np.flatnonzero(left)
            n = self.samples["n"][slots[here]]
            to_last = (n + left[here]) // self.hop * self.hop - n
            go = np.where(to_last > 0, self.hop - n % self.hop if return_all else to_last, left[here])
            at = np.repeat(begin[here] + go - np.cumsum(go), go) + np.arange(int(go.sum()))
            self._advance(slots[here], u[at], go)
            begin[here] += go
            left[here] -= go
            ended = here[to_last > 0]
            if len(ended):
                whose.append(ended)
                answers.append(self._answers(slots[ended]))
        return *by_owner(whose, answers, len(slots)), np.zeros(len(slots), bool)

    def _advance(self, slots: Array, u: Array, count: Array) -> None:
        """Adds samples u (·, d), of which each slot has ``count`` >= 1."""
        before, rows, u = self.samples["n"][slots], np.arange(len(slots)), u.astype(np.float64)
        self.summaries.get().add(slots, count, u)
        self.samples["n"][slots] += count
        for rate in range(self.rates):
            runs = Runs(self.samples["tails"][slots[rows], rate], before[rows] >> rate, u, count)
            for (W, hop, its_rate), layers in self.same.items():
                if its_rate == rate:
                    first, last = (np.maximum(0, (n - W) // hop + 1) for n in (runs.before, runs.after))
                    for i in layers if (first < last).any() else ():
                        self._pool(i, runs.x, self.pools[i].get(), slots[rows], runs.begin, first, last, runs.after)
            self.samples["tails"][slots[rows], rate] = runs.tails
            u, count = runs.halved()
            rows, count = rows[count > 0], count[count > 0]
            if not len(rows):
                break

    def _pool(self, i: int, x: Array, pools: Pools, *which: Array) -> None:
        """Adds windows of sequences in x (…, d) to pools; see the kernel."""
        kernel = launch.kernel("unicornn.streams._bank_kernels", "pool_windows")
        launch.call(kernel, torch.float32, x.reshape(-1), x.shape[-1], *self.layers[i][1], pools, which)

    def _finished(self, scores: Array) -> Array:
        return np.asarray(self.estimator._answers({"bank": scores}))

    def _answers(self, slots: Array) -> Array:
        parts = [slots[k : k + ANSWERS_AT_ONCE] for k in range(0, len(slots), ANSWERS_AT_ONCE)]
        return self._finished(np.concatenate([self._scores(part) for part in parts]))

    def _scores(self, slots: Array) -> Array:
        layers = [self._features(i, slots) for i in range(len(self.layers))]
        Z = np.concatenate([*layers, self.summaries.get(slots).features()], 1, dtype=np.float64)
        Z -= self.mean
        Z *= self.scale
        return product(np.clip(Z, -CLIP, CLIP, out=Z), self.coefficients) + self.intercept

    def _features(self, i: int, slots: Array) -> Array:
        """The features of a layer. Before the first window is complete, its beginning is the only window."""
        view, pools, n = self.views[i], self.pools[i].get(slots), self.samples["n"][slots]
        short = np.flatnonzero(n < view.steps)
        if len(short):
            rate = view.pace.bit_length() - 1
            count, x = n[short] >> rate, self.samples["tails"][slots[short], rate]
            none = count == 0  # fewer steps than a sample takes: their mean is the only sample
            some = self.summaries.get(slots[short[none]])
            x[none, -2:] = (some.ends[:, 0] + some.sums[:, 0] / some.seen[:, None])[:, None]
            count, zero = np.maximum(count, 1), np.zeros_like(short)
            begin = np.arange(1, len(short) + 1) * x.shape[1] - count
            self._pool(i, x, pools, short, begin, zero, zero + 1, count)
        return np.asarray(pools.features(self.layers[i][0]))
