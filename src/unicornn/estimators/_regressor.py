"""UnICORNNRegressor: numbers from time series."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.estimators._arguments import check_no_missing_targets
from unicornn.estimators._base import Estimator
from unicornn.estimators._series import naming_errors


@dataclass(eq=False, repr=False)
class UnICORNNRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Predicts one or several numbers from time series of any length, with one or several channels.

    Args: Those of ``UnICORNNClassifier`` except ``class_weight``. The network minimises the squared error, and
        model="both" predicts the mean of the two predictions.

    Attributes: Those of ``UnICORNNClassifier`` except ``classes_``.

    Targets (n,) give predictions (n,), and targets (n, k) predictions (n, k). Fitted to a single series, the bank
    always predicts its target.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators import UnICORNNRegressor
        >>> rng = np.random.default_rng(0)
        >>> y = rng.uniform(0.2, 0.4, 80)
        >>> X = np.sin(y[:, None] * np.arange(100) + rng.uniform(0, 6, (80, 1)))
        >>> UnICORNNRegressor(random_state=0).fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.9
        True
    """

    # More weight on kind 3 reduces errors where the target is a frequency; on classes it had no such effect.
    _kind_weights = ((1.0,), (0.0, 10.0), (1.0, 64.0), (1.0, 64.0))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fits the bank to these series and those of earlier calls, or trains the network for one epoch.

        With model="bank" it keeps exact sums of 1,000 features, see ``fit_parts``. Otherwise only the network predicts
        from then on. The first call gives scales, levels and features, so its series should be representative.

        Args:
            X, y, sample_weight: As for ``fit``; the bank has no weights.
        """
        if self.model == "bank":
            return self._partial_fit_bank(X, y, sample_weight)
        if getattr(self, "models_", None) != ("network",):
            target = self._learn_targets(y, np.ones(len(self._check_y(y))))
        else:
            target = self._encode(y)
        self._partial_fit(X, target, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicted numbers, (n,) or (n, k) like the targets."""
        return self._answers(self._predictions(self._read_known(X).series))

    def _answers(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        numbers = self._combined(outputs)
        return numbers[:, 0] if self._flat else numbers

    def _combined(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        return sum(outputs.values()) / len(outputs) * self._spread + self._centre

    def _slopes(self, outputs: dict[str, np.ndarray], base: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        slope = np.diag(self._spread) / len(outputs)
        return {name: np.tile(slope, (len(each), 1, 1)) for name, each in outputs.items()}

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Intervals that contain the target with probability ``coverage``: (n, 2), or (n, k, 2) for several targets.

        They are predictions plus and minus a quantile of the errors for left-out series or groups (bank), or for the
        validation series (network), so they assume that new series are like these.

        Example:
            >>> import numpy as np
            >>> from unicornn.estimators import UnICORNNRegressor
            >>> y = np.random.default_rng(0).uniform(0.2, 0.4, 80)
            >>> X = np.sin(y[:, None] * np.arange(100))
            >>> UnICORNNRegressor(random_state=0).fit(X[:60], y[:60]).predict_interval(X[60:]).shape
            (20, 2)
        """
        checks.number("coverage", coverage, "a number between 0 and 1", lambda x: 0 < x < 1)
        predictions = self.predict(X)
        if self._errors is None:
            raise BadValue(
                f"model: expected 'bank', or 'network' with validation series, whose errors give intervals, got "
                f"{self.model!r}"
            )
        n = len(self._errors)
        rank = math.ceil((n + 1) * coverage)  # with the new series, one of n + 1 that are equally likely to be largest
        if rank > n:
            raise BadValue(f"coverage: expected at most {n / (n + 1):.3g} with {n} left-out series, got {coverage}")
        half = np.sort(self._errors, axis=0)[rank - 1] * self._spread
        centre = predictions.reshape(len(predictions), -1)
        intervals = np.stack([centre - half, centre + half], -1)
        return intervals[:, 0] if self._flat else intervals

    # Targets

    def _check_y(self, y: Any) -> np.ndarray:
        with naming_errors("y"):
            check_no_missing_targets(y)
            return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    def _learn_targets(self, y: Any, weights: np.ndarray) -> np.ndarray:
        numbers = self._check_y(y)
        if numbers.ndim > 2:
            raise BadValue(f"y: expected shape (n,) or (n, k), got {numbers.shape}")
        if not self._continues_last_fit():
            table = numbers.reshape(len(numbers), -1)[weights > 0]
            with np.errstate(over="ignore", invalid="ignore"):
                self._centre, spread = table.mean(0), table.std(0)
            if not np.isfinite(spread).all():
                raise BadValue("y: expected numbers whose squares are finite, got larger ones")
            self._spread = np.where(spread > 0, spread, 1.0)
        target = self._encode(numbers)
        self._flat = numbers.ndim == 1
        return target

    def _encode(self, y: Any) -> np.ndarray:
        numbers = self._check_y(y)
        table = numbers.reshape(len(numbers), -1)
        if table.shape[1] != len(self._centre):
            raise BadValue(f"y: expected {len(self._centre)} targets for each series, got {table.shape[1]}")
        return (table - self._centre) / self._spread

    def _outputs(self) -> int:
        return len(self._centre)

    def _finish_ridge(self, target: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        errors = target[self._ridge.rows] - self._ridge.left_out
        self._errors = np.abs(errors[np.isfinite(errors).all(1)])
        rmse = (np.sqrt((errors**2).mean(0)) * self._spread).tolist()
        return {"left_out_rmse": rmse[0]} if self._flat else {f"left_out_rmse_{k}": v for k, v in enumerate(rmse)}

    def _describe_targets(self, target: np.ndarray) -> dict[str, Any]:
        return {"targets": target.shape[1]}

    def _saved_target(self) -> dict[str, Any]:
        return {"centre": self._centre.tolist(), "spread": self._spread.tolist(), "flat": self._flat}

    def _restore_target(self, saved: dict[str, Any]) -> None:
        numbers = np.asarray([saved["centre"], saved["spread"]], dtype=np.float64)
        if numbers.ndim != 2 or not np.isfinite(numbers).all():
            raise BadValue(f"centre, spread: expected a finite number for each target, got {numbers}")
        self._centre, self._spread = numbers
        self._flat = bool(saved["flat"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
