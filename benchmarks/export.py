"""Cost and accuracy of ONNX files: ``python -m benchmarks.export`` writes results/export.json.

Errors after 2,000 steps of noise with states in float32 and in float64, for settings of the paper's tasks; the time
per step of a sequence and of a step model, compared with the layer, on one thread; and for the test series of ten
datasets the difference between the probabilities of a bank's file and of the bank, next to what one rounding error of
the series does to the bank's, with CPU times for one series and a batch of 100 of the same length.

Needs a folder with NAME_TRAIN and NAME_TEST as .ts or .tsv files (UCR, UEA).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from benchmarks.series import read_split
from unicornn import UnICORNN, export
from unicornn._ops import reference
from unicornn.estimators import UnICORNNClassifier
from unicornn.lab.bench._measure import seconds_per_call

STEPS, SERIES, BATCH = 2000, 200, 100
BANKS = (
    "ECG200", "CBF", "Plane", "ToeSegmentation2", "Computers",
    "Libras", "JapaneseVowels", "NATOPS", "BasicMotions", "Epilepsy",
)  # fmt: skip
SETTINGS = {"default": (0.1, 1.0), "psMNIST": (0.482, 12.53), "EigenWorms, layer 2": (0.0343, 0.0)}


@torch.no_grad()
def error(layer: UnICORNN, u: torch.Tensor, dtype: torch.dtype) -> float:
    """The largest difference between the layer's outputs and Eq. (6) with the state in ``dtype``."""
    h = u
    for l in range(layer.num_layers):
        x = h @ layer.V[l].t() + layer.b[l]
        a = (layer.dt[l] * torch.sigmoid(layer.c[l].double())).to(dtype)
        y = z = torch.zeros(u.shape[1], layer.hidden_size, dtype=dtype)
        outputs = []
        for x_n in x:
            y, z = reference.step(torch.tanh(layer.w[l] * y + x_n), y, z, a, layer.alpha)
            outputs.append(y.float())
        h = torch.stack(outputs)
    return float((h - layer(u)[0]).abs().max())


def one_thread(path: Path) -> Any:
    """The session of a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def microseconds(job: Callable[[], Any]) -> float:
    """Median time of a job of 2,000 steps, per step."""
    job()
    return 1e6 * median(seconds_per_call(job) for _ in range(5)) / STEPS


def bank(name: str, folder: Path, path: Path) -> dict[str, Any]:
    """Agreement and speed of a bank's file on up to 200 test series of a dataset."""
    split = read_split(folder, name)
    model = UnICORNNClassifier(random_state=0, n_jobs=1).fit(split.X, split.y)
    start = time.process_time()
    export.onnx(model, path)
    seconds = time.process_time() - start
    session = one_thread(path)
    X = split.X_test[:SERIES]
    wanted = model.predict_proba(X)
    got = np.concatenate([session.run(None, {"u": x[:, None].astype(np.float32)})[0] for x in X])
    changed = model.predict_proba([x * (1 + 2.0**-23) for x in X])
    error, rounding = (np.abs(each - wanted).max(1) for each in (got, changed))
    batch = list(islice((x for _ in range(BATCH) for x in X if len(x) == len(X[0])), BATCH))
    result = {
        "dataset": name, "n": len(X), "N": max(map(len, X)), "d": X[0].shape[1],
        "within": float((error <= 1e-4).mean()), "largest": float(error.max()), "rounding": float(rounding.max()),
        "MiB": path.stat().st_size / 2**20,
        "same class": float((got.argmax(1) == wanted.argmax(1)).mean()), "export seconds": seconds,
    }  # fmt: skip
    for size, some in (("one", batch[:1]), ("batch", batch)):
        u = np.stack(some, 1).astype(np.float32)
        result[f"{size} onnxruntime"] = cpu_milliseconds(lambda u=u: session.run(None, {"u": u}))
        result[f"{size} unicornn"] = cpu_milliseconds(lambda some=some: model.predict_proba(some))
    print(result, flush=True)
    return result


def cpu_milliseconds(job: Callable[[], Any]) -> float:
    """Median CPU time of five calls, after one call."""
    times = []
    for _ in range(6):
        start = time.process_time()
        job()
        times.append(1000 * (time.process_time() - start))
    return median(times[1:])


def main(data: record.Data, out: Path = record.RESULTS / "export.json") -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    exact = []
    for name, (dt, alpha) in SETTINGS.items():
        layer, u = UnICORNN(3, 64, 2, dt=dt, alpha=alpha).eval(), torch.randn(STEPS, 4, 3)
        errors = {str(dtype).removeprefix("torch."): error(layer, u, dtype) for dtype in (torch.float32, torch.float64)}
        exact.append({"setting": name, "dt": dt, "alpha": alpha, **errors})
    layer, u = UnICORNN(2, 128, 3).eval(), torch.randn(STEPS, 1, 2)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        sequence = one_thread(export.onnx(layer, folder + "/a.onnx"))
        step = one_thread(export.onnx(layer, folder + "/b.onnx", "step"))
        whole = {"u": u.numpy(), "lengths": torch.tensor([STEPS]).numpy()}
        zero = torch.zeros(3, 1, 128, dtype=torch.float64).numpy()
        one = {"u": u[0].numpy(), "y": zero, "z": zero}
        state = layer.step(u[0])[1]
        times = [
            {"model": "sequence", "onnxruntime": microseconds(lambda: sequence.run(None, whole)),
             "unicornn": microseconds(lambda: layer(u, output="last"))},
            {"model": "step", "onnxruntime": microseconds(lambda: [step.run(None, one) for _ in range(STEPS)]),
             "unicornn": microseconds(lambda: [layer.step(u[0], state) for _ in range(STEPS)])},
        ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        banks = [bank(name, data, Path(folder) / "bank.onnx") for name in BANKS]
    sizes = "b=1, d=2, m=128, L=3"
    record.save_results(
        out, "export", {"steps": STEPS, "errors": exact, "sizes": sizes, "microseconds": times, "banks": banks}
    )


if __name__ == "__main__":
    typer.run(main)
