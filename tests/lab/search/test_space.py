"""The search space, and error messages about it."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from tests.lab.search import helpers
from tests.lab.search.helpers import imagined_training, run_search
from tests.lab.training import helpers as small
from unicornn.lab import tasks
from unicornn.lab.search import _search
from unicornn.lab.search._space import SPACE
from unicornn.lab.training._config import parse, resolve


def axes_of(name=small.__file__, *, settings=None, space=None, **options):
    """The axes of a search and the values that it fixes."""
    settings = settings or {}
    config = resolve(tasks.find(name), name=name, settings=settings, **options)
    return _search._axes(config, settings, space or {})


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Runs a search with one trial and returns the settings that it was trained with."""

    def run(task=small.__file__, **options):
        configs = []

        def train(config, folder, **more):
            configs.append(config)
            return imagined_training(config, folder, **more)

        monkeypatch.setattr(_search, "train", train)
        run_search(tmp_path / str(len(list(tmp_path.iterdir()))), task, trials=1, **options)
        return configs[0]

    return run


def test_the_five_parameters_of_the_paper():
    axes, fixed = axes_of()
    assert axes == {name: SPACE[name] for name in ("lr", "dropout", "batch_size", "dt", "alpha")}
    assert not fixed


@pytest.mark.parametrize("name", tasks.names())
def test_the_ranges_contain_what_the_tasks_use(name):
    """A search could have found every setting of a task, from Table 6 or ours."""
    task = tasks.find(name)
    for variant in (None, *task.variants):
        (axes, _), config = axes_of(name, variant=variant), resolve(task, variant=variant)
        used = {"lr": config.training.lr, "batch_size": config.training.batch_size} | dict(config.model_options)
        dt = used["dt"] if isinstance(used["dt"], tuple) else (used["dt"],)
        used |= {"dt": dt[-1]} | ({"dt_first": dt[0]} if len(dt) > 1 else {})
        outside = {key: used[key] for key in axes if key in used and not contains(axes[key], used[key])}
        assert not outside, f"{variant}: {outside} is not in the ranges"


def contains(axis, value):
    return value in axis.choices if isinstance(axis, CategoricalDistribution) else axis.low <= value <= axis.high


def test_one_dt_per_layer_where_the_task_has_it(trained):
    axes, _ = axes_of(helpers.__file__, settings={"num_layers": 3})
    assert list(axes) == ["lr", "dropout", "batch_size", "dt_first", "dt", "alpha"]
    assert not {"dt", "dt_first"} & set(axes_of(helpers.__file__, settings={"dt": "0.1"})[0])
    options = {"settings": {"n": 16, "num_layers": 3}, "space": {"dt_first": 1e-4}}
    first, *others = trained(helpers.__file__, **options).model_options["dt"]
    assert first == 1e-4
    assert others == [others[0]] * 2
    assert trained(helpers.__file__, space={"dt": 0.2}).model_options["dt"][1] == 0.2


@pytest.mark.parametrize(("model", "more"), [("lstm", []), ("cornn", ["dt"])])
def test_a_baseline_is_searched_for_the_parameters_it_has(model, more):
    assert list(axes_of(model=model)[0]) == ["lr", "dropout", "batch_size", *more]


def test_ranges_are_changed_and_fixed(trained):
    axes, fixed = axes_of(space=parse(["lr=1e-4,1e-2", "batch-size=8,16,24", "alpha=0", "dropout=0.1,0.2"]))
    assert axes["lr"] == FloatDistribution(1e-4, 1e-2, log=True)
    assert axes["batch_size"] == CategoricalDistribution((8, 16, 24))
    assert axes["dropout"] == FloatDistribution(0.1, 0.2)
    assert fixed == {"alpha": 0.0}
    assert "lr" not in axes_of(settings={"lr": 0.1})[0]
    config = trained(space={"batch_size": 32, "alpha": "0"})
    assert (config.training.batch_size, config.model_options["alpha"]) == (32, 0.0)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"lern": 1}, "^--range: .*'lern'"),
        ({"hidden_size": 3}, "^--range: .*'hidden_size'"),
        ({"lr": "1,2,3"}, "^--range lr: .*LOW,HIGH"),
        ({"lr": (0.1, 0.01)}, "^--range lr: .*LOW < HIGH"),
        ({"lr": "small"}, "^--range lr: "),
        ({"dropout": (0.5, 1.0)}, "^--range dropout: .*>= 0 and < 1"),
        ({"batch_size": "16,32.5"}, "^--range batch_size: .*int"),
        ({"lr": 1, "dropout": 0, "batch_size": 8, "dt": 1, "alpha": 1}, "^--range: .*every parameter"),
    ],
)
def test_mistakes_in_a_range_are_named(space, message):
    with pytest.raises(ValueError, match=message):
        axes_of(space=space)


def test_other_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"^--range: "):
        parse(["lr"], "--range", "NAME=LOW,HIGH or NAME=VALUE")
    with pytest.raises(ValueError, match=r"^--range: .*'lr' in both"):
        axes_of(space={"lr": 1}, settings={"lr": 1})
    for name, value in (("sampler", "best"), ("pruner", "best"), ("trials", 0)):
        with pytest.raises(ValueError, match=f"^{name}: "):
            run_search(tmp_path / "search", **{name: value})
    assert not (tmp_path / "search").exists()
