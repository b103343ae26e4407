"""OscillatorBank."""

import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.estimators.exceptions import BANK
from unicornn._ops.reference import energy, step
from unicornn.estimators import OscillatorBank
from unicornn.estimators._oscillators import ALPHA, FASTEST, Joined
from unicornn.estimators._pooling import NAMES, Pools, pooled, summaries


def small(**options):
    return OscillatorBank(4, random_state=0, **options)


@parametrize_with_checks([small()], expected_failed_checks=lambda estimator: BANK)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_series_of_any_length_are_independent():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (5, 8, 40, 41, 100)]
    bank = small().fit(X)
    assert bank.windows_ == [8, 16, 32, 64, 100]
    together = bank.transform(X)
    alone = np.concatenate([bank.transform([x]) for x in X])
    assert np.allclose(together, alone, atol=1e-4)
    assert bank.transform([rng.normal(size=(1000, 2)), rng.normal(size=(1, 2))]).shape == (2, together.shape[1])
    assert len(bank.get_feature_names_out()) == together.shape[1] == 5 * 4 * (42 + 4 * 5) + 5 * 4 * 2 * (5 + 5) + 13 * 2


def test_features_are_reproducible_to_the_bit():
    X = np.random.default_rng(0).normal(size=(6, 50))
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    features = [clone(small(n_jobs=n)).fit_transform(X) for n in (None, 1, 2)]
    assert all(np.array_equal(features[0], other) for other in features)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert not np.array_equal(features[0], OscillatorBank(4, random_state=1).fit_transform(X))


def test_rounding_does_not_decide_who_wins_where_nothing_happens():
    """In most windows nothing happens, so that every oscillator is at its median."""
    X = 0.7 + np.random.default_rng(0).normal(size=(8, 400)) * (np.arange(400) > 330)
    bank = OscillatorBank(random_state=0).fit(X)
    contests = [name.endswith(("_wins", "_losses")) for name in bank.get_feature_names_out()]
    before, after = (bank.transform(each)[:, contests] for each in (X, X * (1 + 2.0**-22)))
    assert np.abs(before - after).max() < 0.2


@pytest.mark.parametrize(("d", "m"), [(1, 5), (3, 32), (2, 40)])
def test_windows_follow_the_reference(d, m):
    X = [np.random.default_rng(n).normal(size=(n, d)).astype(np.float32) for n in (150, 9, 300)]
    bank = OscillatorBank(m, random_state=0).fit(X)
    series = [bank._scaling(x) for x in X]
    for layer in bank._layers:
        starts = [layer.view.starts(len(x)) for x in series]
        values = layer.values(Joined.from_series(series), starts)
        expected = np.concatenate([reference(layer, *each) for each in zip(series, starts, strict=True)])
        close = np.isclose(values, expected, rtol=2e-3, atol=2e-3)
        assert close.mean() > (0.98 if layer.view.W <= 64 else 0.9)  # the fastest oscillators are chaotic
        pools = Pools.empty(3, layer)  # two parts of each series, one after the other
        middle = len(starts[2]) // 2
        pools.add(
            layer,
            [1, 0],
            [len(starts[1]), len(starts[0])],
            layer.values(Joined.from_series(series[1::-1]), starts[1::-1]),
        )
        for part in (starts[2][:middle], starts[2][middle:]):
            pools.add(layer, [2], [len(part)], layer.values(Joined.from_series(series[2:]), [part]))
        np.testing.assert_allclose(pools.features(layer), pooled(Joined.from_series(series), layer), atol=1e-5)


