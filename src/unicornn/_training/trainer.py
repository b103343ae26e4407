"""The training loop: optimiser steps, weight averaging, validation, best weights, early stopping, divergence checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from unicornn.errors import Diverged
from unicornn.models import Network

Row = dict[str, float]  # the numbers of one epoch


class BatchLoss(NamedTuple):
    """Mean loss over the sequences of a batch, their number, and the weight of the loss in the gradient."""

    mean: Tensor
    sequences: int
    weight: float = 1.0


def mean_loss(
    output: Tensor, target: Tensor, weight: Tensor | None = None, *, smoothing: float = 0.0, huber: float = 0.0
) -> Tensor:
    """Cross-entropy for classes (integer targets), else squared error; optionally weighted, with weights of mean 1.

    ``smoothing`` is the share of each class's probability spread over all classes; errors above ``huber`` > 0 count
    linearly.
    """
    kind: Callable[..., Tensor] = nn.functional.mse_loss
    if not target.is_floating_point():
        kind = partial(nn.functional.cross_entropy, label_smoothing=smoothing)
    elif huber:
        kind = partial(nn.functional.huber_loss, delta=huber)
    if weight is None:
        return kind(output, target)
    each = kind(output, target, reduction="none")
    return (weight * (each.mean(1) if each.dim() > 1 else each)).mean()


def averaged_model(network: nn.Module, decay: float) -> AveragedModel:
    """Exponential moving average of weights and buffers. The decay is smaller in the first steps, whose weights are
    soon outdated; the present weights count as the first sample."""

    def update(average: Tensor, value: Tensor, count: Tensor | int) -> Tensor:
        keep = min(decay, int(count) / (9 + int(count)))
        return average.lerp(value, 1 - keep) if average.is_floating_point() else value

    model = AveragedModel(network, avg_fn=update, use_buffers=True)
    model.n_averaged.fill_(1)
    return model


class Trainer(ABC):
    """Trains a network in place. Subclasses define the batches, the loss, the validation and which epoch is best.

    Args:
        network: Network to train.
        optimizer: Optimiser of its parameters.
        clip: Largest norm of the gradient; 0 for no clipping.
        average: Decay of an average of the weights, which is validated and kept instead of them; 0 for no average.
        patience: Number of epochs without improvement after which training stops; 0 for no limit.
    """

    hint = "."  # end of the messages about divergence

    def __init__(
        self,
        network: Network,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float = 0.0,
        average: float = 0.0,
        patience: int = 0,
    ) -> None:
        self.network, self.optimizer, self.clip, self.patience = network, optimizer, clip, patience
        self.averaged = averaged_model(network, average) if average else None
        self.step = 0  # number of optimiser steps so far
        self.history: list[Row] = []  # one row per epoch
        self.best_weights: dict[str, Tensor] = {}  # after the best epoch, on the CPU
        self.stopped = ""  # reason for an early stop; callbacks may set it
        self.loss_sum, self.sequences = 0.0, 0  # of the current epoch

    @abstractmethod
    def epoch_batches(self) -> Iterable[Any]:
        """The remaining batches of the current epoch."""

    @abstractmethod
    def batch_loss(self, batch: Any) -> BatchLoss:
        """The loss of one of these batches."""

    @abstractmethod
    def validate(self) -> Row:
        """The numbers of the current epoch, whose batches are done."""

    @abstractmethod
    def cost(self, row: Row) -> Any:
        """Sort key of an epoch: the best one has the smallest."""

    def synchronise(self, gradients: Sequence[Tensor]) -> None:  # noqa: B027
        """Averages the gradients over processes, in place, if there are several."""

    @property
    def epoch(self) -> int:
        """Number of complete epochs."""
        return len(self.history)

    @property
    def best_epoch(self) -> int:
        """Number of the best epoch, from 1; 0 if none is complete."""
        return min(range(1, self.epoch + 1), key=lambda number: self.cost(self.history[number - 1]), default=0)

    @property
    def best_row(self) -> Row:
        return self.history[self.best_epoch - 1]

    @property
    def evaluated(self) -> Network:
        """The network to validate and keep: the one with averaged weights, if there is one."""
        return self.network if self.averaged is None else cast(Network, self.averaged.module)

    @property
    def position(self) -> str:
        return f"in epoch {self.epoch + 1}"

    def diverged(self, problem: str, remedy: str = "a smaller lr or dt") -> Diverged:
        """The error for numbers that are not finite: where it happened and what to try."""
        return Diverged(f"{problem} {self.position}. Try {remedy}{self.hint}")

    def train_step(self, batch: Any) -> float:
        """One step of the optimiser; returns the loss."""
        loss, sequences, weight = self.batch_loss(batch)
        self.optimizer.zero_grad()
        (loss * weight).backward()
        gradients = [p.grad for p in self.network.parameters() if p.grad is not None]
        self.synchronise(gradients)
        norm, value = nn.utils.get_total_norm(gradients), loss.item()
        if not math.isfinite(value):
            raise self.diverged(f"loss: expected a finite number, got {value}")
        if not norm.isfinite():  # Adam squares the gradient and clipping divides by its norm
            raise self.diverged(
                f"gradient: expected a finite norm, got {norm.item()} although the loss is {value:.4g}: gradients grow "
                "exponentially with the length of the sequence",
                "a smaller dt, a larger alpha or a horizon",
            )
        if self.clip:
            nn.utils.clip_grads_with_norm_(self.network.parameters(), self.clip, norm)
        self.optimizer.step()
        if self.averaged is not None:
            self.averaged.update_parameters(self.network)
        self.step += 1
        self.loss_sum += value * sequences
        self.sequences += sequences
        return value

    def train_epoch(self, after_step: Callable[[float], None] = lambda loss: None) -> None:
        """Trains on the remaining batches of the epoch."""
        self.network.train()
        for batch in self.epoch_batches():
            after_step(self.train_step(batch))
            if self.stopped:
                break

    def run(
        self,
        epochs: int,
        after_step: Callable[[float], None] = lambda loss: None,
        after_epoch: Callable[[Row], None] = lambda row: None,
    ) -> None:
        """Trains until ``epochs`` epochs are complete, or until patience runs out or a callback sets ``stopped``."""
        while self.epoch < epochs and not self.stopped:
            self.train_epoch(after_step)
            row = self.validate()
            for name, value in row.items():
                if not math.isfinite(value):
                    raise self.diverged(f"{name}: expected a finite number, got {value}")
            self.history.append(row)
            self.loss_sum, self.sequences = 0.0, 0
            if self.best_epoch == self.epoch:
                weights = self.evaluated.state_dict()
                self.best_weights = {name: t.detach().cpu().clone() for name, t in weights.items()}
            elif self.patience and self.epoch - self.best_epoch >= self.patience:
                self.stopped = "patience"
            after_epoch(row)
