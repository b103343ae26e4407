"""IndRNN and SRU: the papers' equations step by step, initialisations, numbers of parameters."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unicornn.baselines import SRU, IndRNN

DOUBLE = torch.float64


def draw(*shape):
    return torch.randn(shape, dtype=DOUBLE)


def relu_layer(drive, u, h):
    """h_n = relu(W x_n + b + u h_{n-1}), from the drives W x_n + b."""
    outputs = []
    for x_n in drive:
        h = torch.clamp(x_n + u * h, min=0)
        outputs.append(h)
    return torch.stack(outputs)


def published(model, u, start):
    """The three networks, in full, without normalisation."""
    connection, shown, drives = model.own["connection"], [], []
    for l, layer in enumerate(model.layers):
        below = u if not shown else torch.cat(shown, -1) if connection == "dense" else shown[-1]
        drive = below @ layer.W.T + layer.b
        if connection == "residual" and l in (2, 4):
            drive = drive + drives[l - 2]
        drives.append(drive)
        shown.append(relu_layer(drive, layer.u, start[l]))
    return torch.cat(shown, -1) if connection == "dense" else shown[-1], torch.stack([h[-1] for h in shown])


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@given(
    connection=st.sampled_from(["plain", "residual", "dense"]),
    sizes=st.tuples(*(st.integers(1, 5) for _ in range(5))),
    seed=st.integers(0, 99),
)
def test_indrnn_is_the_published_one(connection, sizes, seed):
    torch.manual_seed(seed)
    N, b, d, m, L = sizes
    model = IndRNN(d, m, L, connection=connection, batch_norm=False, dtype=DOUBLE)
    for layer in model.layers:
        torch.nn.init.normal_(layer.b)
    u, start = draw(N, b, d).requires_grad_(), torch.rand(L, b, m, dtype=DOUBLE).requires_grad_()
    output, (final,) = model(u, (start,))
    expected, end = published(model, u, start)
    close(output, expected)
    close(final, end)
    close(model(u, (start,), output="last")[0], expected[-1])
    assert output.shape[-1] == model.output_size
    leaves = [u, start, *model.parameters()]
    ours = torch.autograd.grad((output**2).sum() + final.sum(), leaves)
    theirs = torch.autograd.grad((expected**2).sum() + end.sum(), leaves)
    for x, y in zip(ours, theirs, strict=True):
        close(x, y)


@pytest.mark.parametrize("connection", ["plain", "residual", "dense"])
def test_indrnn_has_the_contract_whatever_its_connections(connection):
    N, b, d, m, L = 6, 3, 2, 4, 5
    model = IndRNN(d, m, L, connection=connection, dtype=DOUBLE).eval()
    u, lengths = draw(N, b, d), torch.tensor([6, 1, 4])
    for i, end in enumerate(lengths):
        u[end:, i] = torch.nan
    start = torch.rand(L, b, m, dtype=DOUBLE)
    output, (final,) = model(u, (start,), lengths)
    assert output[0].any()
    for i, end in enumerate(lengths):
        alone, (h,) = model(u[:end, i], (start[:, i],))
        close(output[:end, i], alone)
        close(final[:, i], h)
        assert not output[end:, i].any()
    last, _ = model(u, (start,), lengths, output="last")
    close(last, output[lengths - 1, torch.arange(b)])
    model.batch_first = True
    close(model(u.transpose(0, 1), (start,), lengths)[0].transpose(0, 1), output)
    model.dropout = 0.5
    dropped, state = model.train()(u.transpose(0, 1), (start,), lengths)
    mask = torch.cat(list(state.mask), -1) if connection == "dense" else state.mask[-1]
    assert ((dropped[:, 0] == 0) == (mask == 0)).all()
    with pytest.raises(ValueError, match="output: expected one of"):
        model(u.transpose(0, 1), output="first")


def test_indrnn_normalises_what_goes_up_and_not_what_goes_on():
    model = IndRNN(2, 3, 1, dtype=DOUBLE)
    u, start = draw(50, 4, 2), torch.zeros(1, 4, 3, dtype=DOUBLE)
    output, (final,) = model(u)
    h, end = published(model, u, start)
    close(final, end)
    close(output, (h - h.mean((0, 1))) / torch.sqrt(h.var((0, 1), correction=0) + 1e-5))
    norm = model.layers[0].norm
    close(norm.running_mean, 0.1 * h.mean((0, 1)))
    model.eval()
    close(model(u)[0], (h - norm.running_mean) / torch.sqrt(norm.running_var + 1e-5))


def test_indrnn_keeps_its_recurrent_weights_within_the_bound():
    N, model = 8, IndRNN(2, 3, 2, length=8)
    bound = 2 ** (1 / N)
    with torch.no_grad():
        model.layers[0].u.copy_(torch.tensor([-3.0, 0.5, 3.0]))
    u = torch.randn(N, 4, 2)
    first, _ = model(u)
    torch.testing.assert_close(model.layers[0].u.detach(), torch.tensor([-bound, 0.5, bound]))
    second, _ = model(u)  # a second use of the same weights leaves the first one's graph as it is
    (first.sum() + second.sum()).backward()
    assert model.layers[0].u.grad.isfinite().all()


def test_indrnn_is_drawn_as_published():
    N, m = 100, 2000
    model = IndRNN(3, m, 2, length=N)
    below, top = (layer.u for layer in model.layers)
    bound = 2 ** (1 / N)
    assert 0 <= below.min() < 0.01
    assert bound - 0.01 < below.max() <= bound
    assert 1 / bound <= top.min() < 1 < top.max() <= bound
    limit = math.sqrt(6 / ((1 + 8**2) * m))
    assert 0.99 * limit < model.layers[1].W.abs().max() <= limit
    assert not model.layers[0].b.any()
    assert 0 <= IndRNN(3, m, 1).layers[0].u.min() < IndRNN(3, m, 1).layers[0].u.max() <= 1


@pytest.mark.parametrize(
    ("arguments", "options", "classes", "thousands"),
    [
        ((1, 128, 6), {}, 10, "86"),  # psMNIST, as published
        ((1, 128, 6), {"connection": "dense"}, 10, "257"),
        ((6, 32, 2), {}, 5, "1.6"),  # EigenWorms
    ],
)
def test_indrnn_has_the_published_number_of_parameters(arguments, options, classes, thousands):
    model = IndRNN(*arguments, **options)
    readout = (model.output_size + 1) * classes
    count = (model.free_parameters() + readout) / 1000
    assert thousands == (f"{count:.1f}" if count < 10 else f"{count:.0f}")


def sru_layer(x, layer, c):
    """The paper's four lines."""
    W, (v_f, v_r), (b_f, b_r), outputs = layer.W, layer.v, layer.b, []
    alpha = math.sqrt(1 + 2 * math.exp(layer.highway_bias))
    for x_n in x:
        f = 1 / (1 + torch.exp(-(x_n @ W[1].T + v_f * c + b_f)))
        r = 1 / (1 + torch.exp(-(x_n @ W[2].T + v_r * c + b_r)))
        c = f * c + (1 - f) * (x_n @ W[0].T)
        highway = alpha * x_n if len(W) == 3 else x_n @ W[3].T
        outputs.append(r * c + (1 - r) * highway)
    return torch.stack(outputs), c


