"""The network of an estimator: its training, with octaves beside it, one epoch at a time, and from a saved model."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from unicornn import _checks as checks
from unicornn._training.seeds import seeded
from unicornn.errors import BadValue
from unicornn.estimators import _arguments as arguments
from unicornn.estimators import _network as networks
from unicornn.estimators._octaves import OctavesHead
from unicornn.estimators._progress import progress_bar
from unicornn.estimators._ridge import Ridge
from unicornn.estimators._series import Scaling, Series


class NetworkFit:
    """The part of ``Estimator`` that concerns model="network"."""

    _errors: np.ndarray | None  # of left-out series, for intervals
    models_: tuple[str, ...]

    def _fit_network(
        self: Any,
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
        head = None
        if (self._network.beside is not None) if warm else octaves_wanted:
            head, ridge, factor = self._fit_octaves(examples, target, weights, groups, settings)
            # The training sees the scores of a ridge regression without each series, as those of new series will be.
            offset = torch.from_numpy(np.nan_to_num(factor * ridge.left_out)).float()
            examples, target = replace(examples.rows(ridge.rows), offset=offset), target[ridge.rows]
            groups = None if groups is None else groups[ridge.rows]
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

    def _fit_octaves(
        self: Any, examples: networks.Examples, target: np.ndarray, weights: np.ndarray, groups: Any, settings: Any
    ) -> tuple[OctavesHead, Ridge, float]:
        """Octaves, those of the last fit if it is continued, with a linear map; its ridge regression and its factor."""
        octaves = self._network.beside.octaves if self._continues_last_fit() else None
        octaves, ridge = networks.fit_octaves(octaves, examples, self._ridge_targets(target), groups, settings)
        factor = self._ridge_factor(ridge, target, weights)
        head = OctavesHead(octaves, self._outputs())
        head.start(ridge, factor)
        return head, ridge, factor

    def _partial_fit(self: Any, X: Any, target: np.ndarray, sample_weight: Any) -> None:
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

    def _prepare_network(self: Any, series: Series, settings: networks.Settings) -> None:
        """Estimates the channels' scales, and derives settings of the network from the lengths of the series."""
        self._scaling = Scaling.fit(series)
        networks.adapt(settings, series)

    def _network_settings(self: Any, seed: int) -> networks.Settings:
        device = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        given = self._settings() | {"device": torch.device(device), "deadline": None, "seed": seed, "alternatives": ()}
        if self.frames == "auto" and (self.readout != "auto" or self.segments == 1):
            given["frames"] = 0
        return networks.Settings(**{field.name: given[field.name] for field in fields(networks.Settings)})

    def _new_network(self: Any, settings: networks.Settings, dt: float) -> Any:
        return networks.build_network(self.n_channels_, self._outputs(), dt, settings)

    def _continues_last_fit(self: Any) -> bool:
        """Whether ``fit`` starts from the network and the scales of the last fit."""
        return bool(self.warm_start) and self.model != "bank" and getattr(self, "_network", None) is not None

    def _examples(self: Any, series: Series, target: np.ndarray, weights: np.ndarray) -> networks.Examples:
        dtype = torch.int64 if target.ndim == 1 else torch.float32
        return networks.Examples(
            [self._scaling(x) for x in series],
            torch.as_tensor(target, dtype=dtype),
            torch.as_tensor(weights / weights.mean(), dtype=torch.float32),
        )

    def _run_network(self: Any, series: Series, features: bool = False) -> np.ndarray:
        scaled = [self._scaling(x) for x in series]
        found = networks.outputs(self._network, scaled, int(self.batch_size), features=features)
        if not features or self._network.beside is None:
            return found
        return np.concatenate([found, networks.outputs(self._network.beside.octaves, scaled, int(self.batch_size))], 1)

    def _restore_network(self: Any, config: dict[str, Any], state: dict[str, torch.Tensor]) -> None:
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
            head = OctavesHead.empty(config["octaves"], self.n_channels_, self._outputs(), state)
            self._network.beside = head.to(settings.device)
        self._network.load_state_dict(state)
