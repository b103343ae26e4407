"""Pruned, parametrised, normalised and replaced parameters are used as they are, found by their names."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.nn.utils.parametrizations import orthogonal, weight_norm

from tests.problems import draw
from unicornn import UnICORNN, UnICORNNCell
from unicornn.errors import BadValue

L = 3


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


def make(**options):
    torch.manual_seed(0)
    return UnICORNN(3, 4, L, skip_layers=2, dtype=torch.float64, **options)


def do_prune(layer):
    prune.l1_unstructured(layer.V, "0", 0.5)
    prune.random_unstructured(layer.w, "1", 0.5)


def undo_prune(layer):
    prune.remove(layer.V, "0")
    prune.remove(layer.w, "1")
    assert list(layer.w._parameters)[-1] == "1"  # the order of the parameters has changed


def do_parametrise(layer):
    orthogonal(layer.V, "1")
    parametrize.register_parametrization(layer.c, "0", Twice())
    parametrize.register_parametrization(layer.Lambda, layer._names[-1], Twice())


def undo_parametrise(layer):
    for parameters, name in ((layer.V, "1"), (layer.c, "0"), (layer.Lambda, layer._names[-1])):
        parametrize.remove_parametrizations(parameters, name)


def do_replace(layer):
    """FSDP replaces a parameter by a plain tensor, a view of a larger one."""
    V = layer.V[0].detach()
    del layer.V._parameters["0"]
    setattr(layer.V, "0", torch.cat([V.flatten(), V.flatten()])[: V.numel()].view_as(V))
    layer.b[2] = nn.Parameter(torch.randn_like(layer.b[2]))


CHANGES = {  # each a list of functions of the layer
    "pruned": [do_prune],
    "no longer pruned": [do_prune, undo_prune],
    "parametrised": [do_parametrise],
    "no longer parametrised": [do_parametrise, undo_parametrise],
    "normalised": [lambda layer: weight_norm(layer.V, "0")],
    "no longer normalised": [
        lambda layer: weight_norm(layer.V, "0"),
        lambda layer: parametrize.remove_parametrizations(layer.V, "0"),
    ],
    "replaced": [do_replace],
}


def changed(change, **options):
    layer = make(**options)
    for function in CHANGES[change]:
        function(layer)
    return layer


def check_against_reference(layer):
    """Compares the layer with a reference layer that has copies of its tensors."""
    twin = make(bidirectional=layer.bidirectional, backend="reference")
    with torch.no_grad():
        for letter in ("w", "V", "b", "c", "Lambda"):
            for name in layer._names:
                t = getattr(getattr(layer, letter), name)
                if t is not None:
                    getattr(getattr(twin, letter), name).copy_(t)
    u = draw(20, 2, 3)
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
    check_against_reference(changed(change, bidirectional=bidirectional))


@pytest.mark.parametrize("change", CHANGES)
def test_changed_parameters_are_trained(change):
    """Derived tensors are computed again in every step: no stale mask, no graph of the last step."""
    layer, u = changed(change), draw(20, 2, 3)
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        layer(u)[0].square().sum().backward()
        assert all(p.grad is not None for p in layer.parameters())
        optimiser.step()
    with torch.no_grad():
        assert len(layer.weights.w) == L  # derived without a graph
    check_against_reference(layer)
    if change == "pruned":
        assert (layer.V[0] == 0).sum() == 6


@pytest.mark.parametrize("change", ["no longer pruned", "parametrised", "no longer parametrised", "normalised"])
def test_copied_saved_and_called_functionally(change):
    layer, other, u = changed(change), changed(change), draw(20, 2, 3)
    with torch.no_grad():
        for p in other.parameters():
            p.uniform_(-1, 1)
    expected = layer(u)[0]
    torch.testing.assert_close(copy.deepcopy(layer)(u)[0], expected)
    called, _ = torch.func.functional_call(other, dict(layer.named_parameters()), (u,))
    torch.testing.assert_close(called, expected)
    chain = [layer, make(), other] if change.startswith("no longer") else [layer, other]  # via an unchanged layer
    for saved, loaded in itertools.pairwise(chain):
        loaded.load_state_dict(saved.state_dict())
        torch.testing.assert_close(loaded(u)[0], expected)


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda **o: UnICORNN(3, 4, 2, **o), {"dt": 0.2}),
        (lambda **o: UnICORNN(3, 4, 2, **o), {"dt": (0.1, 0.2)}),
        (lambda **o: UnICORNN(3, 4, 2, bidirectional=True, **o), {"alpha": 2.0}),
        (lambda **o: UnICORNNCell(3, 4, **o), {"alpha": 2.0}),
    ],
)
def test_weights_of_another_dt_or_alpha_are_rejected(make, other, tmp_path):
    layer = make()
    torch.save(torch.nn.Sequential(layer).state_dict(), tmp_path / "weights.pt")
    saved = torch.load(tmp_path / "weights.pt", weights_only=True)
    torch.nn.Sequential(make()).load_state_dict(saved)
    torch.nn.Sequential(make()).load_state_dict({name: t.half() for name, t in saved.items()})
    for strict in (True, False):
        with pytest.raises(BadValue, match=r"^dt, alpha: expected"):
            torch.nn.Sequential(make(**other)).load_state_dict(saved, strict=strict)
    saved["0._extra_state"] = saved["0._extra_state"][:1]
    with pytest.raises(BadValue, match=r"^state_dict: expected"):
        torch.nn.Sequential(make()).load_state_dict(saved)
    del saved["0._extra_state"]
    torch.nn.Sequential(make(**other)).load_state_dict(saved)


def test_arguments_of_nn_lstm():
    assert UnICORNN(3, 4, bias=True).flatten_parameters() is None
    with pytest.raises(ValueError, match=r"^bias: expected"):
        UnICORNN(3, 4, bias=False)
    for options in ({"proj_size": 2}, {"batchfirst": True}):
        with pytest.raises(TypeError, match=f"^{next(iter(options))}: expected"):
            UnICORNN(3, 4, **options)
    with pytest.raises(TypeError):
        UnICORNN(3, 4, 2, True)  # options after num_layers are given by name


@pytest.mark.parametrize(("scale", "messages"), [(1e-3, 1), (1.0, 0), (0.0, 0), (1e4, 1)])
def test_input_far_from_unit_scale_is_reported_once(scale, messages, caplog):
    layer, u = UnICORNN(3, 4), scale * torch.randn(20, 2, 3)
    for _ in range(2):
        layer(u)
    assert len([record for record in caplog.records if "scale it" in record.getMessage()]) == messages
