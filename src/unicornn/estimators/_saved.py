"""Saves estimators as folders: config.json, model.safetensors and a model card, README.md. Nothing is pickled.

config.json has the format's version, the class, its settings, the checksum of model.safetensors and its own, so that a
file that was changed, truncated or taken from another model is detected and named.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import jinja2
import numpy as np
import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from unicornn import _checks as checks
from unicornn._files import atomic_write_all
from unicornn.errors import BadCheckpoint, BadType, MissingData
from unicornn.estimators._bank import OscillatorBank
from unicornn.estimators._oscillators import QUANTITIES, Oscillators, View
from unicornn.estimators._ridge import Ridge
from unicornn.estimators._series import SCALES, Scaling, SeriesSet
from unicornn.estimators._sums import Sums

FORMAT, VERSION = "unicornn.estimators", 1
CONFIG, TENSORS, SUMS, CARD = "config.json", "model.safetensors", "sums.safetensors", "README.md"
CONFIG_TYPES = {"class": str, "settings": dict, "models": list, "about": dict, "series": dict, "target": dict}
INVALID = (LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError, MemoryError)
LAYER_ARRAYS = ("w", "V", "b", "c", "deviation", "levels", "middle", "unit")
RIDGE_ARRAYS = ("mean", "deviation", "coefficients", "intercept")
LEFT_OUT = "Measured on {} that were left out of the fit in turn (bank), or held out for early stopping (network)."


class Saved(ModelHubMixin):
    """``save_pretrained``, ``from_pretrained`` and ``push_to_hub``, for folders and the Hugging Face Hub."""

    # Otherwise the mixin would keep a copy of every instance's settings.
    _hub_mixin_config: ClassVar[dict[str, str]] = {"format": FORMAT}  # type: ignore[misc]

    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        sums: bool = False,
        push_to_hub: bool = False,
        repo_id: str | None = None,
        **options: Any,
    ) -> str | None:
        """Saves the estimator to a folder. An existing model is replaced only when everything is written.

        Args:
            save_directory: Folder, created if necessary.
            sums: Whether to save the sums of ``fit_parts`` as well, for ``partial_fit``, ``forget`` and ``+``; 180 MB
                for 3,000 features. They are not pushed to the Hub.
            push_to_hub: Whether to push it to the Hugging Face Hub as well.
            repo_id: Name on the Hub, by default the folder's name.
            options: Options of ``push_to_hub``.

        Returns: URL of the commit on the Hub, if it was pushed.
        """
        check_is_fitted(self)
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self._save_pretrained(folder, sums)  # the mixin's method would remove the old config.json first
        return self.push_to_hub(repo_id or folder.name, **options) if push_to_hub else None

    def _save_pretrained(self, save_directory: Path, sums: bool = False) -> None:
        tensors = write_tensors(_tensors(self), {"format": FORMAT})
        config = _config(self)
        config["sha256"] = hashlib.sha256(tensors).hexdigest()
        contents = {SUMS: self._check_sums().to_bytes()} if sums else {}  # type: ignore[attr-defined]
        config["sums"] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        config["checksum"] = _checksum(config)
        # config.json is written last: a folder without it is incomplete.
        card = _model_card(self, config).encode()
        contents |= {TENSORS: tensors, CARD: card, CONFIG: _json(config, indent=1) + b"\n"}
        atomic_write_all(save_directory, contents)

    def _fingerprint(self) -> str:
        """Digest of everything that predictions depend on."""
        config = {name: value for name, value in _config(self).items() if name not in ("about", "versions")}
        return hashlib.sha256(_json(config, default=str) + write_tensors(_tensors(self))).hexdigest()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Any:
        """Loads an estimator of this class from a folder or from the Hugging Face Hub.

        Args:
            pretrained_model_name_or_path: Folder, or "owner/name" on the Hub.
            options: Options of ``huggingface_hub.snapshot_download``: revision, token, cache_dir, local_files_only.
        """
        return load_estimator(pretrained_model_name_or_path, cls, **options)


def load_estimator(source: str | Path, expected: type | None = None, **options: Any) -> Any:
    """The estimator in a folder or on the Hub, of any class unless one is expected."""
    from unicornn.estimators._classifier import UnICORNNClassifier
    from unicornn.estimators._regressor import UnICORNNRegressor

    if not isinstance(source, (str, Path)) or not str(source):
        raise BadType(f"source: expected the path of a folder, or a name on the Hub, got {checks.describe(source)}")
    folder = Path(source)
    if not os.path.exists(folder) and isinstance(source, str) and source.count("/") == 1 and source[0] not in ".~/":
        folder = Path(snapshot_download(source, allow_patterns=[CONFIG, TENSORS], **options))
    if not os.path.isdir(folder):  # unlike folder.is_dir(), False for names that are too long
        raise MissingData(f"source: expected a folder with {CONFIG} and {TENSORS}, found none at {source}")
    config = _read_config(folder / CONFIG)
    classes = {c.__name__: c for c in (UnICORNNClassifier, UnICORNNRegressor)}
    if config["class"] not in classes:
        raise BadCheckpoint(f"{folder / CONFIG}: expected class to be {' or '.join(classes)}, got {config['class']}")
    kind = classes[config["class"]]
    if expected is not None and not issubclass(kind, expected):
        raise BadCheckpoint(f"{folder / CONFIG}: expected a {expected.__name__}, got a {config['class']}")
    content = _read_bytes(folder / TENSORS)
    if hashlib.sha256(content).hexdigest() != config.get("sha256"):
        raise BadCheckpoint(f"{folder / TENSORS}: expected the file that {CONFIG} describes, got a different one")
    try:
        estimator = _restore(kind, config, read_tensors(content))
        for name, digest in dict(config.get("sums", {})).items():
            content = _read_bytes(folder / SUMS)
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError(f"{name}: expected the sums that {CONFIG} describes, got different ones")
            estimator.sums_, _ = Sums.from_bytes(content)
        return estimator
    except (SafetensorError, *INVALID) as error:
        raise BadCheckpoint(f"{folder}: expected a consistent model, as save_pretrained writes: {error}") from error


def _json(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **options).encode()


def _checksum(config: dict[str, Any]) -> str:
    rest = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(_json(rest, sort_keys=True)).hexdigest()


def _read_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise BadCheckpoint(f"{path}: no such file; expected a folder made by `unicornn train` or `unicornn fit`")
    return path.read_bytes()


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(_read_bytes(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadCheckpoint):
            raise
        raise BadCheckpoint(f"{path}: expected JSON, got a damaged file: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise BadCheckpoint(f"{path}: expected a model saved by {FORMAT}, got a different format")
    if config.get("format_version") != VERSION:
        raise BadCheckpoint(f"{path}: expected format_version {VERSION}, got {config.get('format_version')!r}")
    if config.get("checksum") != _checksum(config):
        raise BadCheckpoint(f"{path}: expected the settings that were saved, but the file was changed")
    for name, type_ in CONFIG_TYPES.items():
        if not isinstance(config.get(name), type_):
            raise BadCheckpoint(f"{path}: expected {name} to be of type {type_.__name__}, got {config.get(name)!r:.40}")
    return config


# Contents of the files


def _config(estimator: Any) -> dict[str, Any]:
    from unicornn import __version__

    settings = estimator._settings()
    if not isinstance(settings["random_state"], (int, type(None))):
        settings["random_state"] = None  # generators cannot be saved, and are not needed for predictions
    if isinstance(settings.get("class_weight"), dict):
        settings["class_weight"] = None  # its keys may be of any type; only another fit would need it
    config: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "class": type(estimator).__name__,
        "settings": settings,
        "models": list(estimator.models_),
        "about": estimator.about_,
        "series": {
            "channels": estimator.n_channels_,
            "channel_names": estimator.channel_names_,
            "features_in": estimator.n_features_in_,
            "scale": estimator.scale_,
            "left_out_by": estimator.left_out_by_,
        },
        "target": estimator._saved_target(),
        "versions": {
            "unicornn": __version__, "torch": torch.__version__, "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }  # fmt: skip
    if "bank" in estimator.models_:
        bank = estimator._bank
        config["bank"] = {
            "quantiles": [float(q) for q in bank.quantiles],
            "live": bool(bank.live),
            "views": [layer.view._asdict() for layer in bank._layers],
            "penalty": estimator._ridge.penalty,
        }
    if "network" in estimator.models_:
        network = estimator._network
        frames = network.frames[0].length[0] if network.frames else 0
        readout = {"readout": repr(network.readout), "segments": network.readout.segments}
        octaves = [] if network.beside is None else [list(each) for each in network.beside.octaves.windows]
        config["network"] = {"dt": estimator.dt_, "frames": frames, "octaves": octaves, **readout}
    return config


def _tensors(estimator: Any) -> dict[str, Tensor]:
    arrays: dict[str, Any] = {}
    if "bank" in estimator.models_:
        arrays |= _scaling_arrays("bank", estimator._bank._scaling)
        for i, layer in enumerate(estimator._bank._layers):
            arrays |= {f"bank.{i}.{name}": getattr(layer, name) for name in LAYER_ARRAYS}
        arrays |= {f"ridge.{name}": np.asarray(getattr(estimator._ridge, name), float) for name in RIDGE_ARRAYS}
    if "network" in estimator.models_:
        arrays |= _scaling_arrays("scaling", estimator._scaling)
        arrays |= {f"network.{name}": t.cpu() for name, t in estimator._network.state_dict().items()}
    if estimator._errors is not None:
        arrays["errors"] = estimator._errors
    return {name: torch.as_tensor(a).contiguous() for name, a in arrays.items()}


def _scaling_arrays(prefix: str, scaling: Scaling) -> dict[str, np.ndarray]:
    return {f"{prefix}.mean": scaling.mean, f"{prefix}.deviation": scaling.deviation}


def _model_card(estimator: Any, config: dict[str, Any]) -> str:
    """README.md, with the header that the Hugging Face Hub reads."""
    about = estimator.about_
    data = {
        "series": f"{about['series']:,}",
        "steps": f"{about['shortest']:,} to {about['longest']:,}",
        "channels": ", ".join(estimator.channel_names_ or [str(estimator.n_channels_)]),
        "scaled by": estimator.scale_,
    }
    data |= {"target": about["target"]} if "target" in about else {}
    if "classes" in about:
        data["classes"] = ", ".join(f"{name} ({count})" for name, count in about["classes"].items())
    else:
        data["targets"] = about["targets"]
    scores = {name.replace("_", " "): f"{value:.4g}" for name, value in about["scores"].items()}
    settings = {name: f"`{value!r}`" for name, value in config["settings"].items()}
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters["cell"] = lambda value: str(value).replace("|", r"\|").replace("\n", " ")
    template = files("unicornn.estimators").joinpath("card.md.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        config=config,
        kind="classification" if "classes" in about else "regression",
        sections=[
            ("Data", "", data),
            ("Scores", LEFT_OUT.format(estimator.left_out_by_), scores),
            ("Settings", "", settings),
            ("Versions", "", config["versions"]),
        ],
    )


def _restore(kind: type, config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """The estimator of a configuration. What kernels rely on is checked; a prediction shows that the parts match."""
    estimator = kind(**config["settings"])
    estimator._check_settings()
    series = config["series"]
    d = checks.integer("channels", series["channels"], 1)
    estimator.models_, estimator.about_ = tuple(config["models"]), config["about"]
    estimator.n_channels_, estimator.channel_names_ = d, series["channel_names"]
    estimator.n_features_in_ = series["features_in"]
    estimator.scale_ = checks.choice("scale", series["scale"], SCALES)
    estimator.left_out_by_ = checks.choice("left_out_by", series["left_out_by"], ("series", "groups"))
    estimator._restore_target(config["target"])
    if "bank" in config["models"]:
        estimator._bank = _restore_bank(config["bank"], tensors, d)
        arrays: dict[str, Any] = {name: tensors[f"ridge.{name}"].numpy() for name in RIDGE_ARRAYS}
        estimator._ridge = Ridge(**arrays, penalty=checks.positive("penalty", config["bank"]["penalty"]))
    if "network" in config["models"]:
        estimator._scaling = _restore_scaling("scaling", tensors, d)
        state = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
        estimator._restore_network(config["network"], state)
    errors = tensors.get("errors")
    estimator._errors = None if errors is None else errors.double().numpy()
    for name, prediction in estimator._predictions([np.zeros((2, d))]).items():
        if prediction.shape != (1, estimator._outputs()):
            raise ValueError(f"{name}: expected {estimator._outputs()} outputs, got {prediction.shape[1]}")
    return estimator


def _restore_scaling(prefix: str, tensors: dict[str, Tensor], d: int) -> Scaling:
    mean, deviation = (tensors[f"{prefix}.{name}"].double().numpy() for name in ("mean", "deviation"))
    if not mean.shape == deviation.shape == (d,) or not (deviation > 0).all():
        raise ValueError(f"{prefix}: expected {d} means and {d} deviations > 0")
    return Scaling(mean, deviation)


def _restore_bank(options: dict[str, Any], tensors: dict[str, Tensor], d: int) -> OscillatorBank:
    live = checks.flag("live", options.get("live", False))
    bank = OscillatorBank(quantiles=[float(q) for q in options["quantiles"]], live=live)
    bank._learn_channels(SeriesSet([np.zeros((1, d))]))
    bank._scaling = _restore_scaling("bank", tensors, d)
    layers = []
    for i, fields in enumerate(options["views"]):
        view = View(**fields)
        checks.choice("kind", view.kind, tuple(QUANTITIES))
        for name in ("pairs", "aligned"):
            checks.flag(name, getattr(view, name))
        for name in ("W", "pace", "hop"):
            checks.integer(name, getattr(view, name), 1)
        tensors.setdefault(f"bank.{i}.unit", torch.zeros(0))  # models of version 0.2 have none
        arrays: dict[str, Any] = {name: tensors[f"bank.{i}.{name}"] for name in LAYER_ARRAYS}
        arrays |= {name: arrays[name].numpy() for name in ("deviation", "levels", "middle", "unit")}
        if arrays["deviation"].shape != (d,) or not (arrays["deviation"] > 0).all():
            raise ValueError(f"bank.{i}.deviation: expected {d} numbers > 0")
        layers.append(Oscillators(view, **arrays))
    bank._set_layers(layers)
    return bank