def reference(layer, x, starts):
    """The quantities at the ends of windows of x (N, d), by torch in float64."""
    view = layer.view
    u = view.prepare(Joined.from_series([x]), layer.deviation)
    u = torch.from_numpy(np.stack([u[start : start + view.W] for start in starts], 1)).double()
    u = u - u.mean(0) if view.kind == "shape" else u
    w, V, b, c = (t.double() for t in layer[1:5])
    y = z = torch.zeros(len(starts), len(w), dtype=torch.float64)
    for x in u @ V.T + b:
        y, z = step(torch.tanh(w * y + x), y, z, 2 * FASTEST * c.sigmoid(), ALPHA)
    E = energy(y, z, w, ALPHA) + 1e-3
    if not view.pairs:
        return torch.cat([y, E.log()], 1)[:, -len(layer.names) :].numpy()
    (y0, y1), (z0, z1), (E0, E1), (omega, _) = (t.chunk(2, -1) for t in (y, z, E, (ALPHA + w).sqrt()))
    lead, in_phase = omega * (y0 * z1 - y1 * z0), z0 * z1 + omega**2 * y0 * y1
    return (torch.cat([lead, in_phase], 1) / (E0 + E1 - 1e-3).repeat(1, 2)).numpy()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_windows():
    rng = np.random.default_rng(0)
    bank = OscillatorBank(random_state=0).fit([rng.normal(size=(16, 1))])
    tops = []
    for N in (400_000, 800_000):
        x = rng.normal(size=(N, 1))
        tracemalloc.start()
        bank.transform([x])
        tops.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    states = 400_000 / 2 * 2 * 32 * 4  # bytes of one layer for the additional windows of 8 steps
    assert tops[1] - tops[0] < states / 2
    assert tops[0] < states


def test_constant_channels_and_short_series():
    X = np.ones((5, 20, 2))
    X[:, :, 1] = np.random.default_rng(0).normal(size=(5, 20))
    assert np.isfinite(small().fit_transform(X)).all()
    assert np.isfinite(small().fit_transform(np.arange(3.0)[:, None])).all()  # N = 1
    assert np.isfinite(small().fit_transform(np.ones((1, 9)))).all()


def test_pairs_tell_which_channel_leads():
    rng = np.random.default_rng(0)
    u = np.stack([np.convolve(rng.normal(size=130), np.ones(5), "valid") for _ in range(20)])
    lead, lag = (np.stack([u[:, 10:110], u[:, 10 + k : 110 + k]], 2) for k in (3, -3))
    bank = small().fit(np.concatenate([lead, lag]))
    leads = ["lead" in name and name.endswith("mean") for name in bank.get_feature_names_out()]
    one, other = (bank.transform(X)[:, leads].mean(0) for X in (lead, lag))
    clear = np.abs(one) > 0.2
    assert clear.any()
    assert (np.sign(one) == -np.sign(other))[clear].all()


def test_every_feature_has_a_name_and_a_kind():
    X = np.random.default_rng(0).normal(size=(5, 40, 3))
    bank = small().fit(X)
    names, kinds = bank.get_feature_names_out(), bank._feature_kinds()
    assert len(set(names)) == len(names) == len(kinds) == bank.transform(X).shape[1]
    assert all(("lead" in name or "in_phase" in name) == (kind == 1) for name, kind in zip(names, kinds, strict=True))
    assert names[kinds == 2][-1] == "channel2_max_at"
    assert {name.split("_logE")[0] for name in names[kinds == 3]} == {f"w{W}_scaled_increments" for W in bank.windows_}
    assert {name.rpartition("_")[2] for name in names[kinds == 3]} == {"deviation", "crossings"}


def test_summary_statistics_of_each_channel():
    x = np.stack([np.arange(5.0), [2, 9, 2, 2, 1]], 1)
    table = summaries([x, x[:1]])
    assert table.shape == (2, 13 * 2)
    assert table.dtype == np.float32
    first, second = ({name: table[0, 2 * i + d] for i, name in enumerate(NAMES)} for d in range(2))
    assert (first["mean"], first["median"], first["first"], first["last"], first["mean_increment"]) == (2, 2, 0, 4, 1)
    assert (second["max_at"], second["min_at"], second["upper_quartile"]) == (0.25, 1, 2)
    assert first["trend"] > 0 > second["trend"]
    assert np.isfinite(table[1]).all()  # a single step
