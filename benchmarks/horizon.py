"""The cost of ``horizon``: ``python -m benchmarks.horizon`` writes results/horizon.json.

Training steps with a horizon of 1,000 steps, in alternation with steps without one; the median of the rounds' ratios.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import WARM_UP, ratio, rounds, training_step

ROOT = Path(__file__).parent.parent
HORIZON = 1000
SETTINGS = ((17_984, 8, 6, 32, 2), (1000, 128, 128, 128, 2), (100_000, 1, 1, 48, 3))  # N, b, d, m, L
RATIO_SECONDS = 20.0  # time limit for one ratio


def cost(N: int, b: int, d: int, m: int, L: int, gradient: str) -> dict[str, float]:
    """Milliseconds of a training step with and without a horizon, and their ratio."""
    torch.manual_seed(0)
    u = torch.randn(N, b, d)
    layers = [UnICORNN(d, m, L, dt=0.01, gradient=gradient, horizon=horizon) for horizon in (None, HORIZON)]
    for layer in layers:
        training_step(layer, u[:WARM_UP], "last")
    without, with_horizon = (partial(training_step, layer, u, "last") for layer in layers)
    result = ratio(rounds(without, with_horizon, RATIO_SECONDS))
    return {"without": result["ours_ms"], "with": result["ms"], "ratio": result["ratio"], "rounds": result["rounds"]}


def main() -> None:
    torch.set_flush_denormal(True)
    rows = []
    for N, b, d, m, L in SETTINGS:
        for gradient in ("reversible", "stored"):
            name = f"N = {N:,}, b = {b}, d = {d}, m = {m}, L = {L}"
            rows.append({"setting": name, "gradient": gradient, **cost(N, b, d, m, L, gradient)})
            print(rows[-1], flush=True)
    result = {"command": "python -m benchmarks.horizon", "horizon": HORIZON, "milliseconds": rows}
    write_json(ROOT / "results" / "horizon.json", result | environment())


if __name__ == "__main__":
    main()
