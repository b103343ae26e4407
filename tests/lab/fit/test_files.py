"""Files of time series, and errors in them."""

import gzip

import numpy as np
import pandas as pd
import pytest

from unicornn.errors import BadValue, CorruptData, MissingData
from unicornn.lab.fit import _files, _sources, read, stream
from unicornn.lab.fit._data import describe

LONG = "series,time,x,y,who\na,0,1,2,Ann\na,1,3,4,Ann\nb,0,5,6,Bob\n"
TS = "# a comment\n@problemName p\n@timestamps false\n@classLabel true 1 2\n@data\n"


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def check_parts_equal_whole(parts, whole):
    assert [name for part in parts for name in part.ids] == whole.ids
    assert all(np.array_equal(a, b) for a, b in zip([x for p in parts for x in p.series], whole.series, strict=True))


@pytest.fixture
def sounds(tmp_path):
    """A folder with three .wav files of 4 to 6 samples."""
    soundfile = pytest.importorskip("soundfile")
    folder = tmp_path / "sounds"
    folder.mkdir()
    for i, name in enumerate(("a.wav", "b.wav", "c.wav")):
        soundfile.write(folder / name, np.zeros(4 + i), 8000)
    write(folder, "labels.csv", "file,bird\nb.wav,owl\na.wav,wren\nc.wav,owl\n")
    return folder


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_long_tables(name, tmp_path):
    path = write(tmp_path, "t.csv", LONG)
    if name.endswith("parquet"):
        pd.read_csv(path).to_parquet(tmp_path / name)
    elif name.endswith("gz"):
        (tmp_path / name).write_bytes(gzip.compress(LONG.encode()))
    data = read(tmp_path / name, "who")
    assert (data.ids, data.channels, data.target.tolist()) == (["a", "b"], ["x", "y"], ["Ann", "Bob"])
    assert [x.tolist() for x in data.series] == [[[1, 2], [3, 4]], [[5, 6]]]
    assert dict(data.described())["sampling"] == "regular"


def test_wide_tables_with_series_of_unequal_length(tmp_path):
    data = read(write(tmp_path, "t.csv", "label,t0,t1,t2\n0.5,1,2,3\n1.5,4,5,\n2.5,6,,7\n"), "label")
    assert [len(x) for x in data.series] == [3, 2, 3]
    assert data.regression
    rows = dict(data.described())
    assert rows["gaps"] == "1 value in 1 series, first in line 4"
    assert rows["target"] == "a quantity, 0.5 to 2.5: regression"


def test_series_of_a_table_may_be_interleaved(tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "CELLS", 6)
    data = read(write(tmp_path, "t.csv", "id,time,x\na,0,1\nb,0,2\na,1,3\nb,5,4\nb,6,5\n"))
    assert [x.ravel().tolist() for x in data.series] == [[1, 3], [2, 4, 5]]
    assert dict(data.described())["sampling"].startswith("irregular in 1 series (b)")
    with pytest.raises(CorruptData, match=r"bad\.csv, line 6: .*'x', got 'five'"):
        read(write(tmp_path, "bad.csv", "id,time,x\na,0,1\nb,0,2\na,1,3\nb,5,4\nb,6,five\n"))


def test_parts_of_a_table_are_the_whole_table(tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "CELLS", 6)
    rows = [f"{name},{n},{n}.5" for name, N in (("a", 5), ("b", 1), ("c", 4), ("d", 1)) for n in range(N)]
    path = write(tmp_path, "t.csv", "\n".join(["series,time,x", *rows]))
    parts = list(stream(path))
    assert len(parts) > 1
    check_parts_equal_whole(parts, read(path))
    path = write(tmp_path, "t.csv", "series,x\na,1\nb,1\nb,1\nb,2\na,3\n")
    with pytest.raises(CorruptData, match="line 6: expected the rows of series a together"):
        list(stream(path))
    path = write(tmp_path, "w.csv", "t0,t1,t2\n1,2,3\n3,4,5\n5,6,7\n")
    assert [part.ids for part in stream(path)] == [["line 2", "line 3"], ["line 4"]]


def test_other_formats_are_read_in_parts(sounds, tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "CELLS", 7)
    tsv = write(tmp_path, "t.tsv", "1\t1\t2\n1\t3\t4\t5\t6\t7\n2\t8\n")
    for path, target in ((tsv, None), (sounds, "bird")):
        whole, parts = read(path, target), list(stream(path, target))
        assert len(parts) == 2
        check_parts_equal_whole(parts, whole)
        assert np.concatenate([part.target for part in parts]).tolist() == whole.target.tolist()


@pytest.mark.parametrize("text", ["series,who,x\na,,1\na,,2\nb,,3\n", "who,x0,x1\n,1,2\n,3,\n"])
def test_an_ignored_column(text, tmp_path):
    path = write(tmp_path, "t.csv", text)
    assert [x.ravel().tolist() for data in stream(path, ignored=["who"]) for x in data.series] == [[1, 2], [3]]


