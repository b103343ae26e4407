"""Exact sums over series, from which ridge regression is solved: in chunks, in any order, on any number of machines.

Numbers are rounded to multiples of 2⁻²⁰, about the precision of float32 features. Products are then multiples of 2⁻⁴⁰,
and sums of products are integers in this unit. No addition rounds, so the sums don't depend on chunks, order or
workers, and series can be removed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from unicornn.errors import BadValue
from unicornn.estimators._ridge import Ridge, _blocks

GRID = 2.0**20
LARGEST = 64.0  # deviations from the sample's mean at which features are clipped
EXACT = 2.0**13  # sums of products up to this have 53 bits, so float64 holds them exactly
LOW_BITS = 40
LOW = (1 << LOW_BITS) - 1
FULL = 1 << 62
PENDING = 1 << 24  # numbers that wait to be multiplied
TILE = 1024  # columns multiplied at a time
ARRAYS = ("columns", "mean", "deviation", "scale")  # of a basis
STEP, MOST_STEPS = 10**0.5, 8  # of the penalty, in each direction from the sample's


@dataclass
class Basis:
    """What is summed: the features ``columns`` (p,) of ``size``, scaled by ``mean`` and ``deviation`` of a sample.

    ``scale`` (p,) holds the square roots of the weights of the features' kinds, ``penalty`` the penalty chosen on the
    sample, and ``identity`` a digest of the sample's model.
    """

    size: int
    columns: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    scale: np.ndarray
    penalty: float
    identity: str

    @classmethod
    def from_ridge(cls, ridge: Ridge, kinds: np.ndarray, most: int | None) -> Basis:
        """The features that vary in a sample, at most ``most``: those with the largest coefficients in its ridge."""
        importance = np.linalg.norm(ridge.coefficients, axis=1)
        columns = np.flatnonzero(np.isfinite(ridge.deviation))
        if most is not None and len(columns) > most:
            order = np.argsort(-importance[columns], kind="stable")
            columns = np.sort(columns[order[:most]])
        scale = np.sqrt(np.asarray(ridge.kind_weights))[kinds[columns]]
        arrays = ridge.mean, ridge.deviation, ridge.coefficients, ridge.intercept
        identity = hashlib.sha256(b"".join(each.astype(np.float64).tobytes() for each in arrays)).hexdigest()
        mean, deviation = ridge.mean[columns], ridge.deviation[columns]
        return cls(len(kinds), columns, mean, deviation, scale, ridge.penalty, identity)

    def rows(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Rows v = (1, z, y), (n, q), of all features (n, size) and targets (n, k), in multiples of 2⁻²⁰."""
        z = np.clip((F[:, self.columns] - self.mean) / self.deviation, -LARGEST, LARGEST)
        return np.rint(np.concatenate([np.ones((len(F), 1)), z, Y], 1) * GRID) / GRID


