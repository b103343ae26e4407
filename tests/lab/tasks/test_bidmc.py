"""BIDMC: windows, targets and splits, from files or an archive."""

import numpy as np
import pytest

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab import tasks
from unicornn.lab.data import Source

RR, HR = tasks.find("bidmc-rr"), tasks.find("bidmc-hr")


@pytest.fixture
def edited(small_bidmc, tmp_path):
    """A source with some of the files changed: name to a function of the file's rows."""

    def edit(changes):
        folder = tmp_path / "bidmc/bidmc_csv"
        folder.mkdir(parents=True, exist_ok=True)
        for file in (small_bidmc[0].data / "bidmc/bidmc_csv").iterdir():
            (folder / file.name).unlink(missing_ok=True)
            if file.name in changes:
                (folder / file.name).write_text("\n".join(changes[file.name](file.read_text().splitlines())) + "\n")
            else:
                (folder / file.name).symlink_to(file)
        return Source(tmp_path, tmp_path / "cache")

    return edit


@pytest.mark.parametrize(("task", "column"), [(RR, 0), (HR, 1)])
def test_windows_and_targets(small_bidmc, task, column):
    source, signals, rates = small_bidmc
    splits = helpers.load(task, source)
    assert helpers.sizes(splits) == [159 - 48, 24, 24]
    cut = np.stack([signals[i // 3][375 * (i % 3) :][:4000] for i in range(159)])
    mean, deviation = cut[splits.train.rows].mean((0, 1)), cut[splits.train.rows].std((0, 1))
    assert sorted(np.concatenate([split.rows for split in splits[:3]]).tolist()) == list(range(159))
    for split in splits[:3]:
        u, target, lengths = helpers.everything(split)
        assert lengths is None
        for j, i in enumerate(split.rows):
            np.testing.assert_allclose(u[:, j], (cut[i] - mean) / deviation, atol=1e-4)
            expected = np.nanmean(rates[i // 3][3 * (i % 3) :][:32, column])
            assert float(target[j]) == pytest.approx(expected, rel=1e-6)


def test_no_patient_is_in_two_splits(small_bidmc):
    source, _, _ = small_bidmc
    tests = set()
    for seed in range(20):
        splits = helpers.load(RR, source, split="patient", split_seed=seed)
        recordings = [set((split.rows // 3 + 1).tolist()) for split in splits[:3]]
        assert set.union(*recordings) == set(range(1, 54))
        assert sum(map(len, recordings)) == 53
        for split in recordings:
            for same in ({6, 7, 8, 9}, {20, 21, 22, 23}, {38, 39}):
                assert same <= split or not same & split
        tests.add(tuple(sorted(recordings[2])))
    assert len(tests) == 20


SIGNALS, NUMERICS = "bidmc_09_Signals.csv", "bidmc_09_Numerics.csv"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (SIGNALS, lambda rows: rows[:200] + rows[201:], "row 200 should be at 1.592 s, got 1.6 s"),
        (SIGNALS, lambda rows: [*rows[:9], "nan" + rows[9][rows[9].index(",") :], *rows[10:]], "got nan"),
        (NUMERICS, lambda rows: [rows[0].replace("RESP", "RATE"), *rows[1:]], "RESP is not in"),
        (NUMERICS, lambda rows: [rows[0], "x" + rows[1], *rows[2:]], "expected numbers"),
    ],
)
def test_damaged_rows(edited, name, change, message):
    """Missing rows would shift the signals against the targets."""
    with pytest.raises(CorruptData, match=message):
        helpers.load(RR, edited({name: change}))


@pytest.mark.parametrize("later", [-2, 0, 1])
def test_signals_and_targets_are_aligned_by_their_times(small_bidmc, edited, later):
    """In the real data the rates of recording 23 begin a second before its signals."""
    _, _, rates = small_bidmc

    def move(rows):
        cells = (row.partition(",") for row in rows[1:])
        return [rows[0], *(f"{int(second) + later},{rest}" for second, _, rest in cells)]

    targets = helpers.load(HR, edited({"bidmc_01_Numerics.csv": move})).train.base.target
    begins = [second - later for second in (0, 3, 6) if 0 <= second - later <= 41 - 32]
    expected = [np.nanmean(rates[0][begin:][:32, 1]) for begin in begins]
    assert len(targets) == 159 - 3 + len(begins)
    np.testing.assert_allclose(targets[: len(begins)], expected, rtol=1e-6)


def test_windows_without_a_rate_or_with_a_gap_are_dropped(edited):
    def replace(column, value, where):
        def change(rows):
            cells = [row.split(",") for row in rows]
            for n in where:
                cells[n + 1][column] = value
            return [",".join(row) for row in cells]

        return change

    source = edited(
        {
            "bidmc_03_Numerics.csv": replace(3, "NaN", range(35)),  # no rate from seconds 0 and 3
            "bidmc_07_Numerics.csv": replace(3, "0", range(32)),  # nor from second 0
            "bidmc_05_Signals.csv": replace(2, "NaN", [100]),  # a gap from second 0
        }
    )
    for task, dropped in ((RR, 4), (HR, 1)):
        for split in task.options["split"]:
            splits = helpers.load(task, source, split=split)
            assert sum(helpers.sizes(splits)) == 159 - dropped
            assert all(helpers.everything(each).target.isfinite().all() for each in splits[:3])
