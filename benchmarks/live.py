"""Live banks and corrections: ``python -m benchmarks.live`` writes results/live.json. One thread, CPU time.

bank: number of sequences with one channel at 125 Hz that one core follows with a classifier fitted with live=True, from
the time of a push of all sequences; every sequence is at a different point between two answers. The alternative is a
window over the last samples, with a new prediction for every answer.

corrections: 10,000 sequences at 10 Hz, of which random ones get a sample corrected within the last minute. A stream
steps back and forward again; the alternative restores the last snapshot before the sample and replays from there. Both
keep the samples of the last minute, so only the memory beyond them is compared.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from benchmarks import record
from unicornn import UnICORNN
from unicornn.estimators import UnICORNNClassifier
from unicornn.streams import Stream

RATE, KEYS, STEPS, ANSWERS = 125, 200, 1250, (25, 125)
"""Samples per second and sequences of the bank, steps of its training series, and samples between two answers."""
SEQUENCES, MINUTE, CORRECTED, EVERY = 10_000, 600, 200, (10, 100, 600)
"""Sequences, samples in a minute, corrections that are measured, and samples between two snapshots."""


def bank() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, STEPS))
    live = UnICORNNClassifier(live=True, random_state=0).fit(X, np.arange(8) % 2)
    window = Stream(live, window=STEPS, hop=1)
    window.push({0: X[0, :, None]})
    again = min(_seconds(window.push, [{0: X[1, :1, None]}]) for _ in range(5))
    rows = []
    for hop in ANSWERS:
        stream = Stream(live, hop=hop)  # longer than the training series, so that all windows are complete
        stream.push({key: rng.standard_normal((STEPS + key % hop, 1)) for key in range(KEYS)})
        for portion in (1, 5, 25):
            u, pushes = rng.standard_normal((KEYS, portion, 1)), 125 // portion
            push = dict(enumerate(u[:, 0] if portion == 1 else u))
            seconds = min(_seconds(stream.push, [push] * pushes) for _ in range(2)) / pushes
            followed = KEYS * portion / RATE / seconds
            rows.append(
                {"hop": hop, "samples per push": portion, "sequences": followed, "with a window": hop / RATE / again,
                 "KiB": _bytes(stream) / KEYS / 1024}
            )  # fmt: skip
    return rows


def _seconds(job: Callable[[Any], Any], arguments: Sequence[Any]) -> float:
    """CPU time of the calls of ``job`` with each argument."""
    start = time.process_time()
    for each in arguments:
        job(each)
    return time.process_time() - start


def _bytes(stream: Stream) -> float:
    """Bytes of the rows in use, without the history."""
    tables = stream._sequences.tables[1:]
    return sum(array[: len(stream) * lanes].nbytes for table, lanes in tables for array in table.values())


def corrections() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    layer, rng = UnICORNN(2, 64, 2), np.random.default_rng(0)
    u = rng.standard_normal((SEQUENCES, MINUTE, 2)).astype(np.float32)
    ours, other = Stream(layer, history=MINUTE), Stream(layer)
    snapshots: dict[int, deque[Any]] = {every: deque(maxlen=MINUTE // every) for every in EVERY}
    slots = np.arange(SEQUENCES)
    for n in range(0, MINUTE, EVERY[0]):
        for every, kept in snapshots.items():
            if n % every == 0:
                kept.append((n, other._sequences.taken(slots) if n else None))
        push = dict(enumerate(u[:, n : n + EVERY[0]]))
        ours.push(push)
        other.push(push)
    chosen = [(int(key), int(rng.integers(MINUTE))) for key in rng.choice(SEQUENCES, CORRECTED, replace=False)]
    ours.correct(0, 0, u[0, 0])  # compiles
    answers = {}

    def correct(one: tuple[int, int]) -> None:
        key, at = one
        answers[one] = ours.correct(key, at, u[key, at] + 1)

    def replay(one: tuple[int, int], kept: Sequence[Any]) -> None:
        key, at = one
        n, state = max((each for each in kept if each[0] <= at), key=lambda each: each[0])
        if state is None:
            other._sequences.reset(key)
        else:
            row = [{name: array[key : key + 1] for name, array in table.items()} for table in state]
            other._sequences.put_back(np.array([key]), np.ones(1, bool), row)
        samples = u[key, n:].copy()
        samples[at - n] += 1
        assert (other.push({key: samples})[key] == answers[one]).all()

    rows = [{"method": "`Stream.correct`", "ms": 1000 * _seconds(correct, chosen) / CORRECTED, "KiB": 0.0}]
    for every, kept in snapshots.items():
        size = _bytes(other) / SEQUENCES * (MINUTE // every) / 1024
        milliseconds = 1000 * _seconds(partial(replay, kept=kept), chosen) / CORRECTED
        rows.append({"method": f"a snapshot every {every // 10} s", "ms": milliseconds, "KiB": size})
    return rows


def main(out: Path = record.RESULTS / "live.json") -> None:
    torch.set_num_threads(1)
    protocol = (
        f"CPU time; bank: {KEYS} sequences of one channel, live=True, fitted to series of {STEPS} steps; "
        f"corrections: d=2, m=64, L=2, {SEQUENCES:,} sequences of {MINUTE} samples, {CORRECTED} random corrections"
    )
    record.save_results(out, "live", {"seed": 0, "protocol": protocol, "bank": bank(), "corrections": corrections()})


if __name__ == "__main__":
    typer.run(main)
