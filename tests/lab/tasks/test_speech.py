"""Spoken words: both forms of the files, splits by speaker, half the sampling rate, changes in training."""

import csv

import numpy as np
import pytest
import soundfile
import torch

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData
from unicornn.lab.tasks import speech

DIGITS, FORTY = speech.TASKS
SPEAKERS = {"train": (1, 5), "valid": (2,), "test": (3,)}


def as_one_file(source, made, words=speech.DIGITS):
    """Writes digits.flac and digits.csv next to the folder, which is then not read."""
    rows, sounds = [], []
    for word in words:
        for speaker, sound in made[word]:
            split = {2: "val", 3: "test"}.get(speaker, "train")
            rows.append({"index": len(rows), "word": word, "speaker": speaker, "split": split})
            sounds.append(np.pad(sound, (0, speech.N - len(sound))))
    soundfile.write(source.data / "speech/digits.flac", np.concatenate(sounds), speech.RATE)
    with (source.data / "speech/digits.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)


@pytest.mark.parametrize("task", [DIGITS, FORTY], ids=lambda task: task.name)
def test_recordings_are_split_by_speaker(speech_source, task):
    source, made = speech_source
    splits = helpers.load(task, source)
    words = speech.DIGITS if task is DIGITS else sorted(made)
    for name, speakers in SPEAKERS.items():
        u, target, lengths = helpers.everything(getattr(splits, name))
        wanted = [(words.index(word), x) for word in words for who, x in made[word] if who in speakers]
        assert lengths is None
        assert target.tolist() == [label for label, _ in wanted]
        for i, (_, sound) in enumerate(wanted):
            padded = np.pad(sound, (0, speech.N - len(sound)))
            np.testing.assert_allclose(u[:, i, 0], padded / padded.std(ddof=1), rtol=1e-4)


def test_one_file_is_the_folder(speech_source):
    source, made = speech_source
    folder = helpers.load(DIGITS, source)
    as_one_file(source, made)
    for one, other in zip(helpers.load(DIGITS, source)[:3], folder[:3], strict=True):
        assert torch.equal(helpers.everything(one).u, helpers.everything(other).u)
        assert torch.equal(one.target, other.target)


def test_half_the_rate_is_the_same_signal(speech_source):
    source, _ = speech_source
    steps = np.arange(speech.N)
    slow = (3000 * np.sin(0.3 * steps) * np.hanning(speech.N)).astype(np.int16)
    for speaker in (1, 2, 3):
        soundfile.write(source.data / f"speech/dataset/zero/{speaker:08}_NO_01.wav", slow, speech.RATE)
    full, half = (helpers.load(DIGITS, source, rate=rate).valid.batch(torch.arange(1), -1).u for rate in (16000, 8000))
    torch.testing.assert_close(half, full[::2], atol=0.01, rtol=0)


def test_only_training_recordings_change(speech_source):
    splits = helpers.load(DIGITS, speech_source[0])
    first = helpers.everything(splits.train, 0).u
    torch.testing.assert_close(first.std(0), torch.ones_like(first[0]))
    assert torch.equal(helpers.everything(splits.valid, 0).u, helpers.everything(splits.valid, 1).u)
    same = helpers.load(DIGITS, speech_source[0], shift=0, speed=0.0, noise=0.0, filter=0.0).train
    torch.testing.assert_close(helpers.everything(same, 0).u, helpers.everything(same, -1).u)


def test_damaged_files(speech_source):
    source, made = speech_source
    path = source.data / "speech/dataset/zero/00000001_NO_01.wav"
    path.write_bytes(b"x" * 99)
    with pytest.raises(CorruptData, match="sound file"):
        helpers.load(DIGITS, source)
    soundfile.write(path, np.zeros((50, 2)), speech.RATE)
    with pytest.raises(CorruptData, match="one channel"):
        helpers.load(DIGITS, source)
    as_one_file(source, made, ["zero", "word1"])
    with pytest.raises(CorruptData, match="word1"):
        helpers.load(DIGITS, source)
    (source.data / "speech/digits.csv").write_text("index,word,speaker,split\n0,zero,1,train\n")
    with pytest.raises(CorruptData, match="1 recordings"):
        helpers.load(DIGITS, source)
