"""Pruned, parametrised, normalised and replaced parameters are used as they are, found by their names."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.nn.utils import remove_weight_norm as remove_old_weight_norm
from torch.nn.utils import weight_norm as old_weight_norm
from torch.nn.utils.parametrizations import orthogonal, weight_norm

from unicornn import UnICORNN, functional

L = 3


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


def pruned(layer):
    prune.l1_unstructured(layer.V, "0", 0.5)
    prune.random_unstructured(layer.w, "1", 0.5)


def no_longer_pruned(layer):
    pruned(layer)
    prune.remove(layer.V, "0")
    prune.remove(layer.w, "1")
    assert list(layer.w._parameters)[-1] == "1"


def parametrised(layer):
    orthogonal(layer.V, "1")
    parametrize.register_parametrization(layer.c, "0", Twice())
    parametrize.register_parametrization(layer.Lambda, layer._names[-1], Twice())


def no_longer_parametrised(layer):
    parametrised(layer)
    parametrize.remove_parametrizations(layer.V, "1")
    parametrize.remove_parametrizations(layer.c, "0")
    parametrize.remove_parametrizations(layer.Lambda, layer._names[-1])


def normalised(layer):
    weight_norm(layer.V, "0")


def no_longer_normalised(layer):
    weight_norm(layer.V, "0")
    parametrize.remove_parametrizations(layer.V, "0")


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def normalised_the_old_way(layer):
    with pytest.warns(FutureWarning, match="deprecated"):
        old_weight_norm(layer.V, "1")


def no_longer_normalised_the_old_way(layer):
    normalised_the_old_way(layer)
    remove_old_weight_norm(layer.V, "1")


def replaced(layer):
    """FSDP replaces a parameter by a plain tensor, a view of a larger one."""
    V = layer.V[0].detach()
    del layer.V._parameters["0"]
    setattr(layer.V, "0", torch.cat([V.flatten(), V.flatten()])[: V.numel()].view_as(V))
    layer.b[2] = nn.Parameter(torch.randn_like(layer.b[2]))


CHANGES = [
    pruned,
    no_longer_pruned,
    parametrised,
    no_longer_parametrised,
    normalised,
    no_longer_normalised,
    normalised_the_old_way,
    no_longer_normalised_the_old_way,
    replaced,
]


def make(**options):
    torch.manual_seed(0)
    return UnICORNN(3, 4, L, skip_layers=2, dtype=torch.float64, **options)


def by_hand(layer):
    """A reference layer with copies of this layer's tensors."""
    twin = make(bidirectional=layer.bidirectional, backend="reference")
    with torch.no_grad():
        for letter in ("w", "V", "b", "c", "Lambda"):
            for name in layer._names:
                t = getattr(getattr(layer, letter), name)
                if t is not None:
                    getattr(getattr(twin, letter), name).copy_(t)
    return twin


def same(layer, twin):
    u = torch.randn(20, 2, 3, dtype=torch.float64)
    for gradient in (False, True):
        with torch.set_grad_enabled(gradient):
            output, state = layer(u)
            torch.testing.assert_close(output, twin(u)[0])
            if layer.bidirectional:
                continue
            one, after = layer.step(u[0])
            for _ in range(3):
                one, after = layer.step(u[0], after)
            torch.testing.assert_close(one, twin(u[:1].expand(4, -1, -1), output="last")[0])
    start = layer.inverse(u, state)
    assert not start.y.any()
    assert not start.z.any()
    torch.testing.assert_close(layer.time_steps(), twin.time_steps())


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_parameters_are_used(change, bidirectional):
    layer = make(bidirectional=bidirectional)
    change(layer)
    same(layer, by_hand(layer))


@pytest.mark.parametrize("change", CHANGES)
def test_changed_parameters_are_trained(change):
    """Derived tensors are computed again in every step: no stale mask, no graph of the last step."""
    layer, u = make(), torch.randn(20, 2, 3, dtype=torch.float64)
    change(layer)
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        layer(u)[0].square().sum().backward()
        assert all(p.grad is not None for p in layer.parameters())
        optimiser.step()
    with torch.no_grad():
        assert len(layer.weights.w) == L  # computed without a graph
    same(layer, by_hand(layer))
    if change is pruned:
        assert (layer.V[0] == 0).sum() == 6


@pytest.mark.parametrize("change", [no_longer_pruned, parametrised, no_longer_parametrised, normalised])
def test_copied_saved_and_called_functionally(change):
    layer, other = make(), make()
    change(layer)
    change(other)
    with torch.no_grad():
        for p in other.parameters():
            p.uniform_(-1, 1)
    u = torch.randn(20, 2, 3, dtype=torch.float64)
    expected = layer(u)[0]
    torch.testing.assert_close(copy.deepcopy(layer)(u)[0], expected)
    called, _ = torch.func.functional_call(other, dict(layer.named_parameters()), (u,))
    torch.testing.assert_close(called, expected)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(u)[0], expected)
    if change in (no_longer_pruned, no_longer_parametrised):  # to and from an unchanged layer
        plain = make()
        plain.load_state_dict(layer.state_dict())
        torch.testing.assert_close(plain(u)[0], expected)
        other.load_state_dict(plain.state_dict())
        torch.testing.assert_close(other(u)[0], expected)


def test_weights_are_the_parameters_themselves():
    layer = make()
    prune.l1_unstructured(layer.V, "0", 0.5)
    prune.remove(layer.V, "0")
    weights = layer.weights
    assert all(t is p for t, p in zip(weights.V, layer.V, strict=True))
    u = torch.randn(5, 2, 3, dtype=torch.float64)
    assert torch.equal(functional.unicornn(u, weights, dt=layer.dt, alpha=layer.alpha)[0], layer(u)[0])
