"""``unicornn.load_model``: loads a saved model of any kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from unicornn._files import parse_json


def load_model(source: str | Path, *, task: Any = None, **options: Any) -> Any:
    """Loads a fitted estimator, or the network of a training run.

    Args:
        source: Folder that ``save_pretrained``, ``unicornn fit`` or ``unicornn train`` wrote, or the name of an
            estimator on the Hugging Face Hub, "owner/name".
        task: Task of the run, if it is not one of the package's tasks.
        options: Options of ``huggingface_hub.snapshot_download``: revision, token, cache_dir, local_files_only.

    Returns: ``UnICORNNClassifier`` or ``UnICORNNRegressor`` (needs the extra ``fit``); for a run, its ``Network`` with
        the best weights, in evaluation mode (needs the extra ``train``).

    Example:
        >>> import numpy as np, tempfile
        >>> from unicornn import load_model
        >>> from unicornn.estimators import UnICORNNRegressor
        >>> model = UnICORNNRegressor(random_state=0).fit(np.eye(8), np.arange(8.0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_pretrained(folder)
        ...     loaded = load_model(folder)
        >>> bool((loaded.predict(np.eye(8)) == model.predict(np.eye(8))).all())
        True
    """
    if isinstance(source, (str, Path)) and "task" in read_model_config(source):
        # The lab is imported by name, because the library does not depend on it.
        return import_module("unicornn.lab.training").load_network(source, task=task)
    return import_module("unicornn.estimators._saved").load_estimator(source, **options)


def is_fitted_model(folder: str | Path) -> bool:
    """Whether a folder has a fitted estimator, as ``save_pretrained`` and ``unicornn fit`` write it."""
    return read_model_config(folder).get("format") == "unicornn.estimators"


def read_model_config(folder: str | Path) -> dict[str, Any]:
    """config.json of a model's folder; empty if it cannot be read, which loading the model will report."""
    try:
        return parse_json((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
