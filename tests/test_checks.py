"""Errors of invalid arguments have the right class and begin with the name of the argument."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from unicornn import UnICORNN, UnICORNNCell, functional
from unicornn.functional import Weights

NAN, INF = float("nan"), float("inf")

u = torch.linspace(-1, 1, 36).view(6, 2, 3)
zero = torch.zeros(2, 2, 4)
packed = pack_sequence([u[:, 0], u[:3, 1]])


def short(value):
    return str(value)[:30].replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("input_size", 0, ValueError),
        ("hidden_size", -3, ValueError),
        ("hidden_size", True, TypeError),
        ("num_layers", 0, ValueError),
        *(("dt", dt, ValueError) for dt in (0.0, -0.1, NAN, INF, (0.1,))),
        ("dt", "0.1", TypeError),
        ("alpha", -1, ValueError),
        ("alpha", NAN, ValueError),
        ("dropout", 1.0, ValueError),
        ("skip_layers", 1, ValueError),
        ("gradient", "inverse", ValueError),
        ("backend", "cuda", ValueError),
        ("init", "wide", ValueError),
        *(("horizon", horizon, ValueError) for horizon in (0, -1.0, NAN, INF, [1.0])),
        ("horizon", "long", TypeError),
    ],
    ids=short,
)
def test_constructor_arguments(name, value, error):
    with pytest.raises(error, match=rf"^{name}: expected .*, got"):
        UnICORNN(**{"input_size": 3, "hidden_size": 4, "num_layers": 2} | {name: value})


def packed_as(data=packed.data, sizes=packed.batch_sizes, order=None, back=None):
    return PackedSequence(data, sizes, order, back)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"input": u[..., :2]}, ValueError),
        ({"input": u[:0]}, ValueError),
        ({"input": u.double()}, TypeError),
        ({"input": u.to("meta")}, ValueError),
        ({"input": packed_as(data=packed.data[:, :2])}, ValueError),
        ({"input": packed_as(order=torch.tensor([0, 0]), back=torch.tensor([0, 0]))}, ValueError),
        ({"state": zero}, TypeError),
        ({"state": (zero[:1], zero)}, ValueError),
        ({"state": (zero, zero.double())}, (TypeError, ValueError)),
        ({"state": (zero, zero), "input": u[:, 0]}, ValueError),
        ({"lengths": [6]}, ValueError),
        ({"lengths": [6, 7]}, ValueError),
        ({"lengths": [0, 6]}, ValueError),
        ({"lengths": [6], "input": u[:, 0]}, ValueError),
        ({"lengths": [6, 3], "input": packed}, ValueError),
        ({"output": "first"}, ValueError),
        ({"output": torch.tensor([6])}, ValueError),
        ({"output": torch.zeros(2, 3, dtype=torch.long)}, ValueError),
        ({"output": torch.zeros(1, 1, dtype=torch.long), "input": u[:, 0]}, ValueError),
        ({"output": torch.tensor([5]), "lengths": [6, 3]}, ValueError),
    ],
    ids=short,
)
def test_call_arguments(call, error, bidirectional):
    """The first argument of each call is the invalid one."""
    layer, name = UnICORNN(3, 4, 2, bidirectional=bidirectional), next(iter(call))
    if bidirectional and isinstance(state := call.get("state"), tuple) and len(state) == 2:
        call = call | {"state": tuple(torch.cat([t, t]) if len(t) == 2 else t for t in state)}
    with pytest.raises(error, match=rf"^{name}(\[\d\])?: expected"):
        layer(**{"input": u} | call)


def test_arguments_of_step_inverse_and_cell():
    layer, cell = UnICORNN(3, 4, 2), UnICORNNCell(3, 4)
    for call, arguments, error, name in (
        (layer.step, (u,), ValueError, "input_n"),
        (layer.step, (u[0, :, :2],), ValueError, "input_n"),
        (layer.step, (u[0], zero), TypeError, "state"),
        (UnICORNN(3, 4, bidirectional=True).step, (u[0],), ValueError, "step"),
        (layer.inverse, (u[:, 0], (zero[:, 0], zero[:, 0]), [6]), ValueError, "lengths"),
        (cell, (u,), ValueError, "input"),
        (cell, (u[0], (zero[0], zero)), ValueError, r"state\[1\]"),
        (cell, (u[0], 3), TypeError, "state"),
    ):
        with torch.no_grad(), pytest.raises(error, match=f"^{name}: expected"):
            call(*arguments)


def test_arguments_of_the_functions():
    w, V, b, c = [torch.rand(4)] * 2, [torch.rand(4, 3), torch.rand(4, 4)], [torch.rand(4)] * 2, [torch.rand(4)] * 2
    good = Weights(w, V, b, c)
    for input, weights, options, error, name in (
        (u, Weights(w, V[:1], b, c), {}, ValueError, "w, V, b, c"),
        (u, Weights(w, [V[0]] * 2, b, c), {}, ValueError, r"V\[1\]"),
        (u, Weights(w, V, b, c, [None, torch.rand(4, 3)]), {}, ValueError, "Lambda"),
        (u, good, {"mask": torch.ones(2, 2)}, ValueError, "mask"),
        (u, tuple(good), {}, TypeError, "weights"),
    ):
        with pytest.raises(error, match=f"^{name}: expected"):
            functional.unicornn(input, weights, **options)
    with pytest.raises(ValueError, match=r"^input: expected"):
        functional.step(u, good)


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
