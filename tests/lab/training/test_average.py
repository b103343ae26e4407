"""Averaged weights: what they are, and that a run with them is stopped and resumed as any other."""

import pytest
import torch

from tests.lab.training import helpers
from tests.lab.training.test_train import config, train
from unicornn.errors import BadValue, Stopped
from unicornn.lab.training import _checkpoint
from unicornn.lab.training._average import Average
from unicornn.lab.training._loop import Loop


def test_the_average_is_that_of_the_weights_after_each_step(tmp_path):
    """Recomputed by hand, from the first weights on."""
    expected, begun = {}, Loop.__init__

    def look(loop):
        keep = min(0.9, loop.step / (9 + loop.step))
        for name, t in loop.network.state_dict().items():
            expected[name] = keep * expected[name] + (1 - keep) * t if t.is_floating_point() else t.clone()

    def begin(loop, network, *given):
        expected.update({name: t.clone() for name, t in network.state_dict().items()})
        begun(loop, network, *given)

    with pytest.MonkeyPatch.context() as patch, helpers.after_each_step(look):
        patch.setattr(Loop, "__init__", begin)
        run = train(config(epochs=1, lr=0.02, average=0.9), tmp_path / "run")
    for name, t in run.weights().items():
        torch.testing.assert_close(t, expected[name])


def test_training_goes_on_with_its_own_weights(tmp_path):
    """Averaging changes what is judged, and nothing of how it is learned."""
    plain, averaged = (
        train(config(epochs=3, lr=0.02, average=decay), tmp_path / str(decay)).metrics for decay in (0.0, 0.95)
    )
    assert plain["train_loss"].tolist() == averaged["train_loss"].tolist()
    assert plain["valid_loss"].tolist() != averaged["valid_loss"].tolist()


def test_a_run_stopped_while_the_average_is_judged_resumes_bit_for_bit(tmp_path, monkeypatch):
    settings = {"epochs": 2, "lr": 0.02, "average": 0.95}
    whole = train(config(**settings), tmp_path / "whole")
    judged, stopped = Loop._validate, []

    def stop(loop, between):
        """After a checkpoint, in the middle of the first validation."""
        if not stopped:
            stopped.append(loop.checkpoint())
            raise Stopped("for a test")
        return judged(loop, between)

    monkeypatch.setattr(Loop, "_validate", stop)
    with pytest.raises(Stopped):
        train(config(**settings), tmp_path / "cut")
    monkeypatch.undo()
    _checkpoint.write(tmp_path / "cut" / "last.ckpt", stopped[0])
    resumed = train(config(**settings), tmp_path / "cut", resume=True)
    for name, t in whole.weights().items():
        assert torch.equal(t, resumed.weights()[name])


def test_nothing_is_averaged_without_decay():
    network = torch.nn.Linear(2, 1)
    average = Average(network, 0.0)
    average.update(0)
    with average.shown():
        assert average.own.keys() == network.state_dict().keys()
    assert average.values == {}


def test_a_decay_of_one_is_refused():
    with pytest.raises(BadValue, match=r"average: expected a number in \[0, 1\), got 1"):
        config(average=1.0)
