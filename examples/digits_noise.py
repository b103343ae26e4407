"""Noise-padded digits: what a thousand steps of noise leave of eight rows of pixels, in UnICORNN and in an LSTM.

The UnICORNN paper's noise-padded CIFAR-10 task in small. A sequence is one of scikit-learn's 1797 handwritten digits,
one row of 8 pixels per time step, then uniform noise in the range of the pixels up to N = 1000 steps; the noise of the
training set is drawn anew for every batch. A linear layer reads the digit off the last output, so whatever tells the
digits apart has to outlast 992 steps of noise.

The two models have nearly the same number of parameters and train side by side for the same wall time, one core each,
with the same optimiser, batch size and one-cycle schedule. All settings were chosen on a fifth of the training images,
held out; the test images (20 %) are looked at once, after the last step. Two and a half minutes on two cores:

    python examples/digits_noise.py [--seconds 105] [--seed 0] [--out results/demo]
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import queue
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import unicornn
from unicornn import UnICORNN

N, d, b = 1000, 8, 64  # steps, pixels per row, batch size
L, m, Δt, α = 3, 64, 0.25, 13.0
m_LSTM = 44  # gives the same number of parameters
RATES = {"UnICORNN": 0.01, "LSTM": 0.003}  # highest of the cycle; the LSTM stays at chance with 0.01, 0.015 too
WARM_UP, CLIP = 0.1, 1.0


class Classifier(nn.Module):
    def __init__(self, name: str, backward: str = "store") -> None:
        super().__init__()
        self.rnn: nn.Module
        if name == "LSTM":
            self.rnn, width = nn.LSTM(d, m_LSTM), m_LSTM
        else:
            self.rnn, width = UnICORNN(d, m, L, dt=Δt, alpha=α, backward=backward), m
        self.readout = nn.Linear(width, 10)

    def forward(self, u: Tensor) -> Tensor:
        last = self.rnn(u)[0][-1] if isinstance(self.rnn, nn.LSTM) else self.rnn(u, output="last")[0]
        return self.readout(last)


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (·, 8, 8) with pixels in 0..16, as scikit-learn gives them, and labels: training set, then test set."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images.reshape(-1, 8, d), labels, test_size=0.2, stratify=labels, random_state=0)
    x, x_test, y, y_test = map(torch.as_tensor, split)
    return x.float(), y, x_test.float(), y_test


def pad(x: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Images to sequences (N, b, d): the rows, then noise, uniform in [0, 16]."""
    noise = 16 * torch.rand(N - 8, len(x), d, generator=generator)
    return torch.cat([x.transpose(0, 1), noise])


def rate(share: float) -> float:
    """The one-cycle schedule: the learning rate, relative to its highest, after this share of the wall time."""
    if share < WARM_UP:
        return 0.04 + 0.96 * share / WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * min(1.0, (share - WARM_UP) / (1 - WARM_UP)))


def set_up(seed: int) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # one core for each model
    torch.set_flush_denormal(True)  # vanishing gradients would slow the LSTM down


def train(name: str, seed: int, seconds: float, reports: Any) -> dict[str, Any]:
    """Trains for this wall time, reporting (name, time, accuracy on the latest batches), then looks at the test set."""
    set_up(seed)
    x, y, x_test, y_test = digits()
    net = Classifier(name)
    optimiser = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.99), weight_decay=0.0)
    u_test = pad(x_test, torch.Generator().manual_seed(12345))
    net(pad(x[:1])).sum().backward()  # what is done only once is not timed

    curve: list[tuple[float, float]] = []
    steps, accuracy, elapsed, start = 0, 0.1, 0.0, time.perf_counter()
    while elapsed < seconds:
        for batch in torch.randperm(len(x)).split(b)[:-1]:
            optimiser.param_groups[0]["lr"] = RATES[name] * rate(elapsed / seconds)
            logits = net(pad(x[batch]))
            optimiser.zero_grad()
            nn.functional.cross_entropy(logits, y[batch]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), CLIP)
            optimiser.step()
            steps += 1
            accuracy += 0.05 * ((logits.argmax(1) == y[batch]).float().mean().item() - accuracy)
            elapsed = time.perf_counter() - start
            curve.append((round(elapsed, 2), round(accuracy, 4)))
            reports.put((name, *curve[-1]))
            if elapsed >= seconds:
                break

    net.eval()
    with torch.no_grad():
        correct = (net(u_test).argmax(1) == y_test).float().mean().item()
    parameters = sum(p.numel() for p in net.parameters())
    return {"test_accuracy": correct, "parameters": parameters, "seconds": elapsed, "steps": steps, "curve": curve}


