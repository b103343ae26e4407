"""Invalid calls of the whole library: errors are ours and name the argument; accepted values are valid ones."""

from collections import Counter

import pytest
import torch

from tests import fuzz


def unexpected_outcomes(count, seed):
    """Random calls, ``count`` of them, that were accepted by mistake or whose error does not name the argument."""
    found = Counter()
    for target, name, value in fuzz.draw(count, seed):
        result = fuzz.attempt(target, name, value)
        if result == "accepted" and fuzz.is_valid(name, target.arguments[name], value):
            continue
        if result != "named":
            found[f"{target.name}({name}={fuzz.describe(value)}): {result}"] += 1
    return sorted(found)


def test_a_few_hundred_invalid_calls():
    torch.use_deterministic_algorithms(False)  # filling memory with NaN takes time
    assert not unexpected_outcomes(400, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_ten_thousand_invalid_calls(seed):
    torch.use_deterministic_algorithms(False)
    assert not unexpected_outcomes(2000, seed)


@pytest.mark.parametrize("target", [t for t in fuzz.targets() if t.valid], ids=lambda t: t.name)
def test_the_unchanged_calls_are_valid(target):
    assert fuzz.attempt(target, *next(iter(target.arguments.items()))) == "accepted"
