"""Estimators as folders: config.json, model.safetensors, preprocessing.json, README.md. Nothing in them is executed.

config.json holds the format's version, the class, its settings and the checksums of the other files and of itself, so
that a file which was changed, cut short or mixed up with another model's is found and named.
"""

from __future__ import annotations

import hashlib
import json
import os
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

from unicornn.errors import BadCheckpoint, MissingData
from unicornn.estimators import _network as networks
from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._card import card
from unicornn.estimators._oscillators import Oscillators
from unicornn.estimators._ridge import Ridge
from unicornn.estimators._series import Scaling, plain

FORMAT, VERSION = "unicornn.estimators", 1
CONFIG, TENSORS, PREPROCESSING, CARD = "config.json", "model.safetensors", "preprocessing.json", "README.md"
BANK = ("n_oscillators", "smallest_window", "overlap", "quantiles", "differences")


class Saved(ModelHubMixin):
    """``save_pretrained``, ``from_pretrained`` and ``push_to_hub``, to and from a folder or the Hugging Face Hub."""

    # The mixin would otherwise keep a copy of every instance's settings.
    _hub_mixin_config: ClassVar[dict[str, str]] = {"format": FORMAT}  # type: ignore[misc]

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
        for name, content in files.items():
            part = save_directory / f".{name}.part"
            part.write_bytes(content)
            os.replace(part, save_directory / name)

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

    folder = Path(where)
    if not folder.exists() and isinstance(where, str) and where.count("/") == 1 and not where.startswith((".", "~")):
        folder = Path(snapshot_download(where, allow_patterns=[CONFIG, TENSORS, PREPROCESSING], **options))
    if not folder.is_dir():
        raise MissingData(f"{where}: expected a folder with {CONFIG}, {TENSORS} and {PREPROCESSING}, found none")
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
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
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
    except ValueError as error:
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
    if "network" in estimator.models_:
        config["network"] = {"dt": estimator.dt_, "outputs": estimator._outputs()}
    return config


def _tensors(estimator: Any) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    if "bank" in estimator.models_:
        for i, (layer, levels) in enumerate(zip(estimator._bank._layers, estimator._bank._levels, strict=True)):
            tensors |= {f"bank.{i}.{letter}": getattr(layer, letter) for letter in "wVbc"}
            tensors[f"bank.{i}.levels"] = torch.from_numpy(levels)
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
        bank = estimator._bank
        found["bank"] = _scaling(bank._scaling) | {"moves": bank._moves.deviation.tolist()}
        found["penalty"] = estimator._ridge.penalty
    if "network" in estimator.models_:
        found["network"] = _scaling(estimator._scaling)
    return found


def _scaling(scaling: Scaling) -> dict[str, list[float]]:
    return {"mean": scaling.mean.tolist(), "deviation": scaling.deviation.tolist()}


def _restored(found: type, config: dict[str, Any], tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> Any:
    estimator = found(**config["settings"])
    estimator.models_, estimator.about_ = tuple(config["models"]), config["about"]
    estimator.n_channels_, estimator.n_features_in_ = about["channels"], about["features_in"]
    estimator.channel_names_ = about["channel_names"]
    estimator._restore_target(about["target"])
    if "bank" in config["models"]:
        estimator._bank = _bank(config["bank"], tensors, about)
        arrays = {n: tensors[f"ridge.{n}"].numpy() for n in ("mean", "deviation", "coefficients", "intercept")}
        nothing = np.zeros(0)
        estimator._ridge = Ridge(**arrays, penalty=about["penalty"], left_out=nothing, rows=nothing)
    if "network" in config["models"]:
        estimator._scaling = _scaled(about["network"])
        estimator.dt_ = config["network"]["dt"]
        settings = estimator._settings(seed=0)
        net = networks.network(about["channels"], config["network"]["outputs"], estimator.dt_, settings)
        net.load_state_dict({n.removeprefix("network."): t for n, t in tensors.items() if n.startswith("network.")})
        estimator._network = net
    return estimator


def _scaled(found: dict[str, list[float]]) -> Scaling:
    return Scaling(np.asarray(found["mean"]), np.asarray(found["deviation"]))


def _bank(options: dict[str, Any], tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> OscillatorBank:
    bank = OscillatorBank(**{name: options[name] for name in BANK})
    bank.windows_, bank.n_channels_, bank.n_features_in_ = options["windows"], about["channels"], about["channels"]
    bank._scaling = _scaled(about["bank"])
    bank._moves = Scaling(np.zeros(about["channels"]), np.asarray(about["bank"]["moves"]))
    letters = [[tensors[f"bank.{i}.{letter}"] for letter in "wVbc"] for i in range(len(bank.windows_))]
    bank._layers = [Oscillators(W, *four) for W, four in zip(bank.windows_, letters, strict=True)]
    bank._levels = [tensors[f"bank.{i}.levels"].numpy() for i in range(len(bank.windows_))]
    return bank
