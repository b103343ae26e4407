"""Fits a model to the data of a file, and applies a model to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics

from unicornn.errors import BadValue
from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators._base import Estimator
from unicornn.lab.fit._data import Data

NO_TARGET = "--target: expected the name of the column or array to predict, got none"


def check_options(options: dict[str, Any]) -> None:
    """Checks the options of an estimator before a file is read; errors name the option."""
    UnICORNNClassifier(**options)._check_settings()


def fit_file(
    data: Data,
    out: Path,
    target: str | None = None,
    *,
    groups: str | None = None,
    classify: bool | None = None,
    **options: Any,
) -> Any:
    """Fits a classifier, or a regressor if the target is a quantity, and saves it to a folder.

    Args:
        data: Result of ``read``, with a target.
        out: Folder of the model.
        target: Name of the target. The model stores it, so that ``predict`` does not use this column as a channel.
        groups: Name of the groups, if the data has some: these are left out of the fit as a whole.
        classify: Whether the target is a class; by default its values decide.
        options: Options of the estimator.

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
    if data.first_with_gaps() is not None:
        options.setdefault("missing", "mask")
    if classify is False and data.target.dtype.kind not in "fiub":
        raise BadValue(f"--regress: expected numbers as targets, got {str(data.target[0])!r:.60}")
    regress = data.regression if classify is None else not classify
    estimator = (UnICORNNRegressor if regress else UnICORNNClassifier)(**options)
    estimator.fit(data.series, data.target, groups=data.groups)
    estimator.channel_names_ = data.channels
    names = {"target": target, "groups": groups}
    estimator.about_ |= {"reading": data.reading} | {name: value for name, value in names.items() if value is not None}
    estimator.save_pretrained(out)
    return estimator


def predict_file(estimator: Estimator, data: Data) -> pd.DataFrame:
    """One row per series: its name, the prediction, and the probabilities of classes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from unicornn.lab.fit import features_file, fit_file, predict_file, read
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.npz"
        ...     np.savez(path, X=np.eye(6), y=[0, 1] * 3)
        ...     model = fit_file(read(path, "y"), Path(folder) / "model", random_state=0)
        ...     predictions, features = predict_file(model, read(path)), features_file(model, read(path))
        >>> list(predictions.columns), list(features.columns[:2])
        (['series', 'prediction', 'p(0)', 'p(1)'], ['series', 'w6_level_y0_mean'])
    """
    check_data(estimator, data)
    if not isinstance(estimator, UnICORNNClassifier):
        return pd.DataFrame({"series": data.ids, "prediction": estimator.predict(data.series)})
    probabilities = estimator.predict_proba(data.series)
    columns = {f"p({name})": column for name, column in zip(estimator.classes_, probabilities.T, strict=True)}
    return pd.DataFrame({"series": data.ids, "prediction": estimator.classes_[probabilities.argmax(1)], **columns})


def score_text(estimator: Estimator, predictions: Sequence[Any], targets: Sequence[Any]) -> str:
    """The score of predictions, as text: accuracy of classes; RMSE and R² of numbers.

    Example:
        >>> from unicornn.estimators import UnICORNNClassifier, UnICORNNRegressor
        >>> from unicornn.lab.fit import score_text
        >>> score_text(UnICORNNClassifier(), ["a", "b"], ["a", "a"])
        'accuracy 0.5 on 2 series with targets'
        >>> score_text(UnICORNNRegressor(), [1.0, 2.0], [1.0, 3.0])
        'RMSE 0.7071, R² 0.5 on 2 series with targets'
    """
    if isinstance(estimator, UnICORNNClassifier):
        right = [p == t or str(p) == str(t) for p, t in zip(predictions, targets, strict=True)]
        score = f"accuracy {np.mean(right):.4g}"
    else:
        rmse, r2 = metrics.root_mean_squared_error(targets, predictions), metrics.r2_score(targets, predictions)
        score = f"RMSE {rmse:.4g}, R² {r2:.4g}"
    return f"{score} on {len(targets):,} series with targets"


def features_file(estimator: Estimator, data: Data) -> pd.DataFrame:
    """One row per series: its name and the model's features.

    Example:
        >>> from unicornn.lab.fit import features_file  # see predict_file
    """
    check_data(estimator, data)
    features = pd.DataFrame(estimator.transform(data.series), columns=estimator.get_feature_names_out())
    return pd.concat([pd.Series(data.ids, name="series"), features], axis=1)


def check_data(estimator: Estimator, data: Data) -> None:
    """Raises an error unless the data has the model's channels and no gaps that it cannot handle."""
    if estimator.channel_names_ is not None:
        data.check_channels(estimator.channel_names_)
    gap = data.first_with_gaps()
    if gap is not None and estimator.missing == "error":
        raise BadValue(
            f"series {gap}: expected no missing values, because the model was fitted to a file without; "
            "fit it again with --missing mask"
        )
