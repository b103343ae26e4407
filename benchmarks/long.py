"""Do they learn over very long sequences? Two tasks that need no data, at lengths raised in stages; for docs/long.md.

python -m benchmarks.long recall                       # UnICORNN up to N = 1,000,000: results/long/recall-unicornn.json
python -m benchmarks.long adding --model lstm --minutes 20
python -m benchmarks.long recall --stages 200 400 --out DIR    # small, to see that it runs

The tasks are ``unicornn.lab.tasks``' recall and adding, with sequences that are new in every batch.

One protocol for every model: a gate per input channel with an L1 penalty, which once at zero stays there; the recurrent
layer; its last output, normalised over the batch, into a linear readout. Sequences are lengthened in stages. A stage
ends when it is mastered, the run when its CPU time is over. Adam, gradients clipped to 1.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import UnICORNN
from unicornn.baselines import MODELS
from unicornn.lab._environment import environment
from unicornn.lab._whole_files import write_json
from unicornn.lab.bench._measure import peak

CUE, SYMBOLS = 10, 10
CALIBRATED = 8  # batches


def recall(N: int, b: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """u (N, b, 12) and the symbols (b,)."""
    symbols = torch.randint(SYMBOLS, (b,), generator=generator)
    u = torch.zeros(N, b, SYMBOLS + 2)
    u[:, :, SYMBOLS:] = torch.randn(N, b, 2, generator=generator)
    u[:CUE, torch.arange(b), symbols] = 1
    return u, symbols


def adding(N: int, b: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """u (N, b, 2) and the sums (b, 1)."""
    u = torch.zeros(N, b, 2)
    u[:, :, 0] = torch.rand(N, b, generator=generator)
    half, each = N // 2, torch.arange(b)
    for at in (torch.randint(half, (b,), generator=generator), torch.randint(half, N, (b,), generator=generator)):
        u[at, each, 1] = 1
    return u, (u[:, :, 0] * u[:, :, 1]).sum(0)[:, None]


@dataclass(frozen=True)
class Task:
    """mastered: what the metric of the last batches must reach for the next stage, accuracy or square error.

    l1: the penalty on the gates, relative to a step of Adam.
    """

    make: Any
    d: int
    outputs: int
    stages: tuple[int, ...]
    batch: int
    mastered: float
    l1: float
    classes: bool

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target) if self.classes else nn.functional.mse_loss(output, target)

    def metric(self, output: Tensor, target: Tensor) -> float:
        if self.classes:
            return float((output.argmax(1) == target).float().mean())
        return float((output - target).square().mean())

    def done(self, metric: float) -> bool:
        return metric >= self.mastered if self.classes else metric <= self.mastered


TASKS = {
    "recall": Task(recall, 12, 10, (1000, 10_000, 50_000, 200_000, 1_000_000), 16, 0.99, 0.3, True),
    "adding": Task(adding, 2, 1, (200, 1000, 3000, 10_000), 50, 0.005, 0.0, False),
}
NAMES = ("unicornn", "lstm", "cornn", "lem", "mingru", "lru", "linoss")


class Model(nn.Module):
    """A gate per channel, recurrent layers, and a readout of their last output, normalised."""

    def __init__(self, rnn: nn.Module, d: int, m: int, outputs: int) -> None:
        super().__init__()
        self.gate, self.rnn = nn.Parameter(torch.ones(d)), rnn
        self.norm, self.readout = nn.BatchNorm1d(m), nn.Linear(m, outputs)

    def forward(self, u: Tensor) -> Tensor:
        return self.readout(self.norm(self.rnn(u * self.gate, output="last")[0]))

    def shrink(self, by: float) -> None:
        """The penalty's proximal step; a gate that has closed stays closed."""
        with torch.no_grad():
            self.gate.copy_(self.gate.sign() * (self.gate.abs() - by).clamp_min(0))
            if self.gate.grad is not None:
                self.gate.grad[self.gate == 0] = 0


OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "recall": {"unicornn": {"dt": 0.005}},
    "adding": {"unicornn": {"span": 10.0}},
}
"""What differs from a model's defaults. span: N·Δt, so that Δt falls as sequences are lengthened."""


def recurrent(name: str, d: int, m: int, options: dict[str, Any]) -> nn.Module:
    if name != "unicornn":
        return MODELS[name](d, m, **options)
    layer = UnICORNN(d, m, **{k: v for k, v in options.items() if k != "span"})
    nn.init.normal_(layer.V[0], std=0.3)
    if "span" in options:
        nn.init.uniform_(layer.c[0], -3.0, 1.0)
    return layer


class Run:
    """One model on one task, from stage to stage."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings, self.task = settings, TASKS[settings.task]
        torch.manual_seed(settings.seed)
        self.options = OPTIONS[settings.task].get(settings.model, {}) | dict(settings.set)
        rnn = recurrent(settings.model, self.task.d, settings.m, self.options)
        self.model = Model(rnn, self.task.d, settings.m, self.task.outputs)
        self.data = torch.Generator().manual_seed(settings.seed + 1)
        self.stages: list[dict[str, Any]] = []
        self.curve: list[tuple[int, float, float, float]] = []  # N, CPU seconds, loss, metric
        self.spent, self.began = 0.0, time.process_time()
        if settings.checkpoint and settings.checkpoint.exists():
            kept = torch.load(settings.checkpoint, weights_only=False)
            self.model.load_state_dict(kept["model"])
            self.data.set_state(kept["data"])
            self.stages, self.curve, self.spent = kept["stages"], kept["curve"], kept["seconds"]

    @property
    def seconds(self) -> float:
        """CPU seconds so far: other programs on the machine do not count."""
        return self.spent + time.process_time() - self.began

    def train(self) -> None:
        """All stages that are not yet done; ends with the first that is not mastered."""
        for N in self.settings.stages[len(self.stages) :]:
            try:
                stage = self.stage(N)
            except RuntimeError as error:
                if "memory" not in str(error):
                    raise
                stage = {"N": N, "mastered": False, "why": f"more than {self.settings.memory} GiB"}
            self.stages.append(stage)
            print(stage, file=sys.stderr, flush=True)
            self.save()
            if self.settings.checkpoint:
                kept = {"model": self.model.state_dict(), "data": self.data.get_state(), "stages": self.stages}
                torch.save(kept | {"curve": self.curve, "seconds": self.seconds}, self.settings.checkpoint)
            if not stage["mastered"]:
                return

    def stage(self, N: int) -> dict[str, Any]:
        """Trains at length N until the last batches are mastered or the time is over, and tests on fresh sequences."""
        task, settings, model = self.task, self.settings, self.model
        if "span" in self.options:
            model.rnn.dt = (self.options["span"] / N,) * len(model.rnn.dt)  # type: ignore[assignment, arg-type]
        slow = settings.lr * min(1.0, 1000 / N)  # w and c move the phase at the end in proportion to N
        groups = [([*model.rnn.parameters(), model.gate], slow),
                  ([*model.norm.parameters(), *model.readout.parameters()], settings.lr)]  # fmt: skip
        optimiser = torch.optim.Adam([{"params": parameters, "lr": lr} for parameters, lr in groups])
        recent: list[float] = []
        begin, mastered, why = self.seconds, False, "the time was over"
        least = settings.least if settings.stages[0] == N else 30
        while self.seconds < settings.minutes * 60:
            u, target = task.make(N, task.batch, self.data)
            output = model(u)
            loss = task.loss(output, target)
            optimiser.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if not torch.isfinite(norm):
                why = f"the gradient was {float(norm)}"
                break
            closed = model.gate == 0
            optimiser.step()
            with torch.no_grad():
                model.gate[closed] = 0
            model.shrink(slow * settings.l1)
            recent.append(task.metric(output.detach(), target))
            self.curve.append((N, round(self.seconds, 1), float(f"{loss.item():.4g}"), float(f"{recent[-1]:.4g}")))
            if len(recent) % max(1, 50_000 // N) == 0:
                gates = " ".join(f"{g:.2f}" for g in model.gate.tolist())
                print(*self.curve[-1], f"|g| {float(norm):.1e}", gates, file=sys.stderr, flush=True)
            last = recent[-20:]
            if len(recent) >= least and task.done(sum(last) / len(last)):
                mastered, why = True, ""
                break
        self.calibrate(N)
        tested = self.test(N)
        return {"N": N, "mastered": mastered, "why": why, "batches": len(recent), "test": tested,
                "CPU seconds": round(self.seconds - begin), "sequences": settings.test}  # fmt: skip

    def calibrate(self, N: int) -> None:
        """The normalisation's mean and variance, of batches that are seen with the weights as they are now."""
        norm = self.model.norm
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean
        with torch.no_grad():
            for _ in range(CALIBRATED):
                self.model(self.task.make(N, self.task.batch, self.data)[0])

    def test(self, N: int) -> float:
        """The metric on fresh sequences, of a seed that training has never seen."""
        fresh, found = torch.Generator().manual_seed(10**6 + self.settings.seed), 0.0
        self.model.eval()
        with torch.no_grad():
            for n0 in range(0, self.settings.test, self.task.batch):
                b = min(self.task.batch, self.settings.test - n0)
                u, target = self.task.make(N, b, fresh)
                found += b * self.task.metric(self.model(u), target)
        self.model.train()
        return found / self.settings.test

    def save(self) -> None:
        settings = self.settings
        thin = max(1, len(self.curve) // 300)
        words = [
            settings.task,
            "--model",
            settings.model,
            "--minutes",
            f"{settings.minutes:g}",
            "--seed",
            str(settings.seed),
        ]
        write_json(
            settings.out / f"{settings.task}-{settings.model}.json",
            {
                "command": " ".join(["python -m benchmarks.long", *words]),
                "task": settings.task,
                "model": settings.model,
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "settings": {k: getattr(settings, k) for k in ("seed", "m", "lr", "l1", "least", "minutes", "memory")}
                | {"batch": self.task.batch, "mastered": self.task.mastered, "options": self.options},
                "protocol": " ".join((__doc__ or "").split("\n\n")[-1].split()),
                "stages": self.stages,
                "curve": {"N, CPU seconds, loss, metric": self.curve[::thin]},
                "gate": self.model.gate.tolist(),
                "CPU seconds": round(self.seconds),
                "peak memory, GiB": round(peak() / 2**10, 2),
                "environment": environment(),
            },
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--model", default="unicornn", choices=NAMES)
    parser.add_argument("--stages", type=int, nargs="+")
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--l1", type=float, help="of the gates, relative to a step of Adam")
    parser.add_argument("--least", type=int, default=400, help="batches of the first stage")
    parser.add_argument("--test", type=int, default=200, help="fresh sequences")
    parser.add_argument("--minutes", type=float, default=120.0, help="of CPU time")
    parser.add_argument("--memory", type=int, default=12, help="GiB, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], type=_setting, metavar="NAME=NUMBER", help="of the model")
    parser.add_argument("--checkpoint", type=Path, help="a file to go on from after the last stage that was done")
    parser.add_argument("--out", type=Path, default=Path("results/long"))
    settings = parser.parse_args()
    task = TASKS[settings.task]
    settings.stages = settings.stages or task.stages
    settings.l1 = task.l1 if settings.l1 is None else settings.l1
    resource.setrlimit(resource.RLIMIT_DATA, (settings.memory << 30, settings.memory << 30))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    settings.out.mkdir(parents=True, exist_ok=True)
    Run(settings).train()


def _setting(text: str) -> tuple[str, float]:
    name, value = text.split("=")
    return name, float(value)


if __name__ == "__main__":
    main()
