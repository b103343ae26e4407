"""Mistakes of a task of one's own are found before the first epoch, and named with their split and sample."""

import dataclasses

import pytest
import torch

from tests.lab.search.helpers import TASK, NeverRead
from unicornn.lab.tasks import Batch, Sequences, Splits
from unicornn.lab.tasks._checked import load_checked


class Own:
    """A Split without ``target``: every sequence is asked for."""

    def __init__(self, whole):
        self.whole = whole

    def __len__(self):
        return len(self.whole)

    def batch(self, indices, draw):
        return self.whole.batch(indices, draw)


def check(change, name="test", own=False, kind="classify", **task):
    """What load_checked makes of data in which ``change(u, target)`` replaces one split."""

    def load(source, options, seed):
        splits = {}
        for each in ("train", "valid", "test"):
            u, target = torch.rand(8, 20, 2), torch.arange(8) % 2
            if kind == "regress":
                target = target.float()
            if kind == "forecast":
                target = torch.rand(8, 20, 2)
            u, target = change(u, target) if each == name else (u, target)
            splits[each] = Own(Sequences(u, target)) if own else Sequences(u, target)
        return Splits(**splits)

    return load_checked(dataclasses.replace(TASK, load=load, kind=kind, **task), None, {}, 0)


def at(index, value):
    def change(u, target):
        target[index] = value
        return u, target

    return change


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_a_class_out_of_range(name, own):
    with pytest.raises(ValueError, match=rf"^{name}: expected classes from 0 to 1, got 2 in sample 5$"):
        check(at(5, 2), name, own)
    with pytest.raises(ValueError, match=rf"^{name}: expected classes from 0 to 1, got -1 in sample 0$"):
        check(at(0, -1), name, own)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("kind", ["regress", "forecast"])
def test_a_target_that_is_not_finite(kind, own):
    with pytest.raises(ValueError, match=r"^valid: expected finite targets, got nan in sample 3$"):
        check(at(3, float("nan")), "valid", own, kind)
    with pytest.raises(ValueError, match=r"^valid: expected finite targets, got inf in sample 0$"):
        check(at(0, float("inf")), "valid", own, kind)


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_an_empty_split(name):
    with pytest.raises(ValueError, match=rf"^{name}: expected at least one sequence, got none$"):
        check(lambda u, target: (u[:0], target[:0]), name)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            lambda u, t: (u[..., :1], t),
            "classify",
            r"^test: expected u of shape \(N, b, 2\), got \(20, 1, 1\) in sample",
        ),
        (lambda u, t: (u[..., 0], t), "classify", r"^test: expected u of shape \(N, b, 2\), got \(20, 1\) in sample 0"),
        (lambda u, t: (u.long(), t), "classify", "^test: expected u to be floating-point numbers, got torch.int64"),
        (lambda u, t: (u[:, :0], t), "classify", "^test: expected at least one step, got none"),
        (lambda u, t: (u, t.float()), "classify", "^test: expected classes as integers, got torch.float32"),
        (lambda u, t: (u, t[..., :1]), "forecast", r"^test: expected a target of shape \(N, b, 2\), got \(20, 1, 1\)"),
    ],
)
def test_the_form_of_a_sample(change, kind, message):
    with pytest.raises((ValueError, TypeError), match=message):
        check(change, kind=kind)


def test_what_is_right_passes():
    assert len(check(lambda u, t: (u, t)).train) == 8
    assert len(check(lambda u, t: (u, t), kind="regress").train) == 8
    assert len(check(lambda u, t: (u, t), kind="forecast", own=True).train) == 8


def test_the_test_set_is_left_alone_if_wanted():
    def load(source, options, seed):
        good = Sequences(torch.rand(8, 20, 2), torch.arange(8) % 2)
        return Splits(good, good, NeverRead())

    load_checked(dataclasses.replace(TASK, load=load), None, {}, 0, ("train", "valid"))


def test_what_load_returns_is_named():
    with pytest.raises(TypeError, match="load: expected Splits of never-read, got NoneType"):
        load_checked(dataclasses.replace(TASK, load=lambda *_: None), None, {}, 0)


def test_every_sequence_is_asked_for_once_if_there_are_no_targets():
    asked = []

    class Counted(Own):
        def batch(self, indices, draw):
            asked.append((indices.tolist(), draw))
            return Batch(torch.zeros(5, len(indices), 2), torch.zeros(len(indices), dtype=torch.int64))

    def load(source, options, seed):
        return Splits(*[Counted(range(3))] * 3)

    load_checked(dataclasses.replace(TASK, load=load), None, {}, 0)
    assert asked == [([i], draw) for draw in (0, -1, -1) for i in (0, 0, 1, 2)]
