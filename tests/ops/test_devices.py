"""A simulated card: tensors that claim to be on "cuda" and cannot be combined with those on the CPU.

Their memory is on the CPU, where Triton's interpreter runs the kernels. All code around the kernels runs as on a GPU,
and a tensor on the wrong device is an error."""

from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from unicornn import UnICORNN, functional
from unicornn import _backends as backends
from unicornn._ops import op
from unicornn._ops.problem import selected_steps
from unicornn._ops.triton import recurrence as gpu

CARD = torch.device("cuda", 0)
OPS = {op.forward: op._forward, op.inverse: op._inverse}
LEAVE = (torch.Tensor.tolist, torch.Tensor.item, torch.Tensor.__bool__, torch.Tensor.__int__)

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a real one")


class OnCard(torch.Tensor):
    device = property(lambda self: CARD)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)


def on_card(value):
    return tree_map(lambda t: t.as_subclass(OnCard) if isinstance(t, torch.Tensor) else t, value)


def off_card(value):
    return tree_map(lambda t: t.as_subclass(torch.Tensor) if isinstance(t, OnCard) else t, value)


class Card(TorchFunctionMode):
    """Results of operations on tensors of the card are on the card; mixing devices is an error."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in OPS:
            with self:
                return OPS[func](*args, **kwargs)
        if getattr(func, "__name__", "") == "__get__":
            return func(*args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        here = [t for t in tensors if isinstance(t, OnCard)]
        copies = func in (torch.Tensor.cpu, torch.Tensor.to, torch.Tensor.copy_)
        if here and not copies and len(here) < len(tensors):
            strangers = [t for t in tensors if not isinstance(t, OnCard) and t.dim() > 0]
            assert not strangers, f"{func}: tensors on the card and on the CPU"
        asked = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.device)]
        plain = [torch.device("cpu") if isinstance(a, torch.device) else a for a in args]
        if "device" in kwargs:
            asked += [torch.device(kwargs.pop("device") or "cpu")]
        result = off_card(func)(*off_card(plain), **off_card(kwargs))
        stays = here and func is not torch.Tensor.cpu and func not in LEAVE and not (asked and asked[-1].type == "cpu")
        goes = asked and asked[-1].type == "cuda"
        if func is torch.Tensor.copy_:
            return args[0]
        return on_card(result) if stays or goes else result


@pytest.fixture
def launches(monkeypatch):
    """Checks that kernels get only tensors on the card, and passes these to the interpreter."""
    seen, launch = [], gpu.Recurrence._launch

    def checked(self, name, K, active, **arguments):
        tensors = [*arguments.values(), *self.constants.values(), active, self.bad]
        assert all(isinstance(t, OnCard) and t.is_contiguous() for t in tensors if isinstance(t, torch.Tensor))
        seen.append(name)
        bare = SimpleNamespace(**off_card(vars(self)))
        with torch._C.DisableTorchFunction():
            launch(bare, name, K, off_card(active), **off_card(arguments))

    monkeypatch.setattr(gpu.Recurrence, "_launch", checked)
    monkeypatch.setattr(gpu.Recurrence, "limits", gpu.LIMITS._replace(steps=7))
    card = SimpleNamespace(warp_size=32, multi_processor_count=108)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(backends, "_kernels_work", lambda device: True)
    return seen


@pytest.mark.parametrize(
    ("output", "lengths", "dtype"),
    [
        ("all", None, torch.float32),
        ("all", [10, 3, 9], torch.bfloat16),
        ("last", [10, 3, 9], torch.float32),
        ("steps", [10, 3, 9], torch.float32),
    ],
)
def test_all_is_done_on_the_device(output, lengths, dtype, launches):
    torch.manual_seed(0)
    layer = UnICORNN(2, 4, 3, dtype=dtype)
    u = torch.randn(10, 3, 2, dtype=dtype)
    mask = (torch.rand(3, 3, 4) > 0.3).to(dtype)
    steps = torch.tensor([[0, 2, 8], [9, 1, 2]]) if output == "steps" else None
    chosen = output if steps is None else steps
    weights = layer.weights._replace(Lambda=[None, None, torch.randn(4, 2, dtype=dtype)])
    with torch.no_grad():
        start = functional.unicornn(u, weights, mask=mask)[1].detach()
        plain = functional.unicornn(u, weights, mask=mask, state=start, lengths=lengths, output=chosen)
        problem = on_card([u, weights, mask, chosen])
        with Card():
            u, weights, mask, chosen = problem
            state = start.map(lambda t: t.as_subclass(OnCard))
            options = {"mask": mask, "lengths": lengths}
            ours, final = functional.unicornn(u, weights, state=state, output=chosen, **options)
            back = functional.inverse(u, weights, final, **options)
            p = functional._problem(u, weights, state, dt=0.1, alpha=1.0, backend="auto", **options)
            every, steps = selected_steps(chosen, u)
            p = p._replace(backend="triton", every=every, steps=steps)
            gradients = {}
            for keep in ("reversible", "stored"):
                y, pair, end, *saved = op._forward(*p._replace(keep=keep))
                q = p._replace(keep=keep, grid=end, horizon=[9.0] * 3)
                gradients[keep] = op._backward(torch.ones_like(y), torch.ones_like(pair), True, *saved, *q)
    results = tree_leaves([ours, final.y, final.z, final.grid, back.grid, gradients])
    assert all(isinstance(t, OnCard) for t in results)
    assert set(launches) == {"advance", "retreat"}
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.05, "atol": 0.02}
    torch.testing.assert_close(off_card(ours), plain[0], **tolerance)
    assert torch.equal(off_card(back.grid), start.grid)
    for a, b in zip(tree_leaves(gradients["reversible"]), tree_leaves(gradients["stored"]), strict=True):
        assert torch.equal(off_card(a), off_card(b))
