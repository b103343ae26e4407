"""The data folder and the cache."""

import os

import numpy as np
import pytest

from unicornn.errors import MissingData
from unicornn.lab.data import File, Source


@pytest.fixture
def cached(tmp_path):
    """A source, and a function that loads cached arrays and returns how often they have been made."""
    source, calls = Source(tmp_path, tmp_path / "cache"), []
    (tmp_path / "input").write_bytes(b"1")

    def load(settings="", path=tmp_path / "input"):
        def make():
            calls.append(settings)
            return {"a": np.arange(1000), "b": np.array(3.0)}

        arrays = source.cached("name", [path], settings, make)
        assert sorted(arrays) == ["a", "b"]
        np.testing.assert_array_equal(arrays["a"], np.arange(1000))
        return len(calls)

    return source, load


def test_arrays_are_made_once(cached, tmp_path):
    _, load = cached
    assert [load(), load(), load("other"), load("other"), load()] == [1, 1, 2, 2, 2]
    (tmp_path / "input").write_bytes(b"12")
    assert load() == 3


def test_a_change_below_a_folder_makes_them_again(cached, tmp_path):
    _, load = cached
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    file = folder / "below" / "file"
    file.write_bytes(b"1")
    assert [load(path=folder), load(path=folder)] == [1, 1]
    file.write_bytes(b"2")
    os.utime(file, ns=(10**18, 2 * 10**18))
    assert load(path=folder) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: (file.parent / "names").unlink(),
    ],
)
def test_a_damaged_cache_is_made_again(cached, damage):
    source, load = cached
    load()
    [file] = source.cache.glob("name-*/a.npy")
    damage(file)
    assert [load(), load()] == [2, 2]


def test_missing_files_are_listed(tmp_path):
    files = [File(f"folder/{i}", also=(f"{i}.xz",), about="from somewhere") for i in range(10)]
    (tmp_path / "3.xz").touch()
    source = Source(tmp_path)
    assert source.find(files[3]) == [tmp_path / "3.xz"]
    with pytest.raises(MissingData, match=r"(?s)folder/0 or 0\.xz\n    from somewhere.*and 1 more") as error:
        source.find(*files)
    assert "folder/3" not in str(error.value)
    with pytest.raises(MissingData, match="there is no folder"):
        Source(tmp_path / "none").find(files[0])
    with pytest.raises(MissingData, match="cannot be downloaded"):
        source.fetch(files[0])
