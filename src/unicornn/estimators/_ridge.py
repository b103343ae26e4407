"""Ridge regression of several targets on many features, the penalty chosen by leaving series out, in closed form.

Features may be of several kinds. What one kind is worth beside the others is chosen in the same way: its weight divides
the penalty of its features.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

PENALTIES = np.logspace(-6, 3, 19)  # times the number of features
TEMPERATURES = np.logspace(-1, 2, 31)
MOST = 2048  # series from which the penalty is chosen
FAR = 10.0
BLOCK = 1024  # series or features at a time, for all of them in double precision would need much memory


@dataclass
class Ridge:
    """A linear map of standardised features: (F - mean) / deviation · coefficients + intercept.

    Attributes:
        mean, deviation: (p,), of the features.
        coefficients: (p, k).
        intercept: (k,).
        penalty: λ, the one chosen.
        worth: the weight of each kind of features, the one chosen.
        left_out: (n, k), what is predicted for each series of those the penalty was chosen by, from the others.
        rows: (n,), which those are.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._ridge import Ridge
        >>> F = np.random.default_rng(0).normal(size=(50, 3))
        >>> Ridge.of(F, F[:, :1]).coefficients.round(2).ravel().tolist()
        [1.11, 0.0, 0.0]
    """

    mean: np.ndarray
    deviation: np.ndarray
    coefficients: np.ndarray
    intercept: np.ndarray
    penalty: float
    worth: tuple[float, ...]
    left_out: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(
        cls,
        F: np.ndarray,
        Y: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        seed: int = 0,
        kinds: np.ndarray | None = None,
        worths: Sequence[Sequence[float]] = ((1.0,),),
    ) -> Ridge:
        """Fits features F (n, p) to targets Y (n, k).

        Args:
            weights: (n,) > 0, of the series.
            groups: (n,); series of one group are left out together, in five folds. Else each by itself.
            seed: of the folds, and of the series by which the penalty is chosen if there are very many.
            kinds: (p,), 0, 1, …; all features are of one kind by default.
            worths: for each kind, the weights among which its own is chosen; the first ones, unless others are clearly
                better, by more than a standard error.
        """
        s = np.ones(len(F)) if weights is None else weights * len(F) / weights.sum()
        mean, deviation = _moments(F, s)
        constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-6)
        deviation = np.where(constant, np.inf, deviation)  # a constant feature counts for nothing
        Z = np.concatenate([(F[rows] - mean) / deviation for rows in _blocks(len(F))], dtype=np.float32)
        random = np.random.RandomState(seed)
        rows = np.sort(random.permutation(len(F))[:MOST])
        kinds = np.zeros(F.shape[1], int) if kinds is None else kinds
        grams = [_gram(Z[rows][:, kinds == kind]) for kind in range(len(worths))]
        sizes = [int((~constant[kinds == kind]).sum()) for kind in range(len(worths))]
        choices = [own if size else own[:1] for own, size in zip(worths, sizes, strict=True)]
        units = rows if groups is None else groups[rows]
        folds = None if groups is None else _folds(units, random)
        tried = []
        for worth in itertools.product(*choices):
            K = np.sum([w * gram for w, gram in zip(worth, grams, strict=True)], axis=0)
            penalties = PENALTIES * max(1.0, sum(w * size for w, size in zip(worth, sizes, strict=True)))
            guesses = _left_out(K, Y[rows], s[rows], penalties, folds)
            tried.append(_Try.best(worth, penalties, guesses, Y[rows], s[rows], units))
        chosen = min((each for each in tried if each.clearly_better(tried[0])), key=lambda t: t.error, default=tried[0])
        worth, penalty, left_out = chosen.worth, chosen.penalty, chosen.guess
        scale = np.sqrt(np.asarray(worth))[kinds]
        Z *= scale.astype(np.float32)
        W, intercept = _solve(Z, Y, s, penalty)
        return cls(mean, deviation, scale[:, None] * W, intercept, penalty, worth, left_out, rows)

    def predict(self, F: np.ndarray) -> np.ndarray:
        """(n, k). A feature further than ten deviations from the mean counts as ten: it tells nothing more."""
        near = (np.clip((F[rows] - self.mean) / self.deviation, -FAR, FAR) for rows in _blocks(len(F)))
        return np.concatenate([Z @ self.coefficients for Z in near]) + self.intercept


class _Try(NamedTuple):
    """What was found with one weight for each kind of features: the errors (u,) are those of series, or of groups."""

    worth: tuple[float, ...]
    penalty: float
    guess: np.ndarray
    errors: np.ndarray

    @property
    def error(self) -> float:
        return float(self.errors.sum())

    @classmethod
    def best(
        cls,
        worth: tuple[float, ...],
        penalties: np.ndarray,
        guesses: list[np.ndarray],
        Y: np.ndarray,
        s: np.ndarray,
        units: np.ndarray,
    ) -> _Try:
        """With the penalty that has the least error, or the largest one if none has a finite error."""
        _, codes = np.unique(units, return_inverse=True)
        with np.errstate(over="ignore", invalid="ignore"):
            errors = [np.bincount(codes, s * ((Y - guess) ** 2).sum(1)) for guess in guesses]
        totals = [float(each.sum()) for each in errors]
        best = int(np.nanargmin(totals)) if np.isfinite(totals).any() else len(penalties) - 1
        return cls(worth, float(penalties[best]), guesses[best], errors[best])

    def clearly_better(self, other: _Try) -> bool:
        """Whether errors are smaller by more than the standard error of the difference."""
        with np.errstate(invalid="ignore"):
            saved = other.errors - self.errors
            return bool(saved.sum() > saved.std() * np.sqrt(len(saved)))


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def _moments(F: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the deviation of every feature, with weights s whose mean is 1."""
    mean = sum(s[rows] @ F[rows].astype(np.float64) for rows in _blocks(len(F))) / len(F)
    square = sum(s[rows] @ (F[rows] - mean) ** 2 for rows in _blocks(len(F))) / len(F)
    return np.asarray(mean), np.sqrt(square)


