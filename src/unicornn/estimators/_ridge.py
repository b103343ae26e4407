"""Ridge regression on many features, the penalty chosen by leave-one-out (or leave-groups-out) errors in closed form.

scikit-learn's RidgeCV does the same for one penalty. Here features come in several kinds, whose relative weights are
chosen together with the penalty: the weight of a kind divides the penalty of its features.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn.model_selection import GroupKFold

PENALTIES = np.logspace(-6, 3, 19)  # times the number of features
TEMPERATURES = np.logspace(-1, 2, 31)
FOLDS = 5  # at most, of groups
SELECTION_SERIES = 2048  # maximum number of series from which the penalty is chosen
CLIP = 10.0  # deviations from the mean
BLOCK = 1024  # series or features converted to double precision at a time, to save memory


@dataclass
class Ridge:
    """A linear map of standardised features: (F - mean) / deviation · coefficients + intercept.

    Attributes:
        mean, deviation: Moments of the features, (p,).
        coefficients: Shape (p, k).
        intercept: Shape (k,).
        penalty: Chosen penalty λ.
        kind_weights: Chosen weight of each kind of features.
        left_out: Prediction for each series of ``rows`` by a fit without it (or without its group), (n, k).
        rows: Series from which the penalty was chosen, (n,).
        errors: Sum of the squared errors of ``left_out`` by series, or by group.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators._ridge import Ridge
        >>> F = np.random.default_rng(0).normal(size=(50, 3))
        >>> Ridge.fit(F, F[:, :1]).coefficients.round(2).ravel().tolist()
        [1.11, 0.0, 0.0]
    """

    mean: np.ndarray
    deviation: np.ndarray
    coefficients: np.ndarray
    intercept: np.ndarray
    penalty: float
    kind_weights: tuple[float, ...] = ()
    left_out: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    errors: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def fit(
        cls,
        F: np.ndarray,
        Y: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        seed: int = 0,
        kinds: np.ndarray | None = None,
        weight_choices: Sequence[Sequence[float]] = ((1.0,),),
    ) -> Ridge:
        """Fits features F (n, p) to targets Y (n, k).

        Args:
            weights: Weights of the series, (n,) > 0.
            groups: Group of each series, (n,). Groups are left out as a whole, in up to five folds; without groups,
                series are left out one by one.
            seed: Seed of the folds, and of the choice of series if there are more than 2,048.
            kinds: Kind of each feature, (p,): 0, 1, …; by default all are of one kind.
            weight_choices: Candidate weights for each kind. The first ones are used unless others have smaller errors
                by more than a standard error.
        """
        s = np.ones(len(F)) if weights is None else weights * len(F) / weights.sum()
        mean, deviation = _moments(F, s)
        constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1)  # rounding errors
        deviation = np.where(constant, np.inf, deviation)  # so that constant features become 0
        Z = np.concatenate([(F[rows] - mean) / deviation for rows in _blocks(len(F))], dtype=np.float32)
        rows = np.sort(np.random.RandomState(seed).permutation(len(F))[:SELECTION_SERIES])
        kinds = np.zeros(F.shape[1], int) if kinds is None else kinds
        grams = [_gram(Z[rows][:, kinds == kind]) for kind in range(len(weight_choices))]
        sizes = [int((~constant[kinds == kind]).sum()) for kind in range(len(weight_choices))]
        choices = [each if size else each[:1] for each, size in zip(weight_choices, sizes, strict=True)]
        units = rows if groups is None else groups[rows]
        splits = None if groups is None else _group_splits(units, seed)
        candidates = []
        for kind_weights in itertools.product(*choices):
            K = _weighted(grams, kind_weights)
            penalties = PENALTIES * max(1.0, sum(w * size for w, size in zip(kind_weights, sizes, strict=True)))
            if splits is None:
                left_out = _leave_one_out(K, Y[rows], s[rows], penalties)
            else:
                left_out = _leave_groups_out(K, Y[rows], s[rows], penalties, splits)
            candidates.append(_Candidate.best(kind_weights, penalties, left_out, Y[rows], s[rows], units))
        better = [each for each in candidates if clearly_smaller(each.errors, candidates[0].errors)]
        best = min(better, key=lambda each: each.errors.sum(), default=candidates[0])
        scale = np.sqrt(np.asarray(best.kind_weights))[kinds]
        Z *= scale.astype(np.float32)
        known = _weighted(grams, best.kind_weights) if len(rows) == len(F) else None
        W, intercept = _solve(Z, Y, s, best.penalty, known)
        chosen = best.penalty, best.kind_weights, best.left_out, rows, best.errors
        return cls(mean, deviation, scale[:, None] * W, intercept, *chosen)

    def predict(self, F: np.ndarray) -> np.ndarray:
        """Predictions (n, k). Features are clipped at ten deviations, beyond which they carry no information."""
        inverse, coefficients = 1 / self.deviation, self.coefficients.astype(np.float32)
        clipped = (((F[rows] - self.mean) * inverse).astype(np.float32).clip(-CLIP, CLIP) for rows in _blocks(len(F)))
        # Row by row: the order of a matrix product's sums depends on the number of rows.
        return np.stack([z @ coefficients for Z in clipped for z in Z]).astype(np.float64) + self.intercept


class _Candidate(NamedTuple):
    """A choice of weights for the kinds, its best penalty, and its errors by unit (series or group)."""

    kind_weights: tuple[float, ...]
    penalty: float
    left_out: np.ndarray
    errors: np.ndarray

    @classmethod
    def best(
        cls,
        kind_weights: tuple[float, ...],
        penalties: np.ndarray,
        left_out: list[np.ndarray],
        Y: np.ndarray,
        s: np.ndarray,
        units: np.ndarray,
    ) -> _Candidate:
        """The penalty with the smallest error, or the largest penalty if no error is finite."""
        _, codes = np.unique(units, return_inverse=True)
        with np.errstate(over="ignore", invalid="ignore"):
            errors = [np.bincount(codes, s * ((Y - each) ** 2).sum(1)) for each in left_out]
        totals = [float(each.sum()) for each in errors]
        best = int(np.nanargmin(totals)) if np.isfinite(totals).any() else len(penalties) - 1
        return cls(kind_weights, float(penalties[best]), left_out[best], errors[best])


def clearly_smaller(errors: np.ndarray, others: np.ndarray) -> bool:
    """Whether errors (n,) are smaller than others by more than the standard error of the difference."""
    with np.errstate(invalid="ignore"):
        gain = others - errors
        return bool(gain.sum() > gain.std() * np.sqrt(len(gain)))


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def _moments(F: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every feature, with weights s whose mean is 1."""
    mean = sum(s[rows] @ F[rows].astype(np.float64) for rows in _blocks(len(F))) / len(F)
    square = sum(s[rows] @ (F[rows] - mean) ** 2 for rows in _blocks(len(F))) / len(F)
    return np.asarray(mean), np.sqrt(square)


