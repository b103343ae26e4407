"""Bad input gets an error that names the argument, what came and what was expected."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from unicornn import UnICORNN, UnICORNNCell, functional
from unicornn.functional import Weights

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"input_size": 0}, ValueError, "input_size: expected an integer >= 1, got 0"),
        ({"input_size": 2.0}, TypeError, "input_size: expected an integer >= 1, got float 2.0"),
        ({"hidden_size": -3}, ValueError, "hidden_size: .* got -3"),
        ({"hidden_size": True}, TypeError, "hidden_size: .* got bool True"),
        ({"num_layers": 0}, ValueError, "num_layers"),
        ({"dt": 0.0}, ValueError, "dt: expected a finite number > 0, got 0.0"),
        ({"dt": -0.1}, ValueError, "dt: .* got -0.1"),
        ({"dt": NAN}, ValueError, "dt: .* got nan"),
        ({"dt": INF}, ValueError, "dt: .* got inf"),
        ({"dt": "0.1"}, TypeError, "dt: .* got str"),
        ({"dt": (0.1,)}, ValueError, r"dt: expected a number or one per layer \(2\)"),
        ({"dt": (0.1, 0)}, ValueError, r"dt\[1\]: .* got 0"),
        ({"alpha": -1}, ValueError, "alpha: expected a finite number >= 0, got -1"),
        ({"alpha": NAN}, ValueError, "alpha: .* got nan"),
        ({"alpha": None}, TypeError, "alpha: .* got NoneType"),
        ({"dropout": 1.0}, ValueError, r"dropout: expected a number in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, ValueError, "dropout"),
        ({"skip_layers": 1}, ValueError, "skip_layers: expected 0 .none. or S >= 2 skipped layers, got 1"),
        ({"skip_layers": -2}, ValueError, "skip_layers"),
        ({"gradient": "inverse"}, ValueError, "gradient: expected one of 'reversible', 'stored', got 'inverse'"),
        ({"backend": "cuda"}, ValueError, "backend: expected one of 'auto', 'reference', 'cpu', 'triton', got 'cuda'"),
    ],
    ids=lambda v: str(v)[:30],
)
def test_construction(arguments, error, message):
    with pytest.raises(error, match=message):
        UnICORNN(**{"input_size": 3, "hidden_size": 4, "num_layers": 2} | arguments)


u = torch.linspace(-1, 1, 36).view(6, 2, 3)
zero = torch.zeros(2, 2, 4)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"input": u.numpy()}, TypeError, r"input: expected a tensor \(N, b, d\).* got ndarray"),
        ({"input": u[0, 0]}, ValueError, r"input: expected shape \(N, b, d\) or unbatched \(N, d\), .* got \(3,\)"),
        ({"input": u[None]}, ValueError, r"input: .* got \(1, 6, 2, 3\)"),
        ({"input": u[..., :2]}, ValueError, r"input: expected 3 features .* got shape \(6, 2, 2\)"),
        ({"input": u[:0]}, ValueError, r"input: .* N, b >= 1, got \(0, 2, 3\)"),
        ({"input": u.double()}, TypeError, "input: expected the parameters' dtype torch.float32, got torch.float64"),
        ({"input": u.long()}, TypeError, "input: .* got torch.int64"),
        ({"input": u.to("meta")}, ValueError, "input: expected the parameters' device cpu, got meta"),
        ({"state": zero}, TypeError, r"state: expected a pair \(y, z\)"),
        ({"state": (zero,)}, TypeError, "state"),
        ({"state": (zero[:1], zero)}, ValueError, r"state\[0\]: expected shape .* got \(1, 2, 4\)"),
        ({"state": (zero, zero.double())}, (TypeError, ValueError), r"state"),
        ({"lengths": [6]}, ValueError, r"lengths: expected shape \(2,\) \(b,\), got \(1,\)"),
        ({"lengths": [6, 7]}, ValueError, r"lengths: expected numbers from 1 to N=6, got \[6, 7\]"),
        ({"lengths": [0, 6]}, ValueError, "lengths: expected numbers from 1"),
        ({"lengths": torch.tensor([1.0, 2.0])}, TypeError, "lengths: expected integers .* got torch.float32"),
        ({"lengths": "66"}, TypeError, "lengths: expected integers, got str"),
        ({"output": "first"}, ValueError, "output: expected one of 'all', 'last', got 'first'"),
        ({"output": 3}, TypeError, "output: expected 'all', 'last' or a LongTensor, got int"),
        ({"output": torch.tensor([6])}, ValueError, r"output: expected time steps .* got \[6\] among them"),
        ({"output": torch.tensor([-1])}, ValueError, r"output: .*\[-1\] among them"),
        ({"output": torch.tensor([0.5])}, TypeError, "output: expected integers"),
        ({"output": torch.zeros(2, 3, dtype=torch.long)}, ValueError, r"output: .* \(k,\) or \(k, b=2\), got \(2, 3\)"),
        ({"output": torch.tensor([5]), "lengths": [6, 3]}, ValueError, "output"),
    ],
    ids=lambda v: str(v)[:24].replace("\n", " "),
)
def test_call(call, error, message, bidirectional):
    layer = UnICORNN(3, 4, 2, bidirectional=bidirectional)
    if bidirectional and isinstance(state := call.get("state"), tuple) and len(state) == 2:
        call = call | {"state": tuple(torch.cat([t, t]) if len(t) == 2 else t for t in state)}
    with pytest.raises(error, match=message):
        layer(**{"input": u} | call)


def test_unbatched():
    layer = UnICORNN(3, 4, 2)
    with pytest.raises(ValueError, match="lengths: expected None with unbatched"):
        layer(u[:, 0], lengths=[6])
    with pytest.raises(ValueError, match="lengths: expected None with unbatched"):
        layer.inverse(u[:, 0], (zero[:, 0], zero[:, 0]), lengths=[6])
    with pytest.raises(ValueError, match=r"state\[0\]: expected shape \(2, 4\)"):
        layer(u[:, 0], (zero, zero))
    with pytest.raises(ValueError, match=r"output: .* unbatched"):
        layer(u[:, 0], output=torch.zeros(1, 1, dtype=torch.long))


def test_packed():
    layer = UnICORNN(3, 4, 2)
    packed = pack_sequence([u[:, 0], u[:3, 1]])
    with pytest.raises(ValueError, match="lengths: expected None with a PackedSequence"):
        layer(packed, lengths=[6, 3])
    with pytest.raises(ValueError, match="input: expected a PackedSequence sorted by falling length"):
        layer(PackedSequence(packed.data, packed.batch_sizes.flip(0)))
    with pytest.raises(ValueError, match="input: expected 3 features"):
        layer(PackedSequence(packed.data[:, :2], packed.batch_sizes))


def test_step_and_cell():
    layer, cell = UnICORNN(3, 4, 2), UnICORNNCell(3, 4)
    with pytest.raises(ValueError, match=r"input_n: expected a tensor of shape \(b, d\) or \(d,\), got \(6, 2, 3\)"):
        layer.step(u)
    with torch.no_grad(), pytest.raises(ValueError, match=r"input_n: expected shape \(2, 3\)"):
        layer.step(u[0, :, :2])
    with torch.no_grad(), pytest.raises(TypeError, match="state"):
        layer.step(u[0], zero)
    with pytest.raises(ValueError, match=r"input: expected a tensor of shape \(b, 3\) or \(3,\), got \(6, 2, 3\)"):
        cell(u)
    with pytest.raises(ValueError, match=r"state\[1\]: expected shape \(2, 4\)"):
        cell(u[0], (zero[0], zero))
    with pytest.raises(TypeError, match="state: expected a pair"):
        cell(u[0], 3)
    with pytest.raises(ValueError, match="dt"):
        UnICORNNCell(3, 4, dt=-1)


@torch.no_grad()
def test_the_fast_step_reads_no_memory_that_is_not_there():
    """It works on addresses; what does not fit goes the way that complains."""
    layer, x = UnICORNN(3, 4, 2), torch.randn(2, 3)
    w, V, b, c = ([t.detach().clone() for t in getattr(layer, n)] for n in "wVbc")
    _, state = functional.step(x, Weights(w, V, b, c), dt=layer.dt)
    for bad in ((w, [V[0], V[0]], b, c), ([w[0], w[1][:2]], V, b, c), (w, V, b, [c[0], c[1].double()])):
        with pytest.raises((ValueError, TypeError), match=r"expected"):
            functional.step(x, Weights(*bad), dt=layer.dt, state=state)
    with pytest.raises(ValueError, match="Lambda"):
        functional.step(x, Weights(w, V, b, c, [None, torch.rand(4, 3)]), dt=layer.dt)
    layer.c[1].data[0] = 0.5  # as an optimiser behind autograd's back would
    changed, _ = layer.step(x, state)
    torch.testing.assert_close(changed, layer(x[None], state)[0][0])
    layer.c[1].data[0] = NAN
    with pytest.warns(RuntimeWarning, match="not finite"):
        layer.step(x, state)


def test_function():
    letters = [[torch.rand(4)] * 2, [torch.rand(4, 3), torch.rand(4, 4)], [torch.rand(4)] * 2, [torch.rand(4)] * 2]

    def run(u, *letters, **options):
        return functional.unicornn(u, Weights(*letters), **options)

    with pytest.raises(ValueError, match="w, V, b, c: expected one tensor per layer in each, got 2, 1, 2, 2"):
        run(u, letters[0], letters[1][:1], *letters[2:])
    with pytest.raises(ValueError, match=r"V\[1\]: expected shape \(4, 4\) \(m, m\), got \(4, 3\)"):
        run(u, letters[0], [letters[1][0]] * 2, *letters[2:])
    with pytest.raises(TypeError, match=r"w.*floating|dtype"):
        run(u.long(), *[[t.long() for t in letter] for letter in letters])
    with pytest.raises(ValueError, match="Lambda: expected one matrix or None per layer"):
        run(u, *letters, [None])
    with pytest.raises(ValueError, match="Lambda: expected None for the first S >= 2"):
        run(u, *letters, [None, torch.rand(4, 3)])
    with pytest.raises(ValueError, match=r"mask: expected shape \(2, 2, 4\)"):
        run(u, *letters, mask=torch.ones(2, 2))
    with pytest.raises(TypeError, match="input: expected a tensor"):
        run(None, *letters)
    with pytest.raises(ValueError, match=r"input: expected a tensor of shape .b, d., got"):
        functional.step(u, Weights(*letters))
    with pytest.raises(TypeError, match=r"weights: expected functional.Weights, got tuple"):
        functional.unicornn(u, tuple(letters))
    with pytest.raises(ValueError, match=r"input: expected 3 features, as V\[0\] has it, got shape \(6, 2, 2\)"):
        run(u[..., :2], *letters)


@pytest.mark.parametrize("make", [lambda: UnICORNN(3, 4, 2), lambda: UnICORNNCell(3, 4)], ids=["layer", "cell"])
@pytest.mark.parametrize("name", ["alpha", "dt", "dropout"])
@pytest.mark.parametrize(
    "bad", [torch.tensor(0.5), torch.nn.Parameter(torch.tensor(0.5)), NAN, INF, -1, None, "1"], ids=str
)
def test_settings_are_numbers_checked_when_set(make, name, bad):
    module = make()
    if name == "dropout" and isinstance(module, UnICORNNCell):
        pytest.skip("a cell has no dropout")
    before = getattr(module, name)
    with pytest.raises((ValueError, TypeError), match=name):
        setattr(module, name, bad)
    assert getattr(module, name) == before


@torch.no_grad()
def test_settings_that_are_set_are_used():
    layer, x = UnICORNN(3, 4, 2, dt=0.5), torch.randn(2, 3)
    _, state = layer.step(x)
    for name, new in (("alpha", 9.0), ("dt", (0.1, 0.9)), ("dt", 0.3)):
        setattr(layer, name, new)
        assert torch.equal(layer.step(x, state)[0], layer(x[None], state, output="last")[0])
    assert layer.dt == (0.3, 0.3)
