"""What the classifier and the regressor share: the settings, the data, the two models, and their features."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn._training.seeds import seeded
from unicornn.errors import BadType, BadValue, Diverged
from unicornn.estimators import _arguments as arguments
from unicornn.estimators import _network as networks
from unicornn.estimators._bank import OscillatorBank, features_in
from unicornn.estimators._progress import progress_bar
from unicornn.estimators._ridge import Ridge
from unicornn.estimators._saved import Saved
from unicornn.estimators._series import (
    LAYOUTS,
    MISSING,
    Scaling,
    Series,
    as_series,
    channel_names,
    in_order,
    named,
    plain,
    same_channels,
)
from unicornn.readouts import parse

MODELS = ("bank", "network", "both")
HALVINGS = 3  # of a time step that was chosen from the data, and with which training diverged
WORTHS = ((1.0,), (0.0, 10.0), (1.0, 64.0))  # of the bank's KINDS of features


class Estimator(Saved, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The base of both estimators."""

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
        random_state: Any = None,
        device: str = "cpu",
        budget: float | None = None,
        verbose: bool = False,
        warm_start: bool = False,
        layout: str = "channels_last",
        missing: str = "error",
    ) -> None:
        self.model = model
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.dt = dt
        self.alpha = alpha
        self.readout = readout
        self.segments = segments
        self.horizon = horizon
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device
        self.budget = budget
        self.verbose = verbose
        self.warm_start = warm_start
        self.layout = layout
        self.missing = missing

    # What a subclass knows about its targets

    def _learn_targets(self, y: Any, weights: np.ndarray) -> np.ndarray:
        """The targets of fit, checked, as ``_encode`` gives them; remembers what they are."""
        raise NotImplementedError

    def _encode(self, y: Any) -> np.ndarray:
        """Targets as numbers: classes (n,) int64, or standardised (n, k) float64."""
        raise NotImplementedError

    def _columns(self, target: np.ndarray) -> np.ndarray:
        """Encoded targets as what ridge regression is to predict, (n, k)."""
        raise NotImplementedError

    def _outputs(self) -> int:
        raise NotImplementedError

    def _finish_ridge(self, target: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        """What is to be learned from the predictions for series left out; and a score of them."""
        raise NotImplementedError

    def _about_targets(self, target: np.ndarray) -> dict[str, Any]:
        """What the model card says about them."""
        raise NotImplementedError

    def _saved_target(self) -> dict[str, Any]:
        """What a saved model has to know about its targets, as JSON."""
        raise NotImplementedError

    def _restore_target(self, saved: dict[str, Any]) -> None:
        raise NotImplementedError

    def _series_weights(self, target: Any, weights: np.ndarray) -> np.ndarray:
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
        """Learns from series X and their targets y.

        Args:
            X: an array (n, N) or (n, N, d), a list of arrays (N_i, d), or a DataFrame with an index (series, time).
            y: (n,); for regression also (n, k).
            sample_weight: (n,) >= 0. Series of weight zero are left out.
            validation_data: (X, y) for early stopping and the choice of dt, instead of a share of X.
            groups: (n,), a patient or a machine each. Series of one group are never on both sides of an inner split.
        """
        self._check_settings()
        begin, start = time.monotonic(), networks.clock()
        series = self._read(X)
        weights = arguments.weights(sample_weight, len(series))
        if y is None:
            raise BadValue(f"y: {type(self).__name__} requires y to be passed, but the target y is None")
        arguments.same_count("y", y, len(series))
        for name, values in {"y": y, "sample_weight": sample_weight, "groups": groups}.items():
            in_order(name, values, X)
        groups = None if groups is None else arguments.groups(groups, len(series))
        target = self._learn_targets(y, weights)
        kept = np.flatnonzero(weights)
        series, target, groups = [series[i] for i in kept], target[kept], None if groups is None else groups[kept]
        weights = self._series_weights(target, weights[kept])
        valid = None if validation_data is None else self._validation(validation_data, series[0].shape[1])
        self._learn_channels(X, series)
        self._seed = seed = arguments.seed(self.random_state)
        self._optimiser: torch.optim.Optimizer | None = None
        self._describe(series, target)
        if self.model != "network":
            self._fit_bank(series, target, weights, groups, seed)
        if self.model != "bank":
            settings = self._settings(seed)
            settings.deadline = None if self.budget is None else start + self.budget
            self._fit_network(series, target, weights, groups, valid, settings)
        self.models_ = ("bank", "network") if self.model == "both" else (self.model,)
        self.fit_seconds_ = time.monotonic() - begin
        return self

    def _partial_fit(self, X: Any, target: np.ndarray, sample_weight: Any) -> None:
        """One pass over X with the network, made at the first call unless it was fitted; it alone predicts then."""
        self._check_settings()
        series = self._read(X)
        weights = arguments.weights(sample_weight, len(series))
        arguments.same_count("y", target, len(series))
        if getattr(self, "models_", None) != ("network",):
            self._learn_channels(X, series)
            self._seed = arguments.seed(self.random_state)
            self._scaling = Scaling.of(series)
            prepared = [self._scaling(x) for x in series]
            auto = isinstance(self.dt, str)
            self.dt_ = networks.time_step_candidates(prepared, self.alpha)[0] if auto else float(self.dt)
            settings = self._settings(self._seed)
            settings.segments = networks.energy_segments(settings.segments, self.readout, series)
            self._network = networks.build_network(self.n_channels_, self._outputs(), self.dt_, settings)
            self.models_, self.n_iter_ = ("network",), 0
            self.history_: list[dict[str, float]] = []
            self._describe(series, target)
        if not hasattr(self, "_seed"):  # of a saved model, which knows nothing of its training
            self._seed, self.history_, self.n_iter_ = arguments.seed(self.random_state), [], 0
        optimiser = getattr(self, "_optimiser", None) or torch.optim.Adam(self._network.parameters(), lr=self.lr)
        self._optimiser = optimiser
        same_channels(X, series, self.channel_names_, self.n_channels_, self.layout)
        examples = self._examples([self._scaling(x) for x in series], target, weights)
        settings = self._settings((self._seed + self.n_iter_) % 2**31)
        trainer = networks.NetworkTrainer(self._network, examples, settings, optimizer=optimiser)
        with seeded(self._seed):
            trainer.train_epoch()
        self.history_.append(trainer.validate())
        self.n_iter_ += 1

    def _fit_bank(self, series: Series, target: np.ndarray, weights: np.ndarray, groups: Any, seed: int) -> None:
        self._bank = OscillatorBank(random_state=seed)
        F = self._bank._fit_series(series)._transform_series(series)
        self._ridge = Ridge.of(F, self._columns(target), weights, groups, seed, self._bank._kinds(), WORTHS)
        self.about_["scores"] |= self._finish_ridge(target, weights)

    def _fit_network(
        self,
        series: Series,
        target: np.ndarray,
        weights: np.ndarray,
        groups: Any,
        valid: Any,
        settings: networks.Settings,
    ) -> None:
        again = self._goes_on()
        if again and self._network.rnn.input_size != series[0].shape[1]:
            raise BadValue(
                f"X: expected {self._network.rnn.input_size} channels with warm_start, got {series[0].shape[1]}"
            )
        if not again:
            self._scaling = Scaling.of(series)
            settings.segments = networks.energy_segments(settings.segments, self.readout, series)
        prepared = [self._scaling(x) for x in series]
        examples = self._examples(prepared, target, weights)
        held: networks.Examples | None
        if valid is not None:
            held = self._examples([self._scaling(x) for x in valid[0]], valid[1], np.ones(len(valid[0])))
        else:
            train, test = arguments.inner_split(target, groups, self.validation_fraction, settings.seed)
            examples, held = examples.rows(train), examples.rows(test) if len(test) else None

        def make(dt: float) -> Any:
            return networks.build_network(series[0].shape[1], self._outputs(), dt, settings)

        if settings.deadline is not None:
            networks.warm_up(make(0.1), examples, settings)
        if not again:
            if not isinstance(self.dt, str):
                self.dt_ = float(self.dt)
            elif held is None:
                self.dt_ = networks.time_step_candidates(examples.series, self.alpha)[0]
            else:
                self.dt_ = networks.choose_time_step(make, examples, held, settings)
            self._network = make(self.dt_)
        for left in range(HALVINGS if isinstance(self.dt, str) and not again else 0, -1, -1):
            try:
                with progress_bar(self.max_epochs, enabled=bool(self.verbose)) as tell:
                    done = networks.train(self._network, examples, held, settings, tell)
                break
            except Diverged:  # a short run may go well, and a longer one not
                if not left:
                    raise
                self.dt_ /= 2
                self._network = make(self.dt_)
        self.history_, self.n_iter_, self.best_epoch_ = done.history, len(done.history), done.best_epoch
        self.stopped_by_ = done.stopped
        best = self.history_[max(done.best_epoch, 1) - 1]
        self.about_["scores"] |= {f"network_{name}": value for name, value in best.items()}

    def _goes_on(self) -> bool:
        """Whether a fit begins with the network of the last one, its scales included."""
        return bool(self.warm_start) and self.model != "bank" and getattr(self, "_network", None) is not None

    def _describe(self, series: Series, target: np.ndarray) -> None:
        lengths = [len(x) for x in series]
        self.about_: dict[str, Any] = {
            "series": len(series),
            "shortest": min(lengths),
            "longest": max(lengths),
            "scores": {},
        }
        self.about_ |= self._about_targets(target)

    # Predicting

    def transform(self, X: Any) -> Any:
        """The features from which the estimator predicts, (n, k): the bank's, the network's, or both side by side."""
        series = self._seen(X)
        parts = []
        if "bank" in self.models_:
            parts.append(self._bank._transform_series(series))
        if "network" in self.models_:
            prepared = [self._scaling(x) for x in series]
            parts.append(networks.outputs(self._network, prepared, int(self.batch_size), features=True))
        return named(np.concatenate(parts, 1), X, self)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, as the bank's, and "network0", "network1", …"""
        check_is_fitted(self)
        names: list[str] = []
        if "bank" in self.models_:
            names += list(self._bank.get_feature_names_out())
        if "network" in self.models_:
            names += [f"network{i}" for i in range(self._network.features.size)]
        return np.asarray(names, dtype=object)

    def _seen(self, X: Any) -> Series:
        """The series to predict, as those of fit."""
        check_is_fitted(self)
        series = self._read(X)
        same_channels(X, series, self.channel_names_, self.n_channels_, self.layout)
        return series

    def _answers(self, series: Series) -> dict[str, np.ndarray]:
        """What each of the models says of each series, (n, outputs): finite, for NaN would pass for a class."""
        found: dict[str, np.ndarray] = {}
        if "bank" in self.models_:
            found["bank"] = self._ridge.predict(self._bank._transform_series(series))
        if "network" in self.models_:
            prepared = [self._scaling(x) for x in series]
            found["network"] = networks.outputs(self._network, prepared, int(self.batch_size)).astype(np.float64)
        for name, numbers in found.items():
            finite = np.isfinite(numbers).all(1)
            if not finite.all():
                i = int(finite.argmin())
                raise Diverged(f"X: expected series of which the {name} says finite numbers, got others for series {i}")
        return found

    # Checks

    def _learn_channels(self, X: Any, series: Series) -> None:
        self.n_features_in_, self.n_channels_ = features_in(X, series), series[0].shape[1]
        self.channel_names_ = channel_names(X, self.layout)

    def _read(self, X: Any) -> Series:
        return as_series(X, self.layout, self.missing)

    def _validation(self, data: Any, d: int) -> tuple[Series, np.ndarray]:
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise BadValue(f"validation_data: expected a pair (X, y), got {type(data).__name__}")
        try:
            series = self._read(data[0])
            arguments.same_count("y", data[1], len(series))
            target = self._encode(data[1])
        except (BadValue, BadType) as error:
            raise BadValue(f"validation_data: {error}") from error
        if series[0].shape[1] != d:
            raise BadValue(f"validation_data: expected {d} channels as in X, got {series[0].shape[1]}")
        return series, target

    def _check_settings(self) -> None:
        given = plain(self.get_params(deep=False))
        checks.choice("model", self.model, MODELS)
        for name in ("hidden_size", "num_layers", "segments", "max_epochs", "batch_size", "patience"):
            checks.integer(name, given[name], 1)
        checks.positive("lr", given["lr"])
        checks.not_negative("alpha", given["alpha"])
        checks.horizon(given["horizon"], int(given["num_layers"]))
        parse(self.readout)
        checks.choice("layout", self.layout, LAYOUTS)
        checks.choice("missing", self.missing, MISSING)
        checks.flag("warm_start", given["warm_start"])
        if not isinstance(given["verbose"], int):
            raise BadType(f"verbose: expected True or False, got {checks.describe(given['verbose'])}")
        automatic = isinstance(self.device, str) and self.device == "auto"
        if not automatic and checks.existing_device("device", self.device).type == "meta":
            raise BadValue("device: expected one that computes, got 'meta'")
        if isinstance(self.dt, str):
            checks.choice("dt", self.dt, ("auto",))
        else:
            checks.positive("dt", given["dt"])
        if self.budget is not None:
            checks.positive("budget", given["budget"])
        share = given["validation_fraction"]
        checks.number("validation_fraction", share, "a number from 0 up to 1", lambda x: 0 <= x < 1)

    def _settings(self, seed: int) -> networks.Settings:
        device = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        given = plain(self.get_params(deep=False))
        names = (
            "hidden_size",
            "num_layers",
            "alpha",
            "readout",
            "segments",
            "horizon",
            "max_epochs",
            "batch_size",
            "lr",
            "patience",
        )
        own = {name: given[name] for name in names}
        return networks.Settings(**own, device=torch.device(device), deadline=None, seed=seed)

    @staticmethod
    def _examples(series: Series, target: np.ndarray, weights: np.ndarray) -> networks.Examples:
        kind = torch.int64 if target.ndim == 1 else torch.float32
        equal = torch.as_tensor(weights / weights.mean(), dtype=torch.float32)
        return networks.Examples(series, torch.as_tensor(target, dtype=kind), equal)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags
