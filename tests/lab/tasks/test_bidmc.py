"""BIDMC: windows, targets, splits, from files, an archive or the TSR archive's .ts."""

import hashlib
import re
import tarfile

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData, MissingData
from unicornn.lab import tasks
from unicornn.lab.data import Source
from unicornn.lab.data._archives import members
from unicornn.lab.tasks.bidmc import ARCHIVES, FILES, SAME_PATIENT

RR, HR = tasks.find("bidmc-rr"), tasks.find("bidmc-hr")


def windows(splits):
    """Index in all windows to (u, target), of all splits."""
    found = {}
    for split in splits[:3]:
        u, target, lengths = helpers.everything(split)
        assert lengths is None
        found |= {int(i): (u[:, j].numpy(), float(target[j])) for j, i in enumerate(split.rows)}
    return found


@pytest.mark.parametrize(("task", "column"), [(RR, 0), (HR, 1)])
def test_windows_and_targets(small_bidmc, task, column):
    source, signals, numbers = small_bidmc
    splits = task.load(source, helpers.options(task), 0)
    assert [len(split) for split in splits[:3]] == [159 - 48, 24, 24]
    cut = np.stack([signals[i // 3][375 * (i % 3) :][:4000] for i in range(159)])
    mean, deviation = cut[splits.train.rows].mean((0, 1)), cut[splits.train.rows].std((0, 1))
    found = windows(splits)
    assert sorted(found) == list(range(159))
    for i, (u, target) in found.items():
        np.testing.assert_allclose(u, (cut[i] - mean) / deviation, atol=1e-4)
        assert target == pytest.approx(np.nanmean(numbers[i // 3][3 * (i % 3) :][:32, column]), rel=1e-6)


def test_stretched_and_shifted_windows(small_bidmc):
    source, _, _ = small_bidmc
    plain, changed = (HR.load(source, helpers.options(HR, **own), 0) for own in ({}, {"stretch": 0.1, "shift": 500}))
    some = torch.tensor([3, 1])
    u, target, _ = changed.train.batch(some, 0)
    assert u.shape == (3500, 2, 2)
    assert not torch.equal(target, plain.train.batch(some, 0).target)
    for before, after in zip(plain[1:3], changed[1:3], strict=True):
        (u, target, _), (pieces, same, _) = before.batch(some, -1), after.batch(some, -1)
        assert torch.equal(target, same)
        assert torch.equal(pieces[:, :3], torch.stack([u[:-500, 0], u[250:-250, 0], u[500:, 0]], 1))


def test_no_patient_in_two_parts(small_bidmc):
    source, _, _ = small_bidmc
    tests = set()
    for seed in range(20):
        splits = RR.load(source, helpers.options(RR, split="patient", split_seed=seed), 0)
        recordings = [set((split.rows // 3 + 1).tolist()) for split in splits[:3]]
        assert set.union(*recordings) == set(range(1, 54))
        assert sum(map(len, recordings)) == 53
        for split in recordings:
            for same in ({6, 7, 8, 9}, {20, 21, 22, 23}, {38, 39}):
                assert same <= split or not same & split
        tests.add(tuple(sorted(recordings[2])))
    assert len(tests) == 20


def test_archive_is_the_same(small_bidmc, tmp_path):
    source, _, _ = small_bidmc
    path = tmp_path / ARCHIVES[1]
    path.parent.mkdir()
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(source.data / "bidmc/bidmc_csv", "bidmc_csv")
    packed = RR.load(Source(tmp_path, tmp_path / "cache"), helpers.options(RR), 0)
    for split, other in zip(packed[:3], RR.load(source, helpers.options(RR), 0)[:3], strict=True):
        assert torch.equal(helpers.everything(split).u, helpers.everything(other).u)
        assert torch.equal(helpers.everything(split).target, helpers.everything(other).target)


def test_missing_and_corrupt(small_bidmc, tmp_path):
    source, _, _ = small_bidmc
    folder = tmp_path / "bidmc/bidmc_csv"
    folder.mkdir(parents=True)
    for file in (source.data / "bidmc/bidmc_csv").iterdir():
        (folder / file.name).symlink_to(file)
    broken = folder / "bidmc_07_Numerics.csv"
    text = broken.read_text()
    broken.unlink()
    with pytest.raises(MissingData, match=r"(?s)bidmc_07_Numerics\.csv.*physionet\.org.*sha256:"):
        RR.load(Source(tmp_path, tmp_path / "cache"), helpers.options(RR), 0)
    for content, message in (
        ("", "1 files are missing or empty, the first is bidmc_07_Numerics.csv"),
        (text.replace("RESP", "RATE"), "RESP is not in"),
        (text.replace("\n5,", "\n5,x"), "expected numbers"),
    ):
        broken.write_text(content)
        with pytest.raises(CorruptData, match=message):
            RR.load(Source(tmp_path, tmp_path / "cache"), helpers.options(RR), 0)


SIGNALS, NUMERICS = "bidmc_09_Signals.csv", "bidmc_09_Numerics.csv"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (SIGNALS, lambda rows: rows[:200] + rows[201:], "row 200 should be at 1.592 s, got 1.6 s"),
        (SIGNALS, lambda rows: rows[:4900] + rows[4901:], "rows are missing"),
        (SIGNALS, lambda rows: rows[:1] + rows[2:], "recording 9 to begin whole seconds apart, got 0.008 s and 0 s"),
        (SIGNALS, lambda rows: [*rows[:9], rows[8], *rows[9:]], "a row every 0.008 s; row 9 "),
        (SIGNALS, lambda rows: [*rows[:9], "nan" + rows[9][rows[9].index(",") :], *rows[10:]], "got nan"),
        (NUMERICS, lambda rows: rows[:20] + rows[21:], "a row every 1 s; row 20 should be at 19 s"),
        (NUMERICS, lambda rows: [*rows[:20], rows[21], rows[20], *rows[22:]], "row 20 "),
        (NUMERICS, lambda rows: [rows[0].replace("Time [s]", "Clock"), *rows[1:]], r"Time \[s\] is not in"),
    ],
)
def test_rows_that_are_missing_or_out_of_order(small_bidmc, tmp_path, name, change, message):
    """They would shift the signals against the targets."""
    source, _, _ = small_bidmc
    folder = tmp_path / "bidmc/bidmc_csv"
    folder.mkdir(parents=True)
    for file in (source.data / "bidmc/bidmc_csv").iterdir():
        (folder / file.name).symlink_to(file)
    rows = (folder / name).read_text().splitlines()
    (folder / name).unlink()
    (folder / name).write_text("\n".join(change(rows)) + "\n")
    with pytest.raises(CorruptData, match=f"expected .*{message}"):
        RR.load(Source(tmp_path, tmp_path / "cache"), helpers.options(RR), 0)


@pytest.mark.parametrize("later", [-2, 0, 1])
def test_signals_and_targets_are_aligned_by_their_times(small_bidmc, tmp_path, later):
    """In the real data the numbers of recording 23 begin a second before its signals."""
    source, _, numbers = small_bidmc
    folder = tmp_path / "bidmc/bidmc_csv"
    folder.mkdir(parents=True)
    for file in (source.data / "bidmc/bidmc_csv").iterdir():
        (folder / file.name).symlink_to(file)
    name = "bidmc_01_Numerics.csv"
    head, *rows = (folder / name).read_text().splitlines()
    moved = [f"{int(row.partition(',')[0]) + later},{row.partition(',')[2]}" for row in rows]
    (folder / name).unlink()
    (folder / name).write_text("\n".join([head, *moved]) + "\n")
    splits = HR.load(Source(tmp_path, tmp_path / "cache"), helpers.options(HR), 0)
    targets = splits.train.whole.target
    begins = [second - later for second in (0, 3, 6) if 0 <= second - later <= 41 - 32]
    expected = [np.nanmean(numbers[0][begin:][:32, 1]) for begin in begins]
    assert len(targets) == 159 - 3 + len(begins)
    np.testing.assert_allclose(targets[: len(begins)], expected, rtol=1e-6)


def test_windows_without_a_figure_are_left_out(small_bidmc, tmp_path):
    source, _, _ = small_bidmc
    folder = tmp_path / "bidmc/bidmc_csv"
    folder.mkdir(parents=True)
    for file in (source.data / "bidmc/bidmc_csv").iterdir():
        (folder / file.name).symlink_to(file)
    for name, change in (
        ("bidmc_03_Numerics.csv", lambda n, cells: [*cells[:3], "NaN", cells[4]] if n < 35 else cells),
        ("bidmc_07_Numerics.csv", lambda n, cells: [*cells[:3], "0", cells[4]] if n < 32 else cells),
        ("bidmc_05_Signals.csv", lambda n, cells: [*cells[:2], "NaN", cells[3]] if n == 100 else cells),
    ):
        head, *rows = (folder / name).read_text().splitlines()
        changed = [",".join(change(n, row.split(","))) for n, row in enumerate(rows)]
        (folder / name).unlink()
        (folder / name).write_text("\n".join([head, *changed]))
    for task, left_out in ((RR, 4), (HR, 1)):  # without rate: seconds 0 and 3, second 0; with a gap: second 0
        for split in task.options["split"]:
            splits = task.load(Source(tmp_path, tmp_path / "cache"), helpers.options(task, split=split), 0)[:3]
            assert sum(map(len, splits)) == 159 - left_out
            assert all(helpers.everything(split).target.isfinite().all() for split in splits)


def test_from_ts(source):
    u, target = np.random.default_rng(0).normal(size=(10, 4000, 2)), np.arange(10) / 2
    helpers.ts(source.data / "tsr/BIDMC32HR_TRAIN.ts", u[:6], target[:6], regression=True)
    helpers.ts(source.data / "tsr/BIDMC32HR_TEST.ts", u[6:], target[6:], regression=True)
    splits = HR.load(source, helpers.options(HR, source="ts"), 0)
    training = u[splits.train.rows]
    for i, (x, y) in windows(splits).items():
        assert y == target[i]
        np.testing.assert_allclose(x, (u[i] - training.mean((0, 1))) / training.std((0, 1)), atol=1e-4)
    with pytest.raises(ValueError, match="split: expected 'random' with source=ts"):
        HR.load(source, helpers.options(HR, source="ts", split="patient"), 0)
    with pytest.raises(MissingData, match=r"BIDMC32RR_TRAIN\.ts"):
        RR.load(source, helpers.options(RR, source="ts"), 0)


def test_files():
    assert len(FILES) == 106
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file.hash) for file in FILES)
    assert len({file.hash for file in FILES}) == 106


@pytest.mark.slow
def test_real(real):
    helpers.needs(real, *FILES)
    for task, least, most, sizes in ((RR, 1, 40, [5509, 1181, 1181]), (HR, 40, 150, [5566, 1192, 1192])):
        splits = task.load(real, helpers.options(task), 0)
        assert [len(split) for split in splits[:3]] == sizes
        assert f"{sum(sizes):,} windows" in task.size
        targets = torch.cat([split.whole.target[split.rows] for split in splits[:3]])
        assert targets.min() >= least
        assert targets.max() <= most
        u = splits.train.batch(torch.arange(0, sizes[0], 10), 0).u
        torch.testing.assert_close(u.mean((0, 1)), torch.zeros(2), atol=0.05, rtol=0)
        torch.testing.assert_close(u.std((0, 1)), torch.ones(2), atol=0.05, rtol=0)
    splits = RR.load(real, helpers.options(RR, split="patient"), 0)
    assert sum(map(len, splits[:3])) == 7871


@pytest.mark.slow
def test_real_hashes_and_patients(real):
    helpers.needs(real, *FILES)
    [path] = {path if path.suffix != ".csv" else path.parent for path in real.find(*FILES)}
    hashes = {file.path.rpartition("/")[2]: file.hash for file in FILES}
    patients: dict[str, list[int]] = {}
    for name, content in members(path, "bidmc_*_*.csv", "bidmc_*_Fix.txt"):
        name = name.rpartition("/")[2]
        if name.endswith(".csv"):
            assert hashes.pop(name) == f"sha256:{hashlib.sha256(content).hexdigest()}"
        else:
            patient = re.search(r"matched wdb ID: (s\d+)", content.decode())[1]
            patients.setdefault(patient, []).append(int(name[6:8]))
    assert not hashes
    assert {n: min(same) for same in patients.values() for n in same if n != min(same)} == SAME_PATIENT
