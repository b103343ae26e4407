"""The torch.library ops: checked by torch itself, compiled, exported, differentiated."""

import pytest
import torch

from tests.problems import CASES, Problem
from unicornn import UnICORNN
from unicornn._ops import op


@pytest.mark.parametrize("keep", ["reversible", "stored"])
@pytest.mark.parametrize("case", ["plain", "everything"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_opcheck(case, dtype, keep):
    p = Problem(**CASES[case] | {"N": 6, "lengths": [2, 6, 4] if case == "everything" else None}, dtype=dtype)
    for steps in (None, torch.tensor([[0, 1, 0]])):
        torch.library.opcheck(op.forward, tuple(p.leaves(keep=keep, every=steps is None, steps=steps)))
    torch.library.opcheck(op.inverse, tuple(p.arguments()))


@pytest.mark.parametrize("keep", ["reversible", "stored"])
@pytest.mark.parametrize("every", [True, False])
def test_opcheck_of_the_backward_op_with_strided_tensors(every, keep):
    p = Problem(**CASES["plain"] | {"L": 3, "N": 6}).arguments(keep=keep, every=every)
    p = p._replace(u=p.u.transpose(0, 1).contiguous().transpose(0, 1), V=[V.t().contiguous().t() for V in p.V])
    output, final, grid, *saved = op.forward(*p)
    g_final = torch.randn_like(final).transpose(1, 2).contiguous().transpose(1, 2)
    arguments = torch.randn_like(output) if every else None, g_final, True, *saved, *p._replace(grid=grid)
    torch.library.opcheck(torch.ops.unicornn.backward, arguments)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, in its own compiler
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", [{}, {"skip_layers": 2}, {"bidirectional": True}, {"gradient": "stored"}], ids=str)
@pytest.mark.parametrize("output", ["all", "last"])
@pytest.mark.parametrize("layers", [1, 3])
def test_inductor(layers, output, options, batch_first):
    torch._dynamo.reset()
    layer = UnICORNN(3, 4, layers, batch_first=batch_first, **options)
    compiled = torch.compile(layer, fullgraph=True)
    u = torch.randn(6, 6, 3, requires_grad=True)
    state = tuple(torch.randn(layer.state_rows, 6, 4, requires_grad=True) for _ in range(2))

    def run(layer_or_compiled):
        out, (y, z) = layer_or_compiled(u, state, None, output)
        return out, *torch.autograd.grad(out.square().sum() + (y * z).sum(), [u, *state, *layer.parameters()])

    torch.testing.assert_close(run(compiled), run(layer))


def test_second_derivatives_are_the_references():
    u = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    layer = UnICORNN(2, 3, 2, dtype=torch.float64, backend="reference")
    assert torch.autograd.gradgradcheck(lambda u: layer(u)[0], u)
    layer.backend = "cpu"
    (g,) = torch.autograd.grad(layer(u)[0].sum(), u, create_graph=True)
    with pytest.raises(NotImplementedError, match="backend='reference'"):
        g.sum().backward()


@pytest.mark.parametrize("gradient", ["reversible", "stored"])
def test_compile_takes_the_layer_whole(gradient):
    layer = UnICORNN(3, 4, 3, skip_layers=2, gradient=gradient)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    u = torch.randn(6, 2, 3)
    expected, state = layer(u, lengths=torch.tensor([6, 4]))
    output, same = compiled(u, lengths=torch.tensor([6, 4]))
    assert torch.equal(output, expected)
    assert torch.equal(same.grid, state.grid)
    again, _ = compiled(u, same.detach())
    assert torch.equal(again, layer(u, state)[0])
    ours, theirs = (torch.autograd.grad(o.square().sum(), list(layer.parameters())) for o in (output, expected))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_export_takes_the_layer_as_one_op():
    layer = UnICORNN(3, 4, 2).eval()
    u = torch.randn(6, 2, 3)
    program = torch.export.export(layer, (u,))
    ops = [str(node.target) for node in program.graph.nodes if "unicornn" in str(node.target)]
    assert ops == ["unicornn.forward.default"]
    output, state = program.module()(u)
    assert torch.equal(output, layer(u)[0])
    assert torch.equal(state.grid, layer(u)[1].grid)


def test_input_changed_in_place_is_noticed():
    layer = UnICORNN(3, 4)
    u = torch.randn(6, 2, 3)
    output, _ = layer(u)
    u.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_backward_may_be_repeated():
    for gradient in ("reversible", "stored"):
        layer = UnICORNN(3, 40, 2, gradient=gradient)
        output, _ = layer(torch.randn(600, 50, 3))  # enough for the stored block to be one that is reused
        first = torch.autograd.grad(output.sum(), layer.w[0], retain_graph=True)
        other, _ = layer(torch.randn(600, 50, 3))
        again = torch.autograd.grad(output.sum(), layer.w[0])
        assert torch.equal(first[0], again[0])
        del other


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_cpu_autocast_changes_nothing(dtype):
    layer, u = UnICORNN(64, 64, 2), torch.randn(50, 3, 64, requires_grad=True)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            output, state = layer(u)
        found.append([output, state.grid, *torch.autograd.grad(output.square().sum(), [u, *layer.parameters()])])
    assert found[1][0].dtype == torch.float32
    assert all(map(torch.equal, *found))
