"""Measures the paper's propositions for docs/theory.md.

    python -m benchmarks.theory                      # a few minutes: results/theory.json and results/theory_plots.json
    python -m benchmarks.theory growth               # growth of gradients with the length: results/growth.json
    python -m benchmarks.theory --quick --out DIR    # small sizes, as a smoke test

``make docs`` then fills in the tables of the page and draws the plots.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import typer
from torch import Tensor, nn

from benchmarks import growth, record
from unicornn import UnICORNN, theory
from unicornn._files import write_json
from unicornn.theory import plots

STACKS = ((1, 0), (2, 0), (3, 0), (5, 2), (7, 0), (7, 2), (7, 3))
"""Numbers of layers L and skipped layers S for which the powers of Δt are measured."""


def network(L: int, S: int, dt: float, m: int = 3) -> UnICORNN:
    """Layers with weights of order one, the same for every Δt."""
    torch.manual_seed(0)
    layer = UnICORNN(2, m, L, dt=dt, skip_layers=S, dtype=torch.float64)
    for matrix in (*layer.V, *(Λ for Λ in layer.Lambda if Λ is not None)):
        nn.init.uniform_(matrix, -1, 1)
    return layer


def initial_state(L: int, m: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    y, z = torch.randn(2, L, 1, m, generator=generator, dtype=torch.float64)
    return y, z


def signal(t: Tensor) -> Tensor:
    """Smooth input (N, 1, 2) at the times t (N,)."""
    return torch.stack([torch.sin(3 * t + 1), torch.cos(2 * t)], -1)[:, None].double()


def papers_exponent(L: int, S: int = 0) -> int:
    """Power of Δt according to the paper: Suppl. Eq. (74), 2L - 1; with S, Suppl. Eq. (80), 2ν + 2L - 2νS - 1."""
    if S == 0:
        return 2 * L - 1
    ν = (L - 1) // S
    return 2 * ν + 2 * L - 2 * ν * S - 1


def formula_error(layer: UnICORNN, u: Tensor, target: float, state: Any) -> Tensor:
    """Error of the paper's formula along its path, with t_n - t_{k-1} in place of t_n."""
    remaining = torch.arange(len(u), 0, -1, dtype=torch.float64)[:, None, None] / len(u)
    formula = theory.contributions(layer, u, target, state, "formula")
    return remaining * formula - theory.contributions(layer, u, target, state, "path")


