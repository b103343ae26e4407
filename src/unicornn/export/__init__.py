"""Models as ONNX files, for programs without PyTorch. Needs the extra ``export``.

There are two kinds of file:

    sequence  u (N, b, d), lengths (b,) → output, and y, z for a layer; for any N and b. One Scan per layer.
              A bank takes u only: all series of a call have the same length.
    step      u (b, d), y, z (L, b, m) → output, y_next, z_next; for any b. The caller keeps the state between calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unicornn import _checks as checks
from unicornn._files import output_path

KINDS = ("sequence", "step")


def onnx(model: Any, path: str | Path, kind: str = "sequence") -> Path:
    """Writes a layer, a network or an estimator to an ONNX file, and compares the file with the model in onnxruntime.

    Args:
        model: A ``UnICORNN``, a network of ``unicornn.models`` with one, or an estimator fitted with model="bank" (the
            default) or model="network". Dropout is disabled in the file.
        path: File to write. It is written completely or not at all.
        kind: "sequence" for whole sequences, or "step" for live use.

    Inputs and outputs of the file, by name:
        sequence: u (N, b, d) and lengths (b,), int64, to output: for a layer (N, b, m), with the final y and z
            (L, b, m) in float64; for a network, what it returns. For text, u is (N, b), int64. Sequences with fewer
            steps than the readout has segments give a meaningless output instead of an error.
        step: u (b, d), y and z (L, b, m) in float64, initially zero, to output, y_next and z_next. For a network with
            ``patch`` = k, u is (b, k·d).
        estimators: u holds series in the units of ``fit``, as float32; standardisation is part of the file. The output
            is the probability of each class, or the predicted numbers. Names are in the metadata, as JSON:
            "unicornn.classes", "unicornn.channels". A bank's file is a sequence without lengths; with missing="mask", u
            may contain NaN.

    Returns: the path.

    Raises ``ExportFailed`` if file and model differ. Networks are compared over 2,000 steps of noise, and may differ by
    1e-5 of the largest output, or ten times what rounding alone does to the model's output; the comparison uses fewer
    steps, with a warning of the logger "unicornn", if that exceeds 1e-4. Banks are compared on random walks, of which
    half may differ by more than 1e-4: an oscillator that is close to a level or to its neighbour decides by rounding.

    Example:
        >>> import tempfile, numpy as np, onnxruntime
        >>> from unicornn import export
        >>> from unicornn.estimators import UnICORNNClassifier
        >>> X = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
        >>> model = UnICORNNClassifier(random_state=0).fit(X, np.arange(20) % 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = onnxruntime.InferenceSession(export.onnx(model, folder + "/bank.onnx"))
        >>> output = session.run(None, {"u": X.T[:, :, None]})[0]
        >>> bool(np.abs(output - model.predict_proba(X)).max() < 1e-3)
        True
    """
    checks.choice("kind", kind, KINDS)
    with output_path(path) as temporary:
        if "bank" in getattr(model, "models_", ()):
            from unicornn.export import _bank

            _bank.write(model, temporary, kind)
        else:
            from unicornn.export import _networks

            _networks.write(model, temporary, kind)
    return Path(path)


__all__ = ["onnx"]