@given(
    sizes=st.tuples(*(st.integers(1, 5) for _ in range(5))), bias=st.sampled_from([0.0, -2.0]), seed=st.integers(0, 99)
)
def test_sru_is_the_published_one(sizes, bias, seed):
    torch.manual_seed(seed)
    N, b, d, m, L = sizes
    model = SRU(d, m, L, highway_bias=bias, dtype=DOUBLE)
    u, start = draw(N, b, d).requires_grad_(), draw(L, b, m).requires_grad_()
    output, (final,) = model(u, (start,))
    x, ends = u, []
    for layer, c in zip(model.layers, start, strict=True):
        x, end = sru_layer(x, layer, c)
        ends.append(end)
    close(output, x)
    close(final, torch.stack(ends))
    leaves = [u, start, *model.parameters()]
    ours = torch.autograd.grad((output**2).sum() + final.sum(), leaves)
    theirs = torch.autograd.grad((x**2).sum() + sum(c.sum() for c in ends), leaves)
    for g, h in zip(ours, theirs, strict=True):
        close(g, h)


def test_sru_is_drawn_as_published():
    d, m = 300, 200
    layer, scale = SRU(d, m, highway_bias=-1.0).layers[0], math.sqrt(1 + 2 * math.exp(-1.0))
    for k, factor in enumerate((1, 0.5, 0.5, scale**2)):
        assert layer.W[k].var().item() == pytest.approx(factor / d, rel=0.03)
    assert layer.v.var().item() == pytest.approx(0.5, rel=0.2)
    assert not layer.b[0].any()
    assert (layer.b[1] == -1).all()


@pytest.mark.parametrize("d", [4, 8])
def test_sru_keeps_the_size_of_its_input_at_first(d):
    """What the factor α is for: the variance of h is that of x."""
    torch.manual_seed(0)
    output, _ = SRU(d, 8)(torch.randn(1000, 200, d))
    assert 0.5 < output[100:].var() < 1.5


def test_sru_normalises_what_goes_up():
    model = SRU(3, 4, batch_norm=True, dtype=DOUBLE)
    output, _ = model(draw(30, 2, 3))
    close(output.mean((0, 1)), torch.zeros(4, dtype=DOUBLE))


def test_sru_has_the_number_of_parameters_of_its_equations():
    assert SRU(3, 8, 2).free_parameters() == 4 * 3 * 8 + 4 * 8 + 3 * 8 * 8 + 4 * 8
    assert SRU(8, 8, 1, batch_norm=True).free_parameters() == 3 * 8 * 8 + 6 * 8


@pytest.mark.parametrize(
    ("model", "argument", "value"),
    [(IndRNN, "connection", "skip"), (IndRNN, "length", 0), (SRU, "highway_bias", float("nan"))],
)
def test_wrong_hyperparameters_are_named(model, argument, value):
    with pytest.raises(ValueError, match=f"{argument}: expected"):
        model(3, 4, **{argument: value})
