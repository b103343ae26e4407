"""The base class of the classifier and the regressor: settings, fitting the two models, their features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue, Diverged
from unicornn.estimators import _arguments as arguments
from unicornn.estimators import _network as networks
from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._explain import explain
from unicornn.estimators._explanation import Explanation
from unicornn.estimators._leakage import Clusters, clusters, count_equal, same_class, warn_of_leakage
from unicornn.estimators._network_fit import NetworkFit
from unicornn.estimators._parts import Parts
from unicornn.estimators._progress import progress_bar
from unicornn.estimators._ridge import Ridge, clearly_smaller
from unicornn.estimators._saved import Saved
from unicornn.estimators._series import LAYOUTS, MISSING, SCALES, Series, SeriesSet
from unicornn.estimators._transformer import SeriesTransformer
from unicornn.readouts import parse

MODELS = ("bank", "network", "both")
FIT_PART = 0.2  # of the time for a bank's features, spent on drawing the oscillators and their levels


@dataclass(eq=False, repr=False)
class Estimator(NetworkFit, Parts, Saved, SeriesTransformer):
    """Base of both estimators; see ``UnICORNNClassifier`` for the arguments."""

    model: str = "bank"
    _: KW_ONLY
    hidden_size: int = 64
    num_layers: int = 2
    scale: str = "dataset"
    live: bool = False
    dt: float | str = "auto"
    alpha: float = 1.0
    readout: str = "auto"
    frames: int | str = "auto"
    segments: int = 8
    horizon: float | None = None
    max_epochs: int = 100
    batch_size: int = 32
    lr: float = 5e-3
    validation_fraction: float = 0.15
    patience: int = 20
    device: str = "cpu"
    budget: float | None = None
    verbose: bool = False
    warm_start: bool = False

    # Implemented by the subclasses, which know their targets

    _kind_weights: ClassVar[tuple[tuple[float, ...], ...]]  # candidates for the bank's kinds of features; see Ridge

    def _learn_targets(self, y: Any, weights: np.ndarray) -> np.ndarray:
        """Checks and encodes the targets of ``fit``, and stores what ``_encode`` needs."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> np.ndarray:
        """Targets as an array of valid labels or numbers."""
        raise NotImplementedError

    def _encode(self, y: Any) -> np.ndarray:
        """Targets as classes (n,) int64, or as standardised numbers (n, k) float64."""
        raise NotImplementedError

    def _outputs(self) -> int:
        raise NotImplementedError

    def _finish_ridge(self, target: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        """Learns from the predictions for left-out series, and returns their score by name."""
        raise NotImplementedError

    def _ridge_factor(self, ridge: Ridge, target: np.ndarray, weights: np.ndarray) -> float:
        """The factor that turns the ridge's scores into logits of a classifier or numbers of a regressor."""
        return 1.0

    def _answers(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """Probabilities of a classifier or numbers of a regressor from each model's outputs (n, k)."""
        raise NotImplementedError

    def _combined(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """Logits or numbers (n, k) from each model's outputs (n, k)."""
        raise NotImplementedError

    def _slopes(self, outputs: dict[str, np.ndarray], base: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """For each model (n, k, k): ``_combined`` grows by the sum of slope @ (output - base) from base to output."""
        raise NotImplementedError

    def _describe_targets(self, target: np.ndarray) -> dict[str, Any]:
        """Entries for the model card."""
        raise NotImplementedError

    def _saved_target(self) -> dict[str, Any]:
        """Everything a saved model has to know about its targets, as JSON."""
        raise NotImplementedError

    def _restore_target(self, saved: dict[str, Any]) -> None:
        raise NotImplementedError

    def _with_class_weights(self, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation_data: tuple[Any, Any] | None = None,
        groups: Any = None,
    ) -> Self:
        """Fits the model to series X and their targets y.

        Args:
            X: Array (n, N) or (n, N, d), list of arrays (N_i, d), or DataFrame with an index (series, time).
            y: Targets (n,); for regression also (n, k).
            sample_weight: Weights (n,) >= 0. Series of weight zero are ignored.
            validation_data: Pair (X, y) for early stopping and the choice of dt, instead of a fraction of X. There is
                a warning if its series equal training series, or (with a bank) form tight clusters with them, as
                overlapping windows of one recording do.
            groups: Group of each series (n,), such as a patient or a machine. Inner splits never divide a group.
        """
        self._check_settings()
        start = networks.clock()
        read = self._read(X)
        weights = arguments.check_weights(sample_weight, len(read))
        if y is None:
            raise BadValue(f"y: {type(self).__name__} requires y to be passed, but the target y is None")
        arguments.check_count("y", y, len(read))
        for name, values in {"y": y, "sample_weight": sample_weight, "groups": groups}.items():
            read.check_order(name, values)
        groups = None if groups is None else arguments.check_groups(groups, len(read))
        return self._fit_targets(read, self._learn_targets(y, weights), weights, groups, validation_data, start)

    def _fit_targets(
        self,
        read: SeriesSet,
        target: np.ndarray,
        weights: np.ndarray,
        groups: np.ndarray | None,
        validation_data: Any = None,
        start: float = 0.0,
    ) -> Self:
        """As ``fit``, for series that were read and targets that were encoded."""
        self.sums_ = None
        rows = np.flatnonzero(weights)
        series, target, groups = [read.series[i] for i in rows], target[rows], None if groups is None else groups[rows]
        weights = self._with_class_weights(target, weights[rows])
        valid = None if validation_data is None else self._read_validation(validation_data, read.d)
        self._learn_channels(read)
        self._seed = arguments.seed_from(self.random_state)
        self._optimiser: torch.optim.Optimizer | None = None
        self.left_out_by_ = "series" if groups is None or len(np.unique(groups)) < 2 else "groups"
        self._errors: np.ndarray | None = None
        self._describe(series, target)
        self._clusters: Clusters | None = None  # of validation series with training series
        if self.model != "network" or self.scale == "auto":
            self._fit_bank(series, target, weights, groups, valid)
        else:
            self.scale_ = self.scale
        if valid is not None:
            warn_of_leakage(count_equal(series, valid[0]), len(valid[0]), self._clusters)
        if self.model != "bank":
            deadline = None if self.budget is None else start + self.budget
            if valid is not None:
                valid = self._scaled(valid[0], self.scale_), valid[1]
            self._fit_network(self._scaled(series, self.scale_), target, weights, groups, valid, deadline)
        self.models_: tuple[str, ...] = ("bank", "network") if self.model == "both" else (self.model,)
        return self

    def _fit_bank(
        self, series: Series, target: np.ndarray, weights: np.ndarray, groups: Any, valid: Any = None
    ) -> None:
        """Fits the bank with each admissible scale; keeps the first unless another has clearly smaller errors."""
        Y = self._ridge_targets(target)
        scales = SCALES if self.scale == "auto" else (self.scale,)
        if self._continues_last_fit():
            scales = (self.scale_,)
        for i, scale in enumerate(scales):
            scaled, bank = self._scaled(series, scale), OscillatorBank(random_state=self._seed, live=self.live)
            name = "bank" if len(scales) == 1 else f"bank, scale={scale}"
            with self._threads(), progress_bar(name, 1.0, enabled=bool(self.verbose)) as tell:
                bank._fit_series(scaled, lambda done: tell(FIT_PART * done))
                F = bank._features(scaled, lambda done: tell(FIT_PART + (1 - FIT_PART) * done))
            ridge = Ridge.fit(F, Y, weights, groups, self._seed, bank._feature_kinds(), self._kind_weights)
            if i == 0 or clearly_smaller(ridge.errors, self._ridge.errors):
                self.scale_, self._bank, self._ridge = scale, bank, ridge
                if valid is not None:
                    F_new = bank._features(self._scaled(valid[0], scale))
                    self._clusters = clusters(ridge, F, F_new, same_class(valid[1], target))
        if self.model != "network":
            self.about_["scores"] |= self._finish_ridge(target, weights)

    def _ridge_targets(self, target: np.ndarray) -> np.ndarray:
        """Targets of the ridge regression (n, k): 1 for a series' class and -1 for others; or numbers."""
        return 2.0 * np.eye(self._outputs())[target] - 1.0 if target.ndim == 1 else target

    def _describe(self, series: Series, target: np.ndarray) -> None:
        lengths = [len(x) for x in series]
        sizes = {"series": len(series), "shortest": min(lengths), "longest": max(lengths)}
        self.about_: dict[str, Any] = {**sizes, "scores": {}, **self._describe_targets(target)}

    # Predicting

    def _features(self, series: Series) -> np.ndarray:
        """The features from which the estimator predicts: the bank's, the network's, or both side by side."""
        parts = []
        if "bank" in self.models_:
            parts.append(self._bank._features(series))
        if "network" in self.models_:
            parts.append(self._run_network(series, features=True))
        return np.concatenate(parts, 1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: those of the bank, and "network0", "network1", …"""
        check_is_fitted(self)
        names: list[str] = []
        if "bank" in self.models_:
            names += list(self._bank.get_feature_names_out())
        if "network" in self.models_:
            beside = self._network.beside
            size = self._network.features.size + (0 if beside is None else beside.octaves.size)
            names += [f"network{i}" for i in range(size)]
        return np.asarray(names, dtype=object)

    def _predictions(self, series: Series, features: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Each model's output for each series, (n, outputs). Raises ``Diverged`` if one is not finite.

        ``features`` are those of the bank, if they are known.
        """
        outputs: dict[str, np.ndarray] = {}
        with self._threads():
            if "bank" in self.models_:
                outputs["bank"] = self._ridge.predict(self._bank._features(series) if features is None else features)
            if "network" in self.models_:
                outputs["network"] = self._run_network(series).astype(np.float64)
        for name, values in outputs.items():
            finite = np.isfinite(values).all(1)
            if not finite.all():
                raise Diverged(f"X: the {name}'s prediction for series {int(finite.argmin())} is not finite")
        return outputs

    def explain(self, X: Any) -> Explanation:
        """Contributions of steps, channels, windows, octaves and views to the scores of series X.

        The scores are the logits of the classes, or the predicted numbers. The contributions of the bank add up to them
        exactly. Those of the network are integrated gradients, whose error is the explanation's ``gap``.

        Example:
            >>> import numpy as np
            >>> from unicornn.estimators import UnICORNNRegressor
            >>> y = np.random.default_rng(0).uniform(0.2, 0.4, 40)
            >>> X = np.sin(y[:, None] * np.arange(100))
            >>> model = UnICORNNRegressor(random_state=0).fit(X, y)
            >>> explanation = model.explain(X[:5])
            >>> total = explanation.base + explanation.steps.sum(1)
            >>> np.allclose(total[:, 0], model.predict(X[:5]), atol=1e-5)
            True
        """
        read = self._read_known(X)
        with self._threads():
            return explain(self, read)

    # Checks

    def _read_validation(self, data: Any, d: int) -> tuple[Series, np.ndarray]:
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise BadValue(f"validation_data: expected a pair (X, y), got {type(data).__name__}")
        try:
            read = self._read(data[0])
            arguments.check_count("y", data[1], len(read))
            target = self._encode(data[1])
        except (BadValue, BadType) as error:
            raise BadValue(f"validation_data: {error}") from error
        if read.d != d:
            raise BadValue(f"validation_data: expected {d} channels as in X, got {read.d}")
        return read.series, target

    def _check_settings(self) -> None:
        given = self._settings()
        for name in ("hidden_size", "num_layers", "segments", "max_epochs", "batch_size", "patience"):
            checks.integer(name, given[name], 1)
        choices = {"model": MODELS, "layout": LAYOUTS, "missing": MISSING, "scale": (*SCALES, "auto")}
        for name, options in choices.items():
            checks.choice(name, given[name], options)
        checks.positive("lr", given["lr"])
        checks.not_negative("alpha", given["alpha"])
        checks.horizon(given["horizon"], given["num_layers"])
        checks.fraction("validation_fraction", given["validation_fraction"])
        for name in ("live", "warm_start"):
            checks.flag(name, given[name])
        if self.readout != "auto":
            parse(self.readout)
        if self.frames != "auto":
            checks.integer("frames", self.frames, 0, checks.SIZE)
        if isinstance(self.dt, str):
            checks.choice("dt", self.dt, ("auto",))
        else:
            checks.positive("dt", given["dt"])
        if self.budget is not None:
            checks.positive("budget", given["budget"])
        if not isinstance(given["verbose"], int):
            raise BadType(f"verbose: expected True or False, got {checks.describe(given['verbose'])}")
        automatic = isinstance(self.device, str) and self.device == "auto"
        if not automatic and checks.existing_device("device", self.device).type == "meta":
            raise BadValue("device: expected a device that can compute, got 'meta'")
        with self._threads():  # checks n_jobs
            pass

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
