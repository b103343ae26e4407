"""Loss and metric of a task over the samples of a split, with checks that all numbers are finite."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from unicornn._training.batches import Batches
from unicornn._training.trainer import mean_loss
from unicornn.errors import BadValue, Diverged
from unicornn.lab.tasks._base import Batch, Split, Splits, Task
from unicornn.lab.training._processes import rank, summed, world

AfterBatch = Callable[[Tensor, Tensor], None]


def batches_of(split: Split, size: int, seed: int | None = None, *, distributed: bool = False) -> Batches:
    """The batches of a split, of similar lengths if it has ``sizes``; ``distributed`` shares them between processes."""
    place = (rank(), world()) if distributed else (0, 1)
    return Batches(len(split), size, seed, *place, lengths=getattr(split, "sizes", None))


def finite_batch(splits: Splits, name: str, indices: Tensor, draw: int, device: torch.device) -> Batch:
    """Some sequences of the split ``name``. Raises ``BadValue`` if one of their numbers is not finite."""
    batch: Batch = getattr(splits, name).batch(indices, draw)
    time_first = batch.target.dim() == 3
    for what, numbers in (("u", batch.u.transpose(0, 1)), ("target", batch.target.transpose(0, int(time_first)))):
        if not numbers.isfinite().all():
            good = numbers.isfinite().flatten(1).all(1) if numbers.dim() > 1 else numbers.isfinite()
            sample = int(indices[int(good.int().argmin()) * len(indices) // len(good)])
            raise BadValue(f"{name}: expected finite numbers, but sample {sample} has others in {what}")
    lengths = None if batch.lengths is None else batch.lengths.to(device)
    return Batch(batch.u.to(device), batch.target.to(device), lengths)


def per_target(kind: str, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Outputs and targets of a batch, row by row.

    Several sequences for one target vote: their outputs are averaged, for classes their log-probabilities. Steps of a
    forecast (N, b, k) become rows (steps, k), without the padding.
    """
    if kind != "forecast":
        k = len(output) // len(batch.target)
        if k > 1:
            votes = output.log_softmax(1) if kind == "classify" else output
            output = votes.unflatten(0, (-1, k)).mean(1)
        return output, batch.target
    if batch.lengths is None:
        return output.flatten(0, 1), batch.target.flatten(0, 1)
    inside = torch.arange(len(output), device=output.device)[:, None] < batch.lengths.to(output.device)
    return output[inside], batch.target[inside]


def batch_sums(kind: str, output: Tensor, target: Tensor, sequences: int) -> Tensor:
    """Four sums over a batch, as ``per_target`` returns it: loss times sequences, sequences, error, its divisor.

    Accuracy is a fraction of the samples, RMSE the root of the mean squared error over them, and NRMSE the root of the
    squared error divided by the squared targets.
    """
    classify = kind == "classify"
    error = (output.argmax(1) == target).sum() if classify else (output - target).double().square().sum()
    total = target.double().square().sum().item() if kind == "forecast" else target.numel()
    loss = mean_loss(output, target).item()
    return torch.tensor([loss * sequences, sequences, error.item(), total], dtype=torch.float64)


def loss_and_metric(kind: str, sums: Tensor) -> tuple[float, float]:
    """Loss and metric over all samples, from the sums of ``batch_sums`` over batches and processes."""
    loss, sequences, error, total = sums.tolist()
    return loss / sequences, error / total if kind == "classify" else math.sqrt(error / total)


@torch.no_grad()
def measure(
    network: nn.Module, task: Task, splits: Splits, name: str, batches: Batches, after_batch: AfterBatch
) -> tuple[float, float]:
    """Loss and metric of a network on a split; ``after_batch`` receives the outputs and targets of each batch."""
    device = next(network.parameters()).device
    for parameter, t in network.state_dict().items():
        if not t.isfinite().all():  # argmax would return a class even for NaN
            raise Diverged(f"weights: expected finite numbers, but {parameter} has others")
    network.eval()
    sums = torch.zeros(4, dtype=torch.float64)
    for indices, weight in batches.shares(-1):
        batch = finite_batch(splits, name, indices, -1, device)
        output, target = per_target(task.kind, network(batch.u, batch.lengths), batch)
        if not output.isfinite().all():
            raise Diverged(f"outputs: expected finite numbers, but the network returns others for the split {name!r}")
        if weight:
            sums += batch_sums(task.kind, output, target, batch.u.shape[1])
        after_batch(output, target)
    return loss_and_metric(task.kind, summed(sums.to(device)))
