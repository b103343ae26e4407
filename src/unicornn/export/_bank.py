"""A bank of oscillators with its ridge as an ONNX file, for series of any length.

The file is written operator by operator, because torch's exporter takes minutes for all the windows. The step is
``reference.step``, applied to values of the file. Windows of the same size and distance run together, so that a loop
has as many steps as a window.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unicornn._ops import reference
from unicornn.errors import BadValue, ExportFailed
from unicornn.estimators._oscillators import ALPHA, FASTEST, Oscillators
from unicornn.estimators._pooling import pooled_names
from unicornn.estimators._pooling_kernels import GROUP, TIE
from unicornn.estimators._ridge import CLIP

OPSET, IR_VERSION = 20, 10
TOLERANCE = 1e-4  # of probabilities, or of numbers in units of their deviation
MARGIN = 1e-3  # added to energies before the logarithm, as in ``_oscillator_kernels``
QUARTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75}
WALKS = 5  # with which file and model are compared


def write(estimator: Any, path: Path, kind: str) -> None:
    """Writes the file of an estimator with a bank, and compares it with the estimator in onnxruntime."""
    from onnx_ir.passes.common import NameFixPass
    from onnxscript import GraphBuilder, ir

    if len(estimator.models_) > 1:
        raise BadValue("model: expected an estimator fitted with model='bank' or 'network', got 'both'")
    if kind == "step":
        raise BadValue(
            "kind: expected 'sequence' for a bank, whose file reads whole series, got 'step'. For live predictions in "
            "Python use unicornn.streams.Stream"
        )
    d = estimator.n_channels_ // (3 if estimator.missing == "mask" else 1)
    graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name="bank")
    builder = GraphBuilder(graph)
    u = builder.input("u", ir.DataType.FLOAT, ["N", "b", d])
    before = ir.set_value_magic_handler(builder.op)  # + - * / of values
    try:
        builder.add_output(_Bank(builder.op).answers(estimator, u), "output")
    finally:
        ir.set_value_magic_handler(before)
    model = ir.Model(graph, ir_version=IR_VERSION, producer_name="unicornn")
    for name, values in {"classes": getattr(estimator, "classes_", None), "channels": estimator.channel_names_}.items():
        if values is not None:
            model.metadata_props[f"unicornn.{name}"] = json.dumps([str(each) for each in values])
    NameFixPass()(model)  # the bodies of loops repeat names of the graph
    ir.save(model, path)
    _compare(estimator, path, d)


def _compare(estimator: Any, path: Path, d: int) -> None:
    """Raises an error if the file's answers differ from the estimator's for most of some random walks.

    A single one may differ: an oscillator close to a level or to its neighbour decides by rounding.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    scaling, longest = estimator._bank._scaling, estimator._bank.windows_[-1]
    random, unit = np.random.RandomState(0), 1.0 if hasattr(estimator, "classes_") else estimator._spread
    for N in (1, longest // 2 + 1, longest, 2 * longest):
        walks = random.normal(size=(N, WALKS, d)).cumsum(0)
        walks = walks * scaling.deviation[:d] / np.maximum(walks.std(0), 1) + scaling.mean[:d]
        if estimator.missing == "mask":
            walks[N // 3 : N // 2, ::2] = walks[: N // 4, 1] = np.nan
        u = walks.astype(np.float32)
        wanted, changed = (_predictions(estimator, each) for each in (u, u * (1 + 2.0**-23)))
        got = session.run(None, {"u": u})[0].reshape(wanted.shape)
        error, rounding = (np.median((np.abs(each - wanted) / unit).max(1)) for each in (got, changed))
        if not error <= (tolerance := max(TOLERANCE, 10 * rounding)):
            raise ExportFailed(
                f"path: expected a file that agrees with the model to {tolerance:.2g} over {N} steps, got {error:.2g}"
            )


def _predictions(estimator: Any, u: np.ndarray) -> np.ndarray:
    """Answers (b, k) for series (N, b, d)."""
    series = [x.T if estimator.layout == "channels_first" else x for x in u.swapaxes(0, 1).astype(np.float64)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the axes of a single step look swapped
        answers = estimator._answers(estimator._predictions(estimator._read_known(series).series))
    return np.asarray(answers).reshape(len(series), -1)


class _Bank:
    """Adds the operators of a bank to a graph. Series are (N, b, d), quantities (windows, b, F), features (b, p)."""

    def __init__(self, op: Any) -> None:
        from onnxscript import ir

        self.op, self.ir, self.constants = op, ir, 0

    # Operators

    def constant(self, value: Any, dtype: Any = np.float32) -> Any:
        self.constants += 1
        return self.op.initializer(self.ir.tensor(np.asarray(value, dtype), name=f"constant{self.constants}"))

    def exact(self, value: Any) -> Any:
        """A constant in double precision."""
        return self.constant(value, np.float64)

    def single(self, x: Any) -> Any:
        return self.op.Cast(x, to=self.ir.DataType.FLOAT)

    def double(self, x: Any) -> Any:
        return self.op.Cast(x, to=self.ir.DataType.DOUBLE)

    def mean(self, x: Any, axis: int = 0) -> Any:
        return self.op.ReduceMean(x, [axis], keepdims=0)

    def deviation(self, centred: Any) -> Any:
        return self.op.Sqrt(self.mean(centred * centred))

    def size(self, x: Any, axis: int = 0) -> Any:
        """As a vector with one number."""
        return self.op.Shape(x, start=axis, end=axis + 1)

    def numbers(self, n: Any) -> Any:
        """0, 1, …, n - 1."""
        return self.op.Range(0, self.op.Squeeze(n), 1)

    def rows(self, x: Any, begin: Any, end: Any) -> Any:
        return self.op.Slice(x, begin, end, [0])

    # From a series to the answers

    def answers(self, estimator: Any, u: Any) -> Any:
        """Probabilities, or numbers in the units of the targets."""
        op, bank, ridge, x = self.op, estimator._bank, estimator._ridge, self.double(u)
        if estimator.missing == "mask":
            x = self.filled(x)
        if estimator.scale_ == "series":
            x = self.standardised(x, bank.n_channels_ // (3 if estimator.missing == "mask" else 1))
        x = (x - self.exact(bank._scaling.mean)) / self.exact(bank._scaling.deviation)
        x = self.double(self.single(x))
        F = self.double(op.Concat(self.pooled(bank, x), self.summaries(x, bank._summary_names), axis=-1))
        Z = self.single((F - self.exact(ridge.mean)) * self.exact(1 / ridge.deviation))
        Z = op.Clip(Z, self.constant(-CLIP), self.constant(CLIP))
        scores = self.double(op.MatMul(Z, self.constant(ridge.coefficients))) + self.exact(ridge.intercept)
        if hasattr(estimator, "classes_"):
            doubt = estimator._doubt
            shares = op.Softmax(scores * self.exact(estimator._temperature), axis=-1)
            return self.single(shares * self.exact(1 - doubt) + self.exact(doubt / len(estimator.classes_)))
        numbers = self.single(scores * self.exact(estimator._spread) + self.exact(estimator._centre))
        return op.Squeeze(numbers, [1]) if estimator._flat else numbers

    def filled(self, x: Any) -> Any:
        """As ``_with_mask``."""
        op, INT64 = self.op, self.ir.DataType.INT64
        missing, step = op.IsNaN(x), op.Unsqueeze(self.numbers(self.size(x)), [1, 2])
        seen = op.Where(missing, -1, step)
        body = op.builder.subgraph(
            lambda op, last, seen: [now := op.Max(last, seen), op.Identity(now)],
            [self.ir.val(name, INT64, [None, x.shape[2]]) for name in ("last", "seen")],
            [self.ir.val("next"), self.ir.val("row")],
        )
        _, last = op.Scan(self.mean(seen * 0) - 1, seen, body=body, num_scan_inputs=1, _outputs=2)
        first = op.ArgMin(op.Cast(missing, to=INT64), axis=0)
        values = op.GatherElements(x, op.Where(op.Less(last, 0), first, last), axis=0)
        values = op.Where(op.IsNaN(values), self.exact(0), values)
        return op.Concat(values, self.double(missing), op.Log(self.double(step - last + 1)), axis=-1)

    def standardised(self, x: Any, d: int) -> Any:
        """As ``scale_each``."""
        op = self.op
        values, masks = op.Slice(x, [0], [d], [2]), op.Slice(x, [d], [3 * d], [2])
        mean = self.mean(values)
        deviation = self.deviation(values - mean)
        constant = op.LessOrEqual(deviation, op.Abs(mean) * self.exact(1e-12))
        values = (values - mean) / op.Where(constant, self.exact(1), deviation)
        return self.double(self.single(op.Concat(values, masks, axis=-1)))

    def pooled(self, bank: Any, x: Any) -> Any:
        """The features of all layers, those with the same windows together, in the bank's order."""
        groups: dict[Any, dict[int, Oscillators]] = {}
        for i, layer in enumerate(bank._layers):
            groups.setdefault((layer.view.W, layer.view.pace, layer.view.hop), {})[i] = layer
        names: list[str] = []
        quantiles, parts = [float(q) for q in bank.quantiles], []
        for layers in groups.values():
            phases, energies = self.quantities(layers, x)
            for pool, values in self.pools(layers, quantiles, phases, energies).items():
                parts.append(self.single(values))
                of_phases = [i for i in layers if layers[i].n_phases] if pool in ("mean", "max", "min") else []
                names += [f"{i} {name}_{pool}" for i in of_phases for name in layers[i].names[: layers[i].n_phases]]
                names += [f"{i} {name}_{pool}" for i in layers for name in layers[i].names[layers[i].n_phases :]]
        position = {name: k for k, name in enumerate(names)}
        wanted = [f"{i} {name}" for i, layer in enumerate(bank._layers) for name in pooled_names(layer, quantiles)]
        columns = self.constant([position[name] for name in wanted], np.int64)
        return self.op.Gather(self.op.Concat(*parts, axis=-1), columns, axis=1)

    def quantities(self, layers: Mapping[int, Oscillators], x: Any) -> tuple[Any, Any]:
        """Phases (None if no layer has them) and energies of all windows of layers."""
        op, view, N = self.op, next(iter(layers.values())).view, self.size(x)
        n, width = op.Max(N / view.pace, [1]), op.Min(N, [view.pace])
        last = op.Max(n - view.W, [0])
        count = (last + (view.hop - 1 if view.aligned else 0)) / view.hop + 1
        starts = op.Min(self.numbers(count) * view.hop, last)
        at = op.Unsqueeze(self.numbers(op.Min(n, [view.W])), [1]) + starts  # (steps, windows)
        inputs = []
        for layer in layers.values():
            u = x
            if layer.view.kind == "scaled_increments":
                u = u / (self.deviation(u - self.mean(u)) + self.exact(1e-6))
            if view.pace > 1:
                shape = op.Concat(n, width, [-1, layer.V.shape[1]], axis=0)
                u = self.mean(op.Reshape(self.rows(u, [0], n * width), shape), 1)
            if layer.view.kind.endswith("increments"):
                u = u - op.Concat(self.rows(u, [0], [1]), self.rows(u, [0], [-1]), axis=0)
            u = op.Gather(self.single(u / self.exact(layer.deviation)), at, axis=0)
            inputs.append(u - self.mean(u) if layer.view.kind == "shape" else u)
        y, z = self.run(list(layers.values()), op.Concat(*inputs, axis=-1))
        w = self.constant(np.concatenate([layer.w for layer in layers.values()]))
        E, end, phases, energies = self.energy(y, z, w), 0, [], []
        for layer in layers.values():
            begin, end = end, end + len(layer.w)
            own = [op.Slice(t, [begin], [end], [1]) for t in (y, z, E)]
            phases += own[:1] if layer.n_phases else []
            energies.append(self.read(layer, *own))
        shape = op.Concat(count, self.size(x, 1), [-1], axis=0)
        found = (op.Reshape(op.Concat(*each, axis=-1), shape) if each else None for each in (phases, energies))
        return tuple(found)  # type: ignore[return-value]

    def run(self, layers: list[Oscillators], u: Any) -> tuple[Any, Any]:
        """y and z (windows · b, m) of all layers after the steps of u (steps, windows, b, d)."""
        op, FLOAT = self.op, self.ir.DataType.FLOAT
        w, b = (np.concatenate([getattr(layer, name) for layer in layers]) for name in "wb")
        a = np.concatenate([2 * FASTEST / (1 + np.exp(-layer.c.double().numpy())) for layer in layers])
        V = np.zeros((sum(layer.V.shape[1] for layer in layers), len(w)))  # block-diagonal
        row = column = 0
        for layer in layers:
            m, d = layer.V.shape
            V[row : row + d, column : column + m] = layer.V.T
            row, column = row + d, column + m
        w, b, a, V = map(self.constant, (w, b, a, V))

        def step(op: Any, y: Any, z: Any, u: Any) -> Any:
            before = self.ir.set_value_magic_handler(op)
            try:
                return reference.step(op.Tanh(w * y + (op.MatMul(u, V) + b)), y, z, a, ALPHA)
            finally:
                self.ir.set_value_magic_handler(before)

        states = [self.ir.val(name, FLOAT, [None, column]) for name in "yz"]
        body = op.builder.subgraph(
            step, [*states, self.ir.val("sample", FLOAT, [None, row])], [self.ir.val("y_next"), self.ir.val("z_next")]
        )
        u = op.Reshape(u, [0, -1, row])
        rest = op.Expand(self.constant(0), op.Concat(self.size(u, 1), [column], axis=0))
        return tuple(op.Scan(rest, rest, u, body=body, num_scan_inputs=1, _outputs=2))

    def energy(self, y: Any, z: Any, w: Any) -> Any:
        """As ``energy`` of ``_ops.cpu``."""
        op, half = self.op, self.constant(0.5)
        v = op.Abs(w * y)
        near = v * half * (v * v * (v * v * self.constant(2 / 45) - self.constant(1 / 6)) + self.constant(1))
        far = (v - op.Log(op.Tanh(v) + self.constant(1))) / v
        slope = op.Where(op.Less(v, self.constant(0.25)), near, far)
        return z * z * half + y * y * self.constant(ALPHA / 2) + slope * op.Abs(y)

    def read(self, layer: Oscillators, y: Any, z: Any, E: Any) -> Any:
        """Log energies, or the quantities of pairs."""
        op = self.op
        if not layer.view.pairs:
            return op.Log(E + self.constant(MARGIN))
        (y0, y1), (z0, z1), (E0, E1) = (op.Split(t, num_outputs=2, axis=-1, _outputs=2) for t in (y, z, E))
        square = ALPHA + layer.w[: len(layer.w) // 2].numpy()
        total = E0 + E1 + self.constant(MARGIN)
        lead = self.constant(np.sqrt(square)) * (y0 * z1 - y1 * z0)
        return op.Concat(lead / total, (z0 * z1 + self.constant(square) * y0 * y1) / total, axis=-1)

    def pools(self, layers: Mapping[int, Oscillators], quantiles: list[float], phases: Any, e: Any) -> dict[str, Any]:
        """Pooled features (b, ·): mean, maximum and minimum of all quantities, others of the energies only."""
        op = self.op
        *levels, middle, unit = np.concatenate([layer.all_levels[:, layer.n_phases :] for layer in layers.values()], 1)
        every = op.Concat(phases, e, axis=-1) if phases is not None else e
        exact = self.double(e)
        centred = exact - self.mean(exact)
        deviation = self.deviation(centred)
        varies = op.Greater(deviation, self.deviation(exact) * self.exact(1e-5))  # others are rounding errors
        above = self.single(op.Greater(e, self.constant(middle)))
        changes = op.Abs(self.rows(above, [1], [2**62]) - self.rows(above, [0], [-1]))
        more = self.single(op.Max(self.size(e) - 1, [1]))
        index = self.double(op.Unsqueeze(self.numbers(self.size(e)), [1, 2]))
        index = index - self.mean(index)
        spread = op.Sqrt(op.Max(self.mean(index * index), self.exact(1 / 12)))
        shape = op.Concat(self.size(e), self.size(e, 1), [-1, GROUP], axis=0)
        contest = op.Reshape((e - self.constant(middle)) * self.constant(unit), shape)
        highest, lowest = (best(contest, [-1]) for best in (op.ReduceMax, op.ReduceMin))
        near = [op.Greater(contest, highest - self.constant(TIE)), op.Less(contest, lowest + self.constant(TIE))]
        first = (op.ArgMax(op.Cast(each, to=self.ir.DataType.INT64), axis=-1) for each in near)  # the first of ties
        wins, losses = (op.Equal(each, self.constant(range(GROUP), np.int64)) for each in first)
        won = op.Where(wins, highest, self.constant(0))
        pools = {"mean": self.mean(self.double(every))}
        pools |= {"max": op.ReduceMax(every, [0], keepdims=0), "min": op.ReduceMin(every, [0], keepdims=0)}
        pools["deviation"] = op.Where(varies, deviation, self.exact(0))
        for q, level in zip(quantiles, levels, strict=True):
            pools[f"above{q:g}"] = self.mean(self.single(op.Greater(e, self.constant(level))))
        pools["crossings"] = op.ReduceSum(changes, [0], keepdims=0) / more
        pools["trend"] = op.Where(varies, self.mean(centred * index) / spread, self.exact(0))
        for name, each in {"wins": wins, "losses": losses, "won": won}.items():
            pools[name] = op.Reshape(self.mean(self.single(each)), [0, -1])
        return pools

    def summaries(self, x: Any, names: tuple[str, ...]) -> Any:
        """The named statistics of every channel, (b, ·)."""
        op, N = self.op, self.size(x)
        step = self.double(op.Unsqueeze(self.numbers(N), [1, 2]))
        last, mean = self.double(op.Max(N - 1, [1])), self.mean(x)
        time = step / last
        increments = op.Abs(self.rows(x, [1], [2**62]) - self.rows(x, [0], [-1]))
        first, final = (op.Squeeze(self.rows(x, *ends), [0]) for ends in (([0], [1]), ([-1], [2**62])))
        found = {
            "mean": mean, "deviation": self.deviation(x - mean), "first": first, "last": final,
            "min": op.ReduceMin(x, [0], keepdims=0), "max": op.ReduceMax(x, [0], keepdims=0),
            "trend": self.mean((time - self.mean(time)) * (x - mean)),
            "mean_increment": op.ReduceSum(increments, [0], keepdims=0) / last,
            "min_at": self.double(op.ArgMin(x, axis=0, keepdims=0)) / last,
            "max_at": self.double(op.ArgMax(x, axis=0, keepdims=0)) / last,
        }  # fmt: skip
        ordered, _ = op.TopK(x, N, axis=0, largest=0, _outputs=2)
        for name, q in QUARTILES.items():  # interpolated between two samples
            far = op.Abs(step - self.double(N - 1) * self.exact(q))
            found[name] = op.ReduceSum(ordered * op.Max(self.exact(1) - far, self.exact(0)), [0], keepdims=0)
        return self.single(op.Concat(*(found[name] for name in names), axis=-1))
