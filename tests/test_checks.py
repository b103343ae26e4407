"""Errors of invalid arguments have the right class and begin with the name of the argument."""

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from unicornn import UnICORNN, UnICORNNCell, functional
from unicornn.functional import Weights

NAN, INF = float("nan"), float("inf")

u = torch.linspace(-1, 1, 36).view(6, 2, 3)
zero = torch.zeros(2, 2, 4)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_arguments_that_contradict_each_other(bidirectional):
    """The first of each call is named. tests/test_fuzz.py has arguments that are invalid by themselves."""
    layer = UnICORNN(3, 4, 1 if bidirectional else 2, bidirectional=bidirectional)
    for call in (
        {"state": (zero, zero), "input": u[:, 0]},
        {"lengths": [6], "input": u[:, 0]},
        {"lengths": [6, 3], "input": pack_sequence([u[:, 0], u[:3, 1]])},
        {"output": torch.zeros(1, 1, dtype=torch.long), "input": u[:, 0]},
        {"output": torch.tensor([5]), "lengths": [6, 3]},
    ):
        with pytest.raises(ValueError, match=rf"^{next(iter(call))}(\[\d\])?: expected"):
            layer(**{"input": u} | call)
    with torch.no_grad(), pytest.raises(ValueError, match=r"^lengths: expected"):
        layer.inverse(u[:, 0], (zero[:, 0], zero[:, 0]), [6])


def test_a_bidirectional_layer_has_no_single_steps():
    with pytest.raises(ValueError, match=r"^step: expected"):
        UnICORNN(3, 4, bidirectional=True).step(u[0])


@torch.no_grad()
def test_the_fast_step_never_reads_invalid_memory():
    """It works on addresses, so mismatched tensors must take the path that checks them."""
    layer, x = UnICORNN(3, 4, 2), torch.randn(2, 3)
    w, V, b, c = ([t.detach().clone() for t in getattr(layer, n)] for n in "wVbc")
    _, state = functional.step(x, Weights(w, V, b, c), dt=layer.dt)
    for bad in ((w, [V[0], V[0]], b, c), ([w[0], w[1][:2]], V, b, c), (w, V, b, [c[0], c[1].double()])):
        with pytest.raises((ValueError, TypeError), match=r"expected"):
            functional.step(x, Weights(*bad), dt=layer.dt, state=state)
    with pytest.raises(ValueError, match="Lambda"):
        functional.step(x, Weights(w, V, b, c, [None, torch.rand(4, 3)]), dt=layer.dt)
    layer.c[1].data[0] = 0.5  # a change that autograd does not notice
    changed, _ = layer.step(x, state)
    torch.testing.assert_close(changed, layer(x[None], state)[0][0])
    layer.c[1].data[0] = NAN
    with pytest.warns(RuntimeWarning, match="not finite"):
        layer.step(x, state)


@pytest.mark.parametrize("make", [lambda: UnICORNN(3, 4, 2), lambda: UnICORNNCell(3, 4)], ids=["layer", "cell"])
@pytest.mark.parametrize("name", ["alpha", "dt", "dropout"])
def test_settings_are_checked_when_set(make, name):
    module = make()
    if name == "dropout" and isinstance(module, UnICORNNCell):
        pytest.skip("a cell has no dropout")
    before = getattr(module, name)
    for bad in (torch.tensor(0.5), torch.nn.Parameter(torch.tensor(0.5)), NAN, INF, -1, None, "1"):
        with pytest.raises((ValueError, TypeError), match=f"^{name}: "):
            setattr(module, name, bad)
        assert getattr(module, name) == before


@torch.no_grad()
def test_new_settings_take_effect():
    layer, x = UnICORNN(3, 4, 2, dt=0.5), torch.randn(2, 3)
    _, state = layer.step(x)
    for name, new in (("alpha", 9.0), ("dt", (0.1, 0.9)), ("dt", 0.3)):
        setattr(layer, name, new)
        assert torch.equal(layer.step(x, state)[0], layer(x[None], state, output="last")[0])
    assert layer.dt == (0.3, 0.3)
