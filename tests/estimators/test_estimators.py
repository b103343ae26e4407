"""UnICORNNClassifier and UnICORNNRegressor."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.estimators.exceptions import CLASSIFIER, NETWORK, REGRESSOR
from tests.estimators.helpers import QUICK, SMALL, speakers, tones
from unicornn import load_model
from unicornn.errors import BadValue, Diverged
from unicornn.estimators import OscillatorBank, UnICORNNClassifier, UnICORNNRegressor
from unicornn.estimators import _network as networks
from unicornn.estimators._arguments import inner_split
from unicornn.estimators._network import time_step_candidates
from unicornn.streams import Stream

MODELS = ("bank", "network", "both")
BOTH = (UnICORNNClassifier, UnICORNNRegressor)
TRAINED = {"dt": 0.5, "max_epochs": 60, "patience": 60, "lr": 0.02}
BANKS = [kind(random_state=0) for kind in BOTH]
NETWORKS = [kind("network", **TRAINED, **SMALL) for kind in BOTH]


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
    estimator = UnICORNNClassifier(model, **QUICK | {"max_epochs": 3}).fit(X, y)
    if model == "bank":
        assert estimator.score(*tones(seed=1)[:2]) > 0.95
    probabilities = estimator.predict_proba(X[:5])
    assert np.allclose(probabilities.sum(1), 1)
    assert (estimator.classes_[probabilities.argmax(1)] == estimator.predict(X[:5])).all()
    assert estimator.decision_function(X[:5]).shape == (5,)
    assert estimator.transform(X[:5]).shape == (5, len(estimator.get_feature_names_out()))
    assert len(estimator.predict(np.random.default_rng(0).normal(size=(2, 300)))) == 2  # a length not seen in fit


@pytest.mark.parametrize("model", MODELS)
def test_several_targets(model):
    X, _, f = tones(d=2)
    Y = np.stack([f, -f, np.ones_like(f)], 1)
    estimator = UnICORNNRegressor(model, **QUICK).fit(X, Y)
    assert estimator.predict(X).shape == Y.shape
    assert UnICORNNRegressor(model, **QUICK).fit(X, f).predict(X).shape == (40,)
    if model == "bank":
        assert estimator.score(X, Y) > 0.9


def test_the_network_learns_and_the_best_weights_are_restored():
    X, y, _ = tones(60)
    estimator = UnICORNNClassifier("network", frames=0, dt=0.5, max_epochs=12, lr=0.02, horizon=30, **SMALL).fit(X, y)
    losses = [numbers["valid_loss"] for numbers in estimator.history_]
    assert estimator.best_epoch_ == 1 + int(np.argmin(losses))
    assert losses[estimator.best_epoch_ - 1] < losses[0]
    assert estimator.n_iter_ == len(losses) == 12
    assert estimator._network.rnn.horizon == (30.0,)


def test_the_first_best_epoch_is_kept_and_patience_ends_training(monkeypatch):
    losses = iter([3.0, 1.0, 2.0, 1.0, 9.0])
    monkeypatch.setattr(networks.NetworkTrainer, "validate", lambda _: {"train_loss": 0.0, "valid_loss": next(losses)})
    X, y, _ = tones(12)
    estimator = UnICORNNClassifier("network", frames=0, dt=0.5, max_epochs=9, patience=2, **SMALL).fit(X, y)
    assert (estimator.best_epoch_, estimator.n_iter_, estimator.stopped_by_) == (2, 4, "patience")


@pytest.mark.parametrize(
    ("model", "seconds", "epochs", "total"),
    [("network", 1, 24, 30), ("both", 1, 17, 30), ("network", 4, 6, 28), ("network", 100, 1, 200)],
)
def test_a_budget_covers_all_of_fit(monkeypatch, model, seconds, epochs, total):
    """30 s on a fake clock; a bank takes 10 s, and the choice of dt at most a fifth of the rest."""
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
    estimator = UnICORNNClassifier(model, frames=0, max_epochs=1000, patience=1000, budget=30, **SMALL)
    estimator.fit(X, y)
    assert (estimator.n_iter_, now[0], estimator.stopped_by_) == (epochs, total, "budget")


@pytest.mark.parametrize("model", MODELS)
def test_fits_are_reproducible_to_the_bit(model):
    X, y, _ = tones(20)
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    settings = {"max_epochs": 10, **SMALL}
    estimators = [UnICORNNClassifier(model, n_jobs=n, **settings).fit(X, y) for n in (None, 1, np.int64(2), -1)]
    first, *others = (estimator.decision_function(X) for estimator in estimators)
    assert all(np.array_equal(first, other) for other in others)
    assert torch.equal(before, torch.get_rng_state())  # torch's global generator is not used
    assert torch.get_num_threads() == threads
    assert np.array_equal(pickle.loads(pickle.dumps(estimators[0])).predict(X), estimators[0].predict(X))


def test_time_steps_from_the_data():
    slow = [np.sin(0.01 * np.arange(2000))[:, None]]
    fast = [np.sin(1.0 * np.arange(2000))[:, None]]
    assert min(time_step_candidates(slow, 1.0)) < 0.02 < max(time_step_candidates(fast, 1.0))
    assert all(0 < dt < 1.2 for x in (slow, fast, [np.zeros((1, 1))]) for dt in time_step_candidates(x, 1.0))
    X, y, _ = tones(20)
    estimator = UnICORNNClassifier("network", frames=0, max_epochs=15, **SMALL)
    estimator.fit(X, y, validation_data=tones(20, 1)[:2])
    assert estimator.dt_ in time_step_candidates([estimator._scaling(x) for x in X], 1.0)
    assert "valid_loss" in estimator.history_[0]


def test_groups_are_never_split():
    groups = np.repeat(np.arange(10), 5)
    train, test = inner_split(np.zeros(50, np.int64), groups, 0.2, 0)
    assert len(test)
    assert not set(groups[train]) & set(groups[test])
    train, test = inner_split(np.array([0] * 30 + [1] * 10), None, 0.2, 0)
    assert (len(train), len(test)) == (32, 8)
    X, y, _ = tones(20)
    assert UnICORNNClassifier(**SMALL).fit(X, y, groups=np.arange(20) % 7).score(X, y) > 0.9


@pytest.mark.parametrize("model", MODELS)
def test_the_scale_is_chosen_by_left_out_speakers(model, tmp_path):
    X, y, who = speakers(16, 4)
    new, labels, _ = speakers(16, 4, seed=1)
    fitted = UnICORNNClassifier(model, scale="auto", **QUICK).fit(X, y, groups=who)
    assert (fitted.scale_, fitted.left_out_by_) == ("series", "groups")
    if model == "bank":
        naive, honest = (UnICORNNClassifier(**SMALL).fit(X, y, groups=groups) for groups in (None, who))
        assert (naive.scale_, naive.left_out_by_) == ("dataset", "series")
        one, other, best = (each.about_["scores"]["left_out_accuracy"] for each in (naive, honest, fitted))
        assert other + 0.3 < best <= one == 1  # each speaker has levels of his own, which say nothing about others
        assert naive.score(new, labels) < 0.9 < fitted.score(new, labels)
    assert np.allclose(fitted.predict_proba(new), fitted.predict_proba(2 * new + 1), atol=1e-3)
    fitted.save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert (loaded.scale_, loaded.left_out_by_) == ("series", "groups")
    assert np.array_equal(loaded.predict_proba(new), fitted.predict_proba(new))


def test_the_scale_is_that_of_the_dataset_if_levels_matter():
    X, y, _ = tones(20)
    X = [x + 5 * (label == "low") for x, label in zip(X, y, strict=True)]
    assert UnICORNNClassifier(scale="auto", **SMALL).fit(X, y).scale_ == "dataset"
    gaps = UnICORNNRegressor(scale="series", missing="mask", **SMALL).fit(X, np.arange(20.0))
    assert np.allclose(gaps.predict(X), gaps.predict([3 * x for x in X]), atol=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_probabilities_of_a_model_of_few_series_are_moderate(model):
    X = np.sin(np.outer([0.2, 0.3, 0.2, 0.3, 0.2], np.arange(60)))
    fitted = UnICORNNClassifier(model, **QUICK).fit(X, [0, 1, 0, 1, 0])
    far = np.random.default_rng(0).normal(size=(20, 5)) * np.logspace(0, 10, 20)[:, None]
    probabilities = fitted.predict_proba([*X, *far])
    assert probabilities.min() > 0.005
    assert np.allclose(probabilities.sum(1), 1)


def test_partial_fit():
    X, y, f = tones(20)
    estimator = UnICORNNClassifier("network", dt=0.5, **SMALL)
    for _ in range(3):
        estimator.partial_fit(X[:10], y[:10], classes=["high", "low"])
    assert (estimator.n_iter_, estimator.models_) == (3, ("network",))
    assert UnICORNNRegressor("network", dt=0.5, **SMALL).partial_fit(X, f).predict(X).shape == (20,)


def test_warm_start():
    X, y, f = tones(20)
    options = {**QUICK, "frames": 0, "max_epochs": 2, "warm_start": True}
    warm = UnICORNNClassifier("network", **options).fit(X, y)
    before = warm.history_[-1]["train_loss"]
    assert warm.fit(X, y).history_[0]["train_loss"] < before + 0.1
    with pytest.raises(BadValue, match=r"^y: "):
        warm.fit(X, np.where(y == "low", "a", "b"))
    warm = UnICORNNRegressor("network", **options).fit(X, f)
    with pytest.raises(BadValue, match=r"^y: "):
        warm.fit(X, np.stack([f, f], 1))
    predictions = warm.predict(X)
    warm.set_params(lr=1e-9).fit(X[:10], 100 * f[:10])  # keeps the scale of the targets
    assert np.allclose(warm.predict(X), predictions, atol=0.1)


def test_weights():
    X, y, _ = tones(20)
    weights = np.where(y == "low", 1.0, 1e-6)
    assert (UnICORNNClassifier(**SMALL).fit(X, y, sample_weight=weights).predict(X) == "low").mean() > 0.9
    assert UnICORNNClassifier(class_weight="balanced", **SMALL).fit(X[:15], y[:15]).score(X[:15], y[:15]) > 0.9


def test_unusual_data():
    X, y, _ = tones(12)
    X = [np.concatenate([x, np.ones_like(x)], 1) for x in X]  # a constant channel
    assert UnICORNNClassifier(**SMALL).fit(X, y).score(X, y) > 0.9
    y = y.copy()
    y[0] = "one"  # a class with one member
    for model in ("bank", "network"):
        assert "one" in UnICORNNClassifier(model, **QUICK).fit(X, y).classes_
    assert np.allclose(UnICORNNRegressor(**SMALL).fit(X[:1], [3.0]).predict(X), 3)  # one series
    short = np.arange(12.0)[:, None]  # N = 1
    assert UnICORNNRegressor(**SMALL).fit(short, short[:, 0]).score(short, short[:, 0]) > 0.9


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
def test_a_missing_target_is_named(missing):
    X, y, f = tones(6)
    for kind, targets in ((UnICORNNClassifier, y), (UnICORNNClassifier, f), (UnICORNNRegressor, f)):
        targets = targets.astype(object)
        targets[2] = missing
        with pytest.raises(BadValue, match=r"^y: .* series 2$"):
            kind(**SMALL).fit(X, targets)
    with pytest.raises(BadValue, match=r"^y: .* series 5$"):
        UnICORNNRegressor(**SMALL).fit(X, np.where(np.arange(6) < 5, f, np.nan)[:, None])


@pytest.mark.parametrize("model", ["bank", "network"])
def test_missing_values_as_channels(model):
    X, y, _ = tones(16)
    X[3][4:9] = np.nan
    with pytest.raises(BadValue, match=r"^X: .* series 3 at step 4"):
        UnICORNNClassifier(model, **SMALL).fit(X, y)
    estimator = UnICORNNClassifier(model, missing="mask", **QUICK).fit(X, y)
    assert np.isfinite(estimator.predict_proba(X)).all()


def test_frames_with_another_order_of_series_or_columns():
    X, y, _ = tones(6, d=2)
    names = list("fedcba")
    frame = pd.concat({name: pd.DataFrame(x, columns=["a", "b"]) for name, x in zip(names, X, strict=True)})
    known = pd.Series(y, index=names)
    estimator = UnICORNNClassifier(**SMALL).fit(frame, known)
    assert estimator.score(frame, y) == UnICORNNClassifier(**SMALL).fit(frame, pd.Series(y)).score(frame, y) == 1
    for name, given in {"y": known.sort_index(), "groups": pd.Series(range(6), index=sorted(names))}.items():
        with pytest.raises(BadValue, match=rf"^{name}: .* got 'a' for series 'f'"):
            UnICORNNClassifier(**SMALL).fit(frame, **({"y": known} | {name: given}))
    listed = [part for _, part in frame.groupby(level=0, sort=False)]
    for fitted in (estimator, OscillatorBank(random_state=0).fit(listed)):
        for other in (frame[["b", "a"]], [part[["b", "a"]] for part in listed]):
            with pytest.raises(BadValue, match=r"^X: .* \['a', 'b'\] as in fit"):
                fitted.transform(other)
        assert fitted.set_output(transform="pandas").transform(frame).index.tolist() == names
    with pytest.raises(BadValue, match=r"^X\[1\]: .* as in the first series"):
        estimator.predict([listed[0], listed[1][["b", "a"]]])


def test_a_time_step_that_diverges_is_halved(monkeypatch):
    X, y, _ = tones(12)
    train, tried = networks.train, []

    def diverges(network, examples, *rest):
        tried.append(network.rnn.dt[0])
        if len(tried) < 3:
            raise Diverged("fit: simulated")
        return train(network, examples, *rest)

    monkeypatch.setattr(networks, "choose", lambda *_: (0, 0.8))
    monkeypatch.setattr(networks, "train", diverges)
    estimator = UnICORNNClassifier("network", frames=0, max_epochs=1, **SMALL).fit(X, y)
    assert tried == [0.8, 0.4, 0.2]
    assert estimator.dt_ == 0.2
    tried.clear()
    with pytest.raises(Diverged):
        UnICORNNClassifier("network", frames=0, dt=0.8, max_epochs=1, **SMALL).fit(X, y)
    assert tried == [0.8]


def test_segments():
    rng = np.random.default_rng(0)
    X = [(1 + i % 2) * rng.standard_normal((n, 2)) for i, n in enumerate((50, 70, 90, 64) * 3)]
    y = np.arange(12) % 2
    estimator = UnICORNNClassifier("network", frames=0, **QUICK).fit(X, y)
    assert estimator._network.readout.segments == 3  # each of at least 16 steps
    assert np.isfinite(estimator.predict_proba([x[:2] for x in X])).all()  # fewer steps than segments
    whole = UnICORNNClassifier("network", readout="last+energy", frames=0, **QUICK).fit(X, y)
    assert whole._network.readout.segments == 1
    assert estimator.transform(X).shape == (12, 2 * whole._network.rnn.hidden_size * whole._network.rnn.num_layers)


@pytest.mark.parametrize("kind", [UnICORNNClassifier, UnICORNNRegressor])
def test_networks_read_frames_of_long_series(kind, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    X = np.sin(np.where(y, 0.9, 0.2)[:, None] * np.arange(200) + rng.uniform(0, 6, (24, 1)))
    estimator = kind("network", max_epochs=40, frames=20, batch_size=4, **SMALL)
    assert estimator.fit(X[:16], y[:16]).score(X[16:], y[16:]) > 0.8
    assert [level.length for level in estimator._network.frames] == [(20,)]
    assert estimator.transform(X).shape[1] == len(estimator.get_feature_names_out())
    estimator.save_pretrained(tmp_path)
    assert (load_model(tmp_path).predict(X) == estimator.predict(X)).all()
    answers = Stream(estimator).push({"a": X[20][:, None]})["a"]
    expected = estimator.predict_proba(X[20:21])[0] if kind is UnICORNNClassifier else estimator.predict(X[20:21])[0]
    np.testing.assert_allclose(answers, expected, atol=1e-4)


def test_the_length_of_frames_is_derived_from_the_series():
    X = np.random.default_rng(0).standard_normal((8, 640))
    estimator = UnICORNNClassifier("network", **QUICK).partial_fit(X, np.arange(8) % 2)
    assert estimator._network.frames[0].length == (20,)
    whole = UnICORNNClassifier("network", frames=0, **QUICK).fit(X, np.arange(8) % 2)
    assert not whole._network.frames
    assert whole._network.readout.segments == 8
    with pytest.raises(BadValue, match=r"^frames: "):
        UnICORNNClassifier("network", frames=-1, **QUICK).fit(X, np.arange(8) % 2)