def order(
    f: Callable[..., Tensor] | str, L: int, S: int, regime: str, dts: tuple[float, ...], from_rest: bool = False
) -> float:
    """Power of Δt in f at k = 0.3 n, with t_n = 1 fixed ("time") or n = 12 fixed ("steps").

    f: a function of layer, input, target and state, or a method of ``theory.contributions``.
    """
    sizes = []
    for dt in dts:
        n = round(1 / dt) if regime == "time" else 12
        t = dt * torch.arange(1, n + 1) if regime == "time" else torch.full((n,), 0.4)
        problem = network(L, S, dt), signal(t), 0.7, None if from_rest else initial_state(L)
        result = theory.contributions(*problem, f) if isinstance(f, str) else f(*problem)
        sizes.append(float(result[int(0.3 * n)].norm()))
    x, y = torch.tensor([dts, sizes], dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def orders(dts: tuple[float, ...]) -> list[dict[str, Any]]:
    return [
        {
            "L": L,
            "S": S,
            "paper": papers_exponent(L, S),
            "one way, given time": order("path", L, S, "time", dts),
            "all ways, given time": order("exact", L, S, "time", dts),
            "all ways, given steps": order("exact", L, S, "steps", dts),
            "error of the formula, given steps": order(formula_error, L, S, "steps", dts),
        }
        for L, S in STACKS
    ]


def slack(networks: int) -> dict[str, dict[str, float]]:
    """Ratio of each bound to the largest value it bounds, for random networks where the proofs hold."""
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(networks):
        torch.manual_seed(seed)
        dt, alpha = 10 ** float(torch.empty(1).uniform_(-4, -1.3)), float(torch.empty(1).uniform_(0.1, 3))
        layer = UnICORNN(2, 5, 1 + seed % 3, dt=dt, alpha=alpha, dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reach = theory.bounds(layer, 1)
            N = min(reach.steps, reach.gradient_steps or reach.steps, 2000)
            target = torch.randn(N, 1, 5, dtype=torch.float64)
            limits = theory.bounds(layer, N, float(target.abs().max()))
        u = torch.randn(N, 1, 2, dtype=torch.float64)
        run = theory.orbits(layer, u)
        for letter, bound in itertools.product("yz", ("", "_always")):
            largest = torch.stack([getattr(o, letter)[1:].abs().amax((1, 2)) for o in run]).amax(0)
            name = f"{letter}, at any length" if bound else f"{letter}, Suppl. Eq. (7)"
            ratios[name].append(float((getattr(limits, letter + bound) / largest).min()))
        loss = (layer(u)[0] - target).square().sum() / 2 / N
        gradient = max(float(g.abs().max()) for g in torch.autograd.grad(loss, list(layer.parameters())))
        if layer.num_layers == 1:
            ratios["gradient, Eq. (12), one layer"].append(limits.gradient / gradient)
        ratios["gradient, at any length and depth"].append(limits.gradient_always / gradient)
    return {k: {"least": min(v), "median": sorted(v)[len(v) // 2]} for k, v in ratios.items()}


def modules() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "UnICORNN, 2 layers": UnICORNN(2, 32, 2),
        "UnICORNN, 5 layers, S=2": UnICORNN(2, 32, 5, skip_layers=2),
        "LSTM": nn.LSTM(2, 32),
        "GRU": nn.GRU(2, 32),
        "RNN": nn.RNN(2, 32),
    }


def lyapunov(u: Tensor) -> dict[str, float]:
    torch.manual_seed(0)
    nets = {"UnICORNN": UnICORNN(2, 32, 2), "LSTM": nn.LSTM(2, 32), "LSTM, large weights": nn.LSTM(2, 32)}
    for p in nets["LSTM, large weights"].parameters():
        nn.init.normal_(p, std=2.0)
    return {name: theory.lyapunov_exponent(net, u) for name, net in nets.items()}


def reconstruction(lengths: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Inversion in float32 with EigenWorms' Δt and α, large w and a random walk as input."""
    torch.manual_seed(0)
    layer = UnICORNN(6, 8, 2, dt=3.43e-2, alpha=0.0)
    for w in layer.w:
        nn.init.uniform_(w, 0, 3)
    walk = torch.randn(lengths[-1], 1, 6, generator=torch.Generator().manual_seed(2)).cumsum(0) * 0.05
    results = {N: theory.reconstruction_error(layer, walk[:N]) for N in lengths}
    return {
        str(N): {"size": float(r.size.max()), "plain": float(r.plain.max()), "exact": float(r.exact.max()),
                 "gradient": max(r.gradients.values())}
        for N, r in results.items()
    }  # fmt: skip


def energy(layer: UnICORNN, constant: Tensor) -> dict[str, float]:
    """Variation of H with constant input, and its growth by explicit Euler."""
    (orbit,) = theory.orbits(layer, constant, initial_state(1, 4))
    H, other = (run.energy().sum((1, 2)) for run in (orbit, orbit.explicit_euler()))
    ends = {"first": H[:10_000], "last": H[-10_000:]}
    spread = {f"spread, {end} 10,000 steps": float((h.max() - h.min()) / H[0].abs()) for end, h in ends.items()}
    return {"steps": len(constant), **spread, "growth by explicit Euler": float(other[-1] / other[0])}


def measure(quick: bool) -> tuple[dict[str, Any], dict[str, plots.Plot]]:
    """Numbers and plots by name."""
    layer, constant = network(1, 0, 0.01, m=4), torch.ones(2000 if quick else 1_000_000, 1, 2, dtype=torch.float64)
    u = torch.randn(300 if quick else 10_000, 1, 2, generator=torch.Generator().manual_seed(1))
    J = theory.jacobian(network(3, 0, 0.05), signal(torch.linspace(0, 20, 400 if quick else 4000)))
    smooth = signal(torch.linspace(0, 3, 300))
    profiles = {name: theory.gradient_profile(net, u) for name, net in modules().items()}
    return {
        "energy": energy(layer, constant),
        "determinant": float((torch.linalg.det(J) - 1).abs().max()),
        "slack": slack(6 if quick else 100),
        "orders": orders((0.05, 0.025) if quick else (2e-3, 1e-3, 5e-4)),
        "profile": {name: float(p[:100].mean() / p[-100:].mean()) for name, p in profiles.items()},
        "lyapunov": lyapunov(0.1 * u),
        "reconstruction": reconstruction((100, 300) if quick else (1000, 18_000)),
    }, {
        "energy": plots.energy(layer, constant, initial_state(1, 4)),
        "bounds": plots.bounds(network(2, 0, 1e-3), signal(torch.linspace(0, 1, 400))),
        "contributions": plots.contributions(network(3, 0, 0.01), smooth, 0.7, initial_state(3)),
        "profile": plots.profile(modules(), u),
    }


def main(what: str = typer.Argument("theory"), quick: bool = False, out: Path = record.RESULTS) -> None:
    """Measures WHAT: theory or growth. --quick is a smoke test with small sizes, for another folder --out."""
    begin = time.perf_counter()
    numbers, drawn = {"growth": growth.measure, "theory": measure}[what](quick)
    about = {"seed": "0, 1, 2, 3, 5, 7 where drawn", "seconds": round(time.perf_counter() - begin),
             "protocol": "float64 except for profiles, Lyapunov inputs, reconstruction and suggestions"}  # fmt: skip
    record.save_results(out / f"{what}.json", f"theory {what}" + (" --quick" if quick else ""), about | numbers)
    if drawn:
        plotted = {name: dataclasses.asdict(plot) for name, plot in drawn.items()}
        write_json(out / "theory_plots.json", plotted)
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    typer.run(main)
