"""Wrong calls of the whole library: each error is ours and names the argument; what is accepted, is meant to be."""

from collections import Counter

import pytest
import torch

from tests import fuzz


def wrong(count, seed):
    """What is not as it should be, among so many calls."""
    found = Counter()
    for target, name, value in fuzz.draw(count, seed):
        result = fuzz.attempt(target, name, value)
        if result == "accepted" and fuzz.meant(name, target.arguments[name], value):
            continue
        if result != "named":
            found[f"{target.name}({name}={fuzz.show(value)}): {result}"] += 1
    return sorted(found)


def test_a_few_hundred_wrong_calls():
    torch.use_deterministic_algorithms(False)  # memory filled with NaN takes time, and is another test's subject
    assert not wrong(400, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_ten_thousand_wrong_calls(seed):
    torch.use_deterministic_algorithms(False)
    assert not wrong(2000, seed)


@pytest.mark.parametrize("target", fuzz.targets(), ids=lambda t: t.name)
def test_the_calls_are_right_before_they_are_spoilt(target):
    assert fuzz.attempt(target, *next(iter(target.arguments.items()))) == "accepted"
