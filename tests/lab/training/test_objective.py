"""Schedules, losses and metrics."""

import math

import pytest
import torch

from unicornn.lab.tasks import Batch
from unicornn.lab.training._objective import Tally, loss_of, rate


def test_the_papers_schedule_drops_once():
    assert [rate("step", 0.0, epoch, 2) for epoch in range(4)] == [1, 1, 0.1, 0.1]
    assert rate("step", 0.9, 500, 0) == 1
    assert rate("constant", 0.9, 500, 2) == 1


@pytest.mark.parametrize("schedule", ["onecycle", "cosine"])
def test_smooth_schedules_end_at_zero(schedule):
    rates = [rate(schedule, share / 100, 0, 0) for share in range(101)]
    assert max(rates) == pytest.approx(1)
    assert rates[-1] == pytest.approx(0, abs=1e-9)
    assert rates[0] == (1 if schedule == "cosine" else 0.04)
    falling = rates[10:] if schedule == "onecycle" else rates
    assert falling == sorted(falling, reverse=True)


CPU = torch.device("cpu")


def test_metrics_are_over_samples_not_batches():
    accuracy, logits = Tally("classify"), torch.eye(3)[[0, 1, 2, 0, 0]]
    target = torch.tensor([0, 1, 2, 1, 1])
    for some in (slice(0, 4), slice(4, 5)):  # 3 of 4 right, then 0 of 1: 0.6, not 0.375
        accuracy.add(logits[some], Batch(torch.zeros(7, len(target[some]), 1), target[some]))
    loss, value = accuracy.over_all(CPU)
    assert value == pytest.approx(3 / 5)
    assert loss == pytest.approx(torch.nn.functional.cross_entropy(logits, target).item())
    rmse, output = Tally("regress"), torch.tensor([1.0, 2.0, 3.0])
    for some in (slice(0, 2), slice(2, 3)):
        rmse.add(output[some], Batch(torch.zeros(7, len(output[some]), 1), torch.zeros(3)[some]))
    assert rmse.over_all(CPU) == pytest.approx((14 / 3, math.sqrt(14 / 3)))


def test_forecasts_leave_the_padding_out():
    torch.manual_seed(1)
    target, output, lengths = torch.randn(6, 3, 2), torch.randn(6, 3, 2), torch.tensor([6, 2, 4])
    for b, length in enumerate(lengths):
        output[length:, b] = 1e6
    batch = Batch(torch.zeros(6, 3, 1), target, lengths)
    kept = [(output[:n, b], target[:n, b]) for b, n in enumerate(lengths)]
    o, t = (torch.cat([pair[i].flatten() for pair in kept]) for i in (0, 1))
    assert loss_of("forecast", output, batch).item() == pytest.approx((o - t).square().mean().item())
    tally = Tally("forecast")
    for b in range(3):
        tally.add(output[:, b : b + 1], Batch(batch.u[:, :1], target[:, b : b + 1], lengths[b : b + 1]))
    expected = ((o - t).square().mean().sqrt() / t.square().mean().sqrt()).item()
    assert tally.over_all(CPU)[1] == pytest.approx(expected, rel=1e-5)
