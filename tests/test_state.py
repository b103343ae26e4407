"""A State survives saving, copying, hooks, tree maps and moves completely; so do the baselines' states."""

import copy
import io
import pickle

import pytest
import torch
from torch.utils import _pytree as pytree

from unicornn import State, UnICORNN, UnICORNNCell
from unicornn.baselines import GRU


def saved_by_torch(state):
    file = io.BytesIO()
    torch.save({"state": state, "epoch": 3}, file)
    file.seek(0)
    return torch.load(file)["state"]  # with its safe default, weights_only


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "torch.save": saved_by_torch,
    "tree_map": lambda state: pytree.tree_map(torch.clone, state),
    "map": lambda state: state.map(torch.clone),
    "to": lambda state: state.to("cpu"),
    "detach": State.detach,
}


def tensors(state):
    return [*state, state.grid, state.rest, state.mask]


def equal(a, b):
    pairs = zip(tensors(a), tensors(b), strict=True)
    return all((x is None and y is None) or torch.equal(x, y) for x, y in pairs)


def test_a_state_is_a_tuple():
    y, z = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
    state = State(y, z)
    assert tuple(state) == (y, z)
    assert state[1] is state.z is z
    assert isinstance(state, tuple)
    assert state.map(lambda t: t + 1).y.max() == 1


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@torch.no_grad()
def test_copies_are_complete(way, backend):
    layer, u = UnICORNN(2, 6, 2, dropout=0.5, backend=backend), torch.randn(50, 3, 2)
    start = torch.randn(2, 3, 6), torch.randn(2, 3, 6)
    _, state = layer(u, start)
    twin = COPIES[way](state)
    assert type(twin) is State
    assert twin.mask is not None
    assert (twin.grid is None) == (backend == "reference")
    assert equal(twin, state)
    if backend == "cpu":
        assert all(torch.equal(t, s) for t, s in zip(layer.inverse(u, twin), start, strict=True))
        plain = layer.inverse(u, State(*state, mask=state.mask))  # without the low-order bits, it is merely close
        torch.testing.assert_close(plain.y, start[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("make", [UnICORNN, GRU])
def test_all_tensors_move_with_the_state(make):
    _, state = make(2, 3, dropout=0.5)(torch.randn(4, 1, 2))
    for moved in (state.to("meta"), pytree.tree_map(lambda t: t.to("meta"), state)):
        leaves = pytree.tree_leaves(moved)
        assert len(leaves) == sum(t is not None for t in tensors(state))
        assert all(t.is_meta for t in leaves)
        assert moved.mask.is_meta


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("hook", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_hooks_keep_the_low_order_bits(hook):
    torch.manual_seed(0)
    cell, u, calls = UnICORNNCell(2, 6), torch.randn(20, 3, 2), []
    plain = hooked = None
    for u_n in u:
        plain = cell(u_n, plain)
    handle = getattr(cell, hook)(lambda *_: calls.append(1))
    for u_n in u:
        hooked = cell(u_n, hooked)
    assert type(hooked) is State
    assert equal(hooked, plain)
    hooked.y.sum().backward()
    assert len(calls) == len(u)
    handle.remove()
    replacing = cell.register_forward_hook(lambda *_: (torch.zeros(3, 6),) * 2)  # a hook may replace the state
    assert not torch.stack(cell(u[0])).any()
    replacing.remove()
    layer, leaf = UnICORNN(2, 6), u.clone().requires_grad_()
    getattr(layer, hook)(lambda *_: None)
    output, state = layer(leaf)
    assert state.grid is not None
    output.sum().backward()
    assert leaf.grad.any()
