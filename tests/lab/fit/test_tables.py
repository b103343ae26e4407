"""How tables are understood: form, names of series, dialect of text, columns that aren't values."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.errors import BadValue, CorruptData
from unicornn.lab.fit import _sources, read, stream
from unicornn.lab.fit._data import describe

STEPS = [f"t{i}" for i in range(6)]


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def wide(n=8, **columns):
    """A wide table of noise with six steps."""
    values = pd.DataFrame(np.random.default_rng(0).normal(size=(n, 6)), columns=STEPS)
    return pd.concat([pd.DataFrame(columns), values], axis=1)


def notes(data):
    return " ".join(value for name, value in data.described() if name == "note")


def check_values(data, frame):
    np.testing.assert_array_equal(np.stack(data.series)[:, :, 0], frame[STEPS])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=20))
def test_numbers_are_rounded_correctly_in_every_form(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("numbers")
    header, row = ",".join(f"t{i}" for i in range(len(values))), ",".join(map(repr, values))
    wide_file = write(folder, "wide.csv", f"{header}\n{row}\n")
    long_file = write(folder, "long.csv", "series,x\n" + "".join(f"a,{value!r}\n" for value in values))
    for file in (wide_file, long_file):
        assert read(file, form=file.stem).series[0].ravel().tolist() == values


# -- silent misreads


@pytest.mark.parametrize("rows", [3, 100])
def test_names_of_series_are_text(rows, tmp_path, monkeypatch):
    """01 is not 1, and a name is not a number in one part of the file and text in the next."""
    monkeypatch.setattr(_sources, "CELLS", 2 * rows)
    path = write(tmp_path, "a.csv", "series,x\n1,1\n1,2\n01,3\n01,4\nb,5\nb,6\n")
    for parts in ([read(path)], list(stream(path))):
        assert [name for part in parts for name in part.ids] == ["1", "01", "b"]
        assert [len(x) for part in parts for x in part.series] == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "kind,t0,t1\n01,1,2\n1,3,4\n"),
        ("a.csv", "series,x,kind\na,1,01\nb,2,1\n"),
        ("a.tsv", "01\t1\t2\n1\t3\t4\n"),
        ("a.ts", "@classLabel true\n@data\n1,2:01\n3,4:1\n"),
    ],
)
def test_classes_with_leading_zeros(name, content, tmp_path):
    data = read(write(tmp_path, name, content), "kind" if name == "a.csv" else None)
    assert data.target.tolist() == ["01", "1"]


def test_headers_of_numbers(tmp_path):
    for header in ("label,0,1,2", "label,1,2,3", "label,0.0,0.1,0.2", "label,2020-01,2020-02,2021-01"):
        data = read(write(tmp_path, "a.csv", f"{header}\nu,5,6,7\nv,8,9,7\n"), "label")
        assert [x.ravel().tolist() for x in data.series] == [[5, 6, 7], [8, 9, 7]]


# -- columns that aren't values


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize("index", [range(8), [3, 1, 7, 0, 5, 2, 6, 4]])
def test_the_index_of_a_frame_is_not_a_step(index, name, tmp_path):
    frame = wide(label=list("aabbaabb")).set_axis(index)
    (frame.to_csv if name == "a.csv" else frame.to_parquet)(tmp_path / name)
    data = read(tmp_path / name, "label")
    check_values(data, frame)
    assert "'t0' to 't5'" in data.form
    if name == "a.csv":
        assert "'Unnamed: 0' left out" in notes(data)


def test_a_column_that_counts_rows_is_not_a_step(tmp_path):
    frame = wide(row=range(3, 11))
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = read(tmp_path / "a.csv")
    check_values(data, frame)
    assert "'row' left out" in notes(data)
    assert data.reading["ignored"] == ["row"]
    frame[:2].to_csv(tmp_path / "b.csv", index=False)  # too few rows to recognise it
    check_values(read(tmp_path / "b.csv", like=data.reading), frame[:2])


@pytest.mark.parametrize("key", ["id", "name"])
def test_names_of_the_rows_of_a_wide_table(key, tmp_path):
    frame = wide(**{key: list("abcdefgh")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = read(tmp_path / "a.csv")
    check_values(data, frame)
    assert data.ids == list("abcdefgh")
    assert f"names by '{key}'" in data.form


@pytest.mark.parametrize("other", ["age", "subject"])
def test_another_number_beside_the_steps_is_rejected(other, tmp_path):
    frame = wide(**{other: [30, 30, 41, 41, 30, 30, 41, 41]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(BadValue, match=rf"a\.csv: .*'{other}' beside 't0' to 't5'; --drop {other} .*--form wide"):
        read(tmp_path / "a.csv")
    check_values(read(tmp_path / "a.csv", drop=[other]), frame)
    assert [len(x) for x in read(tmp_path / "a.csv", form="wide").series] == [7] * 8


def test_ambiguous_tables_show_both_interpretations(tmp_path):
    frame = wide(subject=list("uuvvuuvv"))
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(BadValue, match=r"wide, .*--drop subject.* long, .*--id subject"):
        read(tmp_path / "a.csv")
    check_values(read(tmp_path / "a.csv", drop=["subject"]), frame)
    assert len(read(tmp_path / "a.csv", id="subject").series) == 2
    path = write(tmp_path, "b.csv", "x,y,z\n1,2,3\n4,5,7\n")
    with pytest.raises(BadValue, match=r"--form wide\).* long, .*--id"):
        read(path)
    assert len(read(path, form="wide").series) == 2


def test_wide_tables_with_several_channels(tmp_path):
    columns = [f"{channel}_{n}" for channel in ("x", "y") for n in range(3)]
    pd.DataFrame([[1, 2, 3, 4, 5, 6]] * 2, columns=columns).to_csv(tmp_path / "a.csv", index=False)
    data = read(tmp_path / "a.csv")
    assert data.channels == ["x", "y"]
    assert data.series[0].tolist() == [[1, 4], [2, 5], [3, 6]]


def test_the_names_of_series_are_inferred_from_repeated_text(tmp_path):
    rows = "".join(f"{name},{n},{n}.5,{kind}\n" for name, kind in (("p1", "u"), ("p2", "v")) for n in range(3))
    path = write(tmp_path, "a.csv", "patient_id,seconds,x,kind\n" + rows)
    data = read(path, "kind")
    assert (data.ids, data.channels) == (["p1", "p2"], ["seconds", "x"])
    assert "series by 'patient_id'" in notes(data)
    with pytest.raises(BadValue, match=r"^--id: .*--id patient_id or --id kind"):
        read(path)
    path = write(tmp_path, "b.csv", "time,patient,x\n0,7,1.5\n1,7,2.5\n0,8,1.5\n1,8,2.5\n")
    with pytest.raises(BadValue, match=r"^--id: .*--id patient"):
        read(path)


# -- sampling and targets


def test_irregular_times_are_resampled(tmp_path):
    path = write(tmp_path, "a.csv", "series,time,x\na,3,6\na,0,0\na,1,1\na,1,3\nb,0,1\nb,1,2\nb,2,3\n")
    with pytest.raises(CorruptData, match=r"line 3: .*--resample PERIOD .*--drop time"):
        read(path)
    data = read(path, resample="1")
    assert [x.ravel().tolist() for x in data.series] == [[0, 2, 4, 6], [1, 2, 3]]
    assert dict(data.described())["sampling"] == "regular"
    assert describe(stream(path, resample="1", whole_series=False)) == data.described()
    assert data.reading["resample"] == "1"
    assert [len(x) for x in read(path, drop=["time"]).series] == [4, 3]
    path = write(tmp_path, "b.csv", "series,time,x\na,2026-01-01T00:00,1\na,2026-01-01T00:30,2\na,2026-01-01T02:00,8\n")
    assert read(path, resample="30min").series[0].ravel().tolist() == [1, 2, 4, 6, 8]
    for period in ("0", "soon", "1e-9"):
        with pytest.raises(BadValue, match=r"^--resample: "):
            read(path, resample=period)
    with pytest.raises(BadValue, match=r"^--resample: .*--time"):
        read(write(tmp_path, "c.csv", "t0,t1\n1,2\n"), resample="1")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_series_without_a_target(name, tmp_path):
    frame = pd.DataFrame({"series": list("aabb"), "x": [1.0, 2, 3, 4], "y": [0.5, 0.5, np.nan, np.nan]})
    (frame.to_parquet if name == "a.parquet" else frame.to_csv)(tmp_path / name, index=False)
    with pytest.raises(CorruptData, match="target of series b, got none"):
        read(tmp_path / name, "y")


def test_groups(tmp_path):
    path = write(tmp_path, "a.csv", "series,x,kind,who\na,1,u,Ann\na,2,u,Ann\nb,3,v,Bob\n")
    data = read(path, "kind", groups="who")
    assert (data.channels, data.groups.tolist()) == (["x"], ["Ann", "Bob"])
    with pytest.raises(CorruptData, match="line 3: expected one group for series a, got Ann and Bob"):
        read(write(tmp_path, "b.csv", "series,x,who\na,1,Ann\na,2,Bob\n"), groups="who")
    np.savez(tmp_path / "a.npz", X=np.eye(2), who=["Ann", "Bob"])
    assert read(tmp_path / "a.npz", groups="who").groups.tolist() == ["Ann", "Bob"]


# -- dialects and formats


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("series;wer;x\na;Jörg;1,5\na;Jörg;-2\n".encode(), "semicolons"),
        ("series;wer;x\na;Jörg;1,5\na;Jörg;-2\n".encode("latin-1"), "latin-1"),
        ("series\twer\tx\na\tJörg\t1.5\na\tJörg\t-2\n".encode("utf-16"), "tabs"),
        ("series|wer|x\na|Jörg|1.5\na|Jörg|-2\n".encode(), "bars"),
        ("series,wer,x\r\na,Jörg,1.5\r\na,Jörg,-2\r\n".encode("utf-8-sig"), ""),
    ],
)
def test_dialects_are_detected(content, note, tmp_path):
    data = read(write(tmp_path, "a.csv", content), "wer")
    assert (data.series[0].ravel().tolist(), data.target.tolist()) == ([1.5, -2], ["Jörg"])
    assert note in notes(data)


def test_dialects_can_be_given(tmp_path):
    path = write(tmp_path, "a.csv", "series:x\na:1,5\na:2\n".encode("cp500"))
    data = read(path, separator=":", decimal=",", encoding="cp500")
    assert data.series[0].ravel().tolist() == [1.5, 2]
    for option, value in (("separator", "::"), ("decimal", "x"), ("encoding", "klingon")):
        with pytest.raises(BadValue, match=f"^--{option}: "):
            read(path, **{"encoding": "cp500", option: value})
    with pytest.raises(CorruptData, match="got '1,5'; --decimal ,"):
        read(write(tmp_path, "b.csv", 'series,x\na,"1,5"\n'))
    with pytest.raises(CorruptData, match=r"got '1\.5'"):
        read(write(tmp_path, "c.csv", "series;x\na;1.5\n"), decimal=",")
    with pytest.raises(CorruptData, match="--encoding latin-1"):
        read(write(tmp_path, "d.csv", b"series,x\n" + b"a,1\n" * 300_000 + b"\xe9,1\n"))


def test_a_table_with_a_header_in_a_tsv_file(tmp_path):
    assert read(write(tmp_path, "a.tsv", "series\tx\na\t1\na\t2\n")).series[0].ravel().tolist() == [1, 2]


def jsonl(frame, path):
    frame.to_json(path, orient="records", lines=True)


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("a.parquet", lambda frame, path: frame.to_parquet(path)),
        ("a.feather", lambda frame, path: pa.feather.write_feather(frame, path)),
        ("a.jsonl", jsonl),
        ("a.csv.gz", lambda frame, path: frame.to_csv(path)),
    ],
)
def test_formats_of_tables(name, save, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "CELLS", 12)
    frame = pd.DataFrame(
        {"series": list("aabb"), "x": [1.5, 2, None, 4], "on": [True, False, True, True], "y": [1] * 4}
    )
    save(frame, tmp_path / name)
    data = read(tmp_path / name, "y")
    assert (data.ids, data.channels, data.target.tolist()) == (["a", "b"], ["x", "on"], [1, 1])
    assert data.series[0].tolist() == [[1.5, 1], [2, 0]]
    assert np.isnan(data.series[1][0, 0])
    with pytest.raises(CorruptData, match=rf"b\.{name[2:]}"):
        read(write(tmp_path, f"b.{name[2:]}", b"\x1f\x8bnonsense" if name.endswith("gz") else "nonsense\n1\n"))


def test_excel_files(tmp_path, monkeypatch):
    frame = pd.DataFrame({"series": ["01", "01"], "x": ["1.5", ""]})
    monkeypatch.setattr(pd, "read_excel", lambda path, **options: frame)
    monkeypatch.setattr(_sources.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pandas\.read_excel\('a\.xlsx'\)\.to_parquet\('a\.parquet'\)"):
        read(write(tmp_path, "a.xlsx", ""))
    monkeypatch.setattr(_sources.importlib.util, "find_spec", lambda name: True)
    data = read(tmp_path / "a.xlsx")
    assert (data.ids, data.series[0].shape, data.series[0][0, 0]) == (["01"], (2, 1), 1.5)


# -- Parquet


def test_lists_in_cells(tmp_path):
    x, y = [[1, 2, 3], [4, 5]], [[0.5, 0.25, 1], [2, None]]
    table = pa.table({"x": x, "y": y, "name": ["a", "b"], "kind": ["u", "v"]})
    pq.write_table(table, tmp_path / "a.parquet")
    data = read(tmp_path / "a.parquet", "kind", id="name")
    assert (data.ids, data.channels, data.target.tolist()) == (["a", "b"], ["x", "y"], ["u", "v"])
    assert data.series[0].tolist() == [[1, 0.5], [2, 0.25], [3, 1]]
    with pytest.raises(CorruptData, match=r"'x', got lists in text; .*map\(json\.loads\)"):
        read(write(tmp_path, "a.csv", 'kind,x\nu,"[1, 2]"\nv,"[3, 4]"\n'), "kind")
    for bad in ({"x": x, "y": [[1], [2]]}, {"x": [[], [1]]}, {"x": [["a"], ["b"]]}, {"x": [[[1]], [[2]]]}):
        pq.write_table(pa.table(bad), tmp_path / "b.parquet")
        with pytest.raises(CorruptData, match=r"b\.parquet(, line \d+)?: expected"):
            read(tmp_path / "b.parquet")


def test_a_table_like_another(tmp_path):
    frame = pd.DataFrame({"who": list("aabb"), "when": [0, 1] * 2, "x": [1.0, 2, 3, 4], "kind": list("uuvv")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    like = read(tmp_path / "a.csv", "kind", id="who", time="when").reading
    frame[:1].to_csv(tmp_path / "b.csv", index=False)  # the only row could be a series of one channel or of one step
    data = read(tmp_path / "b.csv", like=like)
    assert (data.ids, data.channels, data.series[0].tolist()) == (["a"], ["x"], [[1]])
    assert read(tmp_path / "a.csv", like=like, drop=["when"]).times == []
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    assert len(read(tmp_path / "a.npz", like=like).series) == 3
