"""Settings: the task's, a variant's, the user's."""

import pytest

from tests.lab.training import helpers
from unicornn.errors import BadValue
from unicornn.lab import tasks
from unicornn.lab.training._config import resolve


def test_later_settings_win():
    config = resolve(helpers.TASK, variant="wide", settings={"lr": "0.5", "dt": "0.1,0.2", "mode": "fancy", "n": 7})
    assert config.training.lr == 0.5
    assert config.training.epochs == 3
    expected = {"hidden_size": 16, "num_layers": 2, "dt": (0.1, 0.2), "dropout": 0.2, "gradient": "stored"}
    assert config.model_options == expected
    assert config.task_options == {"n": 7, "N": 20, "mode": "fancy"}


def test_baselines_without_published_settings_get_the_sizes():
    options = resolve(helpers.TASK, model="lstm").model_options
    assert options == {"hidden_size": 8, "num_layers": 2, "dropout": 0.2}


BAD_SETTINGS = [
    ("lr", "fast"), ("epochs", "2.5"), ("lr", "-1"), ("lr", "nan"), ("clip", "nan"), ("dt", "0.1,inf"), ("bptt", -1),
    ("epochs", "9" * 400), ("average", 1.0), ("label_smoothing", 1.0), ("huber", 1.0), ("mode", "odd"),
    ("schedule", "steep"), ("learn_dt", "perhaps"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(({"settings": {name: value}}, f"^{name}: expected") for name, value in BAD_SETTINGS),
        ({"settings": {"hiden_size": "3"}}, "^--set: .*did you mean 'hidden_size'"),
        ({"model": "cornn", "settings": {"dt": "auto"}}, "^dt: expected something like"),
        ({"budget": float("nan")}, "^budget: "),
        ({"variant": "512"}, r"^variant: .*\('wide', 'others'\), got '512'"),
        ({"model": "lsmt"}, "^model: expected one of 'unicornn'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(BadValue, match=message):
        resolve(helpers.TASK, **arguments)


def test_tasks_are_found_by_name_or_path(tmp_path):
    assert tasks.find(helpers.__file__).name == "small"
    (tmp_path / "empty.py").write_text("TASK_ = 1\n")
    for name, message in (("psmnst", "'psmnist'"), ("none.py", "there is no"), ("empty.py", "TASK")):
        with pytest.raises(BadValue, match=message):
            tasks.find(str(tmp_path / name) if name.endswith(".py") else name)
