"""``unicornn fit``, ``predict`` and ``features``: from a file to a model, and from a model and a file to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unicornn.errors import BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor, load
from unicornn.estimators._base import Estimator
from unicornn.lab.fit._data import Data

NO_TARGET = "--target: expected the name of what is to be predicted, got none"


def fit_file(data: Data, out: Path, target: str | None = None, **options: Any) -> Any:
    """Fits a classifier, or a regressor where the target is a quantity, and saves it to a folder.

    Args:
        data: what ``read`` returned, with a target.
        out: the folder of the model.
        target: its name, which the model remembers: such a column of another table is not taken for a channel.
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
        raise BadValue(NO_TARGET)
    if _with_gaps(data) is not None:
        options.setdefault("missing", "mask")
    estimator = (UnICORNNRegressor if data.regression else UnICORNNClassifier)(**options)
    estimator.fit(data.series, data.target)
    estimator.channel_names_ = data.channels
    if target is not None:
        estimator.about_["target"] = target
    estimator.save_pretrained(out)
    return estimator


def predict_file(model: Path | Estimator, data: Data) -> pd.DataFrame:
    """A row for each series: its name, the prediction, and the probabilities of the classes; the model may be a folder.

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
    if not isinstance(estimator, UnICORNNClassifier):
        return pd.DataFrame({"series": data.ids, "prediction": estimator.predict(data.series)})
    likely = estimator.predict_proba(data.series)
    columns = {f"p({name})": column for name, column in zip(estimator.classes_, likely.T, strict=True)}
    return pd.DataFrame({"series": data.ids, "prediction": estimator.classes_[likely.argmax(1)], **columns})


def features_file(model: Path | Estimator, data: Data) -> pd.DataFrame:
    """A row for each series: its name and its features; the model may be a folder.

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


def _model(model: Path | Estimator, data: Data) -> Any:
    """The estimator, if it can be asked about these series."""
    estimator = load(model) if isinstance(model, Path) else model
    if estimator.channel_names_ is not None:
        data.check_channels(estimator.channel_names_)
    gap = _with_gaps(data)
    if gap is not None and estimator.missing == "error":
        raise BadValue(
            f"series {gap}: expected no missing values, as in the file that the model was fitted to, got some; "
            "fit it again with --missing mask"
        )
    return estimator


def _with_gaps(data: Data) -> str | None:
    """The name of the first series in which something is missing."""
    return next((name for name, x in zip(data.ids, data.series, strict=True) if np.isnan(x).any()), None)
