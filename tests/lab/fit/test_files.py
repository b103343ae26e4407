"""Files of time series, and what is wrong with them."""

import gzip

import numpy as np
import pandas as pd
import pytest

from unicornn.errors import BadValue, CorruptData, MissingData
from unicornn.lab.fit import read


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


LONG = "series,time,x,y,who\na,0,1,2,Ann\na,1,3,4,Ann\nb,0,5,6,Bob\n"


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_long_tables(name, tmp_path):
    frame = pd.read_csv(write(tmp_path, "source.csv", LONG))
    path = tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    elif name.endswith("gz"):
        path.write_bytes(gzip.compress(LONG.encode()))
    else:
        path.write_text(LONG)
    data = read(path, "who")
    assert (data.ids, data.channels, data.target.tolist()) == (["a", "b"], ["x", "y"], ["Ann", "Bob"])
    assert [x.tolist() for x in data.series] == [[[1, 2], [3, 4]], [[5, 6]]]
    assert dict(data.described())["sampling"] == "regular"


def test_interleaved_series_and_parts_of_a_file(tmp_path, monkeypatch):
    from unicornn.lab.fit import _tables

    monkeypatch.setattr(_tables, "CELLS", 6)
    path = write(tmp_path, "t.csv", "id,time,x\na,0,1\nb,0,2\na,1,3\nb,5,4\nb,6,5\n")
    data = read(path)
    assert [x.ravel().tolist() for x in data.series] == [[1, 3], [2, 4, 5]]
    assert dict(data.described())["sampling"].startswith("irregular in 1 series (b)")
    with pytest.raises(CorruptData, match="line 6: expected a number in column 'x', got 'five'"):
        read(write(tmp_path, "bad.csv", "id,time,x\na,0,1\nb,0,2\na,1,3\nb,5,4\nb,6,five\n"))


def test_a_table_in_parts_is_the_same_table(tmp_path, monkeypatch):
    from unicornn.lab.fit import _tables, stream

    monkeypatch.setattr(_tables, "CELLS", 6)
    rows = [f"{name},{n},{n}.5" for name, N in (("a", 5), ("b", 1), ("c", 4), ("d", 1)) for n in range(N)]
    path = write(tmp_path, "t.csv", "\n".join(["series,time,x", *rows]))
    whole, parts = read(path), list(stream(path))
    assert len(parts) > 1
    assert [name for part in parts for name in part.ids] == whole.ids == list("abcd")
    assert all(np.array_equal(a, b) for a, b in zip(whole.series, [x for p in parts for x in p.series], strict=True))
    path = write(tmp_path, "t.csv", "series,x\na,1\nb,1\nb,1\nb,2\na,3\n")
    with pytest.raises(CorruptData, match="line 6: expected the rows of series a together"):
        list(stream(path))
    path = write(tmp_path, "w.csv", "t0,t1,t2\n1,2,3\n3,4,5\n5,6,7\n")
    assert [part.ids for part in stream(path)] == [["line 2", "line 3"], ["line 4"]]


@pytest.mark.parametrize("text", ["series,who,x\na,,1\na,,2\nb,,3\n", "who,x0,x1\n,1,2\n,3,\n"])
def test_a_column_that_is_not_wanted_is_left_out(text, tmp_path):
    from unicornn.lab.fit import stream

    path = write(tmp_path, "t.csv", text)
    assert [x.ravel().tolist() for data in stream(path, ignored="who") for x in data.series] == [[1, 2], [3]]
    assert [x.size for data in stream(path, ignored="nobody") for x in data.series] != [2, 1]


def test_parts_are_described_as_the_whole(tmp_path, monkeypatch):
    from unicornn.lab.fit import _tables, stream
    from unicornn.lab.fit._data import described

    rows = [f"{name},{n**2},{n if n != 2 else ''},{name in 'ab'}" for name in "abcd" for n in range(4)]
    path = write(tmp_path, "t.csv", "\n".join(["series,time,x,kind", *rows]))
    whole = read(path, "kind").described()
    monkeypatch.setattr(_tables, "CELLS", 12)
    assert len(list(stream(path, "kind"))) > 1
    assert described(stream(path, "kind")) == whole
    assert ("gaps", "4 values in 4 series, first in a") in whole


