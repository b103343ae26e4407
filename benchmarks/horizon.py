"""What ``horizon`` costs: ``python -m benchmarks.horizon`` writes results/horizon.json.

A step of training with a horizon of 1,000 steps, between two without, at the paper's longest task, at a wide layer and
at one very long sequence; the median of the rounds' own ratios.
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
H = 1000
SETTINGS = {
    "N = 17,984, b = 8, d = 6, m = 32, L = 2": (17_984, 8, 6, 32, 2),
    "N = 1,000, b = 128, d = 128, m = 128, L = 2": (1000, 128, 128, 128, 2),
    "N = 100,000, b = 1, d = 1, m = 48, L = 3": (100_000, 1, 1, 48, 3),
}
LIMIT = 20.0  # seconds for one ratio


def cost(N: int, b: int, d: int, m: int, L: int, gradient: str) -> dict[str, float]:
    """Times in milliseconds, with a horizon and without, and their ratio."""
    torch.manual_seed(0)
    u = torch.randn(N, b, d)
    without, with_horizon = (UnICORNN(d, m, L, dt=0.01, gradient=gradient, horizon=h) for h in (None, H))
    for layer in (without, with_horizon):
        training_step(layer, u[:WARM_UP], "last")
    found = ratio(
        rounds(partial(training_step, without, u, "last"), partial(training_step, with_horizon, u, "last"), LIMIT)
    )
    return {"without": found["ours_ms"], "with": found["ms"], "ratio": found["ratio"], "rounds": found["rounds"]}


def main() -> None:
    torch.set_flush_denormal(True)
    rows = []
    for name, sizes in SETTINGS.items():
        for gradient in ("reversible", "stored"):
            rows.append({"setting": name, "gradient": gradient, **cost(*sizes, gradient)})
            print(rows[-1], flush=True)
    found = {"command": "python -m benchmarks.horizon", "horizon": H, "milliseconds": rows}
    write_json(ROOT / "results" / "horizon.json", found | {**environment(), "threads": torch.get_num_threads()})


if __name__ == "__main__":
    main()
