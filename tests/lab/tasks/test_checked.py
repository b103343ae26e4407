"""Mistakes in a user's task are found before the first epoch; errors name the split and the sample."""

import dataclasses

import pytest
import torch

from tests.lab.search.helpers import TASK, NeverRead
from unicornn.errors import BadType, BadValue
from unicornn.lab.tasks import Batch, Sequences, Splits
from unicornn.lab.tasks._checked import load_checked


class WithoutTarget:
    """A Split without ``target``: its sequences are checked one by one."""

    def __init__(self, base):
        self.base = base

    def __len__(self):
        return len(self.base)

    def batch(self, indices, draw):
        return self.base.batch(indices, draw)


TARGETS = {"classify": torch.arange(8) % 2, "regress": torch.linspace(0, 1, 8), "forecast": torch.rand(8, 20, 2)}


def check(change=None, name="test", kind="classify", wrap=lambda split: split):
    """Checks data of which ``change(u, target)`` has replaced one split."""

    def load(source, options, seed):
        splits = {}
        for each in ("train", "valid", "test"):
            data = torch.rand(8, 20, 2), TARGETS[kind].clone()
            splits[each] = wrap(Sequences(*(change(*data) if change and each == name else data)))
        return Splits(**splits)

    return load_checked(dataclasses.replace(TASK, load=load, kind=kind), None, {}, 0)


@pytest.mark.parametrize("wrap", [lambda split: split, WithoutTarget], ids=["with target", "without target"])
@pytest.mark.parametrize(
    ("kind", "name", "sample", "value"),
    [
        *(("classify", name, *bad) for name in ("train", "valid", "test") for bad in ((5, 2), (0, -1))),
        *((kind, "valid", *bad) for kind in ("regress", "forecast") for bad in ((3, float("nan")), (0, float("inf")))),
    ],
)
def test_invalid_targets(kind, name, sample, value, wrap):
    def change(u, target):
        target[sample] = value
        return u, target

    with pytest.raises(BadValue, match=rf"^{name}: .* got {value} in sample {sample}$"):
        check(change, name, kind, wrap)


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
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_invalid_shapes_and_dtypes(change, kind, error, name):
    with pytest.raises(error, match=f"^{name}: "):
        check(change, name, kind)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("wrap", [lambda split: split, WithoutTarget], ids=["with target", "without target"])
def test_valid_data_pass(kind, wrap):
    assert len(check(kind=kind, wrap=wrap).train) == 8


def test_splits_that_are_not_named_are_not_accessed():
    def load(source, options, seed):
        good = Sequences(torch.rand(8, 20, 2), torch.arange(8) % 2)
        return Splits(good, good, NeverRead())

    load_checked(dataclasses.replace(TASK, load=load), None, {}, 0, ("train", "valid"))


def test_load_must_return_splits():
    with pytest.raises(BadType, match=r"^load: expected Splits of never-read, got NoneType"):
        load_checked(dataclasses.replace(TASK, load=lambda *_: None), None, {}, 0)


def test_every_sequence_is_requested_once_if_there_are_no_targets():
    requested = []

    class Recorded(WithoutTarget):
        def batch(self, indices, draw):
            requested.append((indices.tolist(), draw))
            return Batch(torch.zeros(5, len(indices), 2), torch.zeros(len(indices), dtype=torch.int64))

    load_checked(dataclasses.replace(TASK, load=lambda *_: Splits(*[Recorded(range(3))] * 3)), None, {}, 0)
    assert requested == [([i], draw) for draw in (0, -1, -1) for i in (0, 0, 1, 2)]