@dataclass
class Sums:
    """Σ v vᵀ over series by fold, with v = (1, z, y) of size q = 1 + p + k, in units of 2⁻⁴⁰.

    Only the blocks on and above the diagonal are used.

    Attributes:
        basis: Meaning of z.
        low, high: Shape (folds, q, q), int64; the sums are high · 2⁴⁰ + low. ``high`` is None up to millions of series.
        bound: Largest possible magnitude in ``low``.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._ridge import Ridge
        >>> from unicornn.estimators._sums import Basis, Sums
        >>> F = np.random.default_rng(0).normal(size=(50, 3))
        >>> ridge = Ridge.fit(F, F[:, :1])
        >>> basis = Basis.from_ridge(ridge, np.zeros(3, int), None)
        >>> one, two = (Sums.empty(basis, k=1, folds=1) for _ in range(2))
        >>> one.add(F[:20], F[:20, :1], np.zeros(20, int)); two.add(F[20:], F[20:, :1], np.zeros(30, int))
        >>> np.allclose((one + two).ridge().coefficients, ridge.coefficients, atol=1e-5)
        True
    """

    basis: Basis
    low: np.ndarray
    high: np.ndarray | None = None
    bound: int = 0
    _pending: list[tuple[np.ndarray, np.ndarray, int]] = field(default_factory=list)

    @classmethod
    def empty(cls, basis: Basis, k: int, folds: int) -> Sums:
        q = 1 + len(basis.columns) + k
        return cls(basis, np.zeros((folds, q, q), np.int64))

    def like(self) -> Sums:
        """Sums of no series with the same basis."""
        return Sums(self.basis, np.zeros_like(self.low))

    def totals(self, row: int) -> np.ndarray:
        """A row of Σ v vᵀ over all folds, exact on and after the diagonal, (q,)."""
        return self._matrix(tuple(range(len(self.low))), slice(row, row + 1))[0]

    def add(self, F: np.ndarray, Y: np.ndarray, folds: np.ndarray, sign: int = 1) -> None:
        """Adds the features (n, size) and targets (n, k) of series in these folds (n,); subtracts them if sign = -1."""
        if np.abs(Y).max(initial=0) > LARGEST:
            raise BadValue(f"y: expected targets within {LARGEST:g} standard deviations of the sample's mean")
        self._pending.append((self.basis.rows(F, Y), folds, sign))
        if sum(rows.size for rows, _, _ in self._pending) > PENDING:
            self._multiply()

    def _multiply(self) -> None:
        """Adds the products of the rows that wait."""
        pending, self._pending = self._pending, []
        for sign in {sign for _, _, sign in pending}:
            chosen = [(rows, folds) for rows, folds, each in pending if each == sign]
            V, folds = (np.concatenate(each) for each in zip(*chosen, strict=True))
            for fold in np.unique(folds):
                for block, largest in _exact_blocks(V[folds == fold]):
                    if self.bound + int(largest * GRID**2) > FULL:
                        self._carry()
                    self.bound += int(largest * GRID**2)
                    for start in range(0, block.shape[1], TILE):
                        tile = slice(start, start + TILE)
                        product = block[:, : start + TILE].T @ block[:, tile] * (sign * GRID**2)
                        self.low[fold, : start + TILE, tile] += product.astype(np.int64)

    def _carry(self) -> None:
        """Moves the upper bits of ``low`` to ``high``, so that ``low`` cannot overflow."""
        self.high = np.zeros_like(self.low) if self.high is None else self.high
        self.high += self.low >> LOW_BITS
        self.low &= LOW
        self.bound = LOW

    def __add__(self, other: Sums) -> Sums:
        """Sums over both sets of series, which must have the same basis."""
        total, other = self.copy(), other.copy()
        if total.bound + other.bound > FULL:
            total._carry()
            other._carry()
        total.low += other.low
        total.bound += other.bound
        if other.high is not None:
            total.high = other.high if total.high is None else total.high + other.high
        return total

    def copy(self) -> Sums:
        """Independent sums of the same series."""
        self._multiply()
        return replace(self, low=self.low.copy(), high=None if self.high is None else self.high.copy(), _pending=[])

    def _matrix(self, folds: tuple[int, ...], rows: slice = slice(None)) -> np.ndarray:
        """Rows of Σ v vᵀ over some folds in float64, correctly rounded."""
        self._multiply()
        some = range(*rows.indices(self.low.shape[1]))
        found = np.empty((len(some), self.low.shape[1]))
        for start in range(0, len(some), TILE):
            part = slice(some[start], some[min(start + TILE, len(some)) - 1] + 1)
            units = np.add.reduce([self.low[fold, part] >> LOW_BITS for fold in folds])
            if self.high is not None:
                units += np.add.reduce([self.high[fold, part] for fold in folds])
            rest = np.add.reduce([self.low[fold, part] & LOW for fold in folds])
            found[start : start + TILE] = (units + (rest >> LOW_BITS)) + (rest & LOW) / GRID**2
        return found

    def ridge(self) -> Ridge:
        """Ridge regression on these sums; in folds, the penalty has the smallest squared error on left-out folds."""
        p, folds = len(self.basis.columns), tuple(range(len(self.low)))
        M = self._matrix(folds)
        variance = np.maximum(np.diag(M)[1 : p + 1] / M[0, 0] - (M[0, 1 : p + 1] / M[0, 0]) ** 2, 0)
        mean = self.basis.mean + self.basis.deviation * M[0, 1 : p + 1] / M[0, 0]
        deviation = self.basis.deviation * np.sqrt(variance)
        constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-6)
        D = np.where(constant, 0.0, self.basis.scale / np.sqrt(np.where(constant, 1.0, variance)))
        penalty = self._penalty(M, D)
        W, intercept = _System.from_moments(M, D).solve(penalty)
        full = np.zeros(self.basis.size), np.full(self.basis.size, np.inf), np.zeros((self.basis.size, W.shape[1]))
        deviation = np.where(constant, np.inf, deviation)
        for array, values in zip(full, (mean, deviation, (D * np.sqrt(variance))[:, None] * W), strict=True):
            array[self.basis.columns] = values
        return Ridge(*full, intercept, penalty)

    def _penalty(self, M: np.ndarray, D: np.ndarray) -> float:
        """The penalty with the smallest error on left-out folds, searched downhill from the sample's."""
        tests = [self._matrix((fold,)) for fold in range(len(self.low)) if self._matrix((fold,), slice(1))[0, 0]]
        if len(tests) < 2:
            return self.basis.penalty
        systems = [_System.from_moments(M - test, D) for test in tests]  # sums over the other folds

        @cache
        def error(step: int) -> float:
            if abs(step) > MOST_STEPS:
                return np.inf
            total = 0.0
            for system, test in zip(systems, tests, strict=True):
                try:
                    W, intercept = system.solve(self.basis.penalty * STEP**step)
                except LinAlgError:  # the penalty is smaller than rounding errors
                    return np.inf
                W = D[:, None] * W
                R = np.concatenate([-(intercept - system.centre @ W)[None], -W, np.eye(len(intercept))])
                total += float((R * _symmetric_product(test, R)).sum())  # the residual of a series is v R
            return total

        best = 0
        for direction in (1, -1):
            while error(best + direction) < error(best):
                best += direction
        return float(self.basis.penalty * STEP**best)

    def __reduce__(self) -> Any:
        return Sums._unpickle, (self.to_bytes(),)  # half the size of the matrices

    @classmethod
    def _unpickle(cls, content: bytes) -> Sums:
        return cls.from_bytes(content)[0]

    def to_bytes(self, about: str = "") -> bytes:
        """The sums and a text as the content of a .safetensors file, without what is below the diagonal."""
        self._multiply()
        above = np.triu(np.ones(self.low.shape[1:], bool))
        arrays = {name: getattr(self.basis, name) for name in ARRAYS} | {"low": self.low[:, above]}
        arrays |= {} if self.high is None else {"high": self.high[:, above]}
        numbers = {"q": self.low.shape[1], "bound": self.bound, "size": self.basis.size, "penalty": self.basis.penalty}
        texts = {"identity": self.basis.identity, "about": about}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}  # as safetensors requires
        return save(arrays, {name: str(value) for name, value in (numbers | texts).items()})

    @classmethod
    def from_bytes(cls, content: bytes) -> tuple[Sums, str]:
        """The sums and the text that ``to_bytes`` stored. Raises ValueError, LookupError or SafetensorError."""
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        q = int(header["q"])
        if not arrays["low"].shape[1:] == (q * (q + 1) // 2,):
            raise ValueError(f"low: expected {q * (q + 1) // 2} sums per fold, got shape {arrays['low'].shape}")
        above = np.triu(np.ones((q, q), bool))

        def square(packed: np.ndarray) -> np.ndarray:
            full = np.zeros((len(packed), q, q), np.int64)
            full[:, above] = packed
            return full

        fields = {name: arrays[name] for name in ARRAYS}
        basis = Basis(int(header["size"]), **fields, penalty=float(header["penalty"]), identity=header["identity"])
        high = square(arrays["high"]) if "high" in arrays else None
        return cls(basis, square(arrays["low"]), high, int(header["bound"])), header["about"]


def _exact_blocks(V: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Rows in blocks whose products float64 adds exactly, and the largest sum of products of each."""
    largest = float((V**2).sum(0).max())
    if len(V) > 1 and largest > EXACT:
        yield from _exact_blocks(V[: len(V) // 2])
        yield from _exact_blocks(V[len(V) // 2 :])
    else:
        yield V, largest


class _System(NamedTuple):
    """Normal equations of D (z - centre): the upper triangle of G (p, p), T (p, k), and the targets' means (k,)."""

    G: np.ndarray
    T: np.ndarray
    centre: np.ndarray
    intercept: np.ndarray

    @classmethod
    def from_moments(cls, M: np.ndarray, D: np.ndarray) -> _System:
        """From the upper triangle of M = Σ v vᵀ."""
        p, n = len(D), M[0, 0]
        centre, intercept = np.split(M[0, 1:] / n, [p])
        T = D[:, None] * (M[1 : p + 1, p + 1 :] - n * np.outer(centre, intercept))
        G = M[1 : p + 1, 1 : p + 1].copy()
        for rows in _blocks(p):
            G[rows] -= n * np.outer(centre[rows], centre)
            G[rows] *= D[rows, None] * D
        return cls(G, T, centre, intercept)

    def solve(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (p, k), and the intercept (k,)."""
        G = self.G.copy()
        G[np.diag_indices(len(G))] += penalty
        factor = cho_factor(G.T, lower=True, overwrite_a=True, check_finite=False)  # G.T in Fortran's order
        return cho_solve(factor, self.T, check_finite=False), self.intercept


def _symmetric_product(M: np.ndarray, R: np.ndarray) -> np.ndarray:
    """M R for a symmetric matrix of which only the upper triangle is known."""
    upper = np.triu(M)
    return upper @ R + upper.T @ R - np.diag(M)[:, None] * R
