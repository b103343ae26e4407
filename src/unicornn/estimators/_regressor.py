"""UnICORNNRegressor: numbers that belong to time series."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array

from unicornn.errors import BadValue
from unicornn.estimators._arguments import every_target
from unicornn.estimators._base import Estimator
from unicornn.estimators._series import naming


class UnICORNNRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Predicts one or several numbers from time series of any length, of one or several channels.

    Args: as of ``UnICORNNClassifier``, but for ``class_weight``. The network minimises the squared error.

    Attributes:
        models_, dt_, history_, n_iter_, best_epoch_, stopped_by_, n_channels_: as of ``UnICORNNClassifier``.

    Targets (n,) give predictions (n,), and targets (n, k) predictions (n, k). Of a single series the
    bank gives back its target, whatever it is asked for.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators import UnICORNNRegressor
        >>> rng = np.random.default_rng(0)
        >>> y = rng.uniform(0.2, 0.4, 80)
        >>> X = np.sin(y[:, None] * np.arange(100) + rng.uniform(0, 6, (80, 1)))
        >>> UnICORNNRegressor(random_state=0).fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.9
        True
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One pass over X with the network, whatever ``model`` is; from then on the network alone predicts.

        The scales of channels and targets are those of the first call, which should have series of all kinds.

        Args:
            X, y, sample_weight: as for ``fit``.
        """
        if getattr(self, "models_", None) != ("network",):
            target = self._learn_targets(y, np.ones(len(self._numbers(y))))
        else:
            target = self._encode(y)
        self._partial_fit(X, target, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted numbers, (n,) or (n, k) as the targets were."""
        found = list(self._answers(self._seen(X)).values())
        numbers = sum(found) / len(found) * self._spread + self._centre
        return numbers[:, 0] if self._flat else numbers

    # Targets

    def _numbers(self, y: Any) -> np.ndarray:
        with naming("y"):
            every_target(y)
            return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    def _learn_targets(self, y: Any, weights: np.ndarray) -> np.ndarray:
        numbers = self._numbers(y)
        if numbers.ndim > 2:
            raise BadValue(f"y: expected shape (n,) or (n, k), got {numbers.shape}")
        table = numbers.reshape(len(numbers), -1)[weights > 0]
        if self._goes_on():
            target = self._encode(numbers)
            self._flat = numbers.ndim == 1
            return target
        self._flat = numbers.ndim == 1
        with np.errstate(over="ignore", invalid="ignore"):
            self._centre, spread = table.mean(0), table.std(0)
        if not np.isfinite(spread).all():
            raise BadValue("y: expected numbers whose squares are finite, got larger ones")
        self._spread = np.where(spread > 0, spread, 1.0)
        return self._encode(numbers)

    def _encode(self, y: Any) -> np.ndarray:
        numbers = self._numbers(y)
        table = numbers.reshape(len(numbers), -1)
        if table.shape[1] != len(self._centre):
            raise BadValue(f"y: expected {len(self._centre)} targets for each series, got {table.shape[1]}")
        return (table - self._centre) / self._spread

    def _columns(self, target: np.ndarray) -> np.ndarray:
        return target

    def _outputs(self) -> int:
        return len(self._centre)

    def _finish_ridge(self, target: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        off = target[self._ridge.rows] - self._ridge.left_out
        each = (np.sqrt((off**2).mean(0)) * self._spread).tolist()
        return {"left_out_rmse": each[0]} if self._flat else {f"left_out_rmse_{k}": v for k, v in enumerate(each)}

    def _about_targets(self, target: np.ndarray) -> dict[str, Any]:
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
