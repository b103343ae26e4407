"""Growth of gradients with the length: driven neurons, one and two layers, suggested time steps.

python -m benchmarks.theory growth       # results/growth.json; also on real signals if UNICORNN_DATA names their folder
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.series import SAMPLES, _recordings
from unicornn import UnICORNN, suggest_dt, theory
from unicornn._suggest import NOISE
from unicornn.lab import tasks
from unicornn.lab.data import Source
from unicornn.theory import plots

STEPS, WEIGHTS, STRENGTHS, ALPHAS = (0.015, 0.05, 0.25), (0.3, 1.0, 3.0), (0.2, 1.0), (0.0, 1.0, 10.0)
PAPER = {"psmnist": 784, "cifar10-noise": 1000, "eigenworms": 17_984, "bidmc-rr": 4000, "bidmc-hr": 4000}
"""Tasks with the paper's settings, and their lengths N."""


def exponents(lengths: tuple[int, ...]) -> list[dict[str, float]]:
    """Growth for a single driven neuron, in float64: all a, w and σ as neurons of one layer, two sequences of noise."""
    rows = []
    neurons = [(a, w, s) for a in STEPS for w in WEIGHTS for s in STRENGTHS]
    for alpha in ALPHAS:
        layer = UnICORNN(1, len(neurons), dt=1.0, alpha=alpha, dtype=torch.float64)
        a, w, s = torch.tensor(neurons, dtype=torch.float64).T
        with torch.no_grad():
            layer.w[0].copy_(w)
            layer.V[0].copy_(s[:, None])
            layer.c[0].copy_(torch.logit(a))
        for N in lengths:
            u = torch.randn(N, 2, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            growth = theory.gradient_growth(layer, u).neurons[0, 0].mean(0).tolist()
            rows += [
                {"N": N, "a": a, "w": w, "sigma": s, "alpha": alpha, "ln growth": value,
                 "small amplitude": NOISE * w**2 * s ** (4 / 3) * a**2 * N ** (4 / 3) / (alpha + w)}
                for (a, w, s), value in zip(neurons, growth, strict=True)
            ]  # fmt: skip
    return rows


def white_noise(N: int, d: int = 2) -> Tensor:
    return torch.randn(N, 1, d, generator=torch.Generator().manual_seed(3))


def seeded(*arguments: Any, **options: Any) -> UnICORNN:
    torch.manual_seed(0)
    return UnICORNN(*arguments, **options)


def summary(layer: UnICORNN, u: Tensor) -> dict[str, Any]:
    growth = theory.gradient_growth(layer, u)
    overflow = growth.overflow if math.isfinite(growth.overflow) else None
    return {"N": len(u), "dt": layer.dt, "alpha": layer.alpha, "layers": layer.num_layers, "ln growth": growth.growth,
            "exponent": growth.exponent, "overflow": overflow, "ratio": growth.ratio}  # fmt: skip


def layers(N: int) -> list[dict[str, Any]]:
    """One and two layers in float64, Appendix A's weights, white noise of unit strength."""
    return [
        summary(seeded(2, 32, L, dt=dt, alpha=alpha, dtype=torch.float64), white_noise(N).double())
        for alpha in (1.0, 10.0)
        for dt in (0.03, 0.1, 0.3)
        for L in (1, 2)
    ]


def paper() -> dict[str, dict[str, Any]]:
    """The paper's lengths, time steps, α and numbers of layers, white noise of unit strength."""
    result = {}
    for name, N in PAPER.items():
        options = tasks.find(name).models["unicornn"]
        layer = seeded(2, 32, options["num_layers"], dt=options["dt"], alpha=options["alpha"])
        result[name] = summary(layer, white_noise(N)) | {"time": N * max(layer.dt)}
    return result


def signals(folder: Path) -> dict[str, Tensor]:
    """Real signals, (N, 4, d), standardised: four worms, four bearings and four PPGs, as far as they are available."""

    def four(series: Sequence[np.ndarray]) -> Tensor:
        chosen = series[:: len(series) // 4][:4]
        u = torch.from_numpy(np.stack([x[: min(map(len, chosen))] for x in chosen], 1)).float()
        return (u - u.mean((0, 1))) / u.std((0, 1))

    paths = {name: folder / name / f"{name}.npz" for name in ("worms44", "bearings")}
    result = {name: four(_recordings(path)[0]) for name, path in paths.items() if path.exists()}
    if (folder / "bidmc").exists():
        task = tasks.find("bidmc-rr")
        recordings: Any = task.load(Source(folder), task.defaults, 0).train
        result["PPG"] = four(np.split(recordings.base.values[: 4 * SAMPLES, :1], 4))
    return result


def speed(N: int) -> dict[str, float]:
    """CPU time of ``gradient_growth`` for two layers of 64 neurons and one sequence."""
    layer, u = seeded(2, 64, 2), white_noise(N)
    theory.gradient_growth(layer, u[:2000])
    begin = time.process_time()
    theory.gradient_growth(layer, u)
    return {"N": N, "CPU seconds": time.process_time() - begin}


def suggested(lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Two layers of 32 neurons with the suggested Δt and a seed that the suggestion does not use."""
    inputs = [("white noise", white_noise(N)) for N in lengths]
    if folder := os.environ.get("UNICORNN_DATA"):
        inputs += signals(Path(folder)).items()
    rows = []
    for name, u in inputs:
        for how, dt in (("closed form", suggest_dt(len(u))), ("measured", suggest_dt(len(u), input=u))):
            torch.manual_seed(7)
            rows.append({"input": name, "how": how} | summary(UnICORNN(u.shape[2], 32, 2, dt=dt), u))
    return rows


def measure(quick: bool) -> tuple[dict[str, Any], dict[str, plots.Plot]]:
    """Numbers by name, among them the plot, and no separate plots."""
    long = 2000 if quick else 1_000_000
    return {
        "exponents": exponents((long,) if quick else (10_000, 100_000, long)),
        "layers": layers(long),
        "paper": paper() if not quick else {},
        "suggested": suggested((long,) if quick else (10_000, 100_000, 300_000, long)),
        "speed": speed(long),
        "plot": dataclasses.asdict(plots.growth(seeded(2, 32, 2), white_noise(long))),
    }, {}
