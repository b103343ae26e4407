"""Runs: the files they write, that they are repeatable, their learning rates, and numbers that are not finite."""

import dataclasses
import math
import os
import signal
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.lab.training import helpers
from tests.lab.training.helpers import BIAS, after_each_step, config, evaluate, load_network, same, train, weights
from unicornn import suggest_dt
from unicornn.baselines import MODELS
from unicornn.errors import BadValue, Diverged
from unicornn.lab import tasks, training
from unicornn.lab._run_folder import Run
from unicornn.lab.data import Source
from unicornn.lab.errors import InUse, NotARun, RunExists
from unicornn.lab.tasks import Sequences
from unicornn.lab.training._evaluate import initial_network
from unicornn.lab.training._trainer import make_optimizer
from unicornn.models import Network


def test_the_files_of_a_run(tmp_path):
    run = train(config(), tmp_path / "run")
    assert {p.name for p in run.path.iterdir()} == {
        "config.json", "environment.json", "metrics.csv", "best.safetensors", "result.json", "predictions.npz",
        "last.ckpt", "tensorboard",
    }  # fmt: skip
    assert list(run.metrics["epoch"]) == [1, 2, 3]
    assert run.metrics["lr"].tolist() == pytest.approx([1e-2, 1e-2, 1e-3])
    assert {"w_norm_1", "w_norm_2", "train_loss", "valid_loss", "valid", "seconds"} <= set(run.metrics)
    assert run.result["valid"] == run.metrics["valid"].max()
    ranked = run.metrics.sort_values(["valid", "valid_loss"], ascending=[False, True])
    assert run.result["best_epoch"] == ranked["epoch"].iloc[0]
    value, arrays = evaluate(run)
    assert value == run.result["test"] == pytest.approx((arrays["target"] == arrays["prediction"]).mean())
    assert np.array_equal(run.predictions["prediction"], arrays["prediction"])
    assert run.environment["versions"]["torch"] == torch.__version__
    curves = EventAccumulator(str(run.path / "tensorboard")).Reload()
    assert [event.step for event in curves.Scalars("valid")] == [1, 2, 3]
    assert [event.value for event in curves.Scalars("valid")] == pytest.approx(run.metrics["valid"].tolist())