def test_a_description_needs_no_series_in_one_piece(tmp_path, monkeypatch):
    from unicornn.lab.fit import _tables, scan
    from unicornn.lab.fit._data import described

    rows = [
        f"{name},{n + (n > 2) * (name == 'c')},{n if n != 2 else ''},{name in 'ab'}"
        for n in range(6)
        for name in "abcd"
    ]
    path = write(tmp_path, "t.csv", "\n".join(["series,time,x,kind", *rows]))
    whole = read(path, "kind").described()
    monkeypatch.setattr(_tables, "CELLS", 12)
    assert next(part.ids for part in scan(path, "kind")) == ["a", "b", "c"]
    assert described(scan(path, "kind")) == whole
    assert dict(whole)["sampling"] == "irregular in 1 series (c); steps are taken as they come"
    for text, message in (
        ("series,x\na,\na,\na,\na,\na,\na,\nb,1\na,\n", "expected finite values in series a, got none"),
        ("series,x,kind\na,1,u\nb,1,u\nb,1,u\nb,1,u\na,1,v\n", "line 6: expected one target for series a, got u and v"),
        ("series,time,x\na,3,1\nb,0,1\nb,1,1\nb,2,1\na,2,1\n", "line 6: expected ascending times in series a"),
        ("series,x\na,1\na,inf\n", "expected finite values in series a, got infinity"),
    ):
        bad = write(tmp_path, "bad.csv", text)
        with pytest.raises(CorruptData, match=message):
            described(scan(bad, "kind" if "kind" in text else None))


def test_other_formats_come_in_parts(tmp_path, monkeypatch):
    from unicornn.lab.fit import _files, stream

    soundfile = pytest.importorskip("soundfile")
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    for i in range(3):
        soundfile.write(sounds / f"{i}.wav", np.zeros(4 + i), 8000)
    write(sounds, "labels.csv", "file,bird\n0.wav,owl\n1.wav,wren\n2.wav,owl\n")
    monkeypatch.setattr(_files, "CELLS", 7)
    for path in (write(tmp_path, "t.tsv", "1\t1\t2\n1\t3\t4\t5\t6\t7\n2\t8\n"), sounds):
        target = None if path.suffix else "bird"
        whole, parts = read(path, target), list(stream(path, target))
        assert len(parts) == 2
        assert [name for part in parts for name in part.ids] == whole.ids
        assert np.concatenate([part.target for part in parts]).tolist() == whole.target.tolist()
        assert [len(x) for part in parts for x in part.series] == [len(x) for x in whole.series]
    soundfile.write(sounds / "2.wav", np.zeros(4), 4000)
    with pytest.raises(CorruptData, match=r"2.wav: expected a sampling rate of 8000 Hz as before, got 4000 Hz"):
        read(sounds)


def test_wide_tables_with_series_of_unequal_length(tmp_path):
    data = read(write(tmp_path, "t.csv", "label,t0,t1,t2\n0.5,1,2,3\n1.5,4,5,\n2.5,6,,7\n"), "label")
    assert [len(x) for x in data.series] == [3, 2, 3]
    assert data.regression
    rows = dict(data.described())
    assert rows["gaps"] == "1 value in 1 series, first in line 4"
    assert rows["target"] == "a quantity, 0.5 to 2.5: regression"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("series,x\na,1\na,oops\n", "line 3: expected a number in column 'x', got 'oops'; --target names what"),
        ("series,x\na,1\na,2,3\n", "line 3: expected 2 cells, as in the header, got 3"),
        ("series,time,x\na,0,1\na,0,2\n", "line 3: expected ascending times in series a, got the same time twice"),
        ("series,time,x\na,1,1\na,0,2\n", "line 3: expected ascending times in series a, got a time before"),
        ("series,time,x\na,then,1\n", "line 2: expected a time in column 'time', got 'then'"),
        ("series,time,x\na,0.5,1\na,two,2\na,3,3\n", "line 3: expected a time in column 'time', got 'two'"),
        ("series,time,x\na,2026-01-02,1\na,2026-13-02,2\n", "line 3: expected a time in column 'time', got '2026-13"),
        ("series,x\na,1\n,2\n", "line 3: expected a value in column 'series'"),
        ('series,x\na,1\n"a,2\n', "line 3: expected the end of a text in quotation marks"),
        ("series;x\na;1,5\n", "line 1: expected columns separated by commas, got semicolons"),
        ("", "No columns"),
        ("series,x\n", "at least one row"),
    ],
)
def test_bad_tables_are_named_with_the_line(text, message, tmp_path):
    with pytest.raises(CorruptData, match=message):
        read(write(tmp_path, "t.csv", text))


