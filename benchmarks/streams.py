"""Live sequences compared with nn.LSTM: ``python -m benchmarks.streams`` writes results/streams.json.

One thread, d = 2, m = 128, L = 3. Measured are a step of many sequences at once, ``layer.step`` and
``lstm(u[None], state)``, and the number of patients with two channels at 125 Hz that one core follows: from the samples
per second of a ``Stream``, and of an LSTM whose states are in one batch, without keys.

Both take turns, so that they run under the same conditions. Times are the best of all turns, ratios those of the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from unicornn import UnICORNN
from unicornn.streams import Stream

D, M, LAYERS, RATE = 2, 128, 3, 125
BATCHES = (1, 2, 4, 8, 9, 16, 64, 256, 1000, 3000, 10_000)
PATIENTS, PORTIONS = 2500, (1, 5, 25)
Job = Callable[[Any], tuple[Any, Any]]  # from a state to an answer and the next state


def best_times(ours: Job, lstm: Job, seconds: float) -> tuple[float, float]:
    """The best time of each job, in seconds. They take turns of a tenth of the time, with warm caches."""
    best, states, jobs = [float("inf")] * 2, [None] * 2, (ours, lstm)
    for turn in range(10):
        end, calls = time.perf_counter() + seconds / 10, 0
        while time.perf_counter() < end or calls < 3:
            start, i, calls = time.perf_counter(), turn % 2, calls + 1
            _, states[i] = jobs[i](states[i])
            best[i] = min(best[i], time.perf_counter() - start)
    return best[0], best[1]


def steps(layer: UnICORNN, lstm: torch.nn.LSTM, batch: int, seconds: float) -> dict[str, Any]:
    u = torch.randn(batch, D)
    ours, theirs = best_times(lambda state: layer.step(u, state), lambda state: lstm(u[None], state), seconds)
    return {"b": batch, "ours, us": ours * 1e6, "LSTM, us": theirs * 1e6, "ratio": theirs / ours}


def patients(layer: UnICORNN, lstm: torch.nn.LSTM, portion: int, seconds: float) -> dict[str, Any]:
    """Number of patients that a core follows if each push has ``portion`` samples of each."""
    stream, x = Stream(layer), np.random.default_rng(0).standard_normal((PATIENTS, portion, D)).astype(np.float32)
    push = {f"patient {i}": x[i, 0] if portion == 1 else x[i] for i in range(PATIENTS)}
    u = torch.from_numpy(x).transpose(0, 1).contiguous()
    ours, theirs = best_times(lambda _: (stream.push(push), None), lambda state: lstm(u, state), seconds)
    most = PATIENTS * portion / RATE
    return {"samples per push": portion, "in the stream": PATIENTS, "ours, patients": most / ours,
            "LSTM, patients": most / theirs, "ratio": theirs / ours}  # fmt: skip


def main(seconds: float = 3.0, out: Path = record.RESULTS / "streams.json") -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer, lstm = UnICORNN(D, M, LAYERS).eval(), torch.nn.LSTM(D, M, LAYERS).eval()
    protocol = f"d={D}, m={M}, L={LAYERS}, float32, no gradient; the best of {seconds:g} s of turns each"
    with torch.no_grad():
        result = {
            "steps": [steps(layer, lstm, batch, seconds) for batch in BATCHES],
            "patients": [patients(layer, lstm, portion, seconds) for portion in PORTIONS],
        }
    record.save_results(out, "streams", {"seed": 0, "protocol": protocol} | result)


if __name__ == "__main__":
    typer.run(main)
