"""Noise-padded CIFAR-10: pixels where they belong, noise from (index, draw) alone."""

import tarfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.tasks import helpers
from unicornn.errors import BadType, BadValue, CorruptData
from unicornn.lab.tasks.cifar10_noise import FILE, MOMENTS, TASK, Padded


def rows(n):
    return torch.arange(n * 32 * 96).reshape(n, 32, 96).remainder(256).to(torch.uint8)


@pytest.mark.parametrize("packed", [False, True])
def test_load(source, packed):
    folder = source.data / "cifar-10-batches-bin"
    images, labels = helpers.cifar10(folder)
    if packed:
        with tarfile.open(source.data / "cifar-10-binary.tar.gz", "w:gz") as archive:
            archive.add(folder, folder.name)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    train, valid, test, _ = TASK.load(source, helpers.options(TASK), 0)
    assert (len(train), len(valid), len(test)) == (48, 2, 10)
    u, target, lengths = helpers.everything(test)
    assert u.shape == (1000, 10, 96)
    assert lengths is None
    assert target.tolist() == labels[5].tolist()
    for n, channel, row, column in ((0, 0, 0, 0), (3, 1, 2, 5), (9, 2, 31, 31)):
        assert u[row, n, 32 * channel + column] == pytest.approx(images[5, n, channel, row, column] / 255)
    assert len({tuple(x.tolist()) for x in helpers.everything(train).u[31].round(decimals=3)}) == 48
    counts = np.bincount(np.concatenate([helpers.everything(p).target for p in (train, valid)]), minlength=10)
    assert counts.tolist() == np.bincount(labels[:5].ravel(), minlength=10).tolist()


@given(st.permutations(range(6)), st.integers(-1, 5), st.sampled_from(["fresh", "fixed", "shared"]))
def test_noise_depends_on_index_and_draw_alone(order, draw, noise):
    change, images = Padded(noise, seed=3, first=0), rows(6)
    together = change(images, torch.arange(6), draw)
    torch.randn(3)
    np.random.default_rng().random()
    shuffled = change(images[order], torch.tensor(order), draw)
    assert torch.equal(together[order], shuffled)


def test_the_first_epochs_may_be_shorter():
    images, indices = rows(3), torch.arange(3)
    change = Padded("fresh", 0, 0, steps=200, short=((2, 50), (1, 100)))
    assert [change(images, indices, draw).shape[1] for draw in (0, 1, 2, 3, -1)] == [50, 50, 100, 200, 200]
    shared = Padded("shared", 0, 0, steps=200, short=((1, 50),))
    assert torch.equal(shared(images, indices, 0), shared(images, indices, -1)[:, :50])


def test_stages_of_growing_length(source):
    helpers.cifar10(source.data / "cifar-10-batches-bin")
    options = helpers.options(TASK)

    def lengths(**settings):
        train, valid, _, _ = TASK.load(source, options | settings, 0)
        return [len(train.batch(torch.arange(2), draw).u) for draw in range(4)], len(valid.batch(torch.arange(2), -1).u)

    assert lengths() == ([1000] * 4, 1000)
    assert lengths(short_epochs=2.0, short_steps=40) == ([40, 40, 1000, 1000], 1000)
    assert lengths(short_epochs=(1.0, 2.0), short_steps=(40.0, 90.0)) == ([40, 90, 90, 1000], 1000)
    with pytest.raises(BadValue, match="short_steps: expected 2 numbers, as short_epochs has, got 1"):
        lengths(short_epochs=(1.0, 2.0))
    with pytest.raises(BadType, match="short_epochs: expected an integer"):
        lengths(short_epochs=1.5)


def test_options_reach_the_images(source):
    helpers.cifar10(source.data / "cifar-10-batches-bin")
    plain, flipped, standardised = (
        TASK.load(source, helpers.options(TASK) | changed, 0).train.batch(torch.arange(40), 0).u[:32]
        for changed in ({}, {"flip": True}, {"pixels": "standardised"})
    )
    same = [torch.equal(plain[:, i], flipped[:, i]) for i in range(40)]
    assert 8 < sum(same) < 32
    torch.testing.assert_close(standardised, (plain - MOMENTS[0]) / MOMENTS[1])


