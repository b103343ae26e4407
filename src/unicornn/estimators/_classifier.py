"""UnICORNNClassifier: classes of time series."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.estimators._arguments import every_target
from unicornn.estimators._base import Estimator
from unicornn.estimators._ridge import temperature
from unicornn.estimators._series import naming

LONGEST = 1 << 16  # bytes of a class in a saved model


class UnICORNNClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Classifies time series of any length, of one or several channels.

    Args:
        model: "bank": ridge regression on the features of an ``OscillatorBank``, its penalty chosen by leaving series
            out (whole groups, where given); quick, and good for some thousands of series. "network": a trained
            UnICORNN. "both": the mean of their probabilities.
        hidden_size, num_layers, alpha, readout, horizon: of the network, see ``UnICORNN`` and ``models.Network``.
        segments: with readout="energy" the network measures energies in so many equal pieces of each series, from rest
            in each, and reads their mean and deviation; in fewer pieces, if the shortest series of ``fit`` has less
            than 16 steps for each. 1 for the whole, as ``Stream`` without a window and ONNX step by step need it.
        dt: the network's time step. "auto" tries some values from the data in short runs on the validation split, with
            at most a fifth of ``max_epochs`` and, with a ``budget``, of the time left; see ``dt_``. The one chosen is
            halved, three times at most, if training diverges with it.
        max_epochs, batch_size, lr: of the network's training, with Adam.
        validation_fraction: the share of the series by which training is stopped early and dt is chosen.
        patience: stop after so many epochs without a better validation loss; the best weights are restored.
        class_weight: None, "balanced", or a weight for each class.
        random_state: an int gives the same bits again. torch's own random numbers are left alone.
        device: "cpu", "cuda", or "auto", of the network.
        budget: seconds for the whole of ``fit``, the choice of dt included; None for no limit. The network's training
            ends before an epoch that would take longer, but it has one epoch at least; the bank of "both" takes the
            time it needs, and the network has the rest. With a budget, results depend on the speed of the machine.
        verbose: show a progress bar with the time left.
        warm_start: the network is fitted again from the weights and the scales of the last fit.
        layout: "channels_last", or "channels_first" for arrays (n, d, N).
        missing: "error", or "mask" to accept missing values, NaN.

    Attributes:
        classes_: (k,).
        models_: which models predict: "bank", "network".
        dt_, history_, n_iter_, best_epoch_, stopped_by_: of the network's training.
        n_channels_: d, with the mask's channels.
        channel_names_: the columns, if X was a DataFrame with an index (series, time) or a list of them, else None.
        about_: the training data in numbers, and scores, as they stand in the model card.

    A class with a single member is learned as any other; a single class is refused.

    Example:
        >>> import numpy as np
        >>> from unicornn.estimators import UnICORNNClassifier
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat(["low", "high"], 20)
        >>> X = [np.sin(f * np.arange(rng.integers(60, 100)) + rng.uniform(0, 6)) for f in np.repeat([0.2, 0.3], 20)]
        >>> model = UnICORNNClassifier(random_state=0).fit(X[::2], y[::2])
        >>> model.score(X[1::2], y[1::2])
        1.0
    """

    def __init__(
        self,
        model: str = "bank",
        *,
        hidden_size: int = 64,
        num_layers: int = 2,
        dt: float | str = "auto",
        alpha: float = 1.0,
        readout: str = "energy",
        segments: int = 8,
        horizon: float | None = None,
        max_epochs: int = 100,
        batch_size: int = 32,
        lr: float = 5e-3,
        validation_fraction: float = 0.15,
        patience: int = 20,
        class_weight: Any = None,
        random_state: Any = None,
        device: str = "cpu",
        budget: float | None = None,
        verbose: bool = False,
        warm_start: bool = False,
        layout: str = "channels_last",
        missing: str = "error",
    ) -> None:
        super().__init__(
            model, hidden_size=hidden_size, num_layers=num_layers, dt=dt, alpha=alpha, readout=readout,
            segments=segments, horizon=horizon, max_epochs=max_epochs, batch_size=batch_size, lr=lr,
            validation_fraction=validation_fraction, patience=patience, random_state=random_state, device=device,
            budget=budget, verbose=verbose, warm_start=warm_start, layout=layout, missing=missing,
        )  # fmt: skip
        self.class_weight = class_weight

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over X with the network, whatever ``model`` is; from then on the network alone predicts.

        The scales of the channels are those of the first call, which should have series of all kinds.

        Args:
            X, y, sample_weight: as for ``fit``.
            classes: all that will ever come, at the first call; by default those in y.
        """
        if getattr(self, "models_", None) != ("network",):
            self._learn_classes(self._labels(y if classes is None else classes))
        self._partial_fit(X, self._encode(y), sample_weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits: (n,) of the second class against the first of two, or (n, k)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the classes, (n, k)."""
        return _softmax(self._logits(X))

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest classes, (n,)."""
        logits = self._logits(X)
        return self.classes_[logits.argmax(1)]

    def _logits(self, X: Any) -> np.ndarray:
        answers = self._answers(self._seen(X))
        if "bank" in answers:
            answers["bank"] *= self._temperature
        found = list(answers.values())
        if len(found) == 1:
            return found[0]
        return np.log(np.maximum(sum(_softmax(logits) for logits in found) / len(found), 1e-300))

    # Targets

    def _labels(self, y: Any) -> np.ndarray:
        with naming("y"):
            y = column_or_1d(y, warn=True)
            every_target(y)
            if y.dtype.kind == "f":
                assert_all_finite(y, input_name="y")
            check_classification_targets(y)
            np.unique(y)  # classes that cannot be told apart are none
            return np.asarray(y)

    def _learn_classes(self, labels: np.ndarray) -> None:
        classes = np.unique(labels)
        if len(classes) < 2:
            raise BadValue(f"y: expected at least two classes, got {len(classes)} class, {classes.tolist()}")
        same = np.array_equal(getattr(self, "classes_", classes), classes)
        if self._goes_on() and not same:
            raise BadValue(f"y: expected the classes of the last fit with warm_start, got {classes.tolist()}")
        self.classes_ = classes

    def _learn_targets(self, y: Any, weights: np.ndarray) -> np.ndarray:
        labels = self._labels(y)
        self._learn_classes(labels[weights > 0])
        return np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)

    def _encode(self, y: Any) -> np.ndarray:
        labels = self._labels(y)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise BadValue(f"y: expected classes among {self.classes_.tolist()}, got {unknown.tolist()[0]!r}")
        return np.searchsorted(self.classes_, labels)

    def _series_weights(self, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.class_weight is None:
            return weights
        if not (isinstance(self.class_weight, dict) or self.class_weight == "balanced"):
            kind = BadValue if isinstance(self.class_weight, str) else BadType
            got = checks.describe(self.class_weight)
            raise kind(f"class_weight: expected None, 'balanced' or a weight for each class, got {got}")
        with naming("class_weight"):
            of_class = compute_sample_weight(self.class_weight, self.classes_[target])
            if not (np.isfinite(of_class).all() and (of_class >= 0).all() and of_class.any()):
                raise BadValue("class_weight: expected finite numbers >= 0, not all of them 0, got others")
        return np.maximum(weights * of_class, 1e-12 * weights.max())

    def _columns(self, target: np.ndarray) -> np.ndarray:
        return 2.0 * np.eye(len(self.classes_))[target] - 1.0

    def _outputs(self) -> int:
        return len(self.classes_)

    def _finish_ridge(self, target: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        rows, guesses = self._ridge.rows, self._ridge.left_out
        self._temperature = temperature(guesses, target[rows], weights[rows])
        return {"left_out_accuracy": float((guesses.argmax(1) == target[rows]).mean())}

    def _about_targets(self, target: np.ndarray) -> dict[str, Any]:
        counts = np.bincount(target, minlength=len(self.classes_)).tolist()
        return {"classes": dict(zip(map(str, self.classes_), counts, strict=True))}

    def _saved_target(self) -> dict[str, Any]:
        kind = "O" if self.classes_.dtype == object else self.classes_.dtype.str
        saved = {"classes": self.classes_.tolist(), "dtype": kind}
        return saved | ({"temperature": self._temperature} if "bank" in self.models_ else {})

    def _restore_target(self, saved: dict[str, Any]) -> None:
        kind = np.dtype(str(saved["dtype"]))
        if kind.itemsize > LONGEST or kind.kind not in "biufUSO":
            raise BadValue(f"dtype: expected that of classes, got {kind.str}")
        self.classes_ = np.array(list(saved["classes"]), dtype=kind)
        if "temperature" in saved:
            self._temperature = checks.positive("temperature", saved["temperature"])


def _softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)
