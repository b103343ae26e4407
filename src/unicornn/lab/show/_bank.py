"""A fitted bank in JavaScript: a script for other pages, and a separate page."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unicornn._files import output_path
from unicornn._fitted import check_fitted, is_estimator
from unicornn._state import UNIT
from unicornn.errors import BadType, BadValue
from unicornn.lab.report import _render
from unicornn.lab.show._page import read_scripts

MARGIN = 1e-3  # added to energies before the logarithm, as in ``_oscillator_kernels``


def write_script(model: Any, path: str | Path) -> Path:
    """Writes a JavaScript file with a classifier: ``bank.predict(series)`` are the probabilities of ``bank.classes``.

    The file needs nothing else, in browsers and in Node, where ``require`` returns the bank.

    Args:
        model: ``UnICORNNClassifier`` fitted with model="bank" (the default), without missing="mask".
        path: File to write. It is written completely or not at all.

    Returns: the path.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from unicornn.estimators import UnICORNNClassifier
        >>> from unicornn.lab.show import write_script
        >>> X = np.random.default_rng(0).normal(size=(20, 30))
        >>> model = UnICORNNClassifier(random_state=0).fit(X, np.arange(20) % 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "const bank" in write_script(model, folder + "/bank.js").read_text()
        True
    """
    data = json.dumps(bank_data(model), allow_nan=False)
    script = f"const bank = (() => {{\n{read_scripts('network.js', 'bank.js')}\nreturn new Bank({data});\n}})();\n"
    with output_path(path) as temporary:  # a function, because other scripts of a page may use the same names
        temporary.write_text(f"{script}if (typeof module !== 'undefined') module.exports = bank;\n", encoding="utf-8")
    return Path(path)


def write_bank_page(
    model: Any, series: Sequence[np.ndarray], names: Sequence[str], targets: Sequence[Any], path: Path, title: str
) -> Path:
    """Writes a page in which a bank classifies series (N, d), as they are or redrawn, with their explanations."""
    data = bank_data(model)
    explanation, answers = model.explain(list(series)), model.predict_proba(list(series))
    samples = []
    for i, x in enumerate(series):
        steps = explanation.steps[i, : len(x)]
        evidence = np.stack([explanation.evidence(steps, k) for k in range(len(model.classes_))])
        samples.append({
            "name": names[i], "u": _base64(x, "<f8"), "length": len(x), "target": targets[i],
            "output": answers[i].tolist(), "evidence": _base64(evidence, "<f4"),
        })  # fmt: skip
    layers, d = len(data["views"]), model.n_channels_
    subtitle = (
        f"{layers} layers of untrained oscillators over windows of {model._bank.windows_[0]} to "
        f"{model._bank.windows_[-1]} steps, driven by {d} channel{'s' if d > 1 else ''}; {len(data['classes'])} classes"
    )
    return _render.write_page(
        Path(path), "bank.html", title=title, subtitle=subtitle, data={"bank": data, "samples": samples},
        script=read_scripts("network.js", "bank.js", "canvas.js", "bank_page.js"),
    )  # fmt: skip


def bank_data(model: Any) -> dict[str, Any]:
    """The classifier as bank.js takes it."""
    if not is_estimator(model) or not hasattr(model, "predict_proba"):
        raise BadType(f"model: expected a UnICORNNClassifier, got {type(model).__name__}")
    check_fitted(model)
    if model.models_ != ("bank",):
        raise BadValue(f"model: expected a classifier fitted with model='bank', got {model.model!r}")
    if model.missing != "error":
        raise BadValue(f"model: expected missing='error' for JavaScript, got {model.missing!r}")
    from unicornn.estimators._ridge import CLIP  # imports scikit-learn

    bank, ridge = model._bank, model._ridge
    return {
        "classes": [str(each) for each in model.classes_],
        "own_scale": model.scale_ == "series",
        "mean": bank._scaling.mean.tolist(),
        "deviation": bank._scaling.deviation.tolist(),
        "views": [_view_data(layer) for layer in bank._layers],
        "statistics": list(bank._summary_names),
        "centre": _base64(ridge.mean, "<f8"),
        "scale": _base64(1 / ridge.deviation, "<f8"),
        "coefficients": _base64(ridge.coefficients, "<f4"),
        "intercept": ridge.intercept.tolist(),
        "clip": CLIP,
        "temperature": model._temperature,
        "doubt": model._doubt,
    }


def _view_data(layer: Any) -> dict[str, Any]:
    """A view of the series, and its oscillators as ``Layers`` of network.js takes them."""
    from unicornn.estimators._oscillators import ALPHA, FASTEST

    a = (2 * FASTEST * torch.sigmoid(layer.c.double())).float()
    own = {name: _base64(getattr(layer, name), "<f4") for name in ("w", "V", "b")}
    *levels, middle, unit = (_base64(row, "<f4") for row in layer.all_levels)
    return {
        **layer.view._asdict(),
        "deviation": layer.deviation.tolist(),
        "layers": [{**own, "a": a.tolist(), "Lambda": None}],
        "alpha": ALPHA,
        "unit": UNIT[torch.float32],
        "phases": layer.n_phases > 0,
        "margin": MARGIN,
        "levels": levels,
        "middle": middle,
        "units": unit,
        "competes": layer.competes,
    }


def _base64(values: Any, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()
