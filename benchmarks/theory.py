"""The numbers and plots of docs/theory.md: the paper's propositions, measured.

    python -m benchmarks.theory                      # some minutes: results/theory.json and results/theory_plots.json
    python -m benchmarks.theory growth               # how gradients grow with the length: results/growth.json
    python -m benchmarks.theory bounds               # of results/theory.json only the bounds' slack, anew
    python -m benchmarks.theory --quick --out DIR    # small sizes, to see that it runs

``make docs`` then writes the tables of the page, and draws the plots.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from benchmarks import growth
from unicornn import UnICORNN, theory
from unicornn._files import write_json
from unicornn.lab._environment import environment
from unicornn.theory import plots

STACKS = ((1, 0), (2, 0), (3, 0), (5, 2), (7, 0), (7, 2), (7, 3))


def network(L: int, S: int, dt: float, m: int = 3) -> UnICORNN:
    """The same for every Δt, with weights of order one."""
    torch.manual_seed(0)
    layer = UnICORNN(2, m, L, dt=dt, skip_layers=S, dtype=torch.float64)
    for matrix in (*layer.V, *(Λ for Λ in layer.Lambda if Λ is not None)):
        nn.init.uniform_(matrix, -1, 1)
    return layer


def start(L: int, m: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    y, z = torch.randn(2, L, 1, m, generator=generator, dtype=torch.float64)
    return y, z


def signal(t: Tensor) -> Tensor:
    """(N, 1, 2)."""
    return torch.stack([torch.sin(3 * t + 1), torch.cos(2 * t)], -1)[:, None].double()


def order(f: Callable[..., Tensor], L: int, S: int, regime: str, dts: tuple[float, ...]) -> float:
    """The power of Δt in f at k = 0.3 n: with t_n = 1 kept ("time"), or n = 12 kept ("steps")."""
    sizes = []
    for dt in dts:
        n = round(1 / dt) if regime == "time" else 12
        t = dt * torch.arange(1, n + 1) if regime == "time" else torch.full((n,), 0.4)
        sizes.append(float(f(network(L, S, dt), signal(t), 0.7, start(L))[int(0.3 * n)].norm()))
    x, y = torch.tensor([dts, sizes], dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def orders(dts: tuple[float, ...]) -> list[dict[str, Any]]:
    def error(*arguments: Any) -> Tensor:
        return theory.representation(*arguments, since_k=True) - theory.one_way(*arguments)

    rows = []
    for L, S in STACKS:
        rows.append(
            {
                "L": L,
                "S": S,
                "paper": theory.papers_exponent(L, S),
                "layers on the shortest way": theory.layers_on_the_shortest_way(L, S),
                "one way, given time": order(theory.one_way, L, S, "time", dts),
                "all ways, given time": order(theory.contributions, L, S, "time", dts),
                "all ways, given steps": order(theory.contributions, L, S, "steps", dts),
                "error of the formula, given time": order(error, L, S, "time", dts),
                "error of the formula, given steps": order(error, L, S, "steps", dts),
            }
        )
    return rows


def slack(networks: int) -> dict[str, dict[str, float]]:
    """How many times the bounds are what they bound, over random networks where the proofs hold."""
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(networks):
        torch.manual_seed(seed)
        dt, alpha = 10 ** float(torch.empty(1).uniform_(-4, -1.3)), float(torch.empty(1).uniform_(0.1, 3))
        layer = UnICORNN(2, 5, 1 + seed % 3, dt=dt, alpha=alpha, dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = theory.bounds(layer, 1)
            N = min(found.steps, found.gradient_steps or found.steps, 2000)
            target = torch.randn(N, 1, 5, dtype=torch.float64)
            limits = theory.bounds(layer, N, float(target.abs().max()))
        u = torch.randn(N, 1, 2, dtype=torch.float64)
        run = theory.orbits(layer, u)
        for letter, bound in itertools.product("yz", ("", "_always")):
            seen = torch.stack([getattr(o, letter)[1:].abs().amax((1, 2)) for o in run]).amax(0)
            name = f"{letter}, at any length" if bound else f"{letter}, Suppl. Eq. (7)"
            ratios[name].append(float((getattr(limits, letter + bound) / seen).min()))
        loss = (layer(u)[0] - target).square().sum() / 2 / N
        largest = max(float(g.abs().max()) for g in torch.autograd.grad(loss, list(layer.parameters())))
        if layer.num_layers == 1:
            ratios["gradient, Eq. (12), one layer"].append(limits.gradient / largest)
        ratios["gradient, at any length and depth"].append(limits.gradient_always / largest)
    return {k: {"least": min(v), "median": sorted(v)[len(v) // 2]} for k, v in ratios.items()}


def trained(steps: int, N: int = 200, b: int = 64) -> tuple[UnICORNN, theory.WeightNorms, float]:
    """A layer that learned to tell digits, eight rows and then noise, its weights' norms, and its training accuracy."""
    torch.manual_seed(0)
    images, labels = (torch.as_tensor(t) for t in load_digits(return_X_y=True))
    x = images.float().view(-1, 8, 8)
    layer, readout = UnICORNN(8, 32, 3, dt=0.25, alpha=13.0, gradient="stored"), nn.Linear(32, 10)
    parameters = [*layer.parameters(), *readout.parameters()]
    optimiser = torch.optim.Adam(parameters, 1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    norms, correct = theory.WeightNorms(layer), []
    for step in range(steps):
        chosen = torch.randint(len(x), (b,))
        u = torch.cat([x[chosen].transpose(0, 1), 16 * torch.rand(N - 8, b, 8)])
        logits = readout(layer(u, output="last")[0])
        optimiser.zero_grad()
        nn.functional.cross_entropy(logits, labels[chosen]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        correct.append((logits.argmax(1) == labels[chosen]).float().mean().item())
        if step % 10 == 0:
            norms(step)
    last = correct[-20:]
    return layer, norms, sum(last) / len(last)


def baselines() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {
        "UnICORNN, 2 layers": UnICORNN(2, 32, 2),
        "UnICORNN, 5 layers, S=2": UnICORNN(2, 32, 5, skip_layers=2),
        "LSTM": nn.LSTM(2, 32),
        "GRU": nn.GRU(2, 32),
        "RNN": nn.RNN(2, 32),
    }


def driven() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    nets: dict[str, nn.Module] = {
        "UnICORNN": UnICORNN(2, 32, 2),
        "LSTM": nn.LSTM(2, 32),
        "LSTM, large weights": nn.LSTM(2, 32),
    }
    for p in nets["LSTM, large weights"].parameters():
        nn.init.normal_(p, std=2.0)
    return nets


def measure(quick: bool) -> tuple[dict[str, Any], dict[str, plots.Plot]]:
    """The numbers, and the plots."""
    result: dict[str, Any] = {}
    drawn: dict[str, plots.Plot] = {}

    def say(what: str) -> None:
        print(what, "…", file=sys.stderr, flush=True)

    N = 2000 if quick else 1_000_000
    say(f"energy over {N:,} steps")
    layer, constant = network(1, 0, 0.01, m=4), torch.ones(N, 1, 2, dtype=torch.float64)
    drawn["energy"] = plots.energy(layer, constant, start(1, 4))
    (orbit,) = theory.orbits(layer, constant, start(1, 4))
    H = theory.energy(orbit).sum((1, 2))
    other = theory.energy(theory.explicit_euler(orbit)).sum((1, 2))
    result["energy"] = {
        "steps": N,
        "spread, first 10,000 steps": float((H[:10_000].max() - H[:10_000].min()) / H[0].abs()),
        "spread, last 10,000 steps": float((H[-10_000:].max() - H[-10_000:].min()) / H[0].abs()),
        "growth by explicit Euler": float(other[-1] / other[0]),
    }
    say("volume, gradients' energy, bounds")
    short = signal(torch.linspace(0, 20, 400 if quick else 4000))
    J = theory.jacobian(network(3, 0, 0.05), short)
    result["determinant"] = float((torch.linalg.det(J) - 1).abs().max())
    drawn["volume"] = plots.volume(network(1, 0, 0.05), short, start(1))
    drawn["gradient_energy"] = plots.gradient_energy(network(2, 0, 0.05), short)
    limited = network(2, 0, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn["bounds"] = plots.bounds(limited, signal(torch.linspace(0, 1, 400)))
    result["slack"] = slack(6 if quick else 300)
    say("contributions")
    drawn["contributions"] = plots.contributions(network(3, 0, 0.01), signal(torch.linspace(0, 3, 300)), 0.7, start(3))
    result["orders"] = orders((0.05, 0.025) if quick else (2e-3, 1e-3, 5e-4))
    say("gradient profiles")
    u = torch.randn(300 if quick else 10_000, 1, 2, generator=torch.Generator().manual_seed(1))
    drawn["profile"] = plots.profile(baselines(), u)
    profiles = {name: theory.gradient_profile(net, u) for name, net in baselines().items()}
    result["profile"] = {name: float(p[:100].mean() / p[-100:].mean()) for name, p in profiles.items()}
    say("Lyapunov exponents")
    drawn["lyapunov"] = plots.lyapunov(driven(), 0.1 * u)
    result["lyapunov"] = {name: theory.lyapunov_exponent(net, 0.1 * u).exponent for name, net in driven().items()}
    say("reconstruction in float32")
    torch.manual_seed(0)
    worms = UnICORNN(6, 8, 2, dt=3.43e-2, alpha=0.0)
    for w in worms.w:
        nn.init.uniform_(w, 0, 3)
    walk = torch.randn(300 if quick else 18_000, 1, 6, generator=torch.Generator().manual_seed(2)).cumsum(0) * 0.05
    lengths = [100, 300] if quick else [1000, 2000, 5000, 10_000, 18_000]
    drawn["reconstruction"] = plots.reconstruction(worms, walk, lengths)
    results = {N: theory.reconstruction_error(worms, walk[:N]) for N in (lengths[0], lengths[-1])}
    result["reconstruction"] = {
        str(N): {"size": float(r.size.max()), "plain": float(r.plain.max()), "exact": float(r.exact.max()),
                 "gradient": max(r.gradients.values())}
        for N, r in results.items()
    }  # fmt: skip
    say("time steps and weights of a trained layer")
    layer, norms, accuracy = trained(20 if quick else 800)
    spread = layer.time_steps().detach()
    result["trained"] = {
        "accuracy on the last 20 batches": accuracy,
        "time steps, from and to": [float(spread.min()), float(spread.max())],
        "weight norms": norms.norms[-1].tolist(),
    }
    drawn["time_steps"] = plots.time_steps(layer)
    drawn["weight_norms"] = plots.weight_norms(norms)
    return result, drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; needs --out")
    parser.add_argument("--out", type=Path, help="folder of the JSON files (results/)")
    parser.add_argument("what", nargs="?", default="theory", choices=("theory", "growth", "bounds"))
    options = parser.parse_args()
    if options.quick and not options.out:
        parser.error("--quick needs --out DIR")
    if options.what == "bounds":
        path = (options.out or Path("results")) / "theory.json"
        write_json(path, json.loads(path.read_text(encoding="utf-8")) | {"slack": slack(6 if options.quick else 100)})
        return
    begin, folder = time.perf_counter(), options.out or Path("results")
    drawn: dict[str, plots.Plot] = {}
    if options.what == "growth":
        found = growth.measure(options.quick)
    else:
        found, drawn = measure(options.quick)
    result = {
        "command": f"python -m benchmarks.theory {options.what}" + (" --quick" if options.quick else ""),
        "seed": "0, 1, 2, 3, 5, 7 where drawn",
        "protocol": "float64 but for profile, Lyapunov inputs, reconstruction, training, suggestions",
        **environment(),
        **found,
        "seconds": round(time.perf_counter() - begin),
    }
    write_json(folder / f"{options.what}.json", result)
    if drawn:
        write_json(folder / "theory_plots.json", {name: dataclasses.asdict(plot) for name, plot in drawn.items()})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
