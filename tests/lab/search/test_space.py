"""What is searched, and what is said about mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FixedTrial

from tests.lab.search import helpers
from tests.lab.search.helpers import run_search
from tests.lab.training import helpers as small
from unicornn.lab import tasks
from unicornn.lab.search._plan import make_plan
from unicornn.lab.search._space import SPACE, chosen, draw
from unicornn.lab.training._config import parse, resolve


def plan(name=small.__file__, **changes):
    usual = {"model": "unicornn", "variant": None, "seed": 0, "budget": None, "settings": {}, "space": {}}
    return make_plan(
        tasks.find(name), name=name, **(usual | {"sampler": "random", "pruner": "none", "trials": 5} | changes)
    )


def test_the_papers_five():
    assert dict(plan().axes) == {k: SPACE[k] for k in ("lr", "dropout", "batch_size", "dt", "alpha")}


@pytest.mark.parametrize("name", tasks.names())
def test_the_ranges_contain_what_the_tasks_have(name):
    """Table 6, and ours where the paper has none: whatever a task is trained with could have been found."""
    task = tasks.find(name)
    for variant in (None, *task.variants):
        axes, config = plan(name, variant=variant).axes, resolve(task, variant=variant)
        has = {"lr": config.training.lr, "batch_size": config.training.batch_size} | dict(config.model_options)
        dt = has["dt"] if isinstance(has["dt"], tuple) else (has["dt"],)
        has |= {"dt": dt[-1]} | ({"dt_first": dt[0]} if len(dt) > 1 else {})
        outside = {key: has[key] for key in axes if key in has and not contains(axes[key], has[key])}
        assert not outside, f"{variant}: {outside} is not in the ranges"


def contains(axis, value):
    return value in axis.choices if isinstance(axis, CategoricalDistribution) else axis.low <= value <= axis.high


def test_one_dt_per_layer_where_the_task_has_it():
    each = plan(helpers.__file__, settings={"num_layers": 3})
    assert list(each.axes) == ["lr", "dropout", "batch_size", "dt_first", "dt", "alpha"]
    config = each.config({"lr": 0.1, "dropout": 0.0, "batch_size": 16, "dt_first": 1e-5, "dt": 0.2, "alpha": 1.0})
    assert config.model_options["dt"] == (1e-5, 0.2, 0.2)
    assert "dt_first" not in config.model_options
    some = plan(helpers.__file__, space={"dt_first": 1e-4})
    assert some.config({"dt": 0.2}).model_options["dt"] == (1e-4, 0.2)
    assert not {"dt", "dt_first"} & set(plan(helpers.__file__, settings={"dt": "0.1"}).axes)


@pytest.mark.parametrize(("model", "more"), [("lstm", []), ("cornn", ["dt"])])
def test_a_baseline_has_what_it_has(model, more):
    assert list(plan(model=model).axes) == ["lr", "dropout", "batch_size", *more]


def test_ranges_are_changed_and_fixed():
    changed = plan(space=parse(["lr=1e-4,1e-2", "batch-size=8,16,24", "alpha=0", "dropout=0.1,0.2"]))
    assert changed.axes["lr"] == FloatDistribution(1e-4, 1e-2, log=True)
    assert changed.axes["batch_size"] == CategoricalDistribution((8, 16, 24))
    assert changed.axes["dropout"] == FloatDistribution(0.1, 0.2)
    assert "alpha" not in changed.axes
    assert changed.config({"lr": 0.01}).model_options["alpha"] == 0.0
    assert plan(space={"batch_size": 32}).config({}).training.batch_size == 32
    assert "lr" not in plan(settings={"lr": 0.1}).axes


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"lern": 1}, r"--range: expected one of lr, dropout, batch_size, dt, alpha, got 'lern'"),
        ({"alfa": 1}, r"did you mean 'alpha'\?"),
        ({"dt_first": 1}, r"expected one of lr, .* got 'dt_first'"),
        ({"lr": "1,2,3"}, r"--range lr: expected a number or two"),
        ({"lr": "small"}, r"--range lr: expected a number or two, the ends of a range, got \['small'\]"),
        ({"lr": (0.1, 0.01)}, r"LOW < HIGH, got 0.1,0.01"),
        ({"lr": (0, 0.01)}, r"--range lr: expected numbers > 0, got 0"),
        ({"dropout": (0.5, 1.0)}, r"--range dropout: expected numbers >= 0 and < 1, got 1"),
        ({"dt": (1e-3, float("inf"))}, r"--range dt: expected numbers > 0, got inf"),
        ({"batch_size": "16,32.5"}, r"--range batch_size: expected an integer or several"),
        ({"batch_size": 0}, r"--range batch_size: expected numbers >= 1, got 0"),
        ({"hidden_size": 3}, r"expected one of lr"),
    ],
)
def test_mistakes_are_named(space, message):
    with pytest.raises(ValueError, match=message):
        plan(space=space)


def test_other_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="--range: expected NAME=LOW,HIGH"):
        parse(["lr"], "--range", "NAME=LOW,HIGH or NAME=VALUE")
    with pytest.raises(ValueError, match="got 'lr' in both"):
        plan(space={"lr": 1}, settings={"lr": 1})
    with pytest.raises(ValueError, match="every parameter is fixed"):
        plan(space={"lr": 1, "dropout": 0, "batch_size": 8, "dt": 1, "alpha": 1})
    for name in ("sampler", "pruner"):
        with pytest.raises(ValueError, match=f"{name}: expected one of"):
            run_search(tmp_path / "search", **{name: "best"})
    with pytest.raises(ValueError, match="trials: expected an integer >= 1, got 0"):
        run_search(tmp_path / "search", trials=0)
    assert not (tmp_path / "search").exists()


ends = st.lists(st.floats(1e-9, 1e9), min_size=2, max_size=2, unique=True).map(sorted)


@given(ends, st.floats(0, 1))
def test_what_is_drawn_is_in_the_range_and_short(ends, share):
    axes, _ = chosen(["lr"], {"lr": ends})
    low, high = ends
    value = draw(FixedTrial({"lr": min(max(low + share * (high - low), low), high)}), "lr", axes["lr"])
    assert low <= value <= high
    assert value in (low, high, float(f"{value:.3g}"))
