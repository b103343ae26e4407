"""UnICORNNClassifier and UnICORNNRegressor."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.estimators.exceptions import CLASSIFIER, NETWORK, REGRESSOR
from unicornn.errors import BadValue, Diverged
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor, load
from unicornn.estimators import _network as networks
from unicornn.estimators._arguments import inner_split
from unicornn.estimators._network import time_step_candidates

SMALL = {"hidden_size": 8, "num_layers": 1, "random_state": 0}
MODELS = ("bank", "network", "both")


def tones(n=40, seed=0, d=1):
    """Series of unequal length, their class and their frequency."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    f = np.where(y, 0.3, 0.2)
    X = [np.sin(f[i] * np.arange(rng.integers(50, 70))[:, None] + rng.uniform(0, 6, d)) for i in range(n)]
    return X, np.array(["low", "high"])[y], f


TRAINED = {"dt": 0.5, "max_epochs": 60, "patience": 60, "lr": 0.02}
BANKS = [UnICORNNClassifier(random_state=0), UnICORNNRegressor(random_state=0)]
NETWORKS = [kind("network", **TRAINED, **SMALL) for kind in (UnICORNNClassifier, UnICORNNRegressor)]


def _exceptions(estimator):
    own = CLASSIFIER if isinstance(estimator, UnICORNNClassifier) else REGRESSOR
    return own | (NETWORK if estimator.model == "network" else {})


@parametrize_with_checks(BANKS, expected_failed_checks=_exceptions)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(NETWORKS, expected_failed_checks=_exceptions, xfail_strict=False)  # last bits may agree
def test_scikit_learn_with_networks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", MODELS)
def test_classes_of_series_of_unequal_length(model):
    X, y, _ = tones()
    estimator = UnICORNNClassifier(model, dt=0.5, max_epochs=3, **SMALL).fit(X, y)
    if model == "bank":
        assert estimator.score(*tones(seed=1)[:2]) > 0.95
    probabilities = estimator.predict_proba(X[:5])
    assert np.allclose(probabilities.sum(1), 1)
    assert (estimator.classes_[probabilities.argmax(1)] == estimator.predict(X[:5])).all()
    assert estimator.decision_function(X[:5]).shape == (5,)
    assert estimator.transform(X[:5]).shape == (5, len(estimator.get_feature_names_out()))
    longer = np.random.default_rng(0).normal(size=(2, 300))
    assert len(estimator.predict(longer)) == 2  # of a length never seen


@pytest.mark.parametrize("model", MODELS)
def test_several_numbers(model):
    X, _, f = tones(d=2)
    Y = np.stack([f, -f, np.ones_like(f)], 1)
    estimator = UnICORNNRegressor(model, dt=0.5, max_epochs=3, **SMALL).fit(X, Y)
    assert estimator.predict(X).shape == Y.shape
    assert np.allclose(UnICORNNRegressor(model, dt=0.5, max_epochs=1, **SMALL).fit(X, f).predict(X).shape, (40,))
    if model == "bank":
        assert estimator.score(X, Y) > 0.9


def test_the_network_learns_and_the_best_weights_are_restored():
    X, y, _ = tones(60)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=12, lr=0.02, **SMALL).fit(X, y)
    losses = [numbers["valid_loss"] for numbers in estimator.history_]
    assert estimator.best_epoch_ == 1 + int(np.argmin(losses))
    assert losses[estimator.best_epoch_ - 1] < losses[0]
    assert estimator.n_iter_ == len(losses) == 12


def test_a_horizon_is_the_layers():
    X, y, _ = tones(8)
    estimator = UnICORNNClassifier("network", dt=0.5, horizon=30, max_epochs=1, **SMALL).fit(X, y)
    assert estimator._network.rnn.horizon == (30.0,)


def test_patience_ends_a_training():
    X, y, _ = tones(20)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=50, lr=10.0, patience=1, **SMALL).fit(X, y)
    assert estimator.stopped_by_ == "patience"
    assert estimator.n_iter_ < 50


