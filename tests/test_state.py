"""A State is carried around whole: saved, copied, hooked, mapped over, moved; and so are the baselines' states."""

import copy
import io
import pickle

import pytest
import torch
from torch.utils import _pytree as pytree

from unicornn import State, UnICORNN, UnICORNNCell
from unicornn.baselines import GRU, LSTM


def saved_by_torch(state):
    file = io.BytesIO()
    torch.save({"state": state, "epoch": 3}, file)
    file.seek(0)
    return torch.load(file)["state"]  # its safe default, weights_only


CARRIED = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "torch.save": saved_by_torch,
    "tree_map": lambda state: pytree.tree_map(torch.clone, state),
    "map": lambda state: state.map(torch.clone),
    "to": lambda state: state.to("cpu"),
    "detach": State.detach,
}


def equal(a, b):
    return all(
        (x is None and y is None) or torch.equal(x, y)
        for x, y in zip([*a, a.grid, a.rest, a.mask], [*b, b.grid, b.rest, b.mask], strict=True)
    )


@pytest.mark.parametrize("way", CARRIED)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@torch.no_grad()
def test_nothing_is_lost(way, backend):
    layer, u = UnICORNN(2, 6, 2, dropout=0.5, backend=backend), torch.randn(50, 3, 2)
    start = torch.randn(2, 3, 6), torch.randn(2, 3, 6)
    _, state = layer(u, start)
    twin = CARRIED[way](state)
    assert type(twin) is State
    assert twin.mask is not None
    assert (twin.grid is None) == (backend == "reference")
    assert equal(twin, state)
    if backend == "cpu":
        assert all(torch.equal(t, s) for t, s in zip(layer.inverse(u, twin), start, strict=True))


@pytest.mark.parametrize("way", CARRIED)
@pytest.mark.parametrize("model", [GRU, LSTM])
@torch.no_grad()
def test_nothing_of_a_baselines_state_is_lost(way, model):
    baseline, u = model(2, 6, 2, dropout=0.5), torch.randn(9, 3, 2)
    _, state = baseline(u)
    twin = CARRIED[way](state)
    assert type(twin) is State
    assert equal(twin, state)
    assert torch.equal(baseline(u, twin)[0], baseline(u, state)[0])


def test_the_mask_moves_too():
    """With the state, by tree_map as by ``to``."""
    for layer in (UnICORNN(2, 3, dropout=0.5), GRU(2, 3, dropout=0.5)):
        _, state = layer(torch.randn(4, 1, 2))
        for moved in (state.to("meta"), pytree.tree_map(lambda t: t.to("meta"), state)):
            leaves = pytree.tree_leaves(moved)
            assert len(leaves) == len(state) + sum(t is not None for t in (state.grid, state.rest, state.mask))
            assert all(t.is_meta for t in leaves)
            assert moved.mask.is_meta


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("hook", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_hooks_on_the_cell_leave_the_low_order_bits(hook):
    torch.manual_seed(0)
    cell, u, seen = UnICORNNCell(2, 6), torch.randn(20, 3, 2), []
    plain = hooked = None
    for u_n in u:
        plain = cell(u_n, plain)
    handle = getattr(cell, hook)(lambda *_: seen.append(1))
    for u_n in u:
        hooked = cell(u_n, hooked)
    assert type(hooked) is State
    assert equal(hooked, plain)
    hooked.y.sum().backward()
    assert len(seen) == len(u)
    handle.remove()
    own = cell.register_forward_hook(lambda *_: (torch.zeros(3, 6),) * 2)  # a hook that wants another state has it
    assert not torch.stack(cell(u[0])).any()
    own.remove()


def test_hooks_on_the_layer_leave_the_low_order_bits():
    layer, u = UnICORNN(2, 6), torch.randn(20, 3, 2, requires_grad=True)
    layer.register_full_backward_hook(lambda *_: None)
    output, state = layer(u)
    assert state.grid is not None
    output.sum().backward()
    assert u.grad.any()


def test_spoilt_states_are_refused():
    layer, u = UnICORNN(2, 6, 2), torch.randn(5, 3, 2)
    _, state = layer(u)
    for name, bad in (("grid", state.grid.int()), ("grid", state.grid[:, :1]), ("rest", torch.zeros(2, 2, 1, 6))):
        others = {"grid": state.grid, "rest": state.rest} | {name: bad}
        with pytest.raises((ValueError, TypeError), match=rf"state\.{name}: expected"):
            layer(u, State(*state, **others))
