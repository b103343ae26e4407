"""The loop: batches, steps, validation. Its state is what a checkpoint holds."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unicornn._layer import UnICORNN
from unicornn.errors import BadCheckpoint, Diverged
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.training import _processes as processes
from unicornn.lab.training._average import Average
from unicornn.lab.training._batches import batches_of, mixed
from unicornn.lab.training._checkpoint import Checkpoint
from unicornn.lab.training._config import Config
from unicornn.lab.training._objective import Tally, batch_of, loss_of, outputs, rate, voted
from unicornn.models import Network

Row = dict[str, float]  # of metrics.csv: an epoch
REMEDIES = (
    "Try a smaller learning rate (--set lr=...), clipped gradients (--set clip=1) or a smaller dt (--set dt=...)."
)
WORDS = "embedding."  # what the names of word vectors begin with
KEPT = "The best weights so far and the last complete epoch are kept."


def optimizer_of(network: Network, config: Config) -> torch.optim.Optimizer:
    """The layers, word vectors, and some parameters of baselines, learn at a share of the rate."""
    training = config.training
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[training.optimizer]
    slow: dict[str, float] = getattr(network.rnn, "learning_rates", dict)()
    rates = {"rnn.": training.layers_rate, WORDS: training.words_rate}
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, p in network.named_parameters():
        if p.requires_grad:
            share = next((rate for end, rate in slow.items() if name.endswith(end)), 1.0)
            share *= next((rate for start, rate in rates.items() if name.startswith(start)), 1.0)
            groups.setdefault((share, name.startswith(WORDS)), []).append(p)
    named = [
        {"params": parameters, "share": share} | ({"eps": training.words_eps} if words else {})
        for (share, words), parameters in groups.items()
    ]
    return kind(named, lr=training.lr, weight_decay=training.weight_decay, fused=True)


class Loop:
    """A network in training.

    The sequences of a batch follow from the seed and the epoch, and what is random in the network from the seed and the
    number of the step. So the weights, the optimiser's state, the number of steps and the history are all it takes
    to go on, after any batch.
    """

    def __init__(self, network: Network, task: Task, config: Config, splits: Splits, device: torch.device) -> None:
        self.network, self.device = network.to(device), device
        self.task, self.config, self.splits = task, config, splits
        training, place = config.training, {"rank": processes.rank(), "world": processes.world()}
        self.batches = batches_of(splits.train, training.batch_size, config.seed, **place)
        self.validation = batches_of(splits.valid, training.eval_batch_size, **place)
        self.optimizer = optimizer_of(network, config)
        self.average = Average(self.network, training.average)
        self.step, self.seconds = 0, 0.0
        self.history: list[Row] = []
        self.best: dict[str, Tensor] = {}  # the weights after the best epoch of the history
        self.tally = Tally(task.kind)  # of this epoch's batches
        self.begun = time.monotonic()

    @property
    def epoch(self) -> int:
        """From 0."""
        return len(self.history)

    @property
    def batch(self) -> int:
        """How many batches of this epoch are done."""
        return self.step - self.epoch * len(self.batches)

    @property
    def share(self) -> float:
        """How much of the run is done: of its steps, or of its time if there is a budget."""
        done = self.step / (len(self.batches) * self.config.training.epochs)
        return min(1.0, max(done, self.seconds / self.config.budget if self.config.budget else 0.0))

    @property
    def out_of_time(self) -> bool:
        return self.config.budget is not None and self.seconds >= self.config.budget

    def steps(self) -> Iterator[float]:
        """Trains on the rest of this epoch's batches; yields the loss after each."""
        self.network.train()
        for indices, weight in itertools.islice(self.batches.shares(self.epoch), self.batch, None):
            yield self._step(indices, weight)

    def _step(self, indices: Tensor, weight: float) -> float:
        config, training = self.config, self.config.training
        factor = rate(training.schedule, self.share, self.epoch, training.drop_after)
        for group in self.optimizer.param_groups:
            group["lr"] = training.lr * factor * group["share"]
        batch = batch_of(self.splits, "train", indices, self.epoch, self.device)
        torch.manual_seed(mixed(config.seed, self.step, processes.rank()))
        output = self.network(batch.u, batch.lengths, training.bptt)
        loss = loss_of(self.task.kind, voted(self.task.kind, output, batch), batch)
        self.optimizer.zero_grad()
        (loss * weight).backward()
        gradients = [p.grad for p in self.network.parameters() if p.grad is not None]
        processes.average(gradients)
        norm, value = nn.utils.get_total_norm(gradients), loss.item()
        self._check(value, norm.item())
        if training.clip:
            nn.utils.clip_grads_with_norm_(self.network.parameters(), training.clip, norm)
        self.optimizer.step()
        self.average.update(self.step)
        self.step += 1
        if weight:
            self.tally.add_loss(value, batch)
        return value

    def _check(self, loss: float, norm: float) -> None:
        """Adam squares the gradient, and clipping divides by its norm: neither survives an infinite one."""
        where = f"in epoch {self.epoch + 1}, batch {self.batch + 1} of {len(self.batches)}"
        if not math.isfinite(loss):
            raise Diverged(f"loss: {loss} {where} (learning rate {self.config.training.lr:g}). {REMEDIES} {KEPT}")
        if not math.isfinite(norm):
            raise Diverged(
                f"gradient: its norm is {norm} {where}, though the loss is {loss:.4g}: it grows exponentially with the "
                "length of the sequence. Try a smaller time step (--set dt=...), a larger alpha (--set alpha=...) or "
                f"a horizon (--set horizon=...), a number of steps beyond which the gradient is discounted. {KEPT}"
            )

    def agree(self, stop: bool) -> bool:
        """Whether one of the processes is to stop. From here on the first one's clock is that of all."""
        now = time.monotonic()
        mine = self.seconds + now - self.begun if processes.rank() == 0 else 0.0
        both = torch.tensor([mine, float(stop)], dtype=torch.float64, device=self.device)
        self.seconds, stopped = processes.summed(both).tolist()
        self.begun = now
        return stopped > 0

    def validate(self, between: Callable[[], None]) -> Row:
        """Ends the epoch: its row in the history, and the best weights. ``between`` is called after each batch."""
        with self.average.shown():
            return self._validate(between)

    def _validate(self, between: Callable[[], None]) -> Row:
        tally = Tally(self.task.kind)
        kind, epoch = self.task.kind, f"in epoch {self.epoch + 1}"
        try:
            for batch, weight, output in outputs(
                self.network, kind, self.splits, "valid", self.validation, self.device
            ):
                if weight:
                    tally.add(output, batch)
                between()
        except Diverged as error:
            raise Diverged(f"{error} {epoch}. {REMEDIES} {KEPT}") from None
        valid_loss, valid = tally.over_all(self.device)
        if not (math.isfinite(valid_loss) and math.isfinite(valid)):
            raise Diverged(f"valid: the loss is {valid_loss} and the metric {valid} {epoch}. {REMEDIES} {KEPT}")
        row: Row = {
            "epoch": self.epoch + 1,
            "seconds": round(self.seconds, 3),
            "lr": next(group["lr"] for group in self.optimizer.param_groups if group["share"] == 1),  # the readout's
            "train_loss": self.tally.over_all(self.device)[0],
            "valid_loss": valid_loss,
            "valid": valid,
        }
        rnn = self.network.rnn
        if isinstance(rnn, UnICORNN):  # Fig. 7
            row |= {f"w_norm_{l}": w.detach().abs().max().item() for l, w in enumerate(rnn.w, 1)}
        self.history.append(row)
        if self.top is row:
            self.best = {name: t.detach().cpu().clone() for name, t in self.network.state_dict().items()}
        self.tally = Tally(self.task.kind)
        return row

    @property
    def top(self) -> Row | None:
        """The epoch with the best validation metric; of several, which few sequences are apt to have, the one with the
        least loss."""
        by_loss = sorted(self.history, key=lambda row: row["valid_loss"])
        return self.task.metric.best(by_loss, value=lambda row: row["valid"])

    def checkpoint(self) -> Checkpoint:
        """To be called by all processes."""
        about = {
            "config": self.config.as_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
            "sums": processes.summed(self.tally.sums.to(self.device, copy=True)).tolist(),
        }
        state = self.optimizer.state_dict()["state"]
        moments = {f"optimizer.{i}.{name}": t for i, values in state.items() for name, t in values.items()}
        weights = {f"network.{name}": t for name, t in self.average.own.items()}
        more = {"best": self.best, "average": self.average.values}
        kept = {f"{which}.{name}": t for which, values in more.items() for name, t in values.items()}
        return Checkpoint(about, weights | moments | kept)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from there."""
        about, found = checkpoint
        try:
            named: dict[str, dict[str, Tensor]] = {"network": {}, "best": {}, "average": {}, "optimizer": {}}
            for name, t in found.items():
                which, _, rest = name.partition(".")
                named[which][rest] = t
            moments: dict[int, dict[str, Any]] = {}
            for name, t in named["optimizer"].items():
                i, _, rest = name.partition(".")
                moments.setdefault(int(i), {})[rest] = t
            self.network.load_state_dict(named["network"])
            self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
            shapes = {name: t.shape for name, t in named["network"].items()}
            for which, there in (("best", bool(named["best"])), ("average", bool(self.average.decay))):
                if there and {name: t.shape for name, t in named[which].items()} != shapes:
                    raise ValueError(f"its {which} weights are those of another network")
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise BadCheckpoint(f"checkpoint: it is another run's, or not one of ours: {error!r}") from None
        self.best, self.history = named["best"], about["history"]
        self.average.values = {name: t.to(self.device) for name, t in named["average"].items()}
        self.step, self.seconds = about["step"], about["seconds"]
        if processes.rank() == 0:
            self.tally.sums = torch.tensor(about["sums"], dtype=torch.float64)
