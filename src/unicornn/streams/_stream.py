"""Stream: keys, their slots, and limits on their number."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue, OutOfRange, StreamFull, UnicornnError
from unicornn.readouts import Readout
from unicornn.streams._engine import Array, Rows
from unicornn.streams._file import load_stream, save_stream
from unicornn.streams._model import stream_model
from unicornn.streams._samples import joined
from unicornn.streams._sequences import Pushed, Sequences

ON_FULL = ("error", "evict")


class Stream:
    """Many live sequences, each with a key, and a model's answers for the samples received so far.

    A new key starts from rest. The answers for a sequence depend on its own samples only: they have the same bits
    regardless of the other sequences and of how the samples are divided into pushes, and agree with the model's output
    for the whole sequence up to rounding. The model's parameters are copied; later changes have no effect. Streams run
    on the CPU and are thread-safe. A call that raises an error changes nothing, except for ``OutOfRange`` in ``push``.

    Args:
        model: A ``UnICORNN``, a network of ``unicornn.models`` with one, or a fitted estimator. Layers have one
            direction, and readouts one segment. Estimators with a bank need ``live=True``. Those without it, with
            segments, with scale="series" or with missing="mask" predict from whole series: they need a ``window``,
            whose samples are kept for each prediction.
        readout: Readout of a layer: its answers are these features, not standardised. The default is "last".
        window: Number of samples on which an answer is based, as if nothing had preceded them; None for all samples.
        hop: Number of samples between two answers with ``window``; the first one comes after ``window`` samples. Each
            sequence has window / hop states. Without a window, networks with frames answer at the hop of their frames,
            and banks at any hop, by default the smallest distance between two of their windows.
        capacity: Largest number of sequences; None for no limit.
        on_full: What happens beyond ``capacity``: "error" raises ``StreamFull``, "evict" drops the sequences that have
            been idle for longest.
        history: Number of samples kept of each sequence, for ``undo`` and ``correct``. Taking back samples with
            ``window`` needs those of the windows before them too.
        ttl: Seconds after which a sequence without new samples is dropped, at the next call; None for never.

    Sequences dropped because of ``capacity`` or ``ttl`` are logged as a warning of the logger "unicornn" and counted in
    ``evicted``.

    Example:
        >>> import numpy as np, tempfile
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Classifier
        >>> from unicornn.streams import Stream
        >>> model, u = Classifier(UnICORNN(2, 8), 3), np.random.default_rng(0).standard_normal((100, 2))
        >>> stream = Stream(model, history=50)
        >>> answers = stream.push({"bed 1": u[0], "bed 2": u}, return_all=True)
        >>> answers["bed 2"].shape, len(stream)
        ((100, 3), 2)
        >>> stream.undo("bed 2", 40)
        >>> corrected = stream.correct("bed 2", at=-1, samples=u[99])
        >>> int(stream.predict_one("bed 2", u[60])) in range(3)
        True
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     restored = Stream.load(stream.save(folder + "/ward.safetensors"), model)
        >>> bool((restored.push({"bed 2": u[61]})["bed 2"] == stream.push({"bed 2": u[61]})["bed 2"]).all())
        True
    """

    def __init__(
        self,
        model: Any,
        *,
        readout: str | Readout | None = None,
        window: int | None = None,
        hop: int | None = None,
        capacity: int | None = None,
        on_full: str = "error",
        ttl: float | None = None,
        history: int = 0,
    ) -> None:
        self._model = stream_model(model, readout, window)
        self.window, self.hop = window, self._model.checked_hop(window, hop)
        self.history = checks.integer("history", history, 0, checks.SIZE)
        made: Any = self._model
        states = made.carried(self.hop, history) if window is None else made.windowed(window, self.hop, history)
        self._sequences: Sequences = states
        self.capacity = None if capacity is None else checks.integer("capacity", capacity, 1)
        self.on_full = checks.choice("on_full", on_full, ON_FULL)
        self.ttl = None if ttl is None else checks.positive("ttl", ttl)
        self.evicted = 0
        self._slots: dict[Hashable, int] = {}
        self._free: list[int] = []
        self._times = Rows(last_seen=np.zeros(0))
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """Number of sequences."""
        with self._lock:
            return len(self._slots)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._slots

    def __iter__(self) -> Iterator[Hashable]:
        """The keys."""
        with self._lock:
            return iter(list(self._slots))

    def push(self, samples: Mapping[Any, Any], return_all: bool = False) -> dict[Any, Any]:
        """Adds samples to sequences and returns the answers.

        Args:
            samples: New samples by key, (d,) or (k, d) with k >= 1: arrays, tensors or lists. For a network of text, a
                word or several, (k,).
            return_all: Whether the answer after each sample is returned, (k, …), instead of the last one.

        Returns:
            A NumPy array for each key: the features of a layer, the output of a network, the probabilities of a
            classifier or the number of a regressor. With ``hop``, the last answer that these samples complete, or None
            if there is none; with ``return_all``, all of them, (k, …), k >= 0.

        Raises ``OutOfRange`` if states leave the range in which the layer is exact. The sequences that it names keep
        their previous states; the others have advanced, and their answers are in the error's attribute ``answers``.
        """
        checks.flag("return_all", return_all)
        keys, u, count = self._prepared(samples)
        with self._lock:
            self._drop_expired()
            new = [key for key in keys if key not in self._slots]
            slots = self._enter(keys)
            self._touch(slots)
            try:
                F, ends, bad = self._advance(slots, u, count, return_all)
            except UnicornnError:  # an estimator failed to predict
                self._free += [self._slots.pop(key) for key in new]
                raise
            rows = self._model.answers(F)
            after = zip(keys, np.cumsum(ends).tolist(), ends.tolist(), strict=True)  # np.split is slow
            if return_all:
                answers: dict[Any, Any] = {key: rows[end - n : end] for key, end, n in after}
            else:
                answers = {key: rows[end - 1] if n else None for key, end, n in after}
        if bad.any():
            lost = [key for key, gone in zip(keys, bad, strict=True) if gone]
            error = OutOfRange(f"samples: expected states below 2**17, got larger ones for {_first_few(lost)}")
            error.answers = {key: answer for key, answer in answers.items() if key not in lost}
            raise error
        return answers

    def predict_many(self, samples: Mapping[Any, Any]) -> dict[Any, Any]:
        """Like ``push``, but returns predictions: the class (for a network, its index), or the number."""
        answers = self.push(samples)
        return {key: None if answer is None else self._model.predictions(answer) for key, answer in answers.items()}

    def predict_one(self, key: Hashable, x: Any) -> Any:
        """Like ``predict_many``, for one sequence."""
        try:
            samples = {key: x}
        except TypeError as error:
            raise BadType(f"key: expected a hashable object, such as text, got {checks.describe(key)}") from error
        return self.predict_many(samples)[key]

    def undo(self, key: Hashable, samples: Any) -> None:
        """Takes back the last samples of a sequence: its state is then, bit for bit, the one before them.

        A state is reversed step by step, without snapshots; the states of windows are computed again.

        Args:
            key: Key of the sequence.
            samples: Number of samples, which are then those of ``history``; or the samples themselves, (d,) or (k, d),
                as they were pushed, for streams without a history. Further samples of an incomplete patch or of an open
                window are always those of the history.
        """
        with self._lock:
            slot = self._slot(key)
            past = self._sequences.history.last(slot)
            if isinstance(samples, int):
                count = checks.integer("samples", samples, 1)
            else:
                u = self._prepared({key: samples})[1]
                count, past = len(u), np.concatenate([past[: max(0, len(past) - len(u))], u])
            self._take_back(slot, count, past)

    def correct(self, key: Hashable, at: int, samples: Any) -> Any:
        """Replaces samples of a sequence: its state and its answers are then, bit for bit, those with these samples.

        Args:
            key: Key of the sequence.
            at: Number of the first sample to replace: 0 is the first one of the sequence, -1 the last one.
            samples: New samples, (d,) or (k, d). They and all later samples have to be in the ``history``.

        Returns: the answer after the last sample of the sequence, as ``push`` does.
        """
        with self._lock:
            slot, u = self._slot(key), self._prepared({key: samples})[1]
            past, total = self._sequences.history.last(slot), int(self._sequences.history["total"][slot])
            if isinstance(at, bool) or not isinstance(at, int) or not -total <= at <= total - len(u):
                raise BadValue(f"at: expected {len(u)} of the sequence's {total} samples, got {checks.describe(at)}")
            count = total - at % total
            if count > len(past):
                raise BadValue(f"at: expected one of the last {len(past)} samples (history), got {at}")
            slots = np.array([slot])
            before = self._sequences.taken(slots)
            self._take_back(slot, count, past)
            u = np.concatenate([u, past[len(past) - count + len(u) :]])
            F, _, bad = self._advance(slots, u, np.array([count]), False)
            if bad.any():
                self._sequences.put_back(slots, bad, before)
                raise OutOfRange(f"samples: expected states below 2**17, got larger ones for {_first_few([key])}")
            return self._model.answers(F)[-1] if len(F) else None

    def drop(self, key: Hashable) -> None:
        """Forgets a sequence. A later sample with its key starts a new one, from rest."""
        with self._lock:
            self._free.append(self._slot(key))
            del self._slots[key]

    def save(self, path: str | Path) -> Path:
        """Writes all sequences to a safetensors file, exactly. The file is written completely or left as it was.

        Keys have to be strings or integers. Needs ``pip install safetensors`` or the extra ``fit``.

        Returns: the path.
        """
        with self._lock:
            return save_stream(self, path)

    @classmethod
    def load(cls, path: str | Path, model: Any, **options: Any) -> Stream:
        """Restores a stream from a file, with the same model, ``readout``, ``window`` and ``hop``.

        Args:
            path: File written by ``save``.
            model: The model with which it was written; others are rejected.
            options: ``capacity``, ``on_full`` and ``ttl`` of the restored stream. Idle times start at zero.
        """
        return load_stream(cls, path, model, options)

    # Samples

    def _prepared(self, samples: Any) -> tuple[list[Any], Array, Array]:
        """Keys, inputs of the layers (·, d) and the number of samples of each key."""
        keys, u, count = joined(samples, self._model.d, self._model.dtype, self._model.gaps)
        return keys, self._model.prepare(u), count

    def _advance(self, slots: Array, u: Array, count: Array, return_all: bool) -> Pushed:
        F, ends, bad = self._sequences.push(slots, u, count, return_all)
        good = ~bad
        self._sequences.history.add(slots[good], u[np.repeat(good, count)], count[good])
        return F, ends, bad

    def _take_back(self, slot: int, count: int, past: Array) -> None:
        total = int(self._sequences.history["total"][slot])
        if count > total:
            raise BadValue(f"samples: expected at most the sequence's {total} samples, got {count}")
        self._sequences.take_back(slot, count, past)
        self._sequences.history.take_back(slot, count)

    # Keys and slots

    def _slot(self, key: Any) -> int:
        try:
            return self._slots[key]
        except (KeyError, TypeError) as error:
            raise BadValue(f"key: expected one of the stream's {len(self)} keys, got {checks.describe(key)}") from error

    def _touch(self, slots: Array) -> None:
        self._times["last_seen"][slots] = time.monotonic()

    def _drop_expired(self) -> None:
        if self.ttl is not None:
            oldest = time.monotonic() - self.ttl
            expired = [key for key, slot in self._slots.items() if self._times["last_seen"][slot] < oldest]
            self._evict(expired, f"idle for more than {self.ttl:g} s")

    def _evict(self, keys: list[Any], reason: str) -> None:
        if keys:
            self._free += [self._slots.pop(key) for key in keys]
            self.evicted += len(keys)
            logging.getLogger("unicornn").warning("unicornn: dropped %s from the stream: %s", _first_few(keys), reason)

    def _enter(self, keys: list[Any]) -> Array:
        """The slots of the keys. New keys get a slot, at rest."""
        new = [key for key in keys if key not in self._slots]
        if new:
            self._evict_for(len(new), keys)
            for key in new:
                self._slots[key] = slot = self._free.pop() if self._free else len(self._slots)
                self._sequences.grow(slot + 1)
                self._times.grow(slot + 1)
                self._sequences.reset(slot)
        return np.fromiter(map(self._slots.__getitem__, keys), np.int64, len(keys))

    def _evict_for(self, count: int, keys: list[Any]) -> None:
        """Evicts sequences that are not pushed until new ones fit, or raises ``StreamFull``."""
        if self.capacity is None or len(self._slots) + count <= self.capacity:
            return
        excess = len(self._slots) + count - self.capacity
        pushed = set(keys)
        others = [key for key in self._slots if key not in pushed]
        if self.on_full == "error" or excess > len(others):
            raise StreamFull(
                f"samples: expected at most {self.capacity} sequences (capacity), got {count} new ones with "
                f"{len(self._slots)} in the stream"
            )
        others.sort(key=lambda key: self._times["last_seen"][self._slots[key]])
        self._evict(others[:excess], f"more than {self.capacity} sequences (capacity)")


def _first_few(keys: list[Any]) -> str:
    text = ", ".join(map(repr, keys[:5]))
    return text + (f" and {len(keys) - 5} others" if len(keys) > 5 else "")
