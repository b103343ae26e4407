"""The data folder of a test: a small one written in the original formats, or the real one."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.lab.tasks import helpers
from unicornn.lab.data import Source
from unicornn.lab.tasks import speech, worms


@pytest.fixture
def source(tmp_path):
    (tmp_path / "data").mkdir()
    return Source(tmp_path / "data", tmp_path / "cache")


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """The real data, with a cache for this test session."""
    folder = os.environ.get("UNICORNN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("UNICORNN_DATA is not the path of a folder")
    return Source(folder, tmp_path_factory.mktemp("parsed"))


@pytest.fixture(scope="module")
def small_bidmc(tmp_path_factory):
    """53 recordings of 40 s with three windows each; also the signals (53, 5001, 2) and the rates (53, 41, 2)."""
    folder = tmp_path_factory.mktemp("bidmc")
    csv = folder / "data/bidmc/bidmc_csv"
    csv.mkdir(parents=True)
    random = np.random.default_rng(0)
    signals = random.integers(0, 1000, (53, 5001, 2)) * np.array([1, 3])
    rates = random.integers(10, 90, (53, 41, 2)).astype(float)
    rates[4, 10:20, 0] = np.nan
    for i in range(53):
        names = ("PLETH", "II") if i % 2 else ("II", "PLETH")  # the order differs in the real files too
        order = (0, 1) if i % 2 else (1, 0)
        rows = "".join(f"{n / 125:.5g},0.5,{x},{y}\n" for n, (x, y) in enumerate(signals[i][:, order].tolist()))
        (csv / f"bidmc_{i + 1:02}_Signals.csv").write_text(f"Time [s], RESP, {names[0]}, {names[1]}\n{rows}")
        rows = "".join(f"{n},{hr:g},1,{rr:g},NaN\n".replace("nan", "NaN") for n, (rr, hr) in enumerate(rates[i]))
        (csv / f"bidmc_{i + 1:02}_Numerics.csv").write_text(f"Time [s], HR, PULSE, RESP, SpO2\n{rows}")
    return Source(folder / "data", folder / "cache"), signals, rates


@pytest.fixture
def small_imdb(source):
    for (split, feeling), reviews in helpers.texts().items():
        folder = source.data / "imdb/aclImdb" / split / feeling
        folder.mkdir(parents=True)
        for i, text in enumerate(reviews):
            (folder / f"{i}_{8 if feeling == 'pos' else 2}.txt").write_text(text)
    unlabelled = source.data / "imdb/aclImdb/train/unsup"
    unlabelled.mkdir()
    (unlabelled / "0_0.txt").write_text("word0 unlabelled")
    (source.data / "glove").mkdir()
    glove = "".join(f"{word} {' '.join(map(str, helpers.vector(word)))}\n" for word in ["word39", *helpers.COMMON[:39]])
    (source.data / "glove/glove.6B.100d.txt").write_text(glove)
    return source


@pytest.fixture
def eigenworms_source(source):
    """40 series of 50 steps, one of which is there twice."""
    u = np.random.default_rng(0).normal(3, 2, (40, 50, 6)).round(4)
    u[37] = u[2]
    labels = [str(1 + i % 5) for i in range(40)]
    labels[37] = labels[2]
    helpers.ts(source.data / "uea/EigenWorms_TRAIN.ts", u[:25], labels[:25])
    helpers.ts(source.data / "uea/EigenWorms_TEST.ts", u[25:], labels[25:])
    return source, u, [int(label) - 1 for label in labels]


@pytest.fixture
def bearings_source(source):
    """44 recordings of 90 to 120 samples, every fault at every load; also the recordings, faults and loads."""
    random = np.random.default_rng(0)
    lengths, labels, loads = random.integers(90, 120, 44), np.tile(np.arange(11), 4), np.repeat([3, 2, 1, 0], 11)
    values = random.normal(5, 2, lengths.sum()).astype(np.float32)
    recordings = helpers.recordings(source.data / "bearings/bearings.npz", values, lengths, labels=labels, loads=loads)
    return source, recordings, labels, loads


@pytest.fixture
def speech_source(source):
    """The folder of the 40 words, two recordings of each by four speakers; also the recordings and speakers by word."""
    import soundfile

    random, made = np.random.default_rng(0), {}
    for word in (*speech.DIGITS, *(f"word{i}" for i in range(30))):
        (source.data / "speech/dataset" / word).mkdir(parents=True)
        for speaker in (1, 2, 3, 5):
            for take in (1, 2):
                sound = random.integers(-9000, 9000, 400).astype(np.int16)
                path = source.data / f"speech/dataset/{word}/{speaker:08}_NO_{take:02}.wav"
                soundfile.write(path, sound, speech.RATE)
                made.setdefault(word, []).append((speaker, sound))
    return source, made


@pytest.fixture
def worms44_source(source, monkeypatch):
    """22 worms of 60 to 90 frames, cut to 60, and one of 55; also the recordings and their labels."""
    monkeypatch.setattr(worms, "N", 60)
    random = np.random.default_rng(0)
    lengths, labels = random.integers(60, 90, 22), np.arange(22) % 5
    lengths[13] = 55
    values = random.normal(-1, 3, (lengths.sum(), 6)).astype(np.float32)
    recordings = helpers.recordings(source.data / "worms44/worms44.npz", values, lengths, labels=labels)
    return source, [x[:60] for x in recordings], labels
