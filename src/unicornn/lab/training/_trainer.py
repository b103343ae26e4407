"""The training of a task: learning rates, batches, validation, and the state that a checkpoint holds."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn._layer import UnICORNN
from unicornn._training.batches import BatchShare
from unicornn._training.seeds import derive_seed
from unicornn._training.trainer import BatchLoss, Row, Trainer, mean_loss
from unicornn.errors import BadCheckpoint, Diverged
from unicornn.lab.tasks._base import Splits, Task
from unicornn.lab.training import _processes as processes
from unicornn.lab.training._config import Config
from unicornn.lab.training._metrics import batches_of, finite_batch, measure, per_target
from unicornn.models import Network, Regressor

WARM_UP = 0.1  # fraction of the one-cycle schedule
WORDS = "embedding."  # prefix of the names of word vectors


def relative_rate(schedule: str, progress: float, epoch: int, drop_after: int) -> float:
    """The learning rate relative to its maximum, after this fraction of the run and in this epoch (from 0)."""
    if schedule == "step":
        return 0.1 if drop_after and epoch >= drop_after else 1.0
    if schedule == "onecycle" and progress < WARM_UP:
        return 0.04 + 0.96 * progress / WARM_UP
    if schedule == "onecycle":
        progress = (progress - WARM_UP) / (1 - WARM_UP)
    return 1.0 if schedule == "constant" else 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))


def make_optimizer(network: Network, config: Config) -> torch.optim.Optimizer:
    """The optimiser. Each parameter group has a ``share`` of the learning rate: the layers, word vectors, and some
    parameters of baselines may learn more slowly."""
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


class TaskTrainer(Trainer):
    """Trains the network of a run.

    The batches depend on the seed and the epoch, random numbers in the network on the seed and the step. So the
    weights, the optimiser's state, the number of steps and the history are enough to resume after any batch.

    Attributes:
        seconds: Wall-clock time of training, measured by the first process.
        after_batch: Called after each batch of training and validation.
    """

    hint = " (--set NAME=VALUE). The best weights so far and the last complete epoch are kept."

    def __init__(self, network: Network, task: Task, config: Config, splits: Splits, device: torch.device) -> None:
        training = config.training
        optimizer = make_optimizer(network.to(device), config)
        super().__init__(network, optimizer, clip=training.clip, average=training.average)
        self.task, self.config, self.splits, self.device = task, config, splits, device
        self.batches = batches_of(splits.train, training.batch_size, config.seed, distributed=True)
        self.valid_batches = batches_of(splits.valid, training.eval_batch_size, distributed=True)
        self.seconds, self.clock_read = 0.0, time.monotonic()
        self.after_batch: Callable[[], None] = lambda: None

    @property
    def batch(self) -> int:
        """Number of batches done in the current epoch."""
        return self.step - self.epoch * len(self.batches)

    @property
    def position(self) -> str:
        where = f", batch {self.batch + 1} of {len(self.batches)}" if self.batch < len(self.batches) else ""
        return f"in epoch {self.epoch + 1}{where}"

    @property
    def progress(self) -> float:
        """Fraction of the run that is done, in steps or, with a budget, in time."""
        done = self.step / (len(self.batches) * self.config.training.epochs)
        return min(1.0, max(done, self.seconds / self.config.budget if self.config.budget else 0.0))

    @property
    def out_of_time(self) -> bool:
        return self.config.budget is not None and self.seconds >= self.config.budget

    def epoch_batches(self) -> Iterator[BatchShare]:
        return itertools.islice(self.batches.shares(self.epoch), self.batch, None)

    def batch_loss(self, batch: BatchShare) -> BatchLoss:
        config, training = self.config, self.config.training
        rate = training.lr * relative_rate(training.schedule, self.progress, self.epoch, training.drop_after)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        data = finite_batch(self.splits, "train", batch.indices, self.epoch, self.device)
        torch.manual_seed(derive_seed(config.seed, self.step, processes.rank()))
        output = self.network(data.u, data.lengths, training.bptt)
        output, target = per_target(self.task.kind, output, data)
        if isinstance(self.network, Regressor) and training.huber:
            output, target = output / self.network.deviation, target / self.network.deviation
        loss = mean_loss(output, target, smoothing=training.label_smoothing, huber=training.huber)
        return BatchLoss(loss, data.u.shape[1] if batch.weight else 0, batch.weight)

    def synchronise(self, gradients: Sequence[Tensor]) -> None:
        processes.average(gradients)

    def any_process(self, stop: bool) -> bool:
        """Whether any process has to stop. Also sets the time of all processes to that of the first."""
        now = time.monotonic()
        seconds = self.seconds + now - self.clock_read if processes.rank() == 0 else 0.0
        both = torch.tensor([seconds, float(stop)], dtype=torch.float64, device=self.device)
        self.seconds, stopping = processes.summed(both).tolist()
        self.clock_read = now
        return stopping > 0

    def validate(self) -> Row:
        batches, after_batch = self.valid_batches, lambda *_: self.after_batch()
        try:
            valid_loss, valid = measure(self.evaluated, self.task, self.splits, "valid", batches, after_batch)
        except Diverged as error:
            raise self.diverged(str(error)) from None
        loss_sum, trained = self._loss_sums()
        row: Row = {
            "epoch": self.epoch + 1,
            "seconds": round(self.seconds, 3),
            "lr": next(group["lr"] for group in self.optimizer.param_groups if group["share"] == 1),  # the readout's
            "train_loss": loss_sum / trained,
            "valid_loss": valid_loss,
            "valid": valid,
        }
        rnn = self.evaluated.rnn
        if isinstance(rnn, UnICORNN):  # Fig. 7
            row |= {f"w_norm_{l}": w.detach().abs().max().item() for l, w in enumerate(rnn.w, 1)}
        return row

    def cost(self, row: Row) -> tuple[float, float]:
        """The metric; with few sequences, several epochs are often equally good, so then the loss."""
        return self.task.metric.cost(row["valid"]), row["valid_loss"]

    def _loss_sums(self) -> list[float]:
        """Sum of the losses and number of the sequences of this epoch, over all processes."""
        sums = torch.tensor([self.loss_sum, self.sequences], dtype=torch.float64, device=self.device)
        return processes.summed(sums).tolist()

    def checkpoint(self) -> dict[str, Any]:
        """The state of training. All processes have to call this."""
        return {
            "config": self.config.as_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
            "sums": self._loss_sums(),
            "network": self.network.state_dict(),
            "best": self.best_weights,
            "average": {} if self.averaged is None else self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Restores the state of training. Raises ``BadCheckpoint`` if it belongs to another network."""
        try:
            self.network.load_state_dict(checkpoint["network"])
            if self.averaged is not None:
                self.averaged.load_state_dict(checkpoint["average"])
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            self.step, self.seconds, self.history, self.best_weights = (
                checkpoint[name] for name in ("step", "seconds", "history", "best")
            )
            if processes.rank() == 0:
                self.loss_sum, self.sequences = checkpoint["sums"]
        except (RuntimeError, ValueError, KeyError) as error:
            raise BadCheckpoint(f"checkpoint: it belongs to another run or program: {error!r}") from None