def test_same_seed_same_result_other_seed_another(tmp_path):
    a, b, c = (train(config(seed=seed), tmp_path / name) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert same(weights(a.path), weights(b.path))
    assert not same(weights(a.path), weights(c.path))


def test_the_callers_process_is_left_unchanged(tmp_path):
    denormal = []
    random, handler = torch.get_rng_state(), signal.getsignal(signal.SIGTERM)
    with after_each_step(lambda trainer: denormal.append(sys.float_info.min / 2)):
        run = train(config(epochs=1), tmp_path / "run")
    evaluate(run, "valid")
    load_network(run)
    assert set(denormal) == {0.0}
    assert sys.float_info.min / 2 > 0
    assert torch.equal(torch.get_rng_state(), random)
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_baseline_trains(tmp_path, model):
    if model == "sign-ncde":
        pytest.importorskip("pysiglib")
    run = train(config(model=model, epochs=1, hidden_size=4, num_layers=1, dropout=0.1), tmp_path / "run")
    assert math.isfinite(run.metrics["train_loss"][0])
    assert 0 <= run.result["test"] <= 1


@pytest.mark.parametrize(
    ("settings", "slow"),
    [({"layers_rate": 0.1}, "rnn."), ({"model": "exprnn"}, "W.parametrizations.weight.original")],  # its publication's
)
def test_parameters_that_learn_at_a_tenth_of_the_rate(settings, slow):
    network = initial_network(helpers.TASK, config(**settings))
    names = {p: name for name, p in network.named_parameters()}
    for group in make_optimizer(network, config(**settings)).param_groups:
        for p in group["params"]:
            assert group["share"] == pytest.approx(0.1 if slow in names[p] else 1)
    assert any(slow in name for name in names.values())


def test_averaged_weights_are_validated_and_kept_but_not_trained(tmp_path):
    weights_seen = []
    with after_each_step(lambda trainer: weights_seen.append(trainer.network.get_parameter(BIAS).detach().clone())):
        plain = train(config(epochs=1, lr=0.02), tmp_path / "plain")
    averaged = train(config(epochs=1, lr=0.02, average=0.9), tmp_path / "averaged")
    assert plain.metrics["train_loss"].tolist() == averaged.metrics["train_loss"].tolist()
    assert plain.metrics["valid_loss"].tolist() != averaged.metrics["valid_loss"].tolist()
    expected = torch.zeros(2)  # the initial bias
    for step, bias in enumerate(weights_seen):
        keep = min(0.9, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * bias
    torch.testing.assert_close(averaged.weights()[BIAS], expected)


@pytest.mark.slow
def test_an_automatic_time_step_is_recorded_and_resumed(tmp_path):
    task = tasks.find("digits")
    settings = {"hidden_size": 4, "epochs": 1, "dt": "auto"}
    auto = training.resolve(task, settings=settings)
    run = training.train(auto, tmp_path / "run")
    u = task.load(Source(), auto.task_options, 0).valid.batch(torch.arange(4), -1).u
    assert run.config["model_options"]["dt"] == suggest_dt(len(u), alpha=auto.model_options["alpha"], input=u)
    longer = training.resolve(task, settings=settings | {"epochs": 2})
    assert training.train(longer, tmp_path / "run", resume=True).result["epochs"] == 2


def test_a_run_is_not_overwritten(run_copy):
    before = helpers.files(run_copy)
    with pytest.raises(RunExists, match="--resume"):
        train(config(epochs=1, seed=9), run_copy)
    with pytest.raises(BadValue, match=r"^resume: .*seed was 0, is 9"):
        train(config(epochs=1, seed=9), run_copy, resume=True)
    with pytest.raises(NotARun, match=r"config\.json"):
        train(config(), run_copy.parent / "nothing", resume=True)
    assert helpers.files(run_copy) == before


def test_one_process_at_a_time(tmp_path):
    def train_again(trainer):
        with pytest.raises(InUse, match=rf"run is in use by process {os.getpid()} on "):
            train(config(seed=2), tmp_path / "run")
        with pytest.raises(InUse):
            train(config(), tmp_path / "run", resume=True)

    with after_each_step(train_again):
        run = train(config(epochs=1), tmp_path / "run")
    assert run.config["seed"] == 0
    assert not (run.path / "lock").exists()


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_inputs_that_are_not_finite_are_named_and_end_the_run(tmp_path, split):
    def load(source, options, seed):
        splits = helpers.load(source, options, seed)
        u = getattr(splits, split).u.clone()
        u[5, 3, 1] = math.nan
        return splits._replace(**{split: Sequences(u, getattr(splits, split).target)})

    with pytest.raises(BadValue, match=f"^{split}: expected finite numbers, but sample 5 has others in u"):
        training.train(config(epochs=1), tmp_path / "run", task=dataclasses.replace(helpers.TASK, load=load))
    assert not Run(tmp_path / "run").finished


def test_nan_stops_with_its_position_and_a_remedy(run_copy):
    before = weights(run_copy)
    poison = after_each_step(lambda trainer: trainer.network.get_parameter(BIAS).data.fill_(math.nan))
    with pytest.raises(Diverged, match=r"^loss: .*nan in epoch 2, batch 2 of 7.* lr .*--set"), poison:
        train(config(epochs=2), run_copy, resume=True)
    assert same(before, weights(run_copy))
    assert len(Run(run_copy).metrics) == 1


def test_an_overflowing_gradient_stops_the_run_before_the_step(tmp_path):
    before = {}

    def overflow(trainer):
        before.update({k: v.clone() for k, v in trainer.network.state_dict().items()})
        trainer.network.get_parameter(BIAS).register_hook(lambda gradient: gradient * math.inf)
        before["trainer"] = trainer

    expected = r"^gradient: .*inf .*in epoch 1, batch 2 of 7\. .* dt.* alpha .* horizon .*--set"
    with after_each_step(overflow), pytest.raises(Diverged, match=expected):
        train(config(clip=1.0), tmp_path / "run")
    assert same(before.pop("trainer").network.state_dict(), before)


def test_numbers_that_are_not_finite_are_not_evaluated(run_copy, monkeypatch):
    good = weights(run_copy)
    save_file(good | {BIAS: torch.full((2,), math.nan)}, run_copy / "best.safetensors")
    with pytest.raises(Diverged, match=rf"^weights: .* {BIAS}"):
        evaluate(run_copy)
    save_file(good, run_copy / "best.safetensors")
    monkeypatch.setattr(Network, "forward", lambda network, u, *_: torch.full((u.shape[1], 2), math.nan))
    with pytest.raises(Diverged, match=r"^outputs: .* split 'test'"):
        evaluate(run_copy)
