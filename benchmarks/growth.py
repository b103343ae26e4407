"""How gradients grow with the length: driven neurons, two layers, the worst input, suggested time steps.

python -m benchmarks.theory growth       # results/growth.json; real signals if UNICORNN_DATA says where they are
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor

from unicornn import UnICORNN, suggest_dt, theory
from unicornn._suggest import NOISE
from unicornn.lab import tasks
from unicornn.theory import plots

STEPS, WEIGHTS, STRENGTHS, ALPHAS = (0.015, 0.05, 0.25), (0.3, 1.0, 3.0), (0.2, 1.0), (0.0, 1.0, 10.0)
PAPER = {"psmnist": 784, "cifar10-noise": 1000, "eigenworms": 17_984, "bidmc-rr": 4000, "bidmc-hr": 4000}
"""Tasks whose settings are the paper's, and N."""


def small_amplitude(a: float, alpha: float, w: float, sigma: float, N: int) -> float:
    """ln of the growth over N steps while w·amplitude < 1, in closed form."""
    return NOISE * w**2 * sigma ** (4 / 3) * a**2 * N ** (4 / 3) / (alpha + w)


def by_shear(a: float, alpha: float, w: float, sigma: float, N: int) -> float:
    """ln of the growth over N steps at any amplitude: ∫ 0.2893 (D ω'²)^(1/3) + w² a Var(s) / (8 ω²) dt, by quadrature.

    The force is averaged over the noise; ω(I) is the frequency against the action, D = σ² a ⟨F²⟩ / ω⁴ the strength with
    which noise turns a phase into an action. The energy is that of a random walk:
    exponentially distributed about σ² a t / 2.
    """
    at, weight = hermegauss(61)
    grid = np.concatenate([[0.0], np.logspace(-4, 4.5, 2000)])

    def force(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return alpha * y + (np.tanh(w * y[:, None] + sigma * at) * weight).sum(1) / weight.sum()

    potential = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (force(grid)[1:] + force(grid)[:-1]) / 2)])
    angle = (np.arange(200) + 0.5) / 200 * np.pi / 2
    energy, action, frequency, spread, direct = [], [], [], [], []
    for A in np.logspace(-3.5, 4, 200):
        y, top = A * np.sin(angle), np.interp(A, grid, potential)
        z = np.sqrt(2 * np.maximum(top - np.interp(y, grid, potential), 1e-300))
        dy = A * np.cos(angle) * np.pi / 400
        period = 4 * (dy / z).sum()
        ω = 2 * np.pi / period
        energy.append(top)
        frequency.append(ω)
        action.append(4 * (z * dy).sum() / (2 * np.pi))
        s = 1 - np.tanh(w * y[:, None] + sigma * at) ** 2
        variance = (s**2 * weight).sum(1) / weight.sum() - ((s * weight).sum(1) / weight.sum()) ** 2
        direct.append(w**2 * a * 4 * (variance * dy / z).sum() / period / (8 * ω**2))
        spread.append(4 * (force(y) ** 2 * dy / z).sum() / period / ω**4)
    shear = np.gradient(np.array(frequency), np.array(action))
    local = 0.2893 * (sigma**2 * a * np.array(spread) * shear**2) ** (1 / 3) + np.array(direct)
    t = a * N * np.linspace(0, 1, 500) ** 3
    quantiles = -np.log1p(-(np.arange(32) + 0.5) / 32)
    mean = np.mean([np.interp(sigma**2 * a / 2 * t * q, energy, local) for q in quantiles], axis=0)
    return float(((mean[1:] + mean[:-1]) / 2 * np.diff(t)).sum())


def exponents(lengths: tuple[int, ...]) -> list[dict[str, float]]:
    """One driven neuron, in float64: all a, w and σ side by side as neurons of one layer, two sequences of noise."""
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
            found = theory.gradient_growth(layer, u).neurons[0, 0].mean(0).tolist()
            rows += [
                {"N": N, "a": a, "w": w, "sigma": s, "alpha": alpha, "ln growth": value,
                 "by shear": by_shear(a, alpha, w, s, N), "small amplitude": small_amplitude(a, alpha, w, s, N)}
                for (a, w, s), value in zip(neurons, found, strict=True)
            ]  # fmt: skip
    return rows