def test_a_dropped_column(tmp_path):
    path = write(tmp_path, "t.csv", "series,note,x\na,hot,1\na,cold,2\n")
    assert read(path, drop=["note"]).channels == ["x"]
    with pytest.raises(BadValue, match=r"^--drop: "):
        read(path, drop=["notes"])


@pytest.mark.parametrize("interleaved", [False, True])
def test_parts_are_described_like_the_whole(interleaved, tmp_path, monkeypatch):
    cells = [(name, n) for name in "abcd" for n in range(6)]
    cells = sorted(cells, key=lambda cell: cell[1]) if interleaved else cells
    rows = [f"{name},{n + (n > 2) * (name == 'c')},{n if n != 2 else ''},{name in 'ab'}" for name, n in cells]
    path = write(tmp_path, "t.csv", "\n".join(["series,time,x,kind", *rows]))
    whole = read(path, "kind").described()
    monkeypatch.setattr(_sources, "CELLS", 12)
    assert len(list(stream(path, "kind", whole_series=False))) > 4
    assert describe(stream(path, "kind", whole_series=False)) == whole
    if not interleaved:
        assert describe(stream(path, "kind")) == whole
    assert ("gaps", "4 values in 4 series, first in a") in whole
    assert dict(whole)["sampling"].startswith("irregular in 1 series (c)")


def test_errors_in_the_arguments_are_named(tmp_path):
    path = write(tmp_path, "t.csv", LONG)
    with pytest.raises(BadValue, match=r"^--target: .*'whom'; there are series, time, x, y, who"):
        read(path, "whom")
    with pytest.raises(BadValue, match=r"^--time: "):
        read(write(tmp_path, "wide.csv", "x0,x1\n1,2\n"), time="x0", form="wide")
    with pytest.raises(BadValue, match=r"^--id, --time, --drop, --form: "):
        read(write(tmp_path, "t.tsv", "1\t2\n"), id="x")
    with pytest.raises(BadValue, match=r"^--target: "):
        read(write(tmp_path, "t.ts", "@data\n1,2\n"), "y")
    with pytest.raises(BadValue, match=r"^FILE: "):
        read(write(tmp_path, "t.docx", ""))
    with pytest.raises(MissingData, match=r"nowhere\.csv: "):
        read(tmp_path / "nowhere.csv")


def test_ts(tmp_path):
    data = read(write(tmp_path, "t.ts", TS + "1,2,3:4,5,6:1\n7,?:8,9:2\n"))
    assert [x.shape for x in data.series] == [(3, 2), (2, 2)]
    assert data.target.tolist() == [1, 2]
    assert np.isnan(data.series[1][1, 0])


def test_tsv(tmp_path):
    data = read(write(tmp_path, "t.tsv", "1\t0.5\t0.25\tNaN\n-1\t1\t2\t3\n"))
    assert ([len(x) for x in data.series], data.target.tolist()) == ([2, 3], [1, -1])


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 5, 2)), y=np.arange(3))
    assert read(tmp_path / "a.npz", "y").target.tolist() == [0, 1, 2]
    np.savez(tmp_path / "b.npz", values=np.zeros((7, 2)), lengths=np.array([3, 4]))
    assert [len(x) for x in read(tmp_path / "b.npz").series] == [3, 4]
    with pytest.raises(BadValue, match=r"^--target: .*'z' of X, y"):
        read(tmp_path / "a.npz", "z")


@pytest.mark.parametrize("name", ["a.json", "a.pkl", "a.h5", "a.mat", "a.mp3", "a.arff"])
def test_other_formats_are_rejected_with_the_line_that_converts_them(name, tmp_path):
    with pytest.raises(BadValue, match=rf"^FILE: .*got {name}; convert it: .*{name}"):
        read(write(tmp_path, name, ""))


def test_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    assert [x.shape for x in read(tmp_path / "a.npy").series] == [(3, 1)] * 2
    with pytest.raises(BadValue, match=r"^--target: .*numpy\.savez"):
        read(tmp_path / "a.npy", "y")
    np.save(tmp_path / "b.npy", np.array([None]), allow_pickle=True)
    np.save(tmp_path / "c.npy", np.zeros(3))
    for name in ("b.npy", "c.npy"):
        with pytest.raises(CorruptData, match=rf"{name}: expected"):
            read(tmp_path / name)


def test_folders_of_sounds(sounds):
    data = read(sounds, "bird")
    assert [len(x) for x in data.series] == [4, 5, 6]
    assert data.target.tolist() == ["wren", "owl", "owl"]
    assert data.form == "folder: recordings at 8000 Hz"
    write(sounds, "labels.csv", "file,bird\na.wav,wren\nc.wav,owl\n")
    with pytest.raises(CorruptData, match=r"labels\.csv: .*'b.wav'"):
        read(sounds, "bird")
    pytest.importorskip("soundfile").write(sounds / "c.wav", np.zeros(4), 4000)
    with pytest.raises(CorruptData, match=r"c\.wav: .*8000 Hz .* as in a\.wav, got .*4000 Hz"):
        read(sounds)
    write(sounds, "c.wav", "no sound")
    with pytest.raises(CorruptData, match=r"c\.wav: expected a sound file"):
        read(sounds)
