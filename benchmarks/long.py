"""Learning over very long sequences: two synthetic tasks, at lengths that increase in stages; for docs/long.md.

python -m benchmarks.long recall                       # UnICORNN up to N = 1,000,000: results/long/recall-unicornn.json
python -m benchmarks.long adding --model lstm --minutes 20
python -m benchmarks.long memory --model lstm --minutes 3      # one training step at each length of the recall task
python -m benchmarks.long recall --stages 40 --stages 60 --quick --out DIR    # smoke test

The tasks are recall and adding of ``unicornn.lab.tasks``; no sequence is used twice.

The same protocol for every model: a gate per input channel, with an L1 penalty once the loss is half that of guessing;
a gate that reaches zero stays there, and gates are not trained beyond 10,000 steps. One recurrent layer, or two where
one is not sufficient. The last output and the final state, normalised over the batch, go to a linear readout, which is
reset if it starts a stage worse than guessing. A stage ends when it is mastered, the run when its CPU time is used up.
Adam, gradients clipped to 1.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import typer
from torch import Tensor, nn

from benchmarks import record
from unicornn import UnICORNN
from unicornn.baselines import MODELS
from unicornn.lab.bench._measure import peak
from unicornn.lab.tasks.generated import Generated, Make, make_adding, make_recall

CALIBRATION_BATCHES = 8
MEMORY = 12  # GiB, limit of this process
LEARNING_RATE = 1e-2
RECENT = 20  # batches whose mean decides whether a stage is mastered
GATED = 10_000  # steps up to which gates are trained: short sequences suffice to identify the noise channels
TRAINING, CALIBRATION, TEST = range(3)  # seeds of sequences
EPOCH = 10**9  # sequences; none is used twice


@dataclass(frozen=True)
class Task:
    """mastered: accuracy or squared error over the recent batches at which a stage ends. guessed: loss of a best guess.

    l1: penalty on the gates, relative to a step of Adam. slower: whether the learning rate of the recurrent weights
    falls as 1/N.
    """

    make: Make
    d: int
    outputs: int
    guessed: float
    stages: tuple[int, ...]
    batch: int
    mastered: float
    l1: float
    slower: bool
    classes: bool

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.classes:
            return nn.functional.cross_entropy(output, target)
        return nn.functional.mse_loss(output[:, 0], target)

    def metric(self, output: Tensor, target: Tensor) -> float:
        if self.classes:
            return float((output.argmax(1) == target).float().mean())
        return float(self.loss(output, target))

    def done(self, metric: float) -> bool:
        return metric >= self.mastered if self.classes else metric <= self.mastered


RECALL_STAGES = (1000, 10_000, 50_000, 200_000, 1_000_000)
TASKS = {
    "recall": Task(make_recall, 12, 10, math.log(10), RECALL_STAGES, 16, 0.99, 0.3, True, True),
    "adding": Task(make_adding, 2, 1, 1 / 6, (200, 1000, 3000, 10_000), 50, 0.005, 0.0, False, False),
}
TASKS["memory"] = TASKS["recall"]
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "recall": {
        "unicornn": {"dt": 0.005},
        "mingru": {"memory": 1000.0},
        "lru": {"r_min": 0.9, "max_phase": 0.314},
        "linoss": {"discretisation": "imex"},
    },
    "adding": {
        "unicornn": {"span": 2.0},
        "cornn": {"dt": 0.016, "gamma": 94.5, "epsilon": 9.5},
        "lem": {"dt": 0.0242},
        "mingru": {"memory": 200.0},
        "lru": {"r_min": 0.9, "max_phase": 0.314, "num_layers": 2},
        "linoss": {"discretisation": "imex", "num_layers": 2},
    },
}
OPTIONS["memory"] = OPTIONS["recall"]
"""Options that differ from a model's defaults. span: N·Δt, so that Δt falls with the length. memory: longest initial
memory of the gates in steps; by default minGRU forgets half of its state in a step. num_layers: one linear recurrence
cannot multiply a number by its mark; two can, because a gate lies between them."""


def recurrent(name: str, d: int, m: int, options: dict[str, Any]) -> nn.Module:
    own = {key: value for key, value in options.items() if key not in ("span", "memory")}
    layer = (UnICORNN if name == "unicornn" else MODELS[name])(d, m, **own)
    if isinstance(layer, UnICORNN):
        nn.init.normal_(layer.V[0], std=0.3)
        if "span" in options:
            nn.init.uniform_(layer.c[0], -3.0, 1.0)
            nn.init.uniform_(layer.b[0], -2.0, 2.0)
    elif "memory" in options:  # gates that forget after 1 to `memory` steps: chrono initialisation, arXiv:1804.11188
        with torch.no_grad():
            gates = layer.get_parameter("layers.0.b")[1]
            gates.uniform_(1.0, options["memory"]).log_().neg_()
    return layer


class Model(nn.Module):
    """A gate per channel, recurrent layers, and a linear readout of their normalised final state."""

    def __init__(self, rnn: nn.Module, d: int, outputs: int) -> None:
        super().__init__()
        self.gate, self.rnn = nn.Parameter(torch.ones(d)), rnn
        with torch.no_grad():
            last, state = rnn(torch.randn(3, 2, d), output="last")
        self.read = [i for i, part in enumerate(state) if not torch.equal(part[-1], last)]
        width = last.shape[1] + sum(state[i].shape[2] for i in self.read)
        # The share of one step in N is below batch normalisation's usual eps
        self.norm, self.readout = nn.BatchNorm1d(width, eps=1e-14), nn.Linear(width, outputs)

    def forward(self, u: Tensor) -> Tensor:
        last, state = self.rnn(u * self.gate, output="last")
        return self.readout(self.norm(torch.cat([last, *(state[i][-1] for i in self.read)], 1)))


@dataclass
class Run:
    """Training of one model on one task, stage by stage. ``least``: smallest number of batches in the first stage."""

    name: str
    model_name: str
    stages: tuple[int, ...]
    minutes: float
    seed: int
    out: Path
    m: int = 16
    least: int = 400
    test_sequences: int = 200

    def __post_init__(self) -> None:
        self.task, self.options = TASKS[self.name], OPTIONS[self.name].get(self.model_name, {})
        torch.manual_seed(self.seed)
        rnn = recurrent(self.model_name, self.task.d, self.m, self.options)
        self.model = Model(rnn, self.task.d, self.task.outputs)
        self.done: list[dict[str, Any]] = []  # stages
        self.curve: list[tuple[int, float, float, float]] = []  # N, CPU seconds, loss, metric
        self.began = time.process_time()

    @property
    def seconds(self) -> float:
        """CPU seconds since the start, unaffected by other programs on the machine."""
        return time.process_time() - self.began

    def run(self) -> None:
        """Runs all lengths up to the first at which memory or time is used up, or that is not mastered."""
        measure: Callable[[int], dict[str, Any]] = self.one_step if self.name == "memory" else self.train
        for N in self.stages or self.task.stages:
            begin = self.seconds
            try:
                self.model.gate.requires_grad_(N <= GATED)
                stage = {"N": N, **measure(N)}
            except (RuntimeError, MemoryError) as error:
                if isinstance(error, RuntimeError) and "memory" not in str(error):
                    raise
                stage = {"N": N, "why": f"more than {MEMORY} GiB"}
            else:
                stage |= {"CPU seconds": round(self.seconds - begin, 2), "peak memory, GiB": peak_memory()}
            self.done.append(stage)
            print(stage, file=sys.stderr, flush=True)
            self.save()
            if stage.get("why"):
                break

    def one_step(self, N: int) -> dict[str, Any]:
        """One training step; only its time and memory count."""
        if self.seconds > 60 * self.minutes:
            return {"why": "out of time"}
        u, target = self.batch(N, TRAINING, 0)
        self.task.loss(self.model(u), target).backward()
        return {"input, GiB": round(u.nbytes / 2**30, 3)}

    def train(self, N: int) -> dict[str, Any]:
        """Trains at length N until the recent batches are mastered or the time is used up, then tests."""
        task, model = self.task, self.model
        if "span" in self.options:
            model.rnn.dt = (self.options["span"] / N,) * len(model.rnn.dt)  # type: ignore[arg-type]
        slow = LEARNING_RATE * (min(1.0, 1000 / N) if task.slower else 1.0)
        groups = [([*model.rnn.parameters(), model.gate], slow),
                  ([*model.norm.parameters(), *model.readout.parameters()], LEARNING_RATE)]  # fmt: skip
        optimiser = torch.optim.Adam([{"params": parameters, "lr": lr} for parameters, lr in groups])
        metrics: list[float] = []
        why, least = "out of time", RECENT + 5 if self.done else self.least
        while self.seconds < self.minutes * 60:
            u, target = self.batch(N, TRAINING, len(metrics))
            loss = task.loss(output := model(u), target)
            if not metrics and self.done and not loss.item() < task.guessed:
                nn.init.zeros_(model.readout.weight)
                nn.init.zeros_(model.readout.bias)
                loss = task.loss(output := model(u), target)
            optimiser.zero_grad()
            loss.backward()
            norms = [float(nn.utils.clip_grad_norm_(parameters, 1.0)) for parameters, _ in groups]
            if not all(map(math.isfinite, norms)):
                why = f"the gradient was {max(norms)}"
                break
            losses = [point[2] for point in self.curve[-RECENT:]]
            penalised = N <= GATED and bool(losses) and sum(losses) / len(losses) < task.guessed / 2
            closed = model.gate == 0
            optimiser.step()
            with torch.no_grad():
                model.gate[closed] = 0
                if penalised:  # the proximal step of the L1 penalty
                    model.gate.copy_(model.gate.sign() * (model.gate.abs() - slow * task.l1).clamp_min(0))
            metrics.append(task.metric(output.detach(), target))
            self.curve.append((N, round(self.seconds, 1), float(f"{loss.item():.4g}"), float(f"{metrics[-1]:.4g}")))
            recent = metrics[-RECENT:]
            if len(metrics) >= least and task.done(sum(recent) / len(recent)):
                why = ""
                break
        return {"mastered": not why, "why": why, "batches": len(metrics), "test": self.test(N)}

    def batch(self, N: int, kind: int, number: int) -> tuple[Tensor, Tensor]:
        """Inputs (N, b, d) and targets (b,) of a batch of sequences for training, calibration or test."""
        task, begin = self.task, number * self.task.batch
        dtype = torch.int64 if task.classes else torch.float32
        split = Generated(task.make, EPOCH, task.d, 1, (N,), (self.seed, kind, N), dtype)
        batch = split.batch(torch.arange(begin, begin + task.batch), -1)
        return batch.u, batch.target

    @torch.no_grad()
    def test(self, N: int) -> float:
        """Metric on new sequences, after the normalisation's statistics have been measured with the current weights."""
        self.model.norm.reset_running_stats()
        self.model.norm.momentum = None  # a plain mean
        for number in range(CALIBRATION_BATCHES):
            self.model(self.batch(N, CALIBRATION, number)[0])
        self.model.eval()
        batches = (self.batch(N, TEST, number) for number in range(math.ceil(self.test_sequences / self.task.batch)))
        outputs, targets = zip(*((self.model(u), target) for u, target in batches), strict=True)
        self.model.train()
        return self.task.metric(*(torch.cat(each)[: self.test_sequences] for each in (outputs, targets)))

    def save(self) -> None:
        task = self.task
        kept = {"seed": self.seed, "m": self.m, "least": self.least, "minutes": self.minutes, "memory": MEMORY,
                "test": self.test_sequences, "lr": LEARNING_RATE, "l1": task.l1, "batch": task.batch,
                "mastered": task.mastered, "options": self.options}  # fmt: skip
        record.save_results(
            self.out / f"{self.name}-{self.model_name}.json",
            f"long {self.name} --model {self.model_name} --minutes {self.minutes:g} --seed {self.seed}",
            {
                "task": self.name, "model": self.model_name, "settings": kept, "stages": self.done,
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "protocol": " ".join((__doc__ or "").split("\n\n")[-1].split()),
                "curve": {"N, CPU seconds, loss, metric": self.curve[:: max(1, len(self.curve) // 300)]},
                "gate": self.model.gate.tolist(),
                "CPU seconds": round(self.seconds), "peak memory, GiB": peak_memory(),
            },
        )  # fmt: skip


def peak_memory() -> float:
    """Peak memory of this process so far, in GiB."""
    return round(peak() / 2**10, 2)


def main(
    task: str,
    model: str = "unicornn",
    stages: list[int] = [],  # noqa: B006
    minutes: float = 120.0,
    seed: int = 0,
    quick: bool = False,
    out: Path = record.RESULTS / "long",
) -> None:
    """Trains MODEL on TASK (recall, adding), or measures a training step (memory), at the lengths STAGES.

    --minutes limits the CPU time; --quick is a smoke test with a few small batches.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY << 30, MEMORY << 30))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    Run(task, model, tuple(stages), minutes, seed, out, *((4, 3, 10) if quick else ())).run()


if __name__ == "__main__":
    typer.run(main)