def fits(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """For each α the powers of a, σ and w that fit the longest run's exponents best, where gradients grow by e³⁰."""
    N, found = max(row["N"] for row in rows), []
    for alpha in ALPHAS:
        chosen = [row for row in rows if row["N"] == N and row["alpha"] == alpha and row["ln growth"] > 30]
        if len(chosen) > 4:
            logs = np.log([[math.e, row["a"], row["sigma"], row["w"]] for row in chosen])
            exponent = np.log([row["ln growth"] / N for row in chosen])
            powers, *_ = np.linalg.lstsq(logs, exponent, rcond=None)
            off = float(np.exp(np.abs(logs @ powers - exponent).max()))
            factor, a, sigma, w = (math.exp(powers[0]), *map(float, powers[1:]))
            found.append({"alpha": alpha, "factor": factor, "a": a, "sigma": sigma, "w": w, "off by": off,
                          "neurons": len(chosen)})  # fmt: skip
    return found


def stacked(N: int) -> list[dict[str, float]]:
    """One layer and two against a, w, α and σ, in float64: eight neurons each, all with this a and this w.

    The first layer's neurons are driven by noise of deviation σ; V of the second is Appendix A's.
    """
    centre = {"a": 0.05, "w": 1.0, "alpha": 1.0, "sigma": 1.0}
    lines = {"a": STEPS, "w": WEIGHTS, "alpha": ALPHAS, "sigma": STRENGTHS}
    others = [centre | {name: value} for name, values in lines.items() for value in values if value != centre[name]]
    rows, angle = [], 2 * math.pi * torch.rand(8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    for at in [centre, *others]:
        row = {"N": N} | at
        for L in (1, 2):
            layer = drawn(2, 8, L, dt=1.0, alpha=at["alpha"], dtype=torch.float64)
            with torch.no_grad():
                layer.V[0].copy_(at["sigma"] * torch.stack([angle.cos(), angle.sin()], 1))
                for w, c in zip(layer.w, layer.c, strict=True):
                    w.fill_(at["w"])
                    c.fill_(math.log(at["a"] / (1 - at["a"])))
            row[f"L = {L}"] = theory.gradient_growth(layer, noise(N).double()).growth
        rows.append(row)
    return rows


def noise(N: int, d: int = 2) -> Tensor:
    return torch.randn(N, 1, d, generator=torch.Generator().manual_seed(3))


def described(layer: UnICORNN, u: Tensor) -> dict[str, Any]:
    growth = theory.gradient_growth(layer, u)
    overflow = growth.overflow if math.isfinite(growth.overflow) else None
    return {"N": len(u), "dt": layer.dt, "alpha": layer.alpha, "layers": layer.num_layers, "ln growth": growth.growth,
            "exponent": growth.exponent, "overflow": overflow, "ratio": growth.ratio}  # fmt: skip


def drawn(*arguments: Any, **options: Any) -> UnICORNN:
    torch.manual_seed(0)
    return UnICORNN(*arguments, **options)


def layers(N: int) -> list[dict[str, Any]]:
    """One layer and two in float64, Appendix A's weights, white noise of unit strength."""
    return [
        described(drawn(2, 32, L, dt=dt, alpha=alpha, dtype=torch.float64), noise(N).double())
        for alpha in (1.0, 10.0)
        for dt in (0.03, 0.1, 0.3)
        for L in (1, 2)
    ]


def paper() -> dict[str, dict[str, Any]]:
    """The paper's lengths, time steps and α, its number of layers, white noise of unit strength."""
    found = {}
    for name, N in PAPER.items():
        own = tasks.find(name).models["unicornn"]
        layer = drawn(2, 32, own["num_layers"], dt=own["dt"], alpha=own["alpha"])
        found[name] = described(layer, noise(N)) | {"time": N * max(layer.dt)}
    return found


def worst(a: float, w: float, alpha: float, N: int) -> dict[str, float]:
    """An input made against one neuron: tanh saturated where that feeds the tangent, and not where it drains it."""
    y = z = δy = 0.0
    δz, logarithm = 1.0, 0.0
    for _ in range(N):
        x = 20.0 if δy * δz > 0 else -w * y
        t = math.tanh(w * y + x)
        z -= a * (t + alpha * y)
        y += a * z
        δz -= a * (w * (1 - t * t) + alpha) * δy
        δy += a * δz
        size = math.hypot(δy, δz)
        logarithm += math.log(size)
        δy, δz = δy / size, δz / size
    return {"a": a, "w": w, "alpha": alpha, "measured": logarithm / N, "bound": a * w / (4 * math.sqrt(alpha + w / 2))}


def signals(folder: Path) -> dict[str, Tensor]:
    """Real ones, (N, b, d), standardised: four worms, four PPGs, four bearings, as many steps as the shortest has."""
    found = {}
    for name, unit in (("worms44", 6), ("bearings", 1)):
        path = folder / name / f"{name}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as file:
                values, lengths = file["values"].reshape(-1, unit), file["lengths"]
            begin = np.concatenate([[0], np.cumsum(lengths)])
            chosen = range(0, len(lengths), len(lengths) // 4)
            N = min(int(lengths[i]) for i in chosen)
            pieces = np.stack([values[begin[i] : begin[i] + N] for i in list(chosen)[:4]], 1)
            found[name] = torch.from_numpy((pieces - values.mean(0)) / values.std(0))
    archive = folder / "bidmc" / "bidmc_csv.tar.xz"
    if archive.exists():
        found["PPG"] = _ppg(archive)
    return found


def _ppg(archive: Path) -> Tensor:
    rows = []
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name.endswith("_Signals.csv"):
                text = io.TextIOWrapper(tar.extractfile(member), encoding="utf-8")  # type: ignore[arg-type]
                reader = csv.reader(text)
                column = [name.strip() for name in next(reader)].index("PLETH")
                rows.append([float(row[column]) for row in reader])
            if len(rows) == 4:
                break
    values = torch.tensor([row[: min(map(len, rows))] for row in rows]).T[:, :, None]
    return (values - values.mean()) / values.std()


def speed(N: int) -> dict[str, float]:
    """How long ``gradient_growth`` takes for two layers of 64 neurons and one sequence, in CPU time."""
    layer, u = drawn(2, 64, 2), noise(N)
    theory.gradient_growth(layer, u[:2000])
    begin = time.process_time()
    theory.gradient_growth(layer, u)
    return {"N": N, "CPU seconds": time.process_time() - begin}


def suggested(lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Two layers of 32 neurons with the suggested Δt, drawn from a seed that the suggestion has not seen."""
    rows = []

    def note(name: str, how: str, u: Tensor, dt: float) -> None:
        torch.manual_seed(7)
        rows.append({"input": name, "how": how} | described(UnICORNN(u.shape[2], 32, 2, dt=dt), u))

    for N in lengths:
        u = noise(N)
        note("white noise", "closed form", u, suggest_dt(N))
        note("white noise", "measured", u, suggest_dt(N, input=u))
    folder = os.environ.get("UNICORNN_DATA")
    for name, u in signals(Path(folder)).items() if folder else ():
        note(name, "closed form", u, suggest_dt(len(u)))
        note(name, "measured", u, suggest_dt(len(u), input=u))
    return rows


def measure(quick: bool) -> dict[str, Any]:
    long = 2000 if quick else 1_000_000
    rows = exponents((long,) if quick else (10_000, 100_000, long))
    return {
        "exponents": rows,
        "fits": fits(rows),
        "stacked": stacked(long),
        "layers": layers(long),
        "paper": paper() if not quick else {},
        "worst": [worst(0.05, w, alpha, 20_000) for alpha in ALPHAS for w in WEIGHTS],
        "suggested": suggested((long,) if quick else (10_000, 100_000, 300_000, long)),
        "speed": speed(long),
        "plot": dataclasses.asdict(plots.growth(drawn(2, 32, 2), noise(long))),
    }
