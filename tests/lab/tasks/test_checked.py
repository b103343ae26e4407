"""Mistakes in a user's task are found before the first epoch; errors name the split and the sample."""

import dataclasses

import pytest
import torch

from tests.lab.search.helpers import TASK, NeverRead
from unicornn.errors import BadType, BadValue
from unicornn.lab import tasks
from unicornn.lab.cli._app import source_in
from unicornn.lab.tasks import Sequences, Splits
from unicornn.lab.tasks._checked import SPLITS, load_checked


class WithoutTarget:
    """A Split without ``target``: its sequences are checked one by one."""

    def __init__(self, base):
        self.base, self.requested = base, []

    def __len__(self):
        return len(self.base)

    def batch(self, indices, draw):
        self.requested.append((indices.tolist(), draw))
        return self.base.batch(indices, draw)


TARGETS = {"classify": torch.arange(8) % 2, "regress": torch.linspace(0, 1, 8), "forecast": torch.rand(8, 20, 2)}
WRAPPED = pytest.mark.parametrize("wrap", [lambda split: split, WithoutTarget], ids=["target", "no target"])


def check(load, names=SPLITS, kind="classify"):
    return load_checked(dataclasses.replace(TASK, load=lambda *_: load, kind=kind, options={}), None, {}, 0, names)


def splits(kind="classify", wrap=lambda split: split, **changed):
    """Valid data of a kind, of which each function of ``changed``, by the name of a split, changes (u, target)."""
    data = {name: (torch.rand(8, 20, 2), TARGETS[kind].clone()) for name in SPLITS}
    return Splits(**{n: wrap(Sequences(*(changed[n](*data[n]) if n in changed else data[n]))) for n in SPLITS})


def replaced(sample, value):
    return lambda u, target: (u, target.index_fill(0, torch.tensor(sample), value))


@WRAPPED
@pytest.mark.parametrize(
    ("kind", "sample", "value"),
    [
        ("classify", 5, 2),
        ("classify", 0, -1),
        *((k, 3, float(v)) for k in ("regress", "forecast") for v in ("nan", "inf")),
    ],
)
@pytest.mark.parametrize("name", SPLITS)
def test_invalid_targets(kind, name, sample, value, wrap):
    with pytest.raises(BadValue, match=rf"^{name}: .* got {value} in sample {sample}$"):
        check(splits(kind, wrap, **{name: replaced(sample, value)}), kind=kind)


@pytest.mark.parametrize(
    ("change", "kind", "error"),
    [
        (lambda u, t: (u[:0], t[:0]), "classify", BadValue),
        (lambda u, t: (u[..., :1], t), "classify", BadValue),
        (lambda u, t: (u[..., 0], t), "classify", BadValue),
        (lambda u, t: (u.long(), t), "classify", BadType),
        (lambda u, t: (u[:, :0], t), "classify", BadValue),
        (lambda u, t: (u, t.float()), "classify", BadType),
        (lambda u, t: (u, t[..., :1]), "forecast", BadValue),
    ],
    ids=["empty", "features", "dimensions", "integers", "no step", "float classes", "forecast"],
)
@pytest.mark.parametrize("name", SPLITS)
def test_invalid_shapes_and_dtypes(change, kind, error, name):
    with pytest.raises(error, match=f"^{name}: "):
        check(splits(kind, **{name: change}), kind=kind)


def test_load_must_return_splits():
    with pytest.raises(BadType, match=r"^load: expected Splits of never-read, got NoneType"):
        check(None)


@WRAPPED
@pytest.mark.parametrize("kind", TARGETS)
def test_only_the_named_splits_are_read_each_sequence_once(kind, wrap):
    checked = check(splits(kind, wrap)._replace(test=NeverRead()), SPLITS[:2], kind)
    for split, draw in zip(checked[:2], (0, -1), strict=True):
        expected = [([i], draw) for i in (0, *range(8))]
        assert getattr(split, "requested", expected) == expected


INVALID: dict[str, dict[str, list[object]]] = {
    "recall": {"N": [9, 1.5, 2**31], "short_epochs": [-1], "short_steps": [(5,), "soon"]},
    "bidmc-hr": {"stretch": [1.0], "shift": [4000], "split": ["patients"]},
    "speech": {"rate": [4000], "filter": [float("nan")]},
}


@pytest.mark.parametrize(
    ("name", "option", "value"), [(n, o, v) for n, options in INVALID.items() for o, vs in options.items() for v in vs]
)
def test_invalid_options_are_named_before_files_are_sought(tmp_path, name, option, value):
    task = tasks.find(name)
    with pytest.raises((BadValue, BadType), match=f"^(short_steps|{option}): "):
        load_checked(task, source_in(tmp_path), task.defaults | {option: value}, 0)
    with pytest.raises(BadValue, match=f"^{option}: .*found none"):
        task.check({k: v for k, v in task.defaults.items() if k != option})
