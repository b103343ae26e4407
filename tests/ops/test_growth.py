"""The warning about gradients that overflow."""

import math
import re
import warnings

import pytest
import torch

from tests.problems import GPU
from unicornn import UnICORNN
from unicornn._ops import growth

EXPONENT = math.log(1.25 / 2 + 0.5 + math.sqrt((1.25 / 2 + 0.5) ** 2 - 1))  # of [[1 + a², a], [a, 1]], a = 1/2


@pytest.fixture(autouse=True)
def _not_warned(monkeypatch):
    monkeypatch.setattr(growth, "_warned", False)


def inverted_pendulum(N, backend="cpu", dtype=torch.float32, **options):
    """At rest on its top: the state stays zero, its gradient grows by the factor e^EXPONENT at each step."""
    device = GPU if backend == "triton" else "cpu"
    layer = UnICORNN(1, 2, dt=1.0, alpha=0.0, backend=backend, dtype=dtype, device=device, **options)
    with torch.no_grad():
        layer.w[0].fill_(-1)
        layer.c[0].zero_()
    output, _ = layer(torch.zeros(N, 1, 1, dtype=dtype, device=device), output="last")
    return layer, output.sum()


@pytest.mark.parametrize(("backend", "gradient"), [("cpu", "reversible"), ("cpu", "stored"), ("triton", "reversible")])
def test_the_warning_has_size_length_exponent_and_remedies(backend, gradient):
    _, loss = inverted_pendulum(100, backend, gradient=gradient)
    with pytest.warns(RuntimeWarning, match=r"grew to .* N=100 steps") as warned:
        loss.backward()
    (text,) = [str(w.message) for w in warned]
    size, exponent = (float(re.search(pattern, text)[1]) for pattern in (r"grew to (\S+)", r"about e\^\((\S+)\)"))
    assert size > 1.8e19
    assert exponent == pytest.approx(EXPONENT, rel=0.05)
    assert all(word in text for word in ("smaller dt", "larger alpha", "horizon", "1.8e+19"))


def test_only_once():
    with pytest.warns(RuntimeWarning, match="grew to"):
        inverted_pendulum(100)[1].backward()
    inverted_pendulum(100)[1].backward()


@pytest.mark.parametrize(
    ("N", "options"), [(80, {}), (100, {"dtype": torch.float64}), (300, {"horizon": 2.0}), (100, {"horizon": 10.0})]
)
def test_no_warning(N, options):
    inverted_pendulum(N, **options)[1].backward()


def test_nan_in_loss_or_input_does_not_warn_of_growth():
    (inverted_pendulum(3)[1] * math.nan).backward()
    layer = UnICORNN(1, 2, gradient="stored")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the state of layer")
        output, _ = layer(torch.full((3, 1, 1), math.nan))
    output.sum().backward()
