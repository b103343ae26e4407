"""The fast step: which tensors its kernel may read by address, and the bits of its results."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unicornn import State, UnICORNN, functional
from unicornn._ops.cpu.step import step


def _freed(t):
    t = t.clone()
    t.untyped_storage().resize_(0)
    return t


SAME = {  # the same numbers in other memory
    "lazily negated": lambda t: torch._neg_view(-t),
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "subclass": lambda t: t.as_subclass(type("Other", (torch.Tensor,), {})),
}
UNUSUAL = SAME | {
    "freed": _freed,
    "zero": lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype),
    "other dtype": lambda t: t.half(),
    "smaller": lambda t: t[..., :-1],
    "meta": lambda t: t.to("meta"),
    "number": lambda t: 1.5,
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("what", ["u", "y", "z", "grid", *"wVbc"])
@torch.no_grad()
def test_tensors_that_a_kernel_must_not_read_take_the_ordinary_path(what, kind):
    layer, u = UnICORNN(3, 4, 2), torch.randn(2, 3)
    _, state = layer.step(u)
    weights = layer.weights.map(torch.Tensor.detach)
    expected = layer.step(u, state)[0]
    if what in "wVbc":
        letter = getattr(weights, what)
        weights = weights._replace(**{what: [letter[0], UNUSUAL[kind](letter[1])]})
    elif what == "u":
        u = UNUSUAL[kind](u)
    else:
        parts = {"y": state.y, "z": state.z, "grid": state.grid}
        parts[what] = UNUSUAL[kind](parts[what])
        state = State(parts["y"], parts["z"], grid=parts["grid"])
    assert step(u, weights, layer.dt, layer.alpha, state, "auto") is None
    if kind in SAME:
        output, _ = functional.step(u, weights, dt=layer.dt, alpha=layer.alpha, state=state)
        torch.testing.assert_close(output.as_subclass(torch.Tensor), expected)


@torch.no_grad()
def test_it_is_taken_where_it_may():
    layer, u = UnICORNN(3, 4, 2), torch.randn(2, 3)
    assert step(u, layer.weights, layer.dt, layer.alpha, None, "auto") is not None
    assert step(u.requires_grad_(), layer.weights, layer.dt, layer.alpha, None, "cpu") is not None
    with torch.inference_mode():
        assert step(torch.randn(2, 3), layer.weights, layer.dt, layer.alpha, None, "auto") is not None
    with torch.device("meta"):
        assert step(u, layer.weights, layer.dt, layer.alpha, None, "auto") is None


@given(st.data())
@settings(max_examples=25)
@torch.no_grad()
def test_a_sequence_has_the_same_bits_in_any_batch(data):
    draw = data.draw
    L, residual = draw(st.sampled_from([(1, 0), (2, 0), (3, 2), (4, 2)]))
    d, m, batch = draw(st.integers(1, 20)), draw(st.sampled_from([1, 7, 16, 33, 130])), draw(st.integers(1, 80))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    layer = UnICORNN(d, m, L, dt=0.3, skip_layers=residual, dtype=dtype)
    u, state = torch.randn(2, batch, d, dtype=dtype), None
    states = []
    for u_n in u:
        output, state = layer.step(u_n, state)
        states.append(state)
    few = torch.randperm(batch)[: draw(st.integers(1, 3))]
    start = states[0].map(lambda t: t.index_select(-2, few))
    alone, after = layer.step(u[1, few].contiguous(), start)
    assert torch.equal(alone, output[few])
    assert torch.equal(after.grid, state.grid[:, :, few])


def _allocate_again(letter, name):
    """The memory is freed, and most likely reused by the next tensor of its size."""
    shape, dtype = letter._parameters[name].shape, letter._parameters[name].dtype
    letter._parameters[name] = None
    letter._parameters[name] = torch.nn.Parameter(torch.rand(shape, dtype=dtype))


def _resize(letter, name):
    shape, dtype = letter._parameters[name].shape, letter._parameters[name].dtype
    letter._parameters[name].data = torch.zeros(1, dtype=dtype).resize_(4 * shape.numel()).fill_(0.25).resize_(shape)


CHANGES = {
    "resize": _resize,
    "replace": lambda letter, n: setattr(letter, n, torch.nn.Parameter(torch.rand_like(letter._parameters[n]))),
    "in place": lambda letter, n: letter._parameters[n].data.mul_(0.5),
    "without torch": lambda letter, n: np.multiply(a := letter._parameters[n].detach().numpy(), 0.5, out=a),
    "allocate again": _allocate_again,
    "set data": lambda letter, n: setattr(letter._parameters[n], "data", torch.rand_like(letter._parameters[n])),
}


@pytest.mark.parametrize("batch", [1, 9, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@torch.no_grad()
def test_parameters_that_change_between_steps_are_seen(dtype, batch):
    layer = UnICORNN(3, 20, 4, dt=0.3, skip_layers=2, dtype=dtype)
    u = torch.randn(batch, 3, dtype=dtype)
    _, state = layer.step(u)
    for name, change in CHANGES.items():
        for letter in (layer.w, layer.V, layer.b, layer.c, layer.Lambda):
            change(letter, "3")
            assert step(u, layer.weights, layer.dt, layer.alpha, state, "auto") is not None
            output, after = layer.step(u, state)
            expected, final = layer(u[None], state, output="last")
            assert torch.equal(output, expected), name
            assert torch.equal(after.grid, final.grid), name
        state = after


@torch.no_grad()
def test_layers_of_the_same_size_take_turns():
    """They share the memory in which matrices are packed."""
    layers, u, states = [UnICORNN(3, 20, 3, skip_layers=2) for _ in range(2)], torch.randn(2, 3), [None, None]
    layers[1].V[2].data[-1, -1] = layers[0].V[2].data[-1, -1]
    for _ in range(3):
        for i, layer in enumerate(layers):
            expected = layer(u[None], states[i], output="last")[0]
            output, states[i] = layer.step(u, states[i])
            assert torch.equal(output, expected)


@torch.no_grad()
def test_threads_give_the_same_bits():
    layer, u, before = UnICORNN(3, 20, 2), torch.randn(300, 3), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(layer.step(u, layer.step(u)[1])[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
