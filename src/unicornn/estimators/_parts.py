"""Fits of the bank to more series than memory holds: a sample gives scales, levels and features, then exact sums."""

from __future__ import annotations

import copy
import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.estimators import _arguments as arguments
from unicornn.estimators._ridge import FOLDS, Ridge
from unicornn.estimators._series import Series, SeriesSet
from unicornn.estimators._sums import Basis, Sums

SAMPLE = 4096  # series that give scales, levels and features
SAMPLE_NUMBERS = 1 << 26  # in these series at most
FEATURES = 3000  # kept if the sample does not hold all series
FEATURES_OF_PARTIAL_FIT = 1000  # whose ridge regression is solved again and again
BATCH = 1024  # series whose features are in memory at a time


class Part(NamedTuple):
    """Series read from one part of the data, their targets and groups."""

    read: SeriesSet
    y: np.ndarray
    groups: np.ndarray | None


class _Drawn(NamedTuple):
    minus_digest: int
    position: Any
    x: np.ndarray
    y: Any
    group: Any


@dataclass
class Sample:
    """The ``most`` series with the smallest digests, and one of each class, whatever the order of the parts.

    Attributes:
        most: Maximum number of series.
        classify: Whether targets are classes.
        seen: Number of series seen.
    """

    most: int
    classify: bool
    seen: int = 0
    _numbers: int = 0
    _like: SeriesSet | None = None  # the first part, with one series
    _heap: list[_Drawn] = field(default_factory=list)
    _by_class: dict[Any, _Drawn] = field(default_factory=dict)

    def add(self, part: Part, positions: Iterable[Any] | None = None) -> None:
        """Adds the series of a part; positions, by default their numbers, determine their order in the sample."""
        self._like = self._like or replace(part.read, series=part.read.series[:1], names=None)
        positions = range(self.seen, self.seen + len(part.y)) if positions is None else positions
        for i, (x, position) in enumerate(zip(part.read.series, positions, strict=True)):
            self._push(_Drawn(-digest(x), position, x, part.y[i], None if part.groups is None else part.groups[i]))
        self.seen += len(part.y)

    def merge(self, other: Sample) -> Sample:
        """Adds the series that another process has seen."""
        for each in other._drawn():
            self._push(each)
        self.seen += other.seen
        self._like = self._like or other._like
        return self

    def _push(self, new: _Drawn) -> None:
        label = new.y.item() if isinstance(new.y, np.generic) else new.y
        first = self._by_class.get(label) if self.classify else new
        enough = len(self._heap) == self.most or self._numbers > SAMPLE_NUMBERS
        if first is not None and first[:2] >= new[:2] and enough and new[:2] < self._heap[0][:2]:
            return
        new = new._replace(x=new.x.copy())  # a view would keep the whole part in memory
        if self.classify and (first is None or new[:2] > first[:2]):
            self._by_class[label] = new
        heapq.heappush(self._heap, new)
        self._numbers += new.x.size
        while len(self._heap) > self.most or (self._numbers > SAMPLE_NUMBERS and len(self._heap) > 1):
            self._numbers -= heapq.heappop(self._heap).x.size

    def _drawn(self) -> Iterable[_Drawn]:
        return {each[:2]: each for each in (*self._heap, *self._by_class.values())}.values()

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds all series."""
        return self.seen == len(self._heap)

    def part(self) -> Part:
        """The sample, in order of the positions."""
        if self._like is None:
            raise BadValue("parts: expected at least one series, got none")
        drawn = sorted(self._drawn(), key=lambda each: each.position)
        groups = None if drawn[0].group is None else np.array([each.group for each in drawn])
        read = replace(self._like, series=[each.x for each in drawn])
        return Part(read, np.array([each.y for each in drawn]), groups)


def digest(value: np.ndarray | str) -> int:
    """64 bits that depend on the values of a series (in float32), or on a text."""
    content = value.encode() if isinstance(value, str) else np.ascontiguousarray(value, np.float32).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class Parts:
    """``fit_parts``, ``forget``, ``+`` and the bank's ``partial_fit``: fits that only keep exact sums of the features.

    Attributes:
        sums_: The sums, or None after ``fit``.
    """

    sums_: Any = None
    _solved: Ridge | None = None  # by the current sums

    def fit_parts(
        self: Any, parts: Any, *, sample: int = SAMPLE, max_features: int | None = None, like: Any = None
    ) -> Any:
        """Fits the bank to series in parts, one at a time, so that all of them need not fit in memory.

        A sample gives the scales, levels and features: the series with the smallest hashes, so it doesn't depend on the
        order of the parts. The ridge regression is solved from exact sums over all series: the result is the same, to
        the bit, however the series are divided into parts. If the sample holds all series, it equals ``fit`` within
        rounding. Otherwise the penalty is chosen in closed form on five folds, by the hash of each series or group.

        Args:
            parts: Pairs (X, y) or triples (X, y, groups) as for ``fit``: a list, or another iterable that can be
                iterated twice.
            sample: Maximum number of series in the sample.
            max_features: Number of features kept, those with the largest coefficients on the sample; by default all if
                the sample holds all series, and 3,000 otherwise. The sums take 40 bytes times its square.
            like: Fitted model whose scales, levels and features are used instead of a sample's, so that the two can be
                added.

        Example:
            >>> import numpy as np
            >>> from unicornn.estimators import UnICORNNRegressor
            >>> X = np.random.default_rng(0).normal(size=(60, 10))
            >>> parts = [(X[i : i + 20], X[i : i + 20, 0]) for i in (0, 20, 40)]
            >>> here = UnICORNNRegressor(random_state=0).fit_parts(parts[:2])
            >>> there = UnICORNNRegressor(random_state=0).fit_parts(parts[2:], like=here)
            >>> (here + there).forget(*parts[1]).about_["series"]
            40
        """
        self._check_settings()
        self._check_summable()
        most, features = checks.integer("sample", sample, 2), max_features
        features = None if features is None else checks.integer("max_features", features, 1)
        if not hasattr(parts, "__iter__") or (like is None and iter(parts) is parts):
            raise BadType(
                f"parts: expected a list or an iterable that can be iterated twice, got {type(parts).__name__}"
            )
        if like is not None:
            self._take_over(like)
        else:
            drawn = Sample(most, is_classifier(self))
            for part in self._read_parts(parts):
                drawn.add(part)
            self._fit_sample(drawn.part(), features, drawn.is_complete)
        for part in self._read_parts(parts):
            self._add_part(part)
        self._learn_sums()
        return self

    def _partial_fit_bank(self: Any, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Any:
        """Adds series to the sums; those of the first call give scales, levels and features."""
        self._check_settings()
        self._check_summable()
        if sample_weight is not None:
            raise BadValue("sample_weight: expected None for model='bank', whose sums count every series once")
        part = self._read_part((X, y))
        if self.sums_ is None:
            self._fit_sample(part, FEATURES_OF_PARTIAL_FIT, False, classes)
        self._add_part(part)
        self._learn_sums()
        return self

    def forget(self: Any, X: Any, y: Any, groups: Any = None) -> Any:
        """Removes training series, with the targets and groups that they were fitted with.

        The result equals, to the bit, a fit that never saw them, with the same scales, levels and features. These
        still depend on the series that were in the sample; to remove such a series from them too, fit again.
        """
        before = self._check_sums().copy()
        self._add_part(self._read_part((X, y, groups)), -1)
        self._learn_sums()
        counts = self._counts()
        if (counts < 0).any() or counts[0] < 2 or (np.diagonal(self.sums_.low, axis1=1, axis2=2) < 0).any():
            self.sums_ = before
            self._learn_sums()
            raise BadValue("X: expected series of the training set with their targets, and others left, got other ones")
        return self

    def __add__(self: Any, other: Any) -> Any:
        """The model fitted to the series of both, one of which was fitted with ``like`` the other."""
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._check_sums(), other._check_sums()
        if mine.basis.identity != theirs.basis.identity or mine.low.shape != theirs.low.shape:
            raise BadValue("other: expected a model with the same scales and features (fit_parts(…, like=model))")
        both = copy.copy(self)
        both.about_ = copy.deepcopy(self.about_)
        both.sums_ = mine + theirs
        both._learn_lengths(other.about_["shortest"], other.about_["longest"])
        both._learn_sums()
        return both

    # Steps, also taken by workers of a cluster

    def _check_summable(self: Any) -> None:
        if self.model != "bank":
            raise BadValue(f"model: expected 'bank', which is fitted from sums, got {self.model!r}")
        if getattr(self, "class_weight", None) is not None:
            raise BadValue(f"class_weight: expected None for a fit from sums, got {self.class_weight!r:.60}")

    def _check_sums(self) -> Sums:
        check_is_fitted(self)
        if self.sums_ is None:
            raise BadValue("model: expected one fitted with fit_parts or partial_fit, which keep sums")
        return self.sums_

    def _read_parts(self, parts: Iterable[Any]) -> Iterator[Part]:
        for i, part in enumerate(parts):
            if not isinstance(part, (tuple, list)) or len(part) not in (2, 3):
                raise BadType(f"parts[{i}]: expected (X, y) or (X, y, groups), got {checks.describe(part)}")
            try:
                yield self._read_part(part)
            except (BadValue, BadType) as error:
                raise type(error)(f"parts[{i}]: {error}") from error

    def _read_part(self: Any, part: Any) -> Part:
        X, y, groups = (*part, None)[:3]
        read = self._read(X)
        for name, values in {"y": y, "groups": groups}.items():
            read.check_order(name, values)
        arguments.check_count("y", y, len(read))
        y = self._check_y(y)
        return Part(read, y, None if groups is None else arguments.check_groups(groups, len(read)))

    def _fit_sample(self: Any, part: Part, max_features: int | None, whole: bool, classes: Any = None) -> None:
        """Fits the bank to a sample, and prepares empty sums."""
        weights = np.ones(len(part.y))
        if classes is None:
            target = self._learn_targets(part.y, weights)
        else:
            self._learn_classes(self._check_y(classes), len(part.y))
            target = self._encode(part.y)
        self._fit_targets(part.read, target, weights, part.groups)
        most = max_features if whole or max_features is not None else FEATURES
        basis = Basis.from_ridge(self._ridge, self._bank._feature_kinds(), most)
        self.sums_ = Sums.empty(basis, self._outputs(), 1 if whole else FOLDS)
        self.about_ |= {"shortest": 1 << 62, "longest": 0}

    def _take_over(self: Any, like: Any) -> None:
        """Copies everything learnt from the sample of another model."""
        if type(like) is not type(self) or getattr(like, "sums_", None) is None:
            raise BadValue(f"like: expected a {type(self).__name__} fitted with fit_parts, got {like!r:.60}")
        parameters = like.get_params(deep=False)
        for name, value in vars(like).items():
            if name not in parameters:
                setattr(self, name, value)
        self.about_ = copy.deepcopy(like.about_) | {"shortest": 1 << 62, "longest": 0}
        self.sums_ = like.sums_.like()

    def _add_part(self: Any, part: Part, sign: int = 1) -> None:
        """Adds the series of a part to the sums, or subtracts them."""
        self._check_channels(part.read)
        target = self._encode(part.y)
        names = part.read.series if part.groups is None else [str(group) for group in part.groups]
        folds = np.array([digest(name) % len(self.sums_.low) for name in names])
        for start in range(0, len(part.y), BATCH):
            rows = slice(start, start + BATCH)
            series: Series = self._scaled(part.read.series[rows], self.scale_)
            with self._threads():
                F = self._bank._features(series)
            self.sums_.add(F, self._ridge_targets(target[rows]), folds[rows], sign)
        lengths = [len(x) for x in part.read.series]
        self._learn_lengths(min(lengths), max(lengths))

    def _learn_lengths(self: Any, shortest: int, longest: int) -> None:
        known = self.about_
        known["shortest"], known["longest"] = min(known["shortest"], shortest), max(known["longest"], longest)

    def _learn_sums(self: Any) -> None:
        """Updates what depends on the number of series. The ridge regression is solved when it is needed."""
        self._solved = None
        counts = self._counts()
        self.about_["series"] = int(counts[0])
        self._learn_counts(counts)

    def _counts(self) -> np.ndarray:
        """Number of series, and of those of each class."""
        totals = self._check_sums().totals(0)
        n, y = totals[:1], totals[1 + len(self.sums_.basis.columns) :]
        return np.concatenate([n, (n + y) / 2]).round().astype(np.int64) if is_classifier(self) else n.astype(np.int64)

    def _learn_counts(self, counts: np.ndarray) -> None:
        """Updates what depends on ``_counts``."""

    @property
    def _ridge(self) -> Ridge:
        if self._solved is None:
            self._solved = self._check_sums().ridge()
        return self._solved

    @_ridge.setter
    def _ridge(self, ridge: Ridge) -> None:
        self._solved = ridge