@pytest.mark.parametrize("noise", ["fresh", "shared"])
def test_standardised(noise):
    images, indices = rows(3), torch.arange(3)
    raw, u = (Padded(noise, 0, 0, 200, (), *moments)(images, indices, -1) for moments in ((0.0, 1.0), MOMENTS))
    where = slice(None) if noise == "fresh" else slice(32)  # normal noise has no range
    torch.testing.assert_close(u[:, where], (raw[:, where] - MOMENTS[0]) / MOMENTS[1])
    assert noise == "fresh" or torch.equal(u[:, 32:], raw[:, 32:])


def test_flipped():
    images, indices = rows(40), torch.arange(40)
    plain, change = (Padded("fresh", 0, 0, 40, flip=flip) for flip in (False, True))
    wanted, mirror = plain(images, indices, 3), plain(images, indices, 3)
    mirror[:, :32] = mirror[:, :32].reshape(40, 32, 3, 32).flip(3).reshape(40, 32, 96)
    u = change(images, indices, 3)
    swapped = [torch.equal(u[i], mirror[i]) for i in range(40)]
    assert all(torch.equal(u[i], wanted[i]) for i in range(40) if not swapped[i])
    assert 8 < sum(swapped) < 32
    assert not torch.equal(change(images, indices, 4)[:, :32], u[:, :32])  # others in another epoch
    assert torch.equal(change(images, indices, -1), plain(images, indices, -1))  # none in validation


def test_noise():
    images, indices = rows(3), torch.arange(3)

    def tail(noise, seed, draw, first=0):
        u = Padded(noise, seed, first)(images, indices, draw)
        assert torch.equal(u[:, :32], images / 255)
        return u[:, 32:]

    fresh = tail("fresh", 0, 0)
    assert fresh.min() >= 0
    assert fresh.max() < 1
    assert float(fresh.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(fresh.std()) == pytest.approx(12**-0.5, abs=0.01)
    others = [tail("fresh", 0, 1), tail("fresh", 1, 0), tail("fresh", 0, -1), tail("fresh", 0, 0, first=3)]
    assert all(not torch.isin(fresh, other).all(-1).any() for other in others)
    assert not torch.equal(fresh[0], fresh[1])
    # validation and test: the same for every seed
    assert torch.equal(tail("fresh", 0, -1), tail("fresh", 1, -1))
    # fixed: the same at every draw, another for every image
    assert torch.equal(tail("fixed", 0, 0), tail("fixed", 1, 7))
    assert not torch.equal(tail("fixed", 0, 0)[0], tail("fixed", 0, 0)[1])
    # shared: one for all, normal
    shared = tail("shared", 0, 0)
    assert torch.equal(shared[0], shared[2])
    assert torch.equal(shared, tail("shared", 5, -1, first=50_000))
    assert float(shared.std()) == pytest.approx(1, abs=0.01)


def test_missing_batch(source):
    folder = source.data / "cifar-10-batches-bin"
    helpers.cifar10(folder)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(CorruptData, match=r"data_batch_3\.bin is missing"):
        TASK.load(source, helpers.options(TASK), 0)
    (folder / "data_batch_3.bin").write_bytes(b"1")
    with pytest.raises(CorruptData, match=r"data_batch_3\.bin: expected a multiple of 3073 bytes"):
        TASK.load(source, helpers.options(TASK), 0)


@pytest.mark.slow
def test_real(real):
    helpers.needs(real, FILE)
    train, valid, test, _ = TASK.load(real, helpers.options(TASK), 0)
    assert (len(train), len(valid), len(test)) == (48_000, 2_000, 10_000)
    u, target, _ = test.batch(torch.arange(2_000), -1)
    assert target[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    means = u[:32].reshape(32, 2_000, 3, 32).mean((0, 1, 3))
    torch.testing.assert_close(means, torch.tensor([0.4914, 0.4822, 0.4465]), rtol=0, atol=0.01)
    pixels = train.batch(torch.arange(2_000), -1).u[:32]
    assert (float(pixels.mean()), float(pixels.std())) == pytest.approx(MOMENTS, abs=0.005)