def peak() -> float:
    """The peak resident memory of this process in MiB. getrusage would count that of the parent in on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS


def memory(name: str, backward: str = "store") -> float:
    """MiB by which a training step lifts the peak resident memory of a fresh process that has done one with b = 1."""
    set_up(0)
    net, x = Classifier(name, backward), torch.rand(b, 8, d)
    net(pad(x[:1])).sum().backward()
    before = peak()
    net(pad(x)).sum().backward()
    return peak() - before


def figure(results: dict[str, Any], seconds: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for colour, (name, result) in zip(("C0", "C1"), results.items(), strict=True):
        ax.plot(*zip(*result["curve"], strict=True), color=colour, label=f"{name}, {result['parameters']} parameters")
        ax.plot(seconds, result["test_accuracy"], "*", color=colour, markersize=14, clip_on=False)
    ax.plot([], [], "*", color="grey", markersize=12, label="test set, after the last step")
    ax.axhline(0.1, color="grey", linestyle=":", label="chance")
    ax.set(xlabel="wall time / s", ylabel="accuracy", xlim=(0, seconds), ylim=(0, 1))
    ax.set_title(f"Digits, then noise up to N = {N}: training batches, running mean", fontsize="medium")
    ax.legend()
    fig.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="UnICORNN beside an LSTM on noise-padded digits.")
    parser.add_argument("--seconds", type=float, default=105, help="wall time of training, the same for both models")
    parser.add_argument("--seed", type=int, default=0, help="of initial weights, batches and noise")
    parser.add_argument("--out", type=Path, default=Path("results/demo"), help="folder for the figure and the JSON")
    options = parser.parse_args()
    start, console, spawn = time.perf_counter(), Console(), multiprocessing.get_context("spawn")
    columns = (TextColumn("{task.description:8}"), BarColumn(), TextColumn("accuracy {task.fields[accuracy]:4.0%}"))

    set_up(options.seed)
    with console.status("Kernels (compiled the first time) and memory"):
        Classifier("UnICORNN")(torch.rand(16, 1, d)).sum().backward()
        Classifier("UnICORNN", "invert")(torch.rand(16, 1, d)).sum().backward()
        with ProcessPoolExecutor(2, spawn, max_tasks_per_child=1) as pool:
            jobs = [pool.submit(memory, *job) for job in (("UnICORNN",), ("LSTM",), ("UnICORNN", "invert"))]
            needs = [job.result() for job in jobs]

    with (
        spawn.Manager() as manager,
        ProcessPoolExecutor(2, spawn) as pool,
        Progress(*columns, TimeRemainingColumn(), console=console) as progress,
    ):
        reports = manager.Queue()
        bars = {name: progress.add_task(name, total=options.seconds, accuracy=0.1) for name in RATES}
        futures = {name: pool.submit(train, name, options.seed, options.seconds, reports) for name in RATES}
        while not all(future.done() for future in futures.values()) or not reports.empty():
            try:
                name, elapsed, accuracy = reports.get(timeout=0.2)
            except queue.Empty:
                continue
            progress.update(bars[name], completed=elapsed, accuracy=accuracy)
        results = {name: future.result() for name, future in futures.items()}

    table = Table("model", "test accuracy", "parameters", "time", "steps", "memory of a step")
    for (name, result), need in zip(results.items(), needs, strict=False):
        result["step_MiB"] = round(need, 1)
        time_and_steps = f"{result['seconds']:.0f} s", str(result["steps"])
        table.add_row(
            name, f"{result['test_accuracy']:.1%}", str(result["parameters"]), *time_and_steps, f"{need:.0f} MiB"
        )
    results["UnICORNN"]["step_MiB_invert"] = round(needs[2], 1)
    console.print(table, f"With backward='invert', slower, a step of UnICORNN needs {needs[2]:.0f} MiB.")

    options.out.mkdir(parents=True, exist_ok=True)
    figure(results, options.seconds, options.out / "digits_noise.png")
    record = {
        "command": f"python examples/digits_noise.py --seconds {options.seconds:g} --seed {options.seed}",
        "seed": options.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), "unicornn": unicornn.__version__}
        | {package: version(package) for package in ("torch", "numba", "scikit-learn")},
        "protocol": " ".join((__doc__ or "").split(" Two and a half")[0].split()),
        "settings": {"N": N, "d": d, "b": b, "L": L, "m": m, "dt": Δt, "alpha": α, "m_LSTM": m_LSTM, "rates": RATES,
                     "warm_up": WARM_UP, "clip": CLIP},
        "total_seconds": round(time.perf_counter() - start, 1),
        "results": {name: {k: v for k, v in result.items() if k != "curve"} for name, result in results.items()},
    }  # fmt: skip
    (options.out / "digits_noise.json").write_text(json.dumps(record, indent=1) + "\n")
    console.print(f"{record['total_seconds']:.0f} s in all; figure and record in {options.out}")


if __name__ == "__main__":
    main()