def _gram(Z: np.ndarray) -> np.ndarray:
    """Z Zᵀ, in single precision within blocks of features: far more accurate than the smallest penalty requires."""
    K = np.zeros((len(Z), len(Z)))
    for columns in _blocks(Z.shape[1]):
        K += Z[:, columns] @ Z[:, columns].T
    return K


def _weighted(grams: list[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    return np.asarray(sum(w * gram for w, gram in zip(weights, grams, strict=True)))


def _group_splits(groups: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Rows to fit and rows to leave out by fold; None if there is only one group."""
    count = len(np.unique(groups))
    if count < 2:
        return None
    return list(GroupKFold(min(FOLDS, count), shuffle=True, random_state=seed).split(groups, groups=groups))


def _leave_groups_out(
    K: np.ndarray,
    Y: np.ndarray,
    s: np.ndarray,
    penalties: np.ndarray,
    splits: Iterable[tuple[np.ndarray, np.ndarray]],
) -> list[np.ndarray]:
    """For each penalty, the prediction for each series by a fit without its fold."""
    predictions = [np.zeros(Y.shape) for _ in penalties]
    for train, test in splits:
        r = np.sqrt(s[train])
        centre = s[train] @ Y[train] / s[train].sum()
        inner, cross = _centred(K, train, test, s[train])
        values, U = np.linalg.eigh(r[:, None] * inner * r)
        T = U.T @ (r[:, None] * (Y[train] - centre))
        A = (cross * r) @ U
        for prediction, penalty in zip(predictions, penalties, strict=True):
            prediction[test] = A @ (T / (np.maximum(values, 0) + penalty)[:, None]) + centre
    return predictions


def _leave_one_out(K: np.ndarray, Y: np.ndarray, s: np.ndarray, penalties: np.ndarray) -> list[np.ndarray]:
    """For each penalty, the prediction for each series by a fit without it: residual / (1 - leverage)."""
    everything = np.arange(len(Y))
    K, _ = _centred(K, everything, everything, s)
    r = np.sqrt(s)
    values, U = np.linalg.eigh(r[:, None] * K * r)
    values = np.maximum(values, 0)
    T = U.T @ (r[:, None] * Y)
    unit = r / np.linalg.norm(r)
    intercept = np.outer(unit, unit @ (r[:, None] * Y))  # not penalised
    predictions = []
    for penalty in penalties:
        shrinkage = values / (values + penalty)
        fitted = U @ (shrinkage[:, None] * T) + intercept
        leverage = (U**2 @ shrinkage + unit**2)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            predictions.append(Y - (r[:, None] * Y - fitted) / (1 - leverage) / r[:, None])
    return predictions


def _centred(K: np.ndarray, train: np.ndarray, test: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrices train × train and test × train, centred at the weighted mean of the training series."""
    s = s / s.sum()
    inner, cross = K[np.ix_(train, train)], K[np.ix_(test, train)]
    column, total = inner @ s, s @ inner @ s
    return inner - column[:, None] - column + total, cross - (cross @ s)[:, None] - column + total


def _solve(
    Z: np.ndarray, Y: np.ndarray, s: np.ndarray, penalty: float, K: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (p, k) and intercept (k,), from the smaller of the primal and the dual system. K: Z Zᵀ if known."""
    n, p = Z.shape
    r = np.sqrt(s)
    centre = s @ Y / s.sum()
    T = r[:, None] * (Y - centre)
    if n <= p:
        K = r[:, None] * (_gram(Z) if K is None else K) * r
        K[np.diag_indices(n)] += penalty
        dual = np.linalg.solve(K, T)
        return np.concatenate([Z[:, part].T.astype(np.float64) @ (r[:, None] * dual) for part in _blocks(p)]), centre
    A = r[:, None] * Z
    G = A.T @ A
    G[np.diag_indices(p)] += penalty
    return np.linalg.solve(G, A.T @ T), centre


def temperature(scores: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> float:
    """The factor by which to multiply scores (n, k) so that their softmax has the highest likelihood.

    As in Platt scaling and Laplace's rule of succession, a fraction 1 / (n + 2) of the probability is assigned to the
    other classes: without it, probabilities would be 0 and 1 where classes are separable.
    """
    n, k = scores.shape
    smoothing = 1 / (n + 2)
    target = np.full((n, k), smoothing / max(1, k - 1))
    target[np.arange(n), classes] = 1 - smoothing
    losses = [-float(weights @ (target * log_softmax(t * scores, 1)).sum(1)) for t in TEMPERATURES]
    return float(TEMPERATURES[int(np.nanargmin(losses))]) if np.isfinite(losses).any() else 1.0
