"""Collects what networks with frames learned from raw signals, for docs/signals.md.

    unicornn train speech --out runs/speech
    python -m benchmarks.signals runs/speech [RUN ...]      # results/signals.json; needs the data, --data DIR

Networks of the task speech are also tested at half the sampling rate without training: ``Frames.resample``. The
spectrogram is what the first speech network sees of the first test recording.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
import typer

from benchmarks import record
from unicornn.frames import Frames
from unicornn.lab._run_folder import Run
from unicornn.lab.data import Source
from unicornn.lab.tasks._checked import load_checked
from unicornn.lab.training import load_network
from unicornn.lab.training._evaluate import config_of, evaluate_split, task_of
from unicornn.models import free_parameters


def run_row(run: Run) -> dict[str, Any]:
    """Result, sizes and learning curve of a run."""
    config, network = run.config, load_network(run)
    front = sum(free_parameters(layer) for level in network.frames for layer in level.layers)  # type: ignore[union-attr]
    keys = ("task", "variant", "model", "seed", "metric", "parameters", "command")
    names = ("valid", "test", "seconds", "epochs", "best_epoch")
    row = {key: config[key] for key in keys} | {name: run.result[name] for name in names}
    row["command"] = re.sub(r" --(out|data) \S+", "", row["command"])
    settings = {"options": config["task_options"], "settings": config["model_options"]}
    curve = {"valid_curve": run.metrics["valid"].round(4).tolist()}
    return row | {"front_end_parameters": front} | settings | curve


def half_rate(run: Run, source: Source) -> dict[str, float]:
    """Accuracies at half the sampling rate of a network trained at the full one."""
    task, network = task_of(run), load_network(run)
    config = config_of(run, task)
    level = network.frames[0]  # further levels see as many frames as before
    assert isinstance(level, Frames)
    level.resample(0.5)
    splits = load_checked(task, source, {**config.task_options, "rate": 8000}, config.seed, ("valid", "test"))
    return {name: evaluate_split(network, task, config, splits, name)[0] for name in ("valid", "test")}


def spectrogram(run: Run, source: Source) -> dict[str, Any]:
    """Standardised log energies (frames, oscillators) of the shortest frames, and each oscillator's frequency."""
    task, network = task_of(run), load_network(run)
    config = config_of(run, task)
    test = load_checked(task, source, config.task_options, config.seed, ("test",)).test
    batch, level = test.batch(torch.arange(1), -1), network.frames[0]
    assert isinstance(level, Frames)
    layer: Any = level.layers[0]
    with torch.no_grad():
        angle = 2 * torch.asin(
            (layer.time_steps()[0] * (layer.alpha + layer.w[0]).clamp(min=0).sqrt() / 2).clamp(max=1)
        )
        energies = level(batch.u)[0][:, 0, : layer.hidden_size]
    hertz = angle * config.task_options["rate"] / (2 * torch.pi)
    order = hertz.argsort()
    return {
        "hop_seconds": level.hop / config.task_options["rate"],
        "hertz": hertz[order].round().tolist(),
        "energies": [[round(e, 2) for e in row] for row in energies[:, order].tolist()],
        "waveform": [round(v, 3) for v in batch.u[::20, 0, 0].tolist()],
    }


def whole_recordings(run: Run, source: Source) -> dict[str, int]:
    """How many recordings of the test load are classified correctly by the mean of their windows' log-probabilities."""
    task, network = task_of(run), load_network(run)
    config = config_of(run, task)
    test: Any = load_checked(task, source, config.task_options, config.seed, ("test",)).test
    batch = test.batch(torch.arange(len(test)), -1)
    with torch.no_grad():
        scores = network(batch.u).log_softmax(1)
    first = torch.from_numpy(test.begin + test.lengths)  # a recording begins where no window ends
    recording = torch.cat([torch.zeros(1), (torch.from_numpy(test.begin)[1:] != first[:-1]).cumsum(0)]).long()
    means = torch.zeros(int(recording.max()) + 1, scores.shape[1]).index_add_(0, recording, scores)
    target = torch.zeros(len(means), dtype=torch.int64).index_copy_(0, recording, batch.target)
    return {"right": int((means.argmax(1) == target).sum()), "recordings": len(means)}


def main(runs: list[Path], data: record.Data, out: Path = record.RESULTS / "signals.json") -> None:
    """Records finished RUNS; those of the same commands in earlier results are replaced."""
    source, found = Source(data), record.load_results(out, {"runs": [], "spectrogram": None})
    rows, picture = {row["command"]: row for row in found["runs"]}, found["spectrogram"]
    for run in map(Run, runs):
        row = run_row(run)
        rows[row["command"]] = row
        if run.config["task"] == "bearings":
            row["whole"] = whole_recordings(run, source)
        if run.config["task"] == "speech" and run.config["model_options"].get("frame_model", "unicornn") == "unicornn":
            row["half_rate"] = half_rate(run, source)
            picture = picture or spectrogram(run, source)
    record.save_results(out, "signals RUN ...", {"runs": list(rows.values()), "spectrogram": picture})


if __name__ == "__main__":
    typer.run(main)
