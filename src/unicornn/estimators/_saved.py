"""Estimators as folders: config.json, model.safetensors, preprocessing.json, README.md. Nothing in them is executed.

config.json holds the format's version, the class, its settings and the checksums of the other files and of itself, so
that a file which was changed, cut short or mixed up with another model's is found and named.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.utils.validation import check_is_fitted

from unicornn import _checks as checks
from unicornn._files import atomic_write_all
from unicornn.errors import BadCheckpoint, BadType, MissingData
from unicornn.estimators import _network as networks
from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._card import card
from unicornn.estimators._oscillators import QUANTITIES, Oscillators, Part
from unicornn.estimators._ridge import Ridge
from unicornn.estimators._series import Scaling, plain

FORMAT, VERSION = "unicornn.estimators", 4
CONFIG, TENSORS, PREPROCESSING, CARD = "config.json", "model.safetensors", "preprocessing.json", "README.md"
MISFITS = (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError, MemoryError)
BANK = ("n_oscillators", "smallest_window", "overlap", "quantiles")


class Saved(ModelHubMixin):
    """``save_pretrained``, ``from_pretrained`` and ``push_to_hub``, to and from a folder or the Hugging Face Hub."""

    # The mixin would otherwise keep a copy of every instance's settings.
    _hub_mixin_config: ClassVar[dict[str, str]] = {"format": FORMAT}  # type: ignore[misc]

    def save_pretrained(
        self, save_directory: str | Path, *, push_to_hub: bool = False, repo_id: str | None = None, **options: Any
    ) -> str | None:
        """Writes the estimator to a folder. A model that is there already is replaced when all is written.

        Args:
            save_directory: the folder, which is made if need be.
            push_to_hub: whether to push it to the Hugging Face Hub as well, and
            repo_id: under which name; else the folder's.
            options: of ``push_to_hub``.

        Returns: the address of the commit on the Hub, if it was pushed.
        """
        check_is_fitted(self)
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self._save_pretrained(folder)  # the mixin's own method removes the old config.json first
        return self.push_to_hub(repo_id or folder.name, **options) if push_to_hub else None

    def _save_pretrained(self, save_directory: Path) -> None:
        check_is_fitted(self)
        tensors, preprocessing = _tensors(self), _preprocessing(self)
        files = {
            TENSORS: save_tensors(tensors, {"format": FORMAT}),
            PREPROCESSING: (json.dumps(preprocessing, indent=1) + "\n").encode(),
        }
        config = _config(self)
        config["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        config["checksum"] = _checksum(config)
        files[CARD] = card(self, config).encode()
        files[CONFIG] = (json.dumps(config, indent=1) + "\n").encode()  # the last: a folder without it is not complete
        atomic_write_all(save_directory, files)

    def _fingerprint(self) -> str:
        """Of all that predictions depend on."""
        config = _config(self)
        facts = [
            _preprocessing(self),
            *(config.get(name) for name in ("class", "settings", "models", "bank", "network")),
        ]
        digest = hashlib.sha256(json.dumps(facts, default=str).encode())
        for name, t in _tensors(self).items():
            digest.update(f"{name} {t.dtype} {tuple(t.shape)}".encode() + t.numpy().tobytes())
        return digest.hexdigest()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Any:
        """The estimator that ``save_pretrained`` wrote to a folder, or pushed to the Hub under this name.

        Args:
            pretrained_model_name_or_path: a folder, or "owner/name" on the Hub.
            options: of ``huggingface_hub.snapshot_download``: revision, token, cache_dir, local_files_only.
        """
        return load(pretrained_model_name_or_path, cls, **options)


def load(where: str | Path, expected: type | None = None, **options: Any) -> Any:
    """The estimator in a folder or on the Hub, of whichever class it is unless one is expected.

    Example:
        >>> import numpy as np, tempfile
        >>> from unicornn.estimators import UnICORNNRegressor, load
        >>> model = UnICORNNRegressor(random_state=0).fit(np.eye(8), np.arange(8.0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_pretrained(folder)
        ...     again = load(folder)
        >>> bool((again.predict(np.eye(8)) == model.predict(np.eye(8))).all())
        True
    """
    from unicornn.estimators._classifier import UnICORNNClassifier
    from unicornn.estimators._regressor import UnICORNNRegressor

    if not isinstance(where, (str, Path)) or not str(where):
        raise BadType(f"where: expected the path of a folder, or a name on the Hub, got {type(where).__name__}")
    folder = Path(where)
    if not folder.exists() and isinstance(where, str) and where.count("/") == 1 and not where.startswith((".", "~")):
        folder = Path(snapshot_download(where, allow_patterns=[CONFIG, TENSORS, PREPROCESSING], **options))
    if not folder.is_dir():
        raise MissingData(
            f"where: expected a folder with {CONFIG}, {TENSORS} and {PREPROCESSING}, found none at {where}"
        )
    config = _read_config(folder)
    classes = {c.__name__: c for c in (UnICORNNClassifier, UnICORNNRegressor)}
    if config["class"] not in classes:
        raise BadCheckpoint(
            f"{folder / CONFIG}: expected class to be one of {', '.join(classes)}, got {config['class']}"
        )
    found = classes[config["class"]]
    if expected is not None and not issubclass(found, expected):
        raise BadCheckpoint(f"{folder / CONFIG}: expected a {expected.__name__}, got a {config['class']}")
    content = {name: _read(folder, name, config["sha256"].get(name, "")) for name in (TENSORS, PREPROCESSING)}
    try:
        return _restored(found, config, load_tensors(content[TENSORS]), json.loads(content[PREPROCESSING]))
    except (SafetensorError, *MISFITS) as error:
        raise BadCheckpoint(
            f"{folder}: expected what save_pretrained wrote, got a model that does not fit: {error}"
        ) from error


def _checksum(config: dict[str, Any]) -> str:
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise BadCheckpoint(f"{path}: expected a saved estimator, but there is no such file")
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadCheckpoint(f"{path}: expected JSON, got a damaged file: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise BadCheckpoint(f"{path}: expected a model saved by {FORMAT}, got another program's")
    version = config.get("format_version")
    if not isinstance(version, int) or version > VERSION:
        raise BadCheckpoint(
            f"{path}: expected format_version up to {VERSION}, got {version!r}; a later unicornn made it"
        )
    if config.get("checksum") != _checksum(config):
        raise BadCheckpoint(f"{path}: expected the settings that were saved, but the file was changed")
    for name, kind in {"class": str, "settings": dict, "models": list, "about": dict, "sha256": dict}.items():
        if not isinstance(config.get(name), kind):
            raise BadCheckpoint(f"{path}: expected {name} to be of type {kind.__name__}, got {config.get(name)!r:.40}")
    return config


def _read(folder: Path, name: str, sha256: str) -> bytes:
    path = folder / name
    if not path.is_file():
        raise BadCheckpoint(f"{path}: expected a part of the model, but there is no such file")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BadCheckpoint(f"{path}: expected the file that {CONFIG} describes, got one cut short, changed or foreign")
    return content


# What is in the files


def _config(estimator: Any) -> dict[str, Any]:
    settings = plain(estimator.get_params(deep=False))
    if not isinstance(settings["random_state"], (int, type(None))):
        settings["random_state"] = None  # a generator has no form on disk, and is not needed to predict
    if isinstance(settings.get("class_weight"), dict):
        settings["class_weight"] = None  # its keys may be anything; only a new fit would need it
    from unicornn import __version__

    config: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "class": type(estimator).__name__,
        "settings": settings,
        "models": list(estimator.models_),
        "about": estimator.about_,
        "versions": {
            "unicornn": __version__, "torch": torch.__version__, "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }  # fmt: skip
    if "bank" in estimator.models_:
        bank = estimator._bank
        config["bank"] = {name: getattr(bank, name) for name in BANK} | {"windows": bank.windows_}
        config["bank"]["quantiles"] = [float(q) for q in bank.quantiles]
        config["bank"]["layers"] = [layer.part._asdict() for layer in bank._layers]
        config["bank"]["summaries"] = bank._summaries
    if "network" in estimator.models_:
        config["network"] = {
            "dt": estimator.dt_,
            "outputs": estimator._outputs(),
            "segments": estimator._network.readout.segments,
        }
    return config


def _tensors(estimator: Any) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    if "bank" in estimator.models_:
        for i, layer in enumerate(estimator._bank._layers):
            tensors |= {f"bank.{i}.{letter}": getattr(layer, letter) for letter in "wVbc"}
            arrays = {"levels": layer.levels, "middle": layer.middle, "deviation": layer.deviation}
            tensors |= {f"bank.{i}.{name}": torch.from_numpy(a) for name, a in arrays.items() if a is not None}
        for name in ("mean", "deviation", "coefficients", "intercept"):
            tensors[f"ridge.{name}"] = torch.from_numpy(np.asarray(getattr(estimator._ridge, name), np.float64))
    if "network" in estimator.models_:
        tensors |= {f"network.{name}": t.cpu() for name, t in estimator._network.state_dict().items()}
    return {name: t.contiguous() for name, t in tensors.items()}


def _preprocessing(estimator: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "layout": estimator.layout,
        "missing": estimator.missing,
        "channels": estimator.n_channels_,
        "channel_names": estimator.channel_names_,
        "features_in": estimator.n_features_in_,
        "target": estimator._saved_target(),
    }
    if "bank" in estimator.models_:
        found["bank"] = _scaling(estimator._bank._scaling)
        found["penalty"] = estimator._ridge.penalty
    if "network" in estimator.models_:
        found["network"] = _scaling(estimator._scaling)
    return found


def _scaling(scaling: Scaling) -> dict[str, list[float]]:
    return {"mean": scaling.mean.tolist(), "deviation": scaling.deviation.tolist()}


def _restored(found: type, config: dict[str, Any], tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> Any:
    estimator = found(**config["settings"])
    estimator._check_settings()
    if not config["models"] or not set(config["models"]) <= {"bank", "network"}:
        raise ValueError(f"models: expected bank, network or both, got {config['models']}")
    for name, t in tensors.items():
        if t.isnan().any() or (t.isinf().any() and name != "ridge.deviation"):  # infinite for a constant feature
            raise ValueError(f"{name}: expected finite numbers, got others")
    for name in ("channels", "features_in"):
        checks.integer(name, about[name], 1)
    names = about["channel_names"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"channel_names: expected their names, got {names!r:.40}")
    estimator.models_, estimator.about_ = tuple(config["models"]), config["about"]
    estimator.n_channels_, estimator.n_features_in_ = about["channels"], about["features_in"]
    estimator.channel_names_ = about["channel_names"]
    estimator._restore_target(about["target"])
    if "bank" in config["models"]:
        estimator._bank = _bank(config["bank"], tensors, about)
        arrays = {n: tensors[f"ridge.{n}"].numpy() for n in ("mean", "deviation", "coefficients", "intercept")}
        p, k = arrays["coefficients"].shape
        if any(arrays[n].shape != (p,) for n in ("mean", "deviation")) or arrays["intercept"].shape != (k,):
            raise ValueError(f"ridge: expected {p} means and deviations and {k} intercepts, got others")
        checks.positive("penalty", about["penalty"])
        nothing = np.zeros(0)
        estimator._ridge = Ridge(**arrays, penalty=about["penalty"], worth=(), left_out=nothing, rows=nothing)
    if "network" in config["models"]:
        estimator._scaling = _scaled(**about["network"], d=about["channels"])
        estimator.dt_ = config["network"]["dt"]
        settings = estimator._settings(seed=0)
        settings.segments = checks.integer("segments", config["network"].get("segments", 1), 1)  # not up to version 3
        sizes = (settings.hidden_size, about["channels"]), (config["network"]["outputs"], settings.num_layers)
        there = tensors["network.linear.weight"].shape[0], sum(name.startswith("network.rnn.w.") for name in tensors)
        if (tuple(tensors["network.rnn.V.0"].shape), there) != sizes:  # before memory is taken for what they say
            raise ValueError(f"network: expected the sizes of its tensors, got {sizes}")
        net = networks.build_network(about["channels"], config["network"]["outputs"], estimator.dt_, settings)
        net.load_state_dict({n.removeprefix("network."): t for n, t in tensors.items() if n.startswith("network.")})
        estimator._network = net
    for name, answer in estimator._answers([np.zeros((2, about["channels"]))]).items():  # all fits together
        if answer.shape != (1, estimator._outputs()):
            raise ValueError(f"{name}: expected {estimator._outputs()} answers, got {answer.shape[1]}")
    return estimator


def _scaled(mean: Any, deviation: Any, d: int) -> Scaling:
    numbers = np.asarray(mean, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    if not all(n.shape == (d,) and np.isfinite(n).all() for n in numbers) or not (numbers[1] > 0).all():
        raise ValueError(f"mean, deviation: expected {d} finite numbers each, got {mean!r:.40} and {deviation!r:.40}")
    return Scaling(*numbers)


def _bank(options: dict[str, Any], tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> OscillatorBank:
    bank = OscillatorBank(**{name: options[name] for name in BANK})
    bank.windows_, bank.n_channels_, bank.n_features_in_ = options["windows"], about["channels"], about["channels"]
    bank.channel_names_ = None
    bank._summaries = bool(options.get("summaries"))  # not of versions 1 and 2
    d = about["channels"]
    bank._scaling = _scaled(about["bank"]["mean"], about["bank"]["deviation"], d)
    for name in ("n_oscillators", "smallest_window", "overlap"):
        checks.integer(name, options[name], 1)
    np.asarray(bank.quantiles, dtype=np.float64).reshape(len(bank.quantiles))
    for W in bank.windows_:
        checks.integer("windows", W, 1)
    if "layers" in options:
        found = [Part(**layer) for layer in options["layers"]]
    else:  # the first version of the format
        found = [Part("both", W, 1, max(1, W // options["overlap"])) for W in bank.windows_]
    bank._layers = [_layer(i, part, tensors, about["bank"], d) for i, part in enumerate(found)]
    return bank


def _layer(i: int, part: Part, tensors: dict[str, torch.Tensor], about: dict[str, Any], d: int) -> Oscillators:
    checks.choice("hears", part.hears, tuple(QUANTITIES))
    for name in ("W", "pace", "hop"):
        checks.integer(name, getattr(part, name), 1)
    for name in ("pairs", "trend"):  # False in versions 1 and 2
        checks.flag(name, getattr(part, name))
    own = {name.removeprefix(f"bank.{i}."): t for name, t in tensors.items() if name.startswith(f"bank.{i}.")}
    deviation = _scaled(np.zeros(d), own["deviation"] if "deviation" in own else about["moves"], d).deviation
    middle = own["middle"].numpy() if "middle" in own else None
    w, V, b, c = (own[letter] for letter in "wVbc")
    return Oscillators(part, w, V, b, c, deviation, own["levels"].numpy(), middle)
