"""Settings: the task's, a variant's, the user's."""

import re

import pytest

from tests.lab.training import helpers
from unicornn.lab import tasks
from unicornn.lab.training import train
from unicornn.lab.training._config import Config, parse, resolve


def test_later_settings_win():
    config = resolve(helpers.TASK, variant="wide", settings={"lr": "0.5", "dt": "0.1,0.2", "mode": "fancy", "n": 7})
    assert config.training.lr == 0.5
    assert config.training.epochs == 3
    assert config.model_options == {
        "hidden_size": 16,
        "num_layers": 2,
        "dt": (0.1, 0.2),
        "dropout": 0.2,
        "gradient": "stored",
    }
    assert config.task_options == {"n": 7, "N": 20, "mode": "fancy"}


def test_baselines_without_published_settings_get_the_sizes():
    options = resolve(helpers.TASK, model="lstm").model_options
    assert options == {"hidden_size": 8, "num_layers": 2, "dropout": 0.2}


def test_config_survives_its_file():
    config = resolve(helpers.TASK, settings={"clip": 1.0}, seed=3, budget=60.0)
    assert Config.from_dict(config.as_dict() | {"command": "more"}) == config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {"hiden_size": "3"}}, "hidden_size"),
        ({"settings": {"lr": "fast"}}, "lr: expected something like 0.01, got 'fast'"),
        ({"settings": {"epochs": "2.5"}}, "epochs: expected something like 3"),
        ({"settings": {"lr": "-1"}}, "lr: expected a finite number > 0, got -1"),
        ({"settings": {"lr": "nan"}}, "lr: expected a finite number > 0, got nan"),
        ({"settings": {"clip": "nan"}}, "clip: expected a finite number >= 0, got nan"),
        ({"settings": {"b_init": "nan"}}, "b_init: expected a finite number, got nan"),
        ({"settings": {"dt": "0.1,inf"}}, "dt: expected a finite number, got inf"),
        ({"settings": {"hidden_size": "9" * 12}}, "hidden_size: expected at most 1,048,576, got a number of 12 digits"),
        ({"settings": {"epochs": "9" * 400}}, "epochs: expected at most 2,147,483,647, got a number of 400 digits"),
        ({"settings": {"N": "9" * 20}}, "N: expected at most 2,147,483,647"),
        ({"settings": {"bptt": -1}}, "bptt: expected an integer >= 0, got -1"),
        ({"budget": float("nan")}, "budget: expected a finite number > 0, got nan"),
        ({"settings": {"mode": "odd"}}, "mode: expected one of plain, fancy, got 'odd'"),
        ({"settings": {"schedule": "steep"}}, "schedule: expected one of 'step'"),
        ({"settings": {"learn_dt": "perhaps"}}, "learn_dt"),
        ({"variant": "512"}, "variant: expected one of small's ('wide', 'others'), got '512'"),
        ({"model": "lsmt"}, "model: expected one of 'unicornn'"),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(helpers.TASK, **arguments)


@pytest.mark.parametrize("model", ["unicornn", "lstm"])
def test_a_network_beyond_the_memory_is_refused(tmp_path, model):
    config = resolve(helpers.TASK, model=model, settings={"hidden_size": 500_000})
    with pytest.raises(ValueError, match=r"hidden_size: .* fits into this machine's .* GiB, got 500000, which takes"):
        train(config, tmp_path / "run", task=helpers.TASK)
    assert not (tmp_path / "run").exists()


def test_pairs():
    assert parse(["lr=0.1", "batch-size = 3"]) == {"lr": "0.1", "batch_size": "3"}
    with pytest.raises(ValueError, match="NAME=VALUE"):
        parse(["lr"])


def test_tasks_are_found_by_name_or_path(tmp_path):
    assert tasks.find(helpers.__file__).name == "small"
    with pytest.raises(ValueError, match="did you mean 'psmnist'"):
        tasks.find("psmnst")
    with pytest.raises(ValueError, match="there is no"):
        tasks.find(str(tmp_path / "none.py"))
    (tmp_path / "empty.py").write_text("TASK_ = 1\n")
    with pytest.raises(ValueError, match="found none"):
        tasks.find(str(tmp_path / "empty.py"))
