"""Stream: keys, their rows of states, and who may stay."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unicornn import _checks as checks
from unicornn.errors import BadValue, OutOfRange, StreamFull, UnicornnError
from unicornn.streams import _file
from unicornn.streams._answers import answers_of
from unicornn.streams._engine import Array, Engine
from unicornn.streams._kept import Kept, KeptWindows
from unicornn.streams._samples import arrays
from unicornn.streams._windows import Windows

FULL = ("error", "evict")


class Stream:
    """Many live sequences, each with a key, and the answers of a model to what has arrived of them so far.

    A new key starts at rest. What a sequence is told depends on its own samples alone: it has the same bits in whatever
    company, order and portions they arrive, and is what the model says of the whole sequence, up to rounding. The
    model's parameters are copied; later changes of the model are not seen. It runs on the CPU, and may be used from
    several threads. A call that raises an error has changed nothing, but see ``OutOfRange`` in ``push``.

    Args:
        model: a ``UnICORNN``, a network of ``unicornn.models`` with one, or a fitted estimator; in one direction, and
            without segments. An estimator with a bank, with segments, or with missing="mask", looks at its series as a
            whole, and so needs a ``window``: its samples are kept, and each answer is a prediction of the estimator.
        readout: for a layer, what is answered: "last", the output; "mean", that of all outputs; "energy", the logarithm
            of every neuron's energy, of all layers; "state", y of all layers and then z; or several, as "last+energy".
        window: None, or a number of samples: the answer is then over the last so many only, as if nothing had come
            before them.
        every: with ``window``, answers come each time so many samples have arrived, the first one after ``window`` of
            them. window / every states are carried for each sequence.
        capacity: how many sequences there may be; None for as many as there is memory for.
        full: what happens when there are more: "error" raises ``StreamFull``; "evict" drops those that have been idle
            longest.
        idle: seconds after which a sequence without a new sample is dropped, at the next call; None for never.

    Sequences that are dropped for want of room or for being idle are logged as a warning of the logger "unicornn", and
    counted in ``evicted``.

    Example:
        >>> import numpy as np
        >>> from unicornn import UnICORNN
        >>> from unicornn.streams import Stream
        >>> stream = Stream(UnICORNN(2, 8))
        >>> answers = stream.push({"ward 3, bed 1": np.zeros(2), "ward 3, bed 2": np.ones((5, 2))})
        >>> answers["ward 3, bed 2"].shape, len(stream)
        ((8,), 2)
    """

    def __init__(
        self,
        model: Any,
        *,
        readout: Any = None,
        window: int | None = None,
        every: int | None = None,
        capacity: int | None = None,
        full: str = "error",
        idle: float | None = None,
    ) -> None:
        self._model = answers_of(model, readout)
        self._engine: Any
        self._windows: Any
        if self._model.whole is not None:
            if window is None:
                raise BadValue(
                    "window: expected a number of samples, for an estimator with a bank, with segments or with "
                    "missing='mask' looks at its series as a whole, got None"
                )
            self._engine = Kept(checks.integer("window", window, 1), self._model.d, *self._model.whole)
            self._windows = KeptWindows(window, checks.integer("every", window if every is None else every, 1))
        else:
            assert self._model.rnn is not None
            self._engine = Engine(self._model.rnn, self._model.readouts)
            self._windows = _windows(window, every, self._model.patch)
        self.capacity = None if capacity is None else checks.integer("capacity", capacity, 1)
        self.full = checks.choice("full", full, FULL)
        self.idle = None if idle is None else checks.positive("idle", idle)
        self.evicted = 0
        self._lanes = 1 if self._windows is None else self._windows.lanes
        self._slots: dict[Hashable, int] = {}
        self._free: list[int] = []
        self._seen: Array = np.zeros(0)  # when each slot had its last sample
        patch = self._model.patch
        self._waiting: Array = np.zeros((0, patch - 1, self._engine.d // patch), self._engine.number)
        self._waits: Array = np.zeros(0, np.int64)  # how many samples of an unfinished patch
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """How many sequences there are."""
        with self._lock:
            return len(self._slots)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._slots

    def __iter__(self) -> Iterator[Hashable]:
        """The keys."""
        with self._lock:
            return iter(list(self._slots))

    def push(self, samples: Mapping[Any, Any], every_step: bool = False) -> dict[Any, Any]:
        """Carries sequences on, and answers.

        Args:
            samples: for each key its new samples, (d,) or (k, d), k >= 1: arrays, tensors or lists. For a network of
                text, a word or several, (k,).
            every_step: answer after each of the samples, (k, …), instead of after the last.

        Returns:
            For each key a NumPy array: a layer's features, as ``readout`` says; what a network returns for a sequence;
            a classifier's probabilities or a regressor's number. With ``window``, the answer of the last window that
            was completed, or None if none was; with ``every_step`` those of all, (k, …), k >= 0.

        Where states leave the range in which the layer is exact, ``OutOfRange`` is raised; the sequences it names are
        as they were before, the others have moved, and their answers are the error's attribute ``answers``.

        Example:
            >>> import numpy as np
            >>> from unicornn import UnICORNN
            >>> from unicornn.models import Classifier
            >>> from unicornn.streams import Stream
            >>> stream = Stream(Classifier(UnICORNN(1, 8), 3), window=40, every=10)
            >>> stream.push({7: np.zeros((39, 1))})
            {7: None}
            >>> stream.push({7: np.zeros((31, 1))}, every_step=True)[7].shape
            (4, 3)
        """
        checks.flag("every_step", every_step)
        keys, u, count = arrays(samples, self._model.d, self._model.number or self._engine.number, self._model.gaps)
        u = self._model.prepare(u).astype(self._engine.number, copy=False)
        with self._lock:
            self._drop_idle()
            new = [key for key in keys if key not in self._slots]
            slots = self._enter(keys)
            self._touch(slots)
            if self._windows is not None:
                try:
                    F, ends, bad = self._windows.push(self._engine, slots, u, count, self._model.patch, self._pending())
                except UnicornnError:  # of an estimator that finds no answer
                    self._free += [self._slots.pop(key) for key in new]
                    raise
            elif self._model.patch > 1:
                F, ends, bad = self._push_patches(slots, u, count, every_step)
            else:
                begin = np.cumsum(count) - count
                asked = np.full(len(slots), 2 if every_step else 1)
                F, bad = self._engine.carry(slots, u, begin, count, asked)
                ends = count if every_step else np.ones_like(count)
            if every_step or self._windows is not None:
                answers = dict(zip(keys, np.split(self._model.answers(F), np.cumsum(ends)[:-1]), strict=True))
                if not every_step:
                    answers = {key: rows[-1] if len(rows) else None for key, rows in answers.items()}
            else:
                answers = dict(zip(keys, self._model.answers(F), strict=True))
        if bad.any():
            lost = [key for key, gone in zip(keys, bad, strict=True) if gone]
            error = OutOfRange(f"samples: expected states below 2**17, got some beyond it for {_few(lost)}")
            error.answers = {key: answer for key, answer in answers.items() if key not in lost}
            raise error
        return answers

    def predict_many(self, samples: Mapping[Any, Any]) -> dict[Any, Any]:
        """As ``push``, but with what ``predict`` says: the class (of a network, its number), or the number.

        Example:
            >>> import numpy as np
            >>> from unicornn import UnICORNN
            >>> from unicornn.models import Classifier
            >>> from unicornn.streams import Stream
            >>> int(Stream(Classifier(UnICORNN(1, 8), 3)).predict_many({"a": np.zeros(1)})["a"]) in range(3)
            True
        """
        answers = self.push(samples)
        return {key: None if answer is None else self._model.predictions(answer) for key, answer in answers.items()}

    def predict_one(self, key: Hashable, x: Any) -> Any:
        """As ``predict_many``, for one sequence.

        Example:
            >>> import numpy as np
            >>> from unicornn import UnICORNN
            >>> from unicornn.models import Regressor
            >>> from unicornn.streams import Stream
            >>> Stream(Regressor(UnICORNN(2, 8), 1)).predict_one("a", np.zeros(2)).shape
            ()
        """
        return self.predict_many({key: x})[key]

    def drop(self, key: Hashable) -> None:
        """Forgets a sequence. If its key comes again, it starts at rest."""
        with self._lock:
            if key not in self._slots:
                raise BadValue(f"key: expected one of the stream's {len(self)} keys, got {checks.describe(key)}")
            self._free.append(self._slots.pop(key))

    def save(self, path: str | Path) -> Path:
        """Writes all sequences to a safetensors file, exactly. It is there whole or not at all, or as it was before.

        Keys have to be strings or integers. Needs ``pip install safetensors`` or ``unicornn[fit]``.

        Returns: the path.
        """
        with self._lock:
            return _file.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, model: Any, **options: Any) -> Stream:
        """The stream in a file, of the same model and the same ``readout``, ``window`` and ``every``.

        Args:
            path: of the file.
            model: with which it was written; another one is refused.
            options: ``capacity``, ``full`` and ``idle``, as for a new stream. All sequences count as just seen.

        Example:
            >>> import numpy as np, tempfile
            >>> from unicornn import UnICORNN
            >>> from unicornn.streams import Stream
            >>> layer = UnICORNN(2, 8)
            >>> stream = Stream(layer)
            >>> _ = stream.push({"a": np.ones((100, 2))})
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     again = Stream.load(stream.save(folder + "/ward.safetensors"), layer)
            >>> x = np.ones(2)
            >>> bool((again.push({"a": x})["a"] == stream.push({"a": x})["a"]).all())
            True
        """
        return _file.load(cls, Path(path), model, options)

    # Who is in the stream

    def _touch(self, slots: Array) -> None:
        self._seen[slots] = time.monotonic()

    def _drop_idle(self) -> None:
        if self.idle is None:
            return
        now = time.monotonic()
        late = [key for key, slot in self._slots.items() if now - self._seen[slot] > self.idle]
        self._evict(late, f"idle for more than {self.idle:g} s")

    def _evict(self, keys: list[Any], why: str) -> None:
        if not keys:
            return
        for key in keys:
            self._free.append(self._slots.pop(key))
        self.evicted += len(keys)
        logging.getLogger("unicornn").warning("unicornn: dropped %s from the stream: %s", _few(keys), why)

    def _enter(self, keys: list[Any]) -> Array:
        """The slots of the keys; new ones get one, at rest."""
        found = self._slots
        new = [key for key in keys if key not in found]
        if new:
            self._make_room(len(new), keys)
            for key in new:
                found[key] = slot = self._free.pop() if self._free else len(found)  # no gaps where none is free
                self._grow(slot + 1)
                self._engine.reset(self._rows(slot))
                self._waits[slot] = 0
                if self._windows is not None:
                    self._windows.reset(slot)
        return np.fromiter(map(found.__getitem__, keys), np.int64, len(keys))

    def _rows(self, slot: int) -> slice:
        return slice(slot * self._lanes, (slot + 1) * self._lanes)

    def _grow(self, slots: int) -> None:
        have = len(self._seen)
        if slots <= have:
            return
        more = max(slots, 2 * have, 16) - have
        self._engine.grow((have + more) * self._lanes)
        self._seen, self._waiting, self._waits = (
            np.concatenate([t, np.zeros((more, *t.shape[1:]), t.dtype)])
            for t in (self._seen, self._waiting, self._waits)
        )
        if self._windows is not None:
            self._windows.grow(have + more)

    def _make_room(self, count: int, keys: list[Any]) -> None:
        if self.capacity is None or len(self._slots) + count <= self.capacity:
            return
        excess = len(self._slots) + count - self.capacity
        staying = set(keys)
        others = [key for key in self._slots if key not in staying]
        if self.full == "error" or excess > len(others):
            raise StreamFull(
                f"samples: expected at most {self.capacity} sequences (capacity), got {count} new ones with "
                f"{len(self._slots)} in the stream"
            )
        others.sort(key=lambda key: self._seen[self._slots[key]])
        self._evict(others[:excess], f"no room for more than {self.capacity}")

    # Patches: so many samples make one step

    def _pending(self) -> tuple[Array, Array]:
        return self._waiting, self._waits

    def _push_patches(self, slots: Array, u: Array, count: Array, every_step: bool) -> tuple[Array, Array, Array]:
        """As a step is made of whole patches, an answer between two is one to a patch filled up with zeros."""
        patch, engine = self._model.patch, self._engine
        before, waiting = engine.copy(slots), (self._waiting[slots], self._waits[slots])
        bad = np.zeros(len(slots), bool)
        ends = count if every_step else np.ones_like(count)
        F = np.empty((int(ends.sum()), engine.width), engine.number)
        begin, where = np.cumsum(count) - count, np.cumsum(ends) - ends
        for n in range(int(count.max())):
            here = np.flatnonzero(count > n)
            at = slots[here]
            step = np.zeros((len(here), patch, u.shape[1]), engine.number)
            step[:, : patch - 1] = self._waiting[at]
            step[np.arange(len(here)), self._waits[at]] = u[begin[here] + n]
            step[np.arange(patch) > self._waits[at][:, None]] = 0
            whole = self._waits[at] == patch - 1
            for rows, commit in ((~whole, False), (whole, True)):
                if not rows.any():
                    continue
                wanted = every_step | (count[here[rows]] == n + 1)
                one = np.ones(int(rows.sum()), np.int64)
                found, out = engine.carry(
                    at[rows], step[rows].reshape(len(one), -1), np.arange(len(one)), one, one, commit
                )
                places = where[here[rows]] + (n if every_step else 0)
                F[places[wanted]] = found[wanted]
                bad[here[rows]] |= out
            self._waiting[at] = step[:, : patch - 1]
            self._waits[at] = np.where(whole, 0, self._waits[at] + 1)
        if bad.any():
            engine.put(slots[bad], tuple(part[bad] for part in before))
            self._waiting[slots[bad]], self._waits[slots[bad]] = waiting[0][bad], waiting[1][bad]
        return F, ends, bad


def _windows(window: Any, every: Any, patch: int) -> Windows | None:
    if window is None:
        if every is not None:
            raise BadValue(f"every: expected None without a window, got {checks.describe(every)}")
        return None
    checks.integer("window", window, 1)
    every = checks.integer("every", window if every is None else every, 1)
    for name, value in (("window", window), ("every", every)):
        if value % patch:
            raise BadValue(f"{name}: expected a multiple of the model's patch of {patch} samples, got {value}")
    return Windows(window // patch, every // patch)


def _few(keys: list[Any]) -> str:
    shown = ", ".join(map(repr, keys[:5]))
    return shown + (f" and {len(keys) - 5} others" if len(keys) > 5 else "")
