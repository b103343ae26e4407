"""Live sequences compared with nn.LSTM: ``python -m benchmarks.streams`` writes results/streams.json.

One thread, d = 2, m = 128, L = 3. Measured are a step of many sequences at once, ``layer.step`` and
``lstm(u[None], state)``, and the number of patients with two channels at 125 Hz that one core follows: from the samples
per second of a ``Stream``, and of an LSTM whose states are in one batch, without keys.

Both take turns, so that they run under the same conditions. Times are the best of all turns, ratios those of the best.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.lab._environment import environment
from unicornn.streams import Stream

ROOT = Path(__file__).parent.parent
D, M, LAYERS, RATE = 2, 128, 3, 125
BATCHES = (1, 2, 4, 8, 9, 16, 64, 256, 1000, 3000, 10_000)
PATIENTS, PORTIONS = 2500, (1, 5, 25)


def turns(jobs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The best time of each job, in seconds. They take turns of a tenth of the time, with warm caches."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(5):
        for name, job in jobs.items():
            end, calls = time.perf_counter() + seconds / 10, 0
            while time.perf_counter() < end or calls < 3:
                calls += 1
                start = time.perf_counter()
                job()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


class Carried:
    """A job that continues from its last state."""

    def __init__(self, step: Callable[[Any], tuple[Any, Any]]) -> None:
        self.step, self.state = step, None

    def __call__(self) -> None:
        _, self.state = self.step(self.state)


@torch.no_grad()
def steps(layer: UnICORNN, lstm: torch.nn.LSTM, batch: int, seconds: float) -> dict[str, Any]:
    u = torch.randn(batch, D)
    jobs = {
        "ours": Carried(lambda state: layer.step(u, state)),
        "LSTM": Carried(lambda state: lstm(u[None], state)),
    }
    best = turns(jobs, seconds)
    return {
        "b": batch,
        "ours, us": best["ours"] * 1e6,
        "LSTM, us": best["LSTM"] * 1e6,
        "ratio": best["LSTM"] / best["ours"],
    }


@torch.no_grad()
def patients(layer: UnICORNN, lstm: torch.nn.LSTM, portion: int, seconds: float) -> dict[str, Any]:
    """Number of patients that a core follows if each push has ``portion`` samples of each."""
    stream, x = Stream(layer), np.random.default_rng(0).standard_normal((PATIENTS, portion, D)).astype(np.float32)
    push = {f"patient {i}": x[i, 0] if portion == 1 else x[i] for i in range(PATIENTS)}
    u = torch.from_numpy(x).transpose(0, 1).contiguous()
    jobs = {"ours": lambda: stream.push(push), "LSTM": Carried(lambda state: lstm(u, state))}
    best = turns(jobs, seconds)
    samples = {name: PATIENTS * portion / took for name, took in best.items()}
    return {
        "samples per push": portion,
        "in the stream": PATIENTS,
        "ours, patients": samples["ours"] / RATE,
        "LSTM, patients": samples["LSTM"] / RATE,
        "ratio": samples["ours"] / samples["LSTM"],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of each measurement")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "streams.json")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer, lstm = UnICORNN(D, M, LAYERS).eval(), torch.nn.LSTM(D, M, LAYERS).eval()
    begin = time.perf_counter()
    result = {
        "steps": [steps(layer, lstm, batch, options.seconds) for batch in BATCHES],
        "patients": [patients(layer, lstm, portion, options.seconds) for portion in PORTIONS],
    }
    about = environment() | {"command": "python -m benchmarks.streams", "seed": 0, "threads": 1}
    protocol = f"d={D}, m={M}, L={LAYERS}, float32, no gradient; the best of {options.seconds:g} s of turns each"
    write_json(options.out, about | {"protocol": protocol, "seconds": time.perf_counter() - begin} | result)


if __name__ == "__main__":
    main()
