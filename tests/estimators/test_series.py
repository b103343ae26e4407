"""The forms of X."""

import numpy as np
import pandas as pd
import pytest

from unicornn.errors import BadValue
from unicornn.estimators._series import Scaling, as_series


def test_all_forms_give_the_same_series():
    X = np.random.default_rng(0).normal(size=(4, 10, 3))
    index = pd.MultiIndex.from_product([list("abcd"), range(10)])
    frame = pd.DataFrame(X.reshape(40, 3), index=index)
    firsts = as_series(X.transpose(0, 2, 1), layout="channels_first")
    objects = np.empty(4, dtype=object)
    objects[:] = list(X)
    for other in (list(X), frame, [pd.DataFrame(x) for x in X], objects):
        assert all(np.array_equal(a, b) for a, b in zip(as_series(X), as_series(other), strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(as_series(X), firsts, strict=True))
    listed = as_series(list(X.transpose(0, 2, 1)), layout="channels_first")
    assert all(np.array_equal(a, b) for a, b in zip(as_series(X), listed, strict=True))


def test_one_channel_needs_no_axis():
    X = np.random.default_rng(0).normal(size=(4, 10))
    for other in (list(X), X.tolist(), pd.DataFrame(X), list(X[:, :, None]), X[:, :, None]):
        assert all(np.array_equal(a, b) for a, b in zip(as_series(X), as_series(other), strict=True))
    assert [len(x) for x in as_series([[1.0, 2.0], [3.0]])] == [2, 1]


def test_swapped_axes_are_told_and_not_guessed():
    with pytest.warns(UserWarning, match="look as if the axes were swapped"):
        assert as_series(np.zeros((2, 3, 100)))[0].shape == (3, 100)
    with pytest.warns(UserWarning, match="layout='channels_last'"):
        as_series(np.zeros((2, 100, 3)), layout="channels_first")


def test_missing_values_are_named():
    X = np.zeros((3, 5, 2))
    X[1, 4, 1] = np.nan
    with pytest.raises(BadValue, match="NaN in series 1 at step 4, channel 1; missing='mask'"):
        as_series(X)
    X[1, 4, 1] = np.inf
    for missing in ("error", "mask"):
        with pytest.raises(BadValue, match=r"inf.* in series 1 at step 4, channel 1"):
            as_series(X, missing=missing)


def test_a_mask_says_what_is_missing_and_since_when():
    (x,) = as_series([np.array([np.nan, 2.0, np.nan, np.nan, 5.0])], missing="mask")
    assert x[:, 0].tolist() == [2, 2, 2, 2, 5]
    assert x[:, 1].tolist() == [1, 0, 1, 1, 0]
    assert np.allclose(x[:, 2], np.log1p([1, 0, 1, 2, 0]))
    (x,) = as_series([np.full((3, 1), np.nan)], missing="mask")
    assert x[:, 0].tolist() == [0, 0, 0]


def test_bad_frames_name_the_series():
    def frame(ids, times):
        return pd.DataFrame({"a": np.zeros(len(ids))}, index=pd.MultiIndex.from_arrays([ids, times]))

    with pytest.raises(BadValue, match="got 1 twice in series 'b'"):
        as_series(frame(["a", "b", "b"], [0, 1, 1]))
    with pytest.raises(BadValue, match="ascending times, got others in series 'b'"):
        as_series(frame(["a", "b", "b"], [0, 2, 1]))
    with pytest.raises(BadValue, match="empty"):
        as_series(frame([], []))
    mixed = as_series(frame(["a", "b", "a"], [0, 0, 1]))
    assert [len(x) for x in mixed] == [2, 1]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([np.zeros((3, 2)), np.zeros((3, 1))], r"X\[1\]: expected 2 channels"),
        ([np.zeros((3, 2)), np.zeros((0, 2))], r"X\[1\]: expected an array of shape"),
        (np.zeros((2, 3, 4, 5)), r"\(n, N\) or \(n, N, d\)"),
        (np.zeros((2, 0, 4)), "at least one"),
        ([], "expected at least one series, got none"),
        (np.zeros(5), "Reshape your data"),
    ],
)
def test_what_is_no_series_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        as_series(X)


@pytest.mark.parametrize("size", [1e-13, 1e-30])
def test_small_units_are_no_constant(size):
    x = size * np.random.default_rng(0).normal(size=(100, 1))  # a magnetic field of the brain, in tesla
    assert np.isclose(Scaling.of([x])(x).std(), 1)
    assert np.allclose(Scaling.of([np.full((100, 1), 0.1)])(np.full((100, 1), 0.1)), 0)


def test_scaling_keeps_what_a_large_offset_would_drown():
    x = 1e9 + np.sin(np.arange(100.0))[:, None]
    scaled = Scaling.of([x])(x)
    assert scaled.dtype == np.float32
    assert np.allclose(scaled.std(), 1, atol=1e-5)
    assert not Scaling.of([np.full((5, 1), 0.1, np.float32)])(np.full((5, 1), 0.1, np.float32)).any()