def test_a_budget_ends_a_training():
    X, y, _ = tones(20)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=1000, budget=1e-6, **SMALL).fit(X, y)
    assert (estimator.stopped_by_, estimator.n_iter_) == ("budget", 1)


@pytest.mark.parametrize(
    ("model", "seconds", "epochs", "total"),
    [("network", 1, 24, 30), ("both", 1, 17, 30), ("network", 4, 6, 28), ("network", 100, 1, 200)],
)
def test_a_budget_is_for_all_of_fit(monkeypatch, model, seconds, epochs, total):
    """30 s by a clock that an epoch and a bank, which takes 10 s, move on; at most a fifth of what is left for dt."""
    now = [0]

    def taking(seconds, call):
        def slow(*given):
            now[0] += seconds
            return call(*given)

        return slow

    monkeypatch.setattr(networks, "clock", lambda: now[0])
    trainer = networks.NetworkTrainer
    monkeypatch.setattr(trainer, "train_epoch", taking(seconds, trainer.train_epoch))
    monkeypatch.setattr(networks, "time_step_candidates", lambda series, alpha: [0.5, 0.3, 0.4])
    monkeypatch.setattr(OscillatorBank, "_fit_series", taking(10, OscillatorBank._fit_series))
    X, y, _ = tones(20)
    estimator = UnICORNNClassifier(model, max_epochs=1000, patience=1000, budget=30, **SMALL).fit(X, y)
    assert (estimator.n_iter_, now[0], estimator.stopped_by_) == (epochs, total, "budget")


def test_compiling_is_not_the_length_of_an_epoch(monkeypatch):
    """The first call of a network takes 20 of 30 s, and an epoch 1 s."""
    now, compiled = [0], []
    call, epoch = networks.Network.forward, networks.NetworkTrainer.train_epoch

    def forward(*given):
        now[0] += 0 if compiled else 20
        compiled.append(True)
        return call(*given)

    def one_second(*given):
        now[0] += 1
        return epoch(*given)

    monkeypatch.setattr(networks, "clock", lambda: now[0])
    monkeypatch.setattr(networks.Network, "forward", forward)
    monkeypatch.setattr(networks.NetworkTrainer, "train_epoch", one_second)
    X, y, _ = tones(20)
    options = {"dt": 0.5, "max_epochs": 100, "patience": 100, "budget": 30}
    assert UnICORNNClassifier("network", **options, **SMALL).fit(X, y).n_iter_ == 10


@pytest.mark.parametrize("model", MODELS)
def test_the_same_bits_and_torch_is_left_alone(model):
    X, y, _ = tones(20)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    estimators = [UnICORNNClassifier(model, max_epochs=10, **SMALL).fit(X, y) for _ in range(2)]
    assert np.array_equal(*(estimator.decision_function(X) for estimator in estimators))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(pickle.loads(pickle.dumps(estimators[0])).predict(X), estimators[0].predict(X))


def test_time_steps_from_the_data():
    slow = [np.sin(0.01 * np.arange(2000))[:, None]]
    fast = [np.sin(1.0 * np.arange(2000))[:, None]]
    assert min(time_step_candidates(slow, 1.0)) < 0.02 < max(time_step_candidates(fast, 1.0))
    assert all(0 < dt < 1.2 for x in (slow, fast, [np.zeros((1, 1))]) for dt in time_step_candidates(x, 1.0))
    X, y, _ = tones(20)
    estimator = UnICORNNClassifier("network", max_epochs=15, **SMALL).fit(X, y, validation_data=(X, y))
    assert estimator.dt_ in time_step_candidates([estimator._scaling(x) for x in X], 1.0)


def test_groups_are_never_on_both_sides():
    groups = np.repeat(np.arange(10), 5)
    train, test = inner_split(np.zeros(50, np.int64), groups, 0.2, 0)
    assert len(test)
    assert not set(groups[train]) & set(groups[test])
    train, test = inner_split(np.array([0] * 30 + [1] * 10), None, 0.2, 0)
    assert (len(train), len(test)) == (32, 8)
    X, y, _ = tones(20)
    with pytest.raises(BadValue, match="groups: expected one for each of the 20 series"):
        UnICORNNClassifier(**SMALL).fit(X, y, groups=[1, 2])
    assert UnICORNNClassifier(**SMALL).fit(X, y, groups=np.arange(20) % 7).score(X, y) > 0.9