def _gram(Z: np.ndarray) -> np.ndarray:
    """Z Zᵀ in double precision."""
    K = np.zeros((len(Z), len(Z)))
    for columns in _blocks(Z.shape[1]):
        block = Z[:, columns].astype(np.float64)
        K += block @ block.T
    return K


def _folds(groups: np.ndarray, random: np.random.RandomState) -> np.ndarray | None:
    """The fold of each series, at most five, with each group in one of them; None of a single group."""
    names, codes = np.unique(groups, return_inverse=True)
    return random.permutation(len(names))[codes] % min(5, len(names)) if len(names) > 1 else None


def _left_out(
    K: np.ndarray,
    Y: np.ndarray,
    s: np.ndarray,
    penalties: np.ndarray,
    folds: np.ndarray | None,
) -> list[np.ndarray]:
    """For each penalty, what is predicted for each series by those which are not of its fold, or by all others."""
    if folds is None:
        return _one_by_one(K, Y, s, penalties)
    guesses = [np.zeros(Y.shape) for _ in penalties]
    for fold in range(folds.max() + 1):
        train, test = folds != fold, folds == fold
        r = np.sqrt(s[train])
        centre = s[train] @ Y[train] / s[train].sum()
        inner, cross = _centred(K, train, test, s[train])
        values, U = np.linalg.eigh(r[:, None] * inner * r)
        T = U.T @ (r[:, None] * (Y[train] - centre))
        A = (cross * r) @ U
        for guess, penalty in zip(guesses, penalties, strict=True):
            guess[test] = A @ (T / (np.maximum(values, 0) + penalty)[:, None]) + centre
    return guesses


def _centred(K: np.ndarray, train: np.ndarray, test: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Gram matrix of the training series, and that of the others with them, about the former's mean feature."""
    s = s / s.sum()
    inner, cross = K[np.ix_(train, train)], K[np.ix_(test, train)]
    column, total = inner @ s, s @ inner @ s
    return inner - column[:, None] - column + total, cross - (cross @ s)[:, None] - column + total


def _one_by_one(K: np.ndarray, Y: np.ndarray, s: np.ndarray, penalties: np.ndarray) -> list[np.ndarray]:
    """In closed form: a residual divided by one minus the share that a series has in its own prediction."""
    n = len(Y)
    everything = np.ones(n, bool)
    K, _ = _centred(K, everything, everything, s)
    r = np.sqrt(s)
    values, U = np.linalg.eigh(r[:, None] * K * r)
    T = U.T @ (r[:, None] * Y)
    unit = r / np.linalg.norm(r)
    flat = np.outer(unit, unit @ (r[:, None] * Y))  # the part of the intercept, which is not penalised
    guesses = []
    for penalty in penalties:
        share = np.maximum(values, 0) / (np.maximum(values, 0) + penalty)
        fitted = U @ (share[:, None] * T) + flat
        own = (U**2 @ share + unit**2)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            guesses.append(Y - (r[:, None] * Y - fitted) / (1 - own) / r[:, None])
    return guesses


def _solve(Z: np.ndarray, Y: np.ndarray, s: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (p, k) and intercept (k,), by whichever of the two square systems is smaller."""
    n, p = Z.shape
    r = np.sqrt(s)
    centre = s @ Y / s.sum()
    T = r[:, None] * (Y - centre)
    if n <= p:
        K = r[:, None] * _gram(Z) * r
        K[np.diag_indices(n)] += penalty
        dual = np.linalg.solve(K, T)
        return np.concatenate([Z[:, part].T.astype(np.float64) @ (r[:, None] * dual) for part in _blocks(p)]), centre
    A = r[:, None] * Z
    G = A.T @ A
    G[np.diag_indices(p)] += penalty
    return np.linalg.solve(G, A.T @ T), centre


def temperature(scores: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> float:
    """By what scores (n, k) are to be multiplied for their softmax to be the likeliest probabilities of the classes.

    Of n series that are all told rightly, the next may still be told wrongly: as in Laplace's rule of succession, and
    in Platt's scaling, one more in n + 2 counts as any of the other classes. Where classes separate, the likeliest
    probabilities without it would be 0 and 1.
    """
    n, k = scores.shape
    aside = 1 / (n + 2)
    target = np.full((n, k), aside / max(1, k - 1))
    target[np.arange(n), classes] = 1 - aside

    def loss(t: float) -> float:
        logits = t * scores
        top = logits.max(1, keepdims=True)
        chances = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
        return -float(weights @ (target * chances).sum(1))

    losses = [loss(t) for t in TEMPERATURES]
    return float(TEMPERATURES[int(np.nanargmin(losses))]) if np.isfinite(losses).any() else 1.0
