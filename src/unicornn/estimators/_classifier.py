"""UnICORNNClassifier: classes of time series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.estimators._arguments import check_no_missing_targets
from unicornn.estimators._base import Estimator
from unicornn.estimators._ridge import Ridge, temperature
from unicornn.estimators._series import naming_errors

PSEUDO_SERIES = 0.1  # weight of equal probabilities in predict_proba, relative to that of one training series
MAX_CLASS_BYTES = 1 << 16  # of a class in a saved model


@dataclass(eq=False, repr=False)
class UnICORNNClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Classifies time series of any length, with one or several channels.

    Args:
        model: "bank": ridge regression on the features of an ``OscillatorBank``, its penalty chosen by leaving out
            series (or whole groups); fast, and good for up to some thousands of series. "network": layers of
            oscillators with a linear map, and a trained UnICORNN added to them where it helps, see ``frames``.
            "both": the mean of their probabilities.
        scale: "dataset": channels are standardised by mean and deviation of the training set. "series": every series
            by its own, if level and amplitude say more about a speaker or a sensor than about the class. "auto": the
            one with which the bank has smaller errors on left-out series, or on left-out ``groups``; twice the time.
            ``partial_fit`` treats "auto" as "dataset".
        live: Whether the bank uses only features that can be updated sample by sample, so that ``Stream`` answers over
            all samples so far without a window; a little less accurate.
        hidden_size, num_layers, alpha, readout, horizon: Options of the network, see ``UnICORNN`` and
            ``models.Network``. readout="auto" is "mean+max+state+input" with frames, otherwise "energy".
        frames: Length of the overlapping frames whose energies the network reads, see ``Frames``; 0 for the series
            themselves. "auto" begins with octaves: energies of oscillators over windows of 8, 16, 32, … steps, pooled
            over each series, and a linear map of them in closed form. A network is added if it reduces the loss of at
            least ten validation series by more than a standard error. It reads frames or the series themselves,
            whichever is better in short runs: frames of a 32nd of the median length, at least 16 and at most 256 steps;
            series of fewer than 128 steps are read themselves. There are no octaves in networks for single steps, that
            is with ``segments=1`` or another ``readout``, where "auto" is 0, nor in ``partial_fit``. With frames,
            training follows a schedule to its end, so that ``patience`` has no effect and the last weights are kept.
        segments: Number of equal segments of each series in which the network measures energies, with
            readout="energy" and without frames. Each segment starts from rest, and the network reads their mean and
            deviation. Reduced if the shortest series of ``fit`` has fewer than 16 steps per segment. Use 1 for
            ``Stream`` without a window and for step-by-step ONNX.
        dt: Time step of the network. "auto" is 0.5 with frames; otherwise it tries values derived from the data in
            short runs on the validation split, which take at most a fifth of ``max_epochs`` and of the remaining
            ``budget``; see ``dt_``. It is halved up to three times if training diverges.
        max_epochs, batch_size, lr: Options of the network's training, which uses Adam.
        validation_fraction: Fraction of the series that is held out for early stopping and for the choice of dt.
        patience: Number of epochs without improvement of the validation loss after which training stops. The best
            weights are restored.
        class_weight: None, "balanced", or a dictionary of weights by class.
        random_state: Seed; an integer makes results reproducible to the bit. torch's global generator is not used.
        device: Device of the network: "cpu", "cuda" or "auto".
        budget: Time limit for ``fit`` in seconds, including the choice of dt. The network is trained for at least one
            epoch, and stops before an epoch that would exceed the budget; the bank of "both" is not interrupted.
            Results then depend on the speed of the machine.
        verbose: Whether to show progress bars with the remaining time.
        warm_start: Whether ``fit`` continues from the network's weights and scales of the last fit.
        layout: "channels_last", or "channels_first" for arrays (n, d, N).
        missing: "error", or "mask" to accept missing values (NaN).
        n_jobs: Number of threads for the bank and for predictions, at most one per processor, which -1 stands for;
            None for torch's number of threads. Results do not depend on it: the network's training always uses torch's
            number of threads, because its sums, and so its last bits, depend on the number.

    Attributes:
        classes_: Classes, (k,).
        models_: Models used for predictions: "bank", "network".
        scale_: Scale in use: "dataset" or "series".
        left_out_by_: "groups" if scores, penalty and scale come from left-out groups, else "series".
        dt_, history_, n_iter_, best_epoch_, stopped_by_: Time step, losses and accuracy by epoch, number of epochs,
            best epoch, and the reason for which the network's training stopped, "octaves" if nothing was added.
        n_channels_: Number of channels (d), including those that missing="mask" adds.
        channel_names_: Columns, if X was a DataFrame with an index (series, time) or a list of DataFrames, else None.
        about_: Size of the training data, and scores, as written to the model card.

    A class may have a single member, but there must be at least two classes.

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

    class_weight: Any = None

    _kind_weights = ((1.0,), (0.0, 10.0), (1.0, 64.0), (1.0,))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Fits the bank to these series and those of earlier calls, or trains the network for one epoch.

        With model="bank" it keeps exact sums of 1,000 features, see ``fit_parts``. Otherwise only the network predicts
        from then on. The first call gives scales, levels and features, so its series should be representative.

        Args:
            X, y, sample_weight: As for ``fit``; the bank has no weights.
            classes: All classes of all calls, in the first call; by default those in y.
        """
        if self.model == "bank":
            return self._partial_fit_bank(X, y, sample_weight, classes)
        if getattr(self, "models_", None) != ("network",):
            self._learn_classes(self._check_y(y if classes is None else classes), len(self._check_y(y)))
        self._partial_fit(X, self._encode(y), sample_weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Logits (n, k); for two classes their difference (n,), positive for the second class."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (n, k). They stay away from 0 and 1, the more the fewer the training series."""
        return self._answers(self._predictions(self._read_known(X).series))

    def _answers(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """Probabilities (n, k) from each model's outputs."""
        return (1 - self._doubt) * softmax(self._combined(outputs), 1) + self._doubt / len(self.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """Most likely classes, (n,)."""
        logits = self._logits(X)
        return self.classes_[logits.argmax(1)]

    def _logits(self, X: Any) -> np.ndarray:
        return self._combined(self._predictions(self._read_known(X).series))

    def _combined(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        logits = [each * self._factor(name) for name, each in outputs.items()]
        if len(logits) == 1:
            return logits[0]
        return np.log(np.mean([_probabilities(each) for each in logits], axis=0))

    def _slopes(self, outputs: dict[str, np.ndarray], base: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        n, k = next(iter(outputs.values())).shape
        if len(outputs) == 1:
            return {name: np.tile(self._factor(name) * np.eye(k), (n, 1, 1)) for name in outputs}
        # The logarithmic mean turns differences of probabilities into differences of their logarithms, exactly.
        p, p0 = ({m: _probabilities(v * self._factor(m)) for m, v in each.items()} for each in (outputs, base))
        means = {name: _logarithmic_mean(p[name], p0[name]) for name in outputs}
        total = _logarithmic_mean(sum(p.values()), sum(p0.values()))
        return {
            name: self._factor(name) * (L / total)[:, :, None] * (np.eye(k) - (L / L.sum(1, keepdims=True))[:, None])
            for name, L in means.items()
        }

    def _factor(self, model: str) -> float:
        return self._temperature if model == "bank" else 1.0

    # Targets

    def _check_y(self, y: Any) -> np.ndarray:
        with naming_errors("y"):
            y = column_or_1d(y, warn=True)
            check_no_missing_targets(y)
            if y.dtype.kind == "f":
                assert_all_finite(y, input_name="y")
            check_classification_targets(y)
            np.unique(y)  # fails if classes cannot be compared
            return np.asarray(y)

    def _learn_classes(self, labels: np.ndarray, n: int) -> None:
        classes = np.unique(labels)
        if len(classes) < 2:
            raise BadValue(f"y: expected at least two classes, got {len(classes)} class, {classes.tolist()}")
        if self._continues_last_fit() and not np.array_equal(getattr(self, "classes_", classes), classes):
            raise BadValue(f"y: expected the classes of the last fit with warm_start, got {classes.tolist()}")
        self.classes_, self._doubt = classes, _doubt(n)

    def _learn_targets(self, y: Any, weights: np.ndarray) -> np.ndarray:
        labels = self._check_y(y)
        self._learn_classes(labels[weights > 0], int(np.count_nonzero(weights)))
        return np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)

    def _encode(self, y: Any) -> np.ndarray:
        labels = self._check_y(y)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise BadValue(f"y: expected classes among {self.classes_.tolist()}, got {unknown.tolist()[0]!r}")
        return np.searchsorted(self.classes_, labels)

    def _with_class_weights(self, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.class_weight is None:
            return weights
        text = isinstance(self.class_weight, str)
        if not (isinstance(self.class_weight, dict) or (text and self.class_weight == "balanced")):
            error = BadValue if text else BadType
            got = checks.describe(self.class_weight)
            raise error(f"class_weight: expected None, 'balanced' or a weight for each class, got {got}")
        with naming_errors("class_weight"):
            by_class = compute_sample_weight(self.class_weight, self.classes_[target])
            if not (np.isfinite(by_class).all() and (by_class >= 0).all() and by_class.any()):
                raise BadValue("class_weight: expected finite numbers >= 0, not all of them 0")
        return np.maximum(weights * by_class, 1e-12 * weights.max())

    def _outputs(self) -> int:
        return len(self.classes_)

    def _finish_ridge(self, target: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        rows, scores = self._ridge.rows, self._ridge.left_out
        self._temperature = self._ridge_factor(self._ridge, target, weights)
        return {"left_out_accuracy": float((scores.argmax(1) == target[rows]).mean())}

    def _ridge_factor(self, ridge: Ridge, target: np.ndarray, weights: np.ndarray) -> float:
        return temperature(ridge.left_out, target[ridge.rows], weights[ridge.rows])

    def _describe_targets(self, target: np.ndarray) -> dict[str, Any]:
        counts = np.bincount(target, minlength=len(self.classes_)).tolist()
        return {"classes": dict(zip(map(str, self.classes_), counts, strict=True))}

    def _learn_counts(self, counts: np.ndarray) -> None:
        self._doubt = _doubt(int(counts[0]))
        self.about_["classes"] = dict(zip(map(str, self.classes_), counts[1:].tolist(), strict=True))

    def _saved_target(self) -> dict[str, Any]:
        dtype = "O" if self.classes_.dtype == object else self.classes_.dtype.str
        saved = {"classes": self.classes_.tolist(), "dtype": dtype, "doubt": self._doubt}
        return saved | ({"temperature": self._temperature} if "bank" in self.models_ else {})

    def _restore_target(self, saved: dict[str, Any]) -> None:
        dtype = np.dtype(str(saved["dtype"]))
        if dtype.itemsize > MAX_CLASS_BYTES or dtype.kind not in "biufUSO":
            raise BadValue(f"dtype: expected the dtype of classes, got {dtype.str}")
        self.classes_ = np.array(list(saved["classes"]), dtype=dtype)
        self._doubt = checks.fraction("doubt", saved["doubt"])
        if "bank" in self.models_:
            self._temperature = checks.positive("temperature", saved["temperature"])


def _probabilities(logits: np.ndarray) -> np.ndarray:
    return np.maximum(softmax(logits, 1), 1e-300)


def _logarithmic_mean(a: Any, b: Any) -> np.ndarray:
    """(a - b) / log(a / b) for numbers > 0, a where they are nearly equal."""
    ratio = np.log(a / b)
    return np.divide(a - b, ratio, out=np.asarray(a + b) / 2, where=np.abs(ratio) > 1e-8)


def _doubt(n: int) -> float:
    """Fraction of uniform probability that n training series leave."""
    return PSEUDO_SERIES / (n + PSEUDO_SERIES)