def test_partial_fit_and_warm_start():
    X, y, f = tones(20)
    estimator = UnICORNNClassifier(dt=0.5, **SMALL)
    for _ in range(3):
        estimator.partial_fit(X[:10], y[:10], classes=["high", "low"])
    assert (estimator.n_iter_, estimator.models_) == (3, ("network",))
    assert UnICORNNRegressor(dt=0.5, **SMALL).partial_fit(X, f).predict(X).shape == (20,)
    warm = UnICORNNClassifier("network", dt=0.5, max_epochs=2, warm_start=True, **SMALL).fit(X, y)
    before = warm.history_[-1]["train_loss"]
    assert warm.fit(X, y).history_[0]["train_loss"] < before + 0.1
    with pytest.raises(BadValue, match="classes of the last fit"):
        warm.fit(X, np.where(y == "low", "a", "b"))
    warm = UnICORNNRegressor("network", dt=0.5, max_epochs=2, warm_start=True, **SMALL).fit(X, f)
    with pytest.raises(BadValue, match="y: expected 1 targets for each series, got 2"):
        warm.fit(X, np.stack([f, f], 1))
    guesses = warm.predict(X)
    warm.set_params(lr=1e-9).fit(X[:10], 100 * f[:10])  # the scale of the targets stays as well
    assert np.allclose(warm.predict(X), guesses, atol=0.1)


@pytest.mark.parametrize("kind", [UnICORNNClassifier, UnICORNNRegressor])
def test_a_saved_network_learns_on(kind, tmp_path):
    X, y, f = tones(12)
    target = y if kind is UnICORNNClassifier else f
    kind("network", dt=0.5, max_epochs=2, **SMALL).fit(X, target).save_pretrained(tmp_path)
    again = load(tmp_path).partial_fit(X, target)
    assert (again.n_iter_, len(again.predict(X))) == (1, 12)


def test_validation_data_and_weights():
    X, y, _ = tones(20)
    Xv, yv, _ = tones(6, seed=1)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=2, **SMALL).fit(X, y, validation_data=(Xv, yv))
    assert "valid_loss" in estimator.history_[0]
    with pytest.raises(BadValue, match="validation_data: expected a pair"):
        UnICORNNClassifier(**SMALL).fit(X, y, validation_data=Xv)
    with pytest.raises(BadValue, match="y: expected classes among"):
        UnICORNNClassifier(**SMALL).fit(X, y, validation_data=(Xv, ["c"] * 6))
    weights = np.where(y == "low", 1.0, 1e-6)
    assert (UnICORNNClassifier(**SMALL).fit(X, y, sample_weight=weights).predict(X) == "low").mean() > 0.9
    assert UnICORNNClassifier(class_weight="balanced", **SMALL).fit(X[:15], y[:15]).score(X[:15], y[:15]) > 0.9


def test_odd_data():
    X, y, f = tones(12)
    X = [np.concatenate([x, np.ones_like(x)], 1) for x in X]  # a constant channel
    assert UnICORNNClassifier(**SMALL).fit(X, y).score(X, y) > 0.9
    y = y.copy()
    y[0] = "one"  # a class with one member
    for model in ("bank", "network"):
        assert "one" in UnICORNNClassifier(model, dt=0.5, max_epochs=1, **SMALL).fit(X, y).classes_
    with pytest.raises(BadValue, match="at least two classes, got 1 class"):
        UnICORNNClassifier(**SMALL).fit(X, ["a"] * 12)
    assert np.allclose(UnICORNNRegressor(**SMALL).fit(X[:1], [3.0]).predict(X), 3)  # one series
    short = np.arange(12.0)[:, None]  # N = 1
    assert UnICORNNRegressor(**SMALL).fit(short, short[:, 0]).score(short, short[:, 0]) > 0.9
    with pytest.raises(BadValue, match="Input y contains infinity"):
        UnICORNNRegressor(**SMALL).fit(X, np.where(f > 0.25, np.inf, f))
    with pytest.raises(BadValue, match="y: expected one target for each of the 12 series, got 3"):
        UnICORNNClassifier(**SMALL).fit(X, y[:3])


