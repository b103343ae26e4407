"""Errors in files of time series: located, and the same whether a file is read as a whole or in parts."""

import gzip

import numpy as np
import pandas as pd
import pytest

from unicornn.errors import CorruptData, UnicornnError
from unicornn.lab.fit import _sources, read, stream
from unicornn.lab.fit._data import describe

TS, LABELLED = "@problemName p\n@classLabel true 1 2\n@data\n", "@classLabel true\n@data\n"


def read_in_parts(path, target):
    """In parts that may end within a series, and then in parts of whole series."""
    describe(stream(path, target, whole_series=False))
    list(stream(path, target))


def check_rejected(path, message, target=None):
    for reader in (read, read_in_parts):
        with pytest.raises(CorruptData, match=message) as error:
            reader(path, target)
        assert path.name in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "series,x\na,1\na,oops\n", "line 3: expected a number in column 'x', got 'oops'; --target "),
        ("a.csv", "series,x\na,1\na,2,3\n", "line 3: expected 2 cells"),
        ("a.csv", "series,time,x\na,0,1\na,0,2\n", "line 3: .* series a, got the same time twice"),
        ("a.csv", "series,time,x\na,1,1\na,0,2\n", "line 3: .* series a, got an earlier time"),
        ("a.csv", "series,time,x\na,then,1\n", "line 2: .*'time', got 'then'"),
        ("a.csv", "series,x\na,1\n,2\n", "line 3: expected a value in column 'series'"),
        ("a.csv", 'series,x\na,1\n"a,2\n', "line 3: .*quotation mark"),
        ("a.csv", "", "at least one row"),
        ("a.csv", "series,x\na,1e999\n", "expected finite values in series a, got infinity"),
        ("a.csv", "series,x,kind\na,1,inf\nb,2,1\n", "target of series a"),
        ("a.csv", "a,0,1.5\na,1,2.5\nb,0,3.5\n", r"line \d: expected"),
        ("a.csv", "series,x\na,\na,\na,\na,\na,\na,\nb,1\na,\n", "expected finite values in series a, got none"),
        ("a.csv", "series,x,kind\na,1,u\nb,1,u\nb,1,u\nb,1,u\na,1,v\n", "line 6: .* series a, got u and v"),
        ("a.csv", "series,time,x\na,3,1\nb,0,1\nb,1,1\nb,2,1\na,2,1\n", "line 6: expected ascending times in series a"),
        ("a.csv.gz", gzip.compress(b"series,x\n" + b"a,1\n" * 999, mtime=0)[:-8], "damaged or cut short"),
        ("a.parquet", b"PAR1" + bytes(100), "expected a Parquet file"),
        ("a.tsv", "1\t2\n1\tx\n", "line 2: expected a number as value 1, got 'x'"),
        ("a.ts", TS + "1,2:3:1\n", "line 4: expected 2 channels of one length"),
        ("a.ts", TS + "1,b:1\n", "line 4: expected a number as value 2, got 'b'"),
        ("a.ts", "nothing\n", "line 1: expected a header line"),
        ("a.ts", TS, "expected a line @data"),
        ("a.ts", LABELLED + "?,?:a\n", "expected finite values in series line 3, got none"),
        ("a.ts", "@targetLabel true\n@data\n1,2:inf\n3,4:5\n", "target of series line 3"),
        ("a.ts", LABELLED + "1,2:\n3,4:b\n", "target of series line 3"),
    ],
)
def test_errors_in_a_file_are_located(name, content, message, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "CELLS", 12)
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    check_rejected(tmp_path / name, message, "kind" if "kind" in str(content) else None)


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


def test_targets_of_arrays_that_are_not_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=[1, np.nan])
    check_rejected(tmp_path / "a.npz", "expected a (finite )?number or a name as", "y")


def test_dates_are_not_a_channel(tmp_path):
    dates = pd.to_datetime(["2020-01-01", "2020-01-02"])
    pd.DataFrame({"series": ["a", "a"], "x": dates}).to_parquet(tmp_path / "a.parquet")
    check_rejected(tmp_path / "a.parquet", "expected numbers in column 'x'")


def test_damaged_labels_of_sounds(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.wav", np.zeros(100), 8000)
    (tmp_path / "labels.csv").write_bytes(b"\xff\xfe\0")
    with pytest.raises(UnicornnError, match=r"labels\.csv: expected"):
        read(tmp_path, "bird")
