"""Schedules, losses and metrics."""

import math

import pytest
import torch

from unicornn._training.trainer import mean_loss
from unicornn.lab.tasks import Batch
from unicornn.lab.training._metrics import batch_sums, loss_and_metric, per_target
from unicornn.lab.training._trainer import relative_rate


def test_the_papers_schedule_drops_once():
    assert [relative_rate("step", 0.0, epoch, 2) for epoch in range(4)] == [1, 1, 0.1, 0.1]
    assert relative_rate("step", 0.9, 500, 0) == 1
    assert relative_rate("constant", 0.9, 500, 2) == 1


def test_metrics_are_over_samples_not_batches():
    logits, target = torch.eye(3)[[0, 1, 2, 0, 0]], torch.tensor([0, 1, 2, 1, 1])
    parts = slice(0, 4), slice(4, 5)  # 3 of 4 right, then 0 of 1: 0.6, not 0.375
    sums = sum(batch_sums("classify", logits[some], target[some], len(target[some])) for some in parts)
    loss = torch.nn.functional.cross_entropy(logits, target).item()
    assert loss_and_metric("classify", sums) == pytest.approx((loss, 3 / 5))
    output, zeros, parts = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3), (slice(0, 2), slice(2, 3))
    sums = sum(batch_sums("regress", output[some], zeros[some], len(output[some])) for some in parts)
    assert loss_and_metric("regress", sums) == pytest.approx((14 / 3, math.sqrt(14 / 3)))


def test_forecasts_ignore_the_padding():
    torch.manual_seed(1)
    target, output, lengths = torch.randn(6, 3, 2), torch.randn(6, 3, 2), torch.tensor([6, 2, 4])
    for b, length in enumerate(lengths):
        output[length:, b] = 1e6
    inside = [(output[:n, b], target[:n, b]) for b, n in enumerate(lengths)]
    o, t = (torch.cat([pair[i].flatten() for pair in inside]) for i in (0, 1))
    rows = per_target("forecast", output, Batch(torch.zeros(6, 3, 1), target, lengths))
    assert mean_loss(*rows).item() == pytest.approx((o - t).square().mean().item())
    expected = (o - t).square().sum().sqrt() / t.square().sum().sqrt()
    _, nrmse = loss_and_metric("forecast", batch_sums("forecast", *rows, 3))
    assert nrmse == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("classes", [True, False])
def test_weighted_losses_are_means_over_repeated_samples(classes):
    output = torch.randn(3, 2)
    target = torch.tensor([0, 1, 1]) if classes else torch.randn(3, 2)
    repeated = torch.tensor([0, 1, 1])
    weight = torch.tensor([1.0, 2.0, 0.0])
    torch.testing.assert_close(mean_loss(output, target, weight), mean_loss(output[repeated], target[repeated]))


def test_large_errors_count_linearly_and_labels_are_smoothed():
    output, target = torch.tensor([0.0, 5.0]), torch.tensor([0.5, 1.0])
    assert mean_loss(output, target, huber=1.0).item() == pytest.approx((0.5**2 / 2 + 4 - 0.5) / 2)
    logits, classes = torch.randn(3, 4), torch.tensor([0, 3, 1])
    uniform = -logits.log_softmax(1).mean()
    expected = 0.8 * mean_loss(logits, classes) + 0.2 * uniform
    torch.testing.assert_close(mean_loss(logits, classes, smoothing=0.2), expected)
