"""Damaged files of time series, and files that would block the reader."""

import gzip

import numpy as np
import pandas as pd
import pytest

from unicornn.errors import CorruptData, UnicornnError
from unicornn.lab.fit import _sources, read, stream


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def check_rejected(path, message, target=None):
    for reader in (read, lambda *arguments: list(stream(*arguments))):
        with pytest.raises(CorruptData, match=message) as error:
            reader(path, target)
        assert path.name in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("b.csv.gz", gzip.compress(b"series,x\n" + b"a,1\n" * 999, mtime=0)[:-8], "damaged or cut short"),
        ("d.parquet", b"PAR1" + bytes(100), "expected a Parquet file"),
        ("cells.csv", "series,x\na,1,5\na,2,6\n", "line 2: expected 2 cells"),
        ("infinite.csv", "series,x\na,1e999\n", "expected finite values in series a, got infinity"),
        ("empty.ts", "@classLabel true\n@data\n?,?:a\n", "expected finite values in series line 3, got none"),
        ("late.csv", "series,time,x\na,0,1\na,inf,2\n", "line 3: expected a time in series a, got inf"),
        ("infinite.ts", "@targetLabel true\n@data\n1,2:inf\n3,4:5\n", "target of series line 3"),
        ("none.ts", "@classLabel true\n@data\n1,2:\n3,4:b\n", "target of series line 3"),
        ("infinite.csv", "series,x,target\na,1,inf\nb,2,1\n", "target of series a"),
    ],
)
def test_damaged_files(name, content, message, tmp_path):
    target = "target" if name.endswith("csv") and "target" in message else None
    check_rejected(write(tmp_path, name, content), message, target)


@pytest.mark.parametrize(
    "arrays",
    [
        {"X": np.array([["a", "b"]])},
        {"X": np.zeros((0, 3))},
        {"X": np.full((2, 3), np.nan)},
        {"values": np.zeros((4, 1)), "lengths": np.array([2**63 - 1, 2**63 - 1, 6])},
    ],
)
def test_arrays_that_are_not_series(arrays, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    check_rejected(tmp_path / "a.npz", "expected")


@pytest.mark.parametrize("target", [[1, np.nan], [1j, 2], np.array([1, 2], "M8[D]")])
def test_targets_of_arrays_that_are_not_numbers(target, tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=target)
    check_rejected(tmp_path / "a.npz", "expected a (finite )?number or a name as", "y")


@pytest.mark.parametrize("dates", [pd.to_datetime(["2020-01-01", "2020-01-02"]), pd.to_timedelta([1, 2], unit="s")])
def test_dates_are_not_a_channel(dates, tmp_path):
    pd.DataFrame({"series": ["a", "a"], "x": dates}).to_parquet(tmp_path / "a.parquet")
    check_rejected(tmp_path / "a.parquet", "expected numbers in column 'x'")


@pytest.mark.parametrize("rows", [3, 100])
def test_names_of_series_are_text(rows, tmp_path, monkeypatch):
    """01 is not 1, and a name is not a number in one part of the file and text in the next."""
    monkeypatch.setattr(_sources, "CELLS", 2 * rows)
    path = write(tmp_path, "a.csv", "series,x\n1,1\n1,2\n01,3\n01,4\nb,5\nb,6\n")
    for parts in ([read(path)], list(stream(path))):
        assert [name for part in parts for name in part.ids] == ["1", "01", "b"]
        assert [len(x) for part in parts for x in part.series] == [2, 2, 2]


@pytest.mark.parametrize("labels", [b"\xff\xfe\0", b"", b'"'])
def test_damaged_labels_of_sounds(labels, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.wav", np.zeros(100), 8000)
    write(tmp_path, "labels.csv", labels)
    with pytest.raises(UnicornnError, match=r"labels\.csv: expected"):
        read(tmp_path, "bird")
