"""Cost and accuracy of ONNX files: ``python -m benchmarks.export`` writes results/export.json.

Errors after 2,000 steps of noise with states in float32 and in float64, for settings of the paper's tasks; and the time
per step of a sequence and of a step model, compared with the layer, on one thread.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import typer

from benchmarks import record
from unicornn import UnICORNN, export
from unicornn._ops import reference
from unicornn.lab.bench._measure import seconds_per_call

STEPS = 2000
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


def microseconds(job: Callable[[], Any]) -> float:
    """Median time of a job of 2,000 steps, per step."""
    job()
    return 1e6 * median(seconds_per_call(job) for _ in range(5)) / STEPS


def main(out: Path = record.RESULTS / "export.json") -> None:
    import onnxruntime

    torch.manual_seed(0)
    torch.set_num_threads(1)
    exact = []
    for name, (dt, alpha) in SETTINGS.items():
        layer, u = UnICORNN(3, 64, 2, dt=dt, alpha=alpha).eval(), torch.randn(STEPS, 4, 3)
        errors = {str(dtype).removeprefix("torch."): error(layer, u, dtype) for dtype in (torch.float32, torch.float64)}
        exact.append({"setting": name, "dt": dt, "alpha": alpha, **errors})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    layer, u = UnICORNN(2, 128, 3).eval(), torch.randn(STEPS, 1, 2)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        sequence = onnxruntime.InferenceSession(str(export.onnx(layer, folder + "/a.onnx")), options)
        step = onnxruntime.InferenceSession(str(export.onnx(layer, folder + "/b.onnx", "step")), options)
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
    sizes = "b=1, d=2, m=128, L=3"
    record.save(out, "export", {"steps": STEPS, "errors": exact, "sizes": sizes, "microseconds": times})


if __name__ == "__main__":
    typer.run(main)
