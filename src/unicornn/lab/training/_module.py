"""A network in training, for Lightning: losses, metrics over samples, the learning rate, a stop at NaN."""

from __future__ import annotations

import math
import time
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, MeanSquaredError, Metric
from torchmetrics.classification import MulticlassAccuracy

from unicornn.errors import Diverged
from unicornn.lab.tasks._base import Batch, Task
from unicornn.lab.training._batches import mixed
from unicornn.lab.training._config import Config
from unicornn.models import Network

WARM_UP = 0.1  # of the one-cycle schedule


def rate(schedule: str, share: float, epoch: int, drop_after: int) -> float:
    """The learning rate relative to its highest, at this share of the run and in this epoch (from 0)."""
    if schedule == "step":
        return 0.1 if drop_after and epoch >= drop_after else 1.0
    if schedule == "onecycle" and share < WARM_UP:
        return 0.04 + 0.96 * share / WARM_UP
    if schedule == "onecycle":
        share = (share - WARM_UP) / (1 - WARM_UP)
    return 1.0 if schedule == "constant" else 0.5 + 0.5 * math.cos(math.pi * min(1.0, share))


class RelativeError(Metric):
    """NRMSE: the root mean square of the error, divided by that of the target."""

    error: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("error", "total"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, output: Tensor, target: Tensor) -> None:
        self.error += (output - target).double().square().sum()
        self.total += target.double().square().sum()

    def compute(self) -> Tensor:
        return (self.error / self.total).sqrt()


def metric(kind: str, outputs: int) -> Metric:
    """Over all samples, and over all processes."""
    if kind == "classify":
        return MulticlassAccuracy(outputs, average="micro")
    return MeanSquaredError(squared=False) if kind == "regress" else RelativeError()


def update(metric: Metric, kind: str, output: Tensor, batch: Batch) -> None:
    """Counts a batch in, where a forecast's steps beyond a sequence's length are none."""
    if kind == "forecast":
        output, target = forecast(output, batch)
        metric.update(output.flatten(), target.flatten())
    else:
        metric.update(output, batch.target)


def forecast(output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Output and target (N, b, k) without the padding, (steps, k)."""
    if batch.lengths is None:
        return output.flatten(0, 1), batch.target.flatten(0, 1)
    inside = torch.arange(len(output), device=output.device)[:, None] < batch.lengths.to(output.device)
    return output[inside], batch.target[inside]


def voted(kind: str, output: Tensor, batch: Batch) -> Tensor:
    """One output for every target: the mean over its sequences, if there are several."""
    k = len(output) // len(batch.target)
    if kind == "forecast" or k == 1:
        return output
    votes = output.log_softmax(1) if kind == "classify" else output
    return votes.unflatten(0, (-1, k)).mean(1)


def loss_of(kind: str, output: Tensor, batch: Batch) -> Tensor:
    if kind == "classify":
        return nn.functional.cross_entropy(output, batch.target)
    if kind == "regress":
        return nn.functional.mse_loss(output, batch.target)
    return nn.functional.mse_loss(*forecast(output, batch))


class InTraining(pl.LightningModule):
    """The network with its loss, optimiser and figures.

    Every batch has its own seed, from the run's seed and the number of the step: what is random in the network needs no
    state to be saved, and is the same after a resumption.
    """

    def __init__(self, network: Network, task: Task, config: Config) -> None:
        super().__init__()
        self.network, self.task, self.config = network, task, config
        self.train_loss, self.valid_loss = MeanMetric(), MeanMetric()
        self.figure = metric(task.kind, task.outputs)
        self.before = 0.0  # seconds in earlier sittings
        self.begun = time.monotonic()
        self.history: list[dict[str, float]] = []

    @property
    def seconds(self) -> float:
        """Of training, validation included, in all sittings."""
        return self.before + time.monotonic() - self.begun

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.config.training
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[training.optimizer]
        slow: dict[str, float] = getattr(self.network.rnn, "learning_rates", dict)()  # of some baselines
        groups: dict[float, list[nn.Parameter]] = {}
        for name, p in self.network.named_parameters():
            if p.requires_grad:
                share = next((rate for end, rate in slow.items() if name.endswith(end)), 1.0)
                groups.setdefault(share, []).append(p)
        named = [{"params": parameters, "share": share} for share, parameters in groups.items()]
        return kind(named, lr=training.lr, weight_decay=training.weight_decay, fused=True)

    def on_fit_start(self) -> None:
        self.begun = time.monotonic()

    def on_train_epoch_start(self) -> None:
        self.train_loss.reset()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        training, share = self.config.training, self.share()
        if self.config.budget and self.trainer.world_size > 1:  # clocks differ, the rate must not
            share = self.trainer.strategy.broadcast(share)
        factor = rate(training.schedule, share, self.current_epoch, training.drop_after)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = training.lr * factor * group["share"]

    def share(self) -> float:
        """How much of the run is done: of its steps, or of its time if there is a budget."""
        done = self.global_step / (self.trainer.num_training_batches * self.config.training.epochs)
        return min(1.0, max(done, self.seconds / self.config.budget if self.config.budget else 0.0))

    def training_step(self, shared: tuple[Batch, float], batch_idx: int) -> Tensor:
        batch, weight = shared
        torch.manual_seed(mixed(self.config.seed, self.global_step, self.global_rank))
        output = self.network(batch.u, batch.lengths, self.config.training.bptt)
        loss = loss_of(self.task.kind, voted(self.task.kind, output, batch), batch)
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(
                f"loss: {value} in epoch {self.current_epoch + 1}, batch {batch_idx + 1} of "
                f"{self.trainer.num_training_batches} (learning rate {self.config.training.lr:g}). Try a smaller "
                "learning rate (--set lr=...), clipped gradients (--set clip=1) or a smaller time step (--set dt=...). "
                "The best weights so far and the last complete epoch are kept."
            )
        self.train_loss.update(value, batch.u.shape[1] if weight else 0)
        return loss * weight

    def on_validation_epoch_start(self) -> None:
        self.valid_loss.reset()
        self.figure.reset()

    def validation_step(self, shared: tuple[Batch, float], batch_idx: int) -> None:
        batch, weight = shared
        if weight:
            output = voted(self.task.kind, self.network(batch.u, batch.lengths), batch)
            self.valid_loss.update(loss_of(self.task.kind, output, batch), batch.u.shape[1])
            update(self.figure, self.task.kind, output, batch)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["unicornn"] = {
            "config": self.config.as_dict(), "seconds": self.seconds, "history": self.history,
        }  # fmt: skip

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.before = checkpoint["unicornn"]["seconds"]
        self.history = checkpoint["unicornn"]["history"]
