"""What is minimised and what is measured: learning rates, losses, metrics over samples, and that all is finite."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unicornn.errors import BadValue, Diverged
from unicornn.lab.tasks._base import Batch, Splits
from unicornn.lab.training._batches import Batches
from unicornn.lab.training._processes import summed

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


class Tally:
    """The loss and the metric over all samples of all processes, from sums over batches.

    Accuracy is a share of the samples, RMSE the root of a mean over them; NRMSE is the root of the error's square
    divided by the target's.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.sums = torch.zeros(4, dtype=torch.float64)  # loss times samples, samples, error, what it is divided by

    def add_loss(self, loss: float, batch: Batch) -> None:
        self.sums[:2] += torch.tensor([loss * batch.u.shape[1], batch.u.shape[1]], dtype=torch.float64)

    def add(self, output: Tensor, batch: Batch) -> None:
        """Counts a batch in; a forecast's steps beyond a sequence's length do not count."""
        self.add_loss(loss_of(self.kind, output, batch).item(), batch)
        if self.kind == "classify":
            right = output.argmax(1) == batch.target
            error, total = right.sum(), torch.tensor(right.numel())
        else:
            output, target = forecast(output, batch) if self.kind == "forecast" else (output, batch.target)
            error = (output - target).double().square().sum()
            total = target.double().square().sum() if self.kind == "forecast" else torch.tensor(target.numel())
        self.sums[2:] += torch.stack([error.cpu().double(), total.cpu().double()])

    def over_all(self, device: torch.device) -> tuple[float, float]:
        """Loss and metric."""
        loss, samples, error, total = summed(self.sums.to(device, copy=True)).cpu()
        value = (error / total).item()
        return (loss / samples).item(), value if self.kind == "classify" else math.sqrt(value)


def batch_of(splits: Splits, name: str, indices: Tensor, draw: int, device: torch.device) -> Batch:
    """Some sequences of a split, all of whose numbers are finite."""
    batch: Batch = getattr(splits, name).batch(indices, draw)
    time_first = batch.target.dim() == 3
    for what, numbers in (("u", batch.u.transpose(0, 1)), ("target", batch.target.transpose(0, int(time_first)))):
        if not numbers.isfinite().all():
            good = numbers.isfinite().flatten(1).all(1) if numbers.dim() > 1 else numbers.isfinite()
            sample = int(indices[int(good.int().argmin()) * len(indices) // len(good)])
            raise BadValue(f"{name}: expected finite numbers, but {what} has others in sample {sample}")
    lengths = None if batch.lengths is None else batch.lengths.to(device)
    return Batch(batch.u.to(device), batch.target.to(device), lengths)


@torch.no_grad()
def outputs(
    network: nn.Module, kind: str, splits: Splits, name: str, batches: Batches, device: torch.device
) -> Iterator[tuple[Batch, float, Tensor]]:
    """All batches of a split with their weights and with the network's outputs, one per target."""
    for parameter, t in network.state_dict().items():
        if not t.isfinite().all():  # argmax would take NaN for a class
            raise Diverged(f"weights: expected finite numbers, but {parameter} has others")
    network.eval()
    for indices, weight in batches.shares(-1):
        batch = batch_of(splits, name, indices, -1, device)
        output = voted(kind, network(batch.u, batch.lengths), batch)
        if not output.isfinite().all():
            raise Diverged(f"outputs: expected finite numbers, but the network gives others for the split {name!r}")
        yield batch, weight, output
