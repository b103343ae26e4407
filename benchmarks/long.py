"""Learning over very long sequences: two synthetic tasks, at lengths that increase in stages; for docs/long.md.

python -m benchmarks.long recall                       # UnICORNN up to N = 1,000,000: results/long/recall-unicornn.json
python -m benchmarks.long adding --model lstm --minutes 20
python -m benchmarks.long memory --model lstm --minutes 3      # one training step at each length of the recall task
python -m benchmarks.long recall --stages 200 400 --out DIR    # smoke test

The tasks are recall and adding of ``unicornn.lab.tasks``; no sequence is used twice.

The same protocol for every model: a gate per input channel, with an L1 penalty once the loss is half that of guessing;
a gate that reaches zero stays there, and gates are not trained beyond 10,000 steps. One recurrent layer, or two where
one is not sufficient. The last output and the final state, normalised over the batch, go to a linear readout, which is
reset if it starts a stage worse than guessing. A stage ends when it is mastered, the run when its CPU time is used up.
Adam, gradients clipped to 1.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import UnICORNN
from unicornn._files import write_json
from unicornn.baselines import MODELS
from unicornn.lab._environment import environment
from unicornn.lab.bench._measure import peak
from unicornn.lab.tasks.generated import Generated, Make
from unicornn.lab.tasks.generated import make_adding as adding
from unicornn.lab.tasks.generated import make_recall as recall

CALIBRATION_BATCHES = 8
LEARNING_RATE = 1e-2
RECENT = 20  # batches whose mean decides whether a stage is mastered
GATED = 10_000  # steps up to which gates are trained: short sequences suffice to identify the noise channels
TIMEOUT = "the time was over"
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

    def split(self, N: int, *seed: int) -> Generated:
        return Generated(self.make, EPOCH, self.d, 1, (N,), seed, torch.int64 if self.classes else torch.float32)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.classes:
            return nn.functional.cross_entropy(output, target)
        return nn.functional.mse_loss(output[:, 0], target)

    def metric(self, output: Tensor, target: Tensor) -> float:
        if self.classes:
            return float((output.argmax(1) == target).float().mean())
        return float((output[:, 0] - target).square().mean())

    def done(self, metric: float) -> bool:
        return metric >= self.mastered if self.classes else metric <= self.mastered


TASKS = {
    "recall": Task(recall, 12, 10, math.log(10), (1000, 10_000, 50_000, 200_000, 1_000_000), 16, 0.99, 0.3, True, True),
    "adding": Task(adding, 2, 1, 1 / 6, (200, 1000, 3000, 10_000), 50, 0.005, 0.0, False, False),
}
NAMES = ("unicornn", "lstm", "cornn", "lem", "mingru", "lru", "linoss")


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

    def shrink(self, by: float) -> None:
        """Proximal step of the penalty; a closed gate stays closed."""
        with torch.no_grad():
            self.gate.copy_(self.gate.sign() * (self.gate.abs() - by).clamp_min(0))
            if self.gate.grad is not None:
                self.gate.grad[self.gate == 0] = 0


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
"""Options that differ from a model's defaults. span: N·Δt, so that Δt falls with the length. memory: longest initial
memory of the gates in steps; by default minGRU forgets half of its state in a step. num_layers: one linear recurrence
cannot multiply a number by its mark; two can, because a gate lies between them."""


def recurrent(name: str, d: int, m: int, options: dict[str, Any]) -> nn.Module:
    if name != "unicornn":
        layer = MODELS[name](d, m, **{k: v for k, v in options.items() if k != "memory"})
        if "memory" in options:
            remember(layer.get_parameter("layers.0.b"), options["memory"])
        return layer
    layer = UnICORNN(d, m, **{k: v for k, v in options.items() if k != "span"})
    nn.init.normal_(layer.V[0], std=0.3)
    if "span" in options:
        nn.init.uniform_(layer.c[0], -3.0, 1.0)
        nn.init.uniform_(layer.b[0], -2.0, 2.0)
    return layer


@torch.no_grad()
def remember(b: nn.Parameter, longest: float) -> None:
    """Gates of minGRU that forget after 1 to ``longest`` steps: chrono initialisation, arXiv:1804.11188."""
    b[1] = -torch.empty_like(b[1]).uniform_(1.0, longest).log()


class Run:
    """Training of one model on one task, stage by stage."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings, self.task = settings, TASKS[settings.task]
        torch.manual_seed(settings.seed)
        self.options = OPTIONS[settings.task].get(settings.model, {})
        rnn = recurrent(settings.model, self.task.d, settings.m, self.options)
        self.model = Model(rnn, self.task.d, self.task.outputs)
        self.stages: list[dict[str, Any]] = []
        self.curve: list[tuple[int, float, float, float]] = []  # N, CPU seconds, loss, metric
        self.began = time.process_time()

    @property
    def seconds(self) -> float:
        """CPU seconds since the start, unaffected by other programs on the machine."""
        return time.process_time() - self.began

    def train(self) -> None:
        """Runs all stages up to the first that is not mastered."""
        for N in self.settings.stages:
            try:
                stage = self.stage(N)
            except (RuntimeError, MemoryError) as error:
                reraise_unless_memory(error)
                stage = {"N": N, "mastered": False, "why": f"more than {self.settings.memory} GiB"}
            self.stages.append(stage)
            print(stage, file=sys.stderr, flush=True)
            self.save()
            if not stage["mastered"]:
                return

    def stage(self, N: int) -> dict[str, Any]:
        """Trains at length N until the recent batches are mastered or the time is used up, then tests."""
        task, settings, model = self.task, self.settings, self.model
        if "span" in self.options:
            model.rnn.dt = (self.options["span"] / N,) * len(model.rnn.dt)  # type: ignore[arg-type]
        slow = LEARNING_RATE * (min(1.0, 1000 / N) if task.slower else 1.0)
        model.gate.requires_grad_(N <= GATED)
        groups = [([*model.rnn.parameters(), model.gate], slow),
                  ([*model.norm.parameters(), *model.readout.parameters()], LEARNING_RATE)]  # fmt: skip
        optimiser = torch.optim.Adam([{"params": parameters, "lr": lr} for parameters, lr in groups])
        recent: list[float] = []
        begin, mastered, why = self.seconds, False, TIMEOUT
        least = settings.least if settings.stages[0] == N else RECENT + 5
        while self.seconds < settings.minutes * 60:
            u, target = self.batch(N, settings.seed, 0, begin=len(recent) * task.batch)
            output = model(u)
            loss = task.loss(output, target)
            if not recent and self.stages and not loss.item() < task.guessed:
                nn.init.zeros_(model.readout.weight)
                nn.init.zeros_(model.readout.bias)
                output = model(u)
                loss = task.loss(output, target)
            optimiser.zero_grad()
            loss.backward()
            norms = [nn.utils.clip_grad_norm_(parameters, 1.0) for parameters, _ in groups]
            norm = max(norms, key=float)
            if not all(torch.isfinite(n) for n in norms):
                why = f"the gradient was {float(norm)}"
                break
            closed = model.gate == 0
            optimiser.step()
            with torch.no_grad():
                model.gate[closed] = 0
            losses = [point[2] for point in self.curve[-RECENT:]]
            if model.gate.requires_grad and losses and sum(losses) / len(losses) < task.guessed / 2:
                model.shrink(slow * task.l1)
            recent.append(task.metric(output.detach(), target))
            self.curve.append((N, round(self.seconds, 1), float(f"{loss.item():.4g}"), float(f"{recent[-1]:.4g}")))
            if len(recent) % max(1, 50_000 // N) == 0:
                gates = " ".join(f"{g:.2f}" for g in model.gate.tolist())
                print(*self.curve[-1], f"|g| {float(norm):.1e}", gates, file=sys.stderr, flush=True)
            last = recent[-RECENT:]
            if len(recent) >= least and task.done(sum(last) / len(last)):
                mastered, why = True, ""
                break
        self.calibrate(N)
        tested = self.test(N)
        return {"N": N, "mastered": mastered, "why": why, "batches": len(recent), "test": tested,
                "CPU seconds": round(self.seconds - begin), "sequences": settings.test,
                "peak memory, GiB": peak_memory()}  # fmt: skip

    def batch(self, N: int, *seed: int, begin: int, size: int = 0) -> tuple[Tensor, Tensor]:
        """Inputs (N, b, d) and targets (b,) of ``size`` sequences of this seed, starting at number ``begin``."""
        indices = torch.arange(begin, begin + (size or self.task.batch))
        batch = self.task.split(N, *seed, N).batch(indices, -1)
        return batch.u, batch.target

    def calibrate(self, N: int) -> None:
        """Recomputes the normalisation's mean and variance with the current weights."""
        norm = self.model.norm
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean
        with torch.no_grad():
            for i in range(CALIBRATION_BATCHES):
                self.model(self.batch(N, self.settings.seed, 1, begin=i * self.task.batch)[0])

    def test(self, N: int) -> float:
        """Metric on new sequences, from a seed that training does not use."""
        total = 0.0
        self.model.eval()
        with torch.no_grad():
            for n0 in range(0, self.settings.test, self.task.batch):
                b = min(self.task.batch, self.settings.test - n0)
                u, target = self.batch(N, self.settings.seed, 2, begin=n0, size=b)
                total += b * self.task.metric(self.model(u), target)
        self.model.train()
        return total / self.settings.test

    def save(self) -> None:
        settings = self.settings
        thin = max(1, len(self.curve) // 300)
        words = f"{settings.task} --model {settings.model} --minutes {settings.minutes:g} --seed {settings.seed}"
        write_json(
            settings.out / f"{settings.task}-{settings.model}.json",
            {
                "command": f"python -m benchmarks.long {words}",
                "task": settings.task,
                "model": settings.model,
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "settings": {k: getattr(settings, k) for k in ("seed", "m", "least", "minutes", "memory")}
                | {
                    "lr": LEARNING_RATE,
                    "l1": self.task.l1,
                    "batch": self.task.batch,
                    "mastered": self.task.mastered,
                    "options": self.options,
                },
                "protocol": " ".join((__doc__ or "").split("\n\n")[-1].split()),
                "stages": self.stages,
                "curve": {"N, CPU seconds, loss, metric": self.curve[::thin]},
                "gate": self.model.gate.tolist(),
                "CPU seconds": round(self.seconds),
                "peak memory, GiB": peak_memory(),
                "environment": environment(),
            },
        )


def memory(settings: argparse.Namespace) -> None:
    """One training step at each length of the recall task, until memory or time is used up."""
    rows: list[dict[str, Any]] = []
    run, begin = Run(settings), time.process_time()
    for N in settings.stages:
        last = rows[-1] if rows else None
        if last and time.process_time() - begin + last["CPU seconds"] * N / last["N"] > settings.minutes * 60:
            rows.append({"N": N, "why": "the time would be over"})
            break
        start = time.process_time()
        try:
            run.model.gate.requires_grad_(N <= GATED)
            u, target = run.batch(N, settings.seed, 0, begin=0)
            run.task.loss(run.model(u), target).backward()
        except (RuntimeError, MemoryError) as error:
            reraise_unless_memory(error)
            rows.append({"N": N, "why": f"more than {settings.memory} GiB"})
            break
        rows.append({"N": N, "CPU seconds": round(time.process_time() - start, 2), "peak memory, GiB": peak_memory(),
                     "input, GiB": round(u.nbytes / 2**30, 3)})  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    words = f"memory --model {settings.model} --minutes {settings.minutes:g}"
    write_json(
        settings.out / f"memory-{settings.model}.json",
        {"command": f"python -m benchmarks.long {words}", "model": settings.model, "batch": run.task.batch,
         "m": settings.m, "steps of training": rows, "environment": environment()},
    )  # fmt: skip


def reraise_unless_memory(error: Exception) -> None:
    if isinstance(error, RuntimeError) and "memory" not in str(error):
        raise error


def peak_memory() -> float:
    """Peak memory of this process so far, in GiB."""
    return round(peak() / 2**10, 2)


def limit_memory(most: int) -> None:
    """Makes allocations beyond ``most`` bytes fail, if the system supports it."""
    try:
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, OSError, ValueError) as error:  # Windows has no limits, macOS ignores some
        print(f"--memory: this system does not limit the memory of a process ({error}); only the time is limited",
              file=sys.stderr)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=[*TASKS, "memory"])
    parser.add_argument("--model", default="unicornn", choices=NAMES)
    parser.add_argument("--stages", type=int, nargs="+")
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--least", type=int, default=400, help="smallest number of batches in the first stage")
    parser.add_argument("--test", type=int, default=200, help="number of test sequences")
    parser.add_argument("--minutes", type=float, default=120.0, help="limit of the CPU time")
    parser.add_argument("--memory", type=int, default=12, help="limit of the memory in GiB")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/long"))
    settings = parser.parse_args()
    measure_memory = settings.task == "memory"
    settings.task = "recall" if measure_memory else settings.task
    task = TASKS[settings.task]
    settings.stages = settings.stages or task.stages
    limit_memory(settings.memory << 30)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    settings.out.mkdir(parents=True, exist_ok=True)
    if measure_memory:
        memory(settings)
    else:
        Run(settings).train()


if __name__ == "__main__":
    main()