def test_two_targets_for_one_series(tmp_path):
    path = write(tmp_path, "t.csv", "series,x,who\na,1,Ann\na,2,Bob\n")
    with pytest.raises(CorruptData, match="line 3: expected one target for series a, got Ann and Bob"):
        read(path, "who")
    with pytest.raises(BadValue, match=r"--target: expected a column of t.csv, got 'whom'; there are series, x, who"):
        read(path, "whom")


TS = "# a comment\n@problemName p\n@timestamps false\n@classLabel true 1 2\n@data\n"


def test_ts(tmp_path):
    data = read(write(tmp_path, "t.ts", TS + "1,2,3:4,5,6:1\n7,?:8,9:2\n"))
    assert [x.shape for x in data.series] == [(3, 2), (2, 2)]
    assert data.target.tolist() == [1, 2]
    assert np.isnan(data.series[1][1, 0])
    for text, message in (
        (TS + "1,2:3:1\n", "line 6: expected 2 channels of one length"),
        (TS + "1,b:1\n", "line 6: expected a number as value 2, got 'b'"),
        ("nothing\n", "line 1: expected a header line"),
        (TS, "expected a line @data and series after it"),
    ):
        with pytest.raises(CorruptData, match=message):
            read(write(tmp_path, "bad.ts", text))


def test_tsv_and_npz(tmp_path):
    data = read(write(tmp_path, "t.tsv", "1\t0.5\t0.25\tNaN\n-1\t1\t2\t3\n"))
    assert ([len(x) for x in data.series], data.target.tolist()) == ([2, 3], [1, -1])
    with pytest.raises(CorruptData, match="line 2: expected a number as value 1, got 'x'"):
        read(write(tmp_path, "bad.tsv", "1\t2\n1\tx\n"))
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 5, 2)), y=np.arange(3))
    assert read(tmp_path / "a.npz", "y").target.tolist() == [0, 1, 2]
    np.savez(tmp_path / "b.npz", values=np.zeros((7, 2)), lengths=np.array([3, 4]))
    assert [len(x) for x in read(tmp_path / "b.npz").series] == [3, 4]
    with pytest.raises(BadValue, match=r"--target: expected an array \(3,\) in a.npz, got 'z' of X, y"):
        read(tmp_path / "a.npz", "z")
    with pytest.raises(CorruptData, match=r"expected an .npz of numbers"):
        read(write(tmp_path, "c.npz", "no zip"))


def test_folders_of_sound(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    for i, name in enumerate(("a.wav", "b.wav")):
        soundfile.write(tmp_path / name, np.zeros(100 + i), 8000)
    assert [len(x) for x in read(tmp_path).series] == [100, 101]
    write(tmp_path, "labels.csv", "file,bird\nb.wav,owl\na.wav,wren\n")
    data = read(tmp_path, "bird")
    assert data.target.tolist() == ["wren", "owl"]
    assert data.form == "folder of .wav files at 8000 Hz"
    write(tmp_path, "labels.csv", "file,bird\na.wav,wren\n")
    with pytest.raises(CorruptData, match=r"a label for every file, got none for 'b.wav'"):
        read(tmp_path, "bird")
    write(tmp_path, "c.wav", "no sound")
    with pytest.raises(CorruptData, match=r"c.wav: expected a sound file"):
        read(tmp_path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(BadValue, match=r"expected a name that ends in .csv"):
        read(write(tmp_path, "t.xlsx", ""))
    with pytest.raises(MissingData, match="found nothing there"):
        read(tmp_path / "nowhere.csv")
