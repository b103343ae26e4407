"""The base class of the classifier and the regressor: settings, fitting the two models, their features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn._training.seeds import seeded
from unicornn.errors import BadType, BadValue, Diverged
from unicornn.estimators import _arguments as arguments
from unicornn.estimators import _network as networks
from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._explain import explain
from unicornn.estimators._explanation import Explanation
from unicornn.estimators._leakage import Clusters, clusters, count_equal, same_class, warn_of_leakage
from unicornn.estimators._octaves import KINDS, Octave, Octaves, OctavesHead
from unicornn.estimators._parts import Parts
from unicornn.estimators._progress import progress_bar
from unicornn.estimators._ridge import Ridge, clearly_smaller
from unicornn.estimators._saved import Saved
from unicornn.estimators._series import LAYOUTS, MISSING, SCALES, Scaling, Series, SeriesSet
from unicornn.estimators._transformer import SeriesTransformer
from unicornn.readouts import parse

MODELS = ("bank", "network", "both")
FIT_PART = 0.2  # of the time for a bank's features, spent on drawing the oscillators and their levels


@dataclass(eq=False, repr=False)
class Estimator(Parts, Saved, SeriesTransformer):
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
        self.models_ = ("bank", "network") if self.model == "both" else (self.model,)
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

    def _fit_network(
        self,
        series: Series,
        target: np.ndarray,
        weights: np.ndarray,
        groups: Any,
        valid: tuple[Series, np.ndarray] | None,
        deadline: float | None,
    ) -> None:
        settings = self._network_settings(self._seed)
        settings.deadline, octaves_wanted = deadline, settings.frames == "auto"
        warm = self._continues_last_fit()
        if not warm:
            self._prepare_network(series, settings)
        elif (*self._network.frames, self._network.rnn)[0].input_size != series[0].shape[1]:
            raise BadValue(f"X: expected the channels of the last fit with warm_start, got {series[0].shape[1]}")
        examples = self._examples(series, target, weights)
        validation: networks.Examples | None = None
        if valid is not None:
            validation = self._examples(*valid, np.ones(len(valid[0])))
        head, old = None, self._network.beside if warm else None
        if old is not None or (octaves_wanted and not warm):
            octaves = None if old is None else old.octaves
            octaves, ridge = networks.fit_octaves(octaves, examples, self._ridge_targets(target), groups, settings)
            factor, rows = self._ridge_factor(ridge, target, weights), ridge.rows
            head = OctavesHead(octaves, self._outputs())
            head.start(ridge, factor)
            # The training sees the scores of a ridge regression without each series, as those of new series will be.
            offset = torch.from_numpy(np.nan_to_num(factor * ridge.left_out)).float()
            examples, target = replace(examples.rows(rows), offset=offset), target[rows]
            groups = None if groups is None else groups[rows]
            if validation is not None:
                found = networks.outputs(head, validation.series, settings.batch_size)
                validation = replace(validation, offset=torch.from_numpy(found))
        left_out = examples
        if valid is None:
            train, test = arguments.inner_split(target, groups, self.validation_fraction, settings.seed)
            examples, validation = examples.rows(train), examples.rows(test) if len(test) else None

        make = partial(self._new_network, settings)
        if deadline is not None:
            networks.warm_up(make(0.1), examples, settings)
        with progress_bar("epoch", self.max_epochs, enabled=bool(self.verbose)) as tell:
            dt = None if isinstance(self.dt, str) else float(self.dt)
            self._network: Any
            if warm:
                self._network.beside, dt = None, self._network.rnn.dt[0]
                make = partial(lambda network, dt: network, self._network)
            self._network, done = networks.fit_new(make, examples, validation, settings, dt, tell)
        self._network.eval()
        self.dt_ = self._network.rnn.dt[0]
        self._errors = None
        added = head is None or bool(self._network.linear.weight.any())
        new = validation if added else left_out  # series whose targets the predictions do not depend on
        if self.model == "network" and new is not None and target.ndim == 2:
            outputs = torch.from_numpy(networks.outputs(self._network, new.series, settings.batch_size))
            self._errors = (new.scores(outputs) - new.target).abs().double().numpy()
        self._network.beside = head
        self.history_: list[dict[str, float]] = [] if done is None else done.history
        self.n_iter_, self.best_epoch_ = len(self.history_), 0 if done is None else done.best_epoch
        self.stopped_by_ = "octaves" if done is None else done.stopped
        if done is not None:
            self.about_["scores"] |= {f"network_{name}": value for name, value in done.best_row.items()}

    def _partial_fit(self, X: Any, target: np.ndarray, sample_weight: Any) -> None:
        """One epoch of the network, which is built in the first call unless it was fitted before."""
        self._check_settings()
        read = self._read(X)
        weights = arguments.check_weights(sample_weight, len(read))
        arguments.check_count("y", target, len(read))
        if getattr(self, "models_", None) != ("network",):
            self._learn_channels(read)
            self._seed = arguments.seed_from(self.random_state)
            settings = self._network_settings(self._seed)
            self.scale_, self.left_out_by_ = "series" if self.scale == "series" else "dataset", "series"
            series = self._scaled(read.series, self.scale_)
            self._prepare_network(series, settings)
            automatic = isinstance(self.dt, str)
            scaled = [self._scaling(x) for x in series]
            first = networks.FRAMES_DT if settings.frames else networks.time_step_candidates(scaled, self.alpha)[0]
            self.dt_ = first if automatic else float(self.dt)
            self._network = self._new_network(settings, self.dt_)
            self.models_, self.n_iter_, self.history_, self._errors = ("network",), 0, [], None
            self._describe(series, target)
        if not hasattr(self, "_seed"):  # a loaded model has no training history
            self._seed, self.history_, self.n_iter_ = arguments.seed_from(self.random_state), [], 0
        self._check_channels(read)
        examples = self._examples(self._scaled(read.series, self.scale_), target, weights)
        settings = self._network_settings((self._seed + self.n_iter_) % 2**31)
        optimiser = getattr(self, "_optimiser", None) or networks.make_optimizer(self._network, settings)
        self._optimiser = optimiser
        trainer = networks.NetworkTrainer(self._network, examples, settings, optimizer=optimiser)
        with seeded(self._seed):
            trainer.train_epoch()
        self.history_.append(trainer.validate())
        self.n_iter_ += 1

    def _prepare_network(self, series: Series, settings: networks.Settings) -> None:
        """Estimates the channels' scales, and derives settings of the network from the lengths of the series."""
        self._scaling = Scaling.fit(series)
        networks.adapt(settings, series)

    def _new_network(self, settings: networks.Settings, dt: float) -> Any:
        return networks.build_network(self.n_channels_, self._outputs(), dt, settings)

    def _restore_network(self, config: dict[str, Any], state: dict[str, torch.Tensor]) -> None:
        """Rebuilds the network of a saved model from its configuration and its ``state_dict``."""
        settings = self._network_settings(seed=0)
        settings.segments = checks.integer("segments", config["segments"], 1)
        settings.frames = checks.integer("frames", config.get("frames", 0), 0, checks.SIZE)
        settings.readout = config.get("readout", settings.readout)
        self.dt_ = config["dt"]
        width = networks.OSCILLATORS if settings.frames else self.n_channels_
        expected = (settings.hidden_size, width), self._outputs(), settings.num_layers
        layers = sum(name.startswith("rnn.w.") for name in state)
        if (tuple(state["rnn.V.0"].shape), state["linear.weight"].shape[0], layers) != expected:
            raise ValueError(f"network: expected tensors of sizes {expected}")  # checked before memory is allocated
        self._network = self._new_network(settings, self.dt_)
        if config.get("octaves"):
            windows = [
                Octave(*(checks.integer("octaves", k, 1, checks.SIZE) for k in each)) for each in config["octaves"]
            ]
            with seeded(0):
                octaves = Octaves(self.n_channels_, state["beside.octaves.layers.0.w.0"].numel() // KINDS, windows)
            self._network.beside = OctavesHead(octaves.to(settings.device), self._outputs())
        self._network.load_state_dict(state)

    def _continues_last_fit(self) -> bool:
        """Whether ``fit`` starts from the network and the scales of the last fit."""
        return bool(self.warm_start) and self.model != "bank" and getattr(self, "_network", None) is not None

    def _examples(self, series: Series, target: np.ndarray, weights: np.ndarray) -> networks.Examples:
        dtype = torch.int64 if target.ndim == 1 else torch.float32
        return networks.Examples(
            [self._scaling(x) for x in series],
            torch.as_tensor(target, dtype=dtype),
            torch.as_tensor(weights / weights.mean(), dtype=torch.float32),
        )

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

    def _run_network(self, series: Series, features: bool = False) -> np.ndarray:
        scaled = [self._scaling(x) for x in series]
        found = networks.outputs(self._network, scaled, int(self.batch_size), features=features)
        if not features or self._network.beside is None:
            return found
        return np.concatenate([found, networks.outputs(self._network.beside.octaves, scaled, int(self.batch_size))], 1)

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

    def _network_settings(self, seed: int) -> networks.Settings:
        device = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        given = self._settings() | {"device": torch.device(device), "deadline": None, "seed": seed, "alternatives": ()}
        if self.frames == "auto" and (self.readout != "auto" or self.segments == 1):
            given["frames"] = 0
        return networks.Settings(**{field.name: given[field.name] for field in fields(networks.Settings)})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
