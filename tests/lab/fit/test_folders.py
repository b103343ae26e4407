"""Folders with one series per file."""

import numpy as np
import pandas as pd
import pytest

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.fit import read
from unicornn.lab.fit._files import has_targets


def write_series(path, n, columns=("x", "y")):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".wav", ".flac"):
        pytest.importorskip("soundfile").write(path, np.zeros((n, 2)), 8000)
    elif path.suffix == ".parquet":
        pd.DataFrame(np.ones((n, 2)), columns=columns).to_parquet(path)
    else:
        pd.DataFrame(np.ones((n, 2)), columns=columns).to_csv(path, index=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".wav", ".flac"])
def test_folders_named_by_class(suffix, tmp_path):
    for i, name in enumerate(("owl/1", "owl/2", "wren/1")):
        write_series(tmp_path / f"{name}{suffix}", 4 + i)
    data = read(tmp_path)
    assert data.ids == [f"owl/1{suffix}", f"owl/2{suffix}", f"wren/1{suffix}"]
    assert [x.shape for x in data.series] == [(4, 2), (5, 2), (6, 2)]
    assert data.target.tolist() == ["owl", "owl", "wren"]
    assert has_targets(tmp_path)
    assert "named by class" in data.form
    with pytest.raises(BadValue, match=r"^--target: "):
        read(tmp_path, "bird")


def test_a_folder_of_tables(tmp_path):
    for i, name in enumerate(("a.csv", "b.csv")):
        write_series(tmp_path / name, 3 + i)
    data = read(tmp_path)
    assert (data.ids, data.channels) == (["a.csv", "b.csv"], ["x", "y"])
    assert [len(x) for x in data.series] == [3, 4]
    assert not has_targets(tmp_path)
    (tmp_path / "labels.csv").write_text("file,bird\nb.csv,owl\na.csv,wren\n")
    assert read(tmp_path, "bird").target.tolist() == ["wren", "owl"]
    assert read(tmp_path).ids == ["a.csv", "b.csv"]
    write_series(tmp_path / "c.csv", 3, ("x", "z"))
    with pytest.raises(CorruptData, match=r"c\.csv: .*x, y as in a\.csv, got .*x, z"):
        read(tmp_path)


def test_tables_with_their_own_targets_and_times(tmp_path):
    for name, kind in (("a", "u"), ("b", "v")):
        (tmp_path / f"{name}.csv").write_text(f"time,x,kind\n0,1,{kind}\n1,2,{kind}\n")
    data = read(tmp_path, "kind")
    assert (data.channels, data.target.tolist(), len(data.times)) == (["x"], ["u", "v"], 2)


def test_folders_of_other_files(tmp_path):
    (tmp_path / "a.mp3").touch()
    with pytest.raises(CorruptData, match=r"expected .*\.wav.*, got \.mp3"):
        read(tmp_path)
    write_series(tmp_path / "owl/1.csv", 3)
    write_series(tmp_path / "2.csv", 3)
    with pytest.raises(CorruptData, match="got both"):
        read(tmp_path)
    (tmp_path / "2.csv").unlink()
    write_series(tmp_path / "owl/2.wav", 3)
    with pytest.raises(CorruptData, match="got both"):
        read(tmp_path)
