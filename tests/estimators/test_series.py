"""Accepted forms of X, missing values, scaling."""

from collections import UserList
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from unicornn.errors import BadType, BadValue
from unicornn.estimators._series import Scaling, read_series


def as_series(X, **options):
    return read_series(X, **options).series


def check_same(first, *others):
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_all_forms_give_the_same_series():
    X = np.random.default_rng(0).normal(size=(4, 10, 3))
    frame = pd.DataFrame(X.reshape(40, 3), index=pd.MultiIndex.from_product([list("abcd"), range(10)]))
    objects = np.empty(4, dtype=object)
    objects[:] = list(X)
    check_same(as_series(X), *map(as_series, (list(X), frame, [pd.DataFrame(x) for x in X], objects)))
    swapped = X.transpose(0, 2, 1)
    check_same(as_series(X), *(as_series(form, layout="channels_first") for form in (swapped, list(swapped))))


def test_containers_of_other_libraries_give_the_same_series():
    X = np.random.default_rng(0).normal(size=(4, 10, 3))
    lists, swapped = [x.tolist() for x in X], X.transpose(0, 2, 1)
    nested = pd.DataFrame({name: [pd.Series(x[:, i]) for x in X] for i, name in enumerate("abc")})  # as in sktime
    cells = pd.DataFrame({name: [x[:, i].tolist() for x in X] for i, name in enumerate("abc")})

    def table(frame):  # of polars or Arrow
        return SimpleNamespace(to_pandas=lambda: frame)

    def array(values, *dims):  # xarray's
        return SimpleNamespace(values=values, dims=dims)

    forms = [
        nested, cells, table(cells), table(pd.Series(list(X))), UserList(lists), pd.Series(list(X)),
        pd.DataFrame({"series": list(X)}), torch.tensor(X, requires_grad=True), [torch.tensor(x) for x in X],
        array(X, "case", "time", "channel"), array(swapped, "case", "channel", "time"),
    ]  # fmt: skip
    check_same(as_series(X), *map(as_series, forms))
    check_same(as_series(X), as_series(array(X, "case", "time", "channel"), layout="channels_first"))
    check_same(as_series(X[:, :, 0]), as_series(table(pd.DataFrame(X[:, :, 0]))))
    assert read_series(nested).channels == ["a", "b", "c"]
    ragged = [x[: 5 + i] for i, x in enumerate(X)]
    check_same(ragged, as_series(UserList([x.tolist() for x in ragged])))  # like a column of a Hugging Face dataset


@pytest.mark.parametrize(
    ("X", "line"),
    [
        ({"a": [1.0, 2.0]}, r"list\(X\.values\(\)\)"),
        (torch.nn.utils.rnn.pack_sequence([torch.zeros(3, 1)]), "pad_packed_sequence"),
        (SimpleNamespace(data_vars={}, dims={}), r"X\.to_dataarray"),
        (SimpleNamespace(column_names=["a"], features={}), r"X\['"),
        (SimpleNamespace(collect=None), r"X\.collect"),
        (SimpleNamespace(compute=None), r"X\.compute"),
        (pd.DataFrame({"id": ["a", "a"], "x": [1.0, 2.0]}), r"X\.set_index\(\['id'"),
        ([np.zeros((2, 5)), np.zeros((2, 7))], "layout='channels_first'"),
    ],
)
def test_other_containers_are_rejected_with_the_line_that_converts(X, line):
    with pytest.raises((BadType, BadValue), match=rf"^X(\[\d\])?: .*{line}"):
        as_series(X)


def test_one_channel_needs_no_axis():
    X = np.random.default_rng(0).normal(size=(4, 10))
    forms = list(X), X.tolist(), pd.DataFrame(X), list(X[:, :, None]), X[:, :, None]
    check_same(as_series(X), *map(as_series, forms))
    assert [len(x) for x in as_series([[1.0, 2.0], [3.0]])] == [2, 1]


def test_swapped_axes_give_a_warning_and_are_used_as_given():
    with pytest.warns(UserWarning, match="layout='channels_first'"):
        assert as_series(np.zeros((2, 3, 100)))[0].shape == (3, 100)
    with pytest.warns(UserWarning, match="layout='channels_last'"):
        as_series(np.zeros((2, 100, 3)), layout="channels_first")


def test_values_that_are_not_finite_are_located():
    X = np.zeros((3, 5, 2))
    X[1, 4, 1] = np.nan
    with pytest.raises(BadValue, match=r"^X: .*NaN in series 1 at step 4, channel 1; missing='mask'"):
        as_series(X)
    X[1, 4, 1] = np.inf
    for missing in ("error", "mask"):
        with pytest.raises(BadValue, match=r"^X: .*inf.* in series 1 at step 4, channel 1"):
            as_series(X, missing=missing)


def test_a_mask_marks_missing_values_and_the_time_since_the_last():
    (x,) = as_series([np.array([np.nan, 2.0, np.nan, np.nan, 5.0])], missing="mask")
    assert x[:, 0].tolist() == [2, 2, 2, 2, 5]
    assert x[:, 1].tolist() == [1, 0, 1, 1, 0]
    assert np.allclose(x[:, 2], np.log1p([1, 0, 1, 2, 0]))
    (x,) = as_series([np.full((3, 1), np.nan)], missing="mask")
    assert x[:, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("ids", "times", "message"),
    [("abb", [0, 1, 1], "1 twice in series 'b'"), ("abb", [0, 2, 1], "ascending.* 'b'"), ("", [], "empty")],
)
def test_bad_frames_name_the_series(ids, times, message):
    index = pd.MultiIndex.from_arrays([list(ids), times])
    with pytest.raises(BadValue, match=f"^X: .*{message}"):
        as_series(pd.DataFrame({"a": np.zeros(len(ids))}, index=index))


def test_series_of_a_frame_may_be_interleaved():
    index = pd.MultiIndex.from_arrays([list("aba"), [0, 0, 1]])
    assert [len(x) for x in as_series(pd.DataFrame({"a": np.zeros(3)}, index=index))] == [2, 1]


@pytest.mark.parametrize("size", [1e-13, 1e-30])
def test_small_units_are_not_constant(size):
    x = size * np.random.default_rng(0).normal(size=(100, 1))  # a magnetic field of the brain, in tesla
    assert np.isclose(Scaling.fit([x])(x).std(), 1)
    assert np.allclose(Scaling.fit([np.full((100, 1), 0.1)])(np.full((100, 1), 0.1)), 0)


def test_scaling_is_accurate_with_a_large_offset():
    x = 1e9 + np.sin(np.arange(100.0))[:, None]
    scaled = Scaling.fit([x])(x)
    assert scaled.dtype == np.float32
    assert np.allclose(scaled.std(), 1, atol=1e-5)
    assert not Scaling.fit([np.full((5, 1), 0.1, np.float32)])(np.full((5, 1), 0.1, np.float32)).any()