@pytest.mark.parametrize("gone", [np.nan, None, pd.NA])
def test_a_missing_target_is_named(gone):
    X, y, f = tones(6)
    for kind, targets in ((UnICORNNClassifier, y), (UnICORNNClassifier, f), (UnICORNNRegressor, f)):
        some = targets.astype(object)
        some[2] = gone
        with pytest.raises(BadValue, match=r"y: expected a target for every series, got none \(NaN\) for series 2"):
            kind(**SMALL).fit(X, some)
    with pytest.raises(BadValue, match="for series 5"):
        UnICORNNRegressor(**SMALL).fit(X, np.where(np.arange(6) < 5, f, np.nan)[:, None])


@pytest.mark.parametrize("model", ["bank", "network"])
def test_missing_values_are_learned_from(model):
    X, y, _ = tones(16)
    X[3][4:9] = np.nan
    with pytest.raises(BadValue, match="NaN in series 3 at step 4"):
        UnICORNNClassifier(model, **SMALL).fit(X, y)
    estimator = UnICORNNClassifier(model, dt=0.5, max_epochs=1, missing="mask", **SMALL).fit(X, y)
    assert np.isfinite(estimator.predict_proba(X)).all()


def test_frames_and_layouts_are_the_same_data():
    X, y, _ = tones(10, d=2)
    X = [x[:50] for x in X]
    index = pd.MultiIndex.from_product([range(10), range(50)], names=["series", "time"])
    frame = pd.DataFrame(np.concatenate(X), index=index, columns=["a", "b"])
    last = UnICORNNClassifier(**SMALL).fit(X, y).decision_function(X)
    assert np.array_equal(last, UnICORNNClassifier(**SMALL).fit(frame, y).decision_function(frame))
    first = np.stack(X).transpose(0, 2, 1)
    estimator = UnICORNNClassifier(layout="channels_first", **SMALL).fit(first, y)
    assert np.array_equal(last, estimator.decision_function(first))


def test_what_belongs_to_series_of_a_frame_is_in_their_order():
    X, y, _ = tones(6, d=2)
    names = list("fedcba")
    frame = pd.concat({name: pd.DataFrame(x, columns=["a", "b"]) for name, x in zip(names, X, strict=True)})
    known = pd.Series(y, index=names)
    estimator = UnICORNNClassifier(**SMALL).fit(frame, known)
    assert estimator.score(frame, y) == UnICORNNClassifier(**SMALL).fit(frame, pd.Series(y)).score(frame, y) == 1
    for name, given in {"y": known.sort_index(), "groups": pd.Series(range(6), index=sorted(names))}.items():
        with pytest.raises(BadValue, match=rf"{name}: expected the order of the series in X, got 'a' for series 'f'"):
            UnICORNNClassifier(**SMALL).fit(frame, **({"y": known} | {name: given}))
    listed = [part for _, part in frame.groupby(level=0, sort=False)]
    for fitted in (estimator, OscillatorBank(random_state=0).fit(listed)):
        for other in (frame[["b", "a"]], [part[["b", "a"]] for part in listed]):
            with pytest.raises(BadValue, match=r"expected columns \['a', 'b'\] as in fit, got \['b', 'a'\]"):
                fitted.transform(other)
        assert fitted.set_output(transform="pandas").transform(frame).index.tolist() == names
    with pytest.raises(BadValue, match=r"X\[1\]: expected columns \['a', 'b'\] as in the first series"):
        estimator.predict([listed[0], listed[1][["b", "a"]]])


