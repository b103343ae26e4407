"""``unicornn fit``, ``predict`` and ``features``: from a file to a model, and from a model and a file to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unicornn.errors import BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, load
from unicornn.lab.fit._data import Data


def fit_file(data: Data, out: Path, **options: Any) -> Any:
    """Fits a classifier, or a regressor where the target is a quantity, and saves it to a folder.

    Args:
        data: what ``read`` returned, with a target.
        out: the folder of the model.
        options: of the estimator.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from unicornn.lab.fit import fit_file, read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.npz"
        ...     np.savez(path, X=np.eye(6), y=["a", "b"] * 3)
        ...     fit_file(read(path, "y"), Path(folder) / "model", random_state=0)
        UnICORNNClassifier(random_state=0)
    """
    if data.target is None:
        raise BadValue("--target: expected the name of what is to be predicted, got none")
    if any(np.isnan(x).any() for x in data.series):
        options.setdefault("missing", "mask")
    estimator = (UnICORNNRegressor if data.regression else UnICORNNClassifier)(**options)
    estimator.fit(data.series, data.target)
    estimator.channel_names_ = data.channels
    estimator.save_pretrained(out)
    return estimator


def predict_file(model: Path, data: Data) -> pd.DataFrame:
    """A row for each series: its name, the prediction, and the probabilities of the classes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from unicornn.lab.fit import fit_file, predict_file, read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path, model = Path(folder) / "a.npz", Path(folder) / "model"
        ...     np.savez(path, X=np.eye(6), y=[0, 1] * 3)
        ...     _ = fit_file(read(path, "y"), model, random_state=0)
        ...     table = predict_file(model, read(path))
        >>> list(table.columns[:2])
        ['series', 'prediction']
    """
    estimator = _model(model, data)
    table = pd.DataFrame({"series": data.ids, "prediction": estimator.predict(data.series)})
    if isinstance(estimator, UnICORNNClassifier):
        for name, column in zip(estimator.classes_, estimator.predict_proba(data.series).T, strict=True):
            table[f"p({name})"] = column
    return table


def features_file(model: Path, data: Data) -> pd.DataFrame:
    """A row for each series: its name and its features.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from unicornn.lab.fit import features_file, fit_file, read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path, model = Path(folder) / "a.npz", Path(folder) / "model"
        ...     np.savez(path, X=np.eye(6), y=[0, 1] * 3)
        ...     _ = fit_file(read(path, "y"), model, random_state=0)
        ...     table = features_file(model, read(path))
        >>> list(table.columns[:2])
        ['series', 'w6_level_y0_mean']
    """
    estimator = _model(model, data)
    features = pd.DataFrame(estimator.transform(data.series), columns=estimator.get_feature_names_out())
    return pd.concat([pd.Series(data.ids, name="series"), features], axis=1)


def _model(folder: Path, data: Data) -> Any:
    estimator = load(folder)
    if estimator.channel_names_ is not None:
        data.check_channels(estimator.channel_names_)
    return estimator
