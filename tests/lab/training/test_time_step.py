"""--set dt=auto."""

import json

import pytest
import torch

from unicornn import suggest_dt
from unicornn.lab import tasks
from unicornn.lab.data._files import Source
from unicornn.lab.training import resolve, train
from unicornn.lab.training._time_step import with_time_step


def config_of(**settings):
    return resolve(tasks.find("digits"), settings={"hidden_size": 4, "epochs": 1, "dt": "auto"} | settings)


@pytest.mark.slow
def test_the_run_has_the_number(tmp_path):
    run = train(config_of(), tmp_path / "run")
    dt = json.loads((run.path / "config.json").read_text())["model_options"]["dt"]
    valid = tasks.find("digits").load(Source(), config_of().task_options, 0).valid
    u = valid.batch(torch.arange(4), -1).u
    assert dt == suggest_dt(len(u), alpha=config_of().model_options["alpha"], input=u)
    again = train(config_of(epochs=2), tmp_path / "run", resume=True)
    assert again.result["epochs"] == 2


def test_other_models_have_no_auto():
    with pytest.raises(ValueError, match="dt: expected something like"):
        resolve(tasks.find("digits"), model="cornn", settings={"dt": "auto"})


def test_a_number_stays():
    config = config_of(dt=0.3)
    assert with_time_step(config, None) is config