def test_swapped_axes_are_told_once():
    X = np.random.default_rng(0).normal(size=(6, 1, 20))  # one channel first, as aeon has it
    with pytest.warns(UserWarning, match="look as if the axes were swapped") as told:
        UnICORNNClassifier(**SMALL).fit(X, [0, 1] * 3)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_scikit_learns_tools():
    X, y, _ = tones(24)
    X = np.stack([x[:50, 0] for x in X])
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=2, **SMALL)
    assert len(cross_val_score(make_pipeline(clone(estimator)), X, y, cv=2)) == 2
    search = GridSearchCV(estimator, {"model": ["bank", "network"]}, n_jobs=2, cv=2).fit(X, y)
    assert search.best_params_["model"] == "bank"
    frame = UnICORNNClassifier(**SMALL).set_output(transform="pandas").fit(X, y).transform(X)
    assert frame.shape[0] == 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "tree"}, "model: expected one of 'bank'"),
        ({"dt": "small"}, "dt: expected one of 'auto'"),
        ({"validation_fraction": 1.5}, "validation_fraction: expected a number from 0 up to 1"),
        ({"budget": 0}, "budget: expected a finite number > 0"),
        (
            {"class_weight": "equal"},
            "class_weight: expected None, 'balanced' or a weight for each class, got str 'equal'",
        ),
        ({"max_epochs": 0}, "max_epochs: expected an integer >= 1"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(BadValue, match=message):
        UnICORNNClassifier(**options).fit(np.zeros((4, 5)), [0, 1, 0, 1])


def test_progress_is_shown(capsys):
    X, y, _ = tones(8)
    UnICORNNClassifier("network", dt=0.5, max_epochs=2, verbose=True, **SMALL).fit(X, y)
    shown = capsys.readouterr().out
    assert "2/2" in shown
    assert "valid_loss" in shown or "train_loss" in shown


def test_a_time_step_that_diverges_is_halved(monkeypatch):
    X, y, _ = tones(12)
    train, tried = networks.train, []

    def diverges(network, examples, *rest):
        tried.append(network.rnn.dt[0])
        if len(tried) < 3:
            raise Diverged("fit: as if")
        return train(network, examples, *rest)

    monkeypatch.setattr(networks, "choose_time_step", lambda *_: 0.8)
    monkeypatch.setattr(networks, "train", diverges)
    estimator = UnICORNNClassifier("network", max_epochs=1, **SMALL).fit(X, y)
    assert tried == [0.8, 0.4, 0.2]
    assert estimator.dt_ == 0.2
    tried.clear()
    with pytest.raises(Diverged):
        UnICORNNClassifier("network", dt=0.8, max_epochs=1, **SMALL).fit(X, y)
    assert tried == [0.8]


def test_pieces():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((n, 2)) for n in (50, 70, 90, 64) * 3]
    X = [x * (1 + i % 2) for i, x in enumerate(X)]
    y = np.arange(12) % 2
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=3, **SMALL).fit(X, y)
    assert estimator._network.readout.segments == 3  # of 16 steps at least
    assert np.isfinite(estimator.predict_proba([x[:2] for x in X])).all()  # shorter than the pieces are many
    whole = UnICORNNClassifier("network", dt=0.5, max_epochs=1, readout="last+energy", **SMALL).fit(X, y)
    assert whole._network.readout.segments == 1
    assert estimator.transform(X).shape == (12, 2 * whole._network.rnn.hidden_size * whole._network.rnn.num_layers)


def test_a_state_is_read_at_the_end_of_a_series():
    X, y, _ = tones(12)
    estimator = UnICORNNClassifier("network", dt=0.5, max_epochs=1, readout="state", **SMALL).fit(X, y)
    features, rnn = estimator._network.features, estimator._network.rnn
    assert estimator._network.readout.segments == 1
    (one,) = estimator.transform(X[:1])
    with torch.no_grad():
        state = rnn(torch.as_tensor(estimator._scaling(X[0]), dtype=torch.float32)[:, None])[1]
    norm = features.norms["state"]
    own = (torch.cat([state.y[0, 0], state.z[0, 0]]) - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    np.testing.assert_allclose(one, own, rtol=1e-4, atol=1e-5)
