"""Noise-padded CIFAR-10: positions of the pixels, and noise that depends on (index, draw) alone."""

import shutil
import tarfile

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.errors import BadValue
from unicornn.lab.tasks import Batch
from unicornn.lab.tasks.cifar10_noise import MEAN_AND_DEVIATION, TASK, _Padded

MEAN, DEVIATION = MEAN_AND_DEVIATION


@pytest.fixture
def cifar10_source(source):
    helpers.cifar10(source.data / "cifar-10-batches-bin")
    return source


def images(n):
    return torch.arange(n * 32 * 96).reshape(n, 32, 96).remainder(256).to(torch.uint8)


def padded(n, draw, noise="fresh", seed=0, first=0, order=slice(None), **settings):
    batch = Batch(images(n)[order].transpose(0, 1), torch.zeros(n))
    return _Padded(noise, seed, first, **settings)(batch, torch.arange(n)[order], draw).u.transpose(0, 1)


def test_pixels_and_labels(source):
    """From the archive; the other tests read the unpacked folder."""
    folder = source.data / "cifar-10-batches-bin"
    pixels, labels = helpers.cifar10(folder)
    with tarfile.open(source.data / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(folder, folder.name)
    shutil.rmtree(folder)
    train, valid, test, _ = splits = helpers.load(TASK, source)
    assert helpers.sizes(splits) == [48, 2, 10]
    u, target, lengths = helpers.everything(test)
    assert u.shape == (1000, 10, 96)
    assert lengths is None
    assert target.tolist() == labels[5].tolist()
    for n, channel, row, column in ((0, 0, 0, 0), (3, 1, 2, 5), (9, 2, 31, 31)):
        assert u[row, n, 32 * channel + column] == pytest.approx(pixels[5, n, channel, row, column] / 255)
    assert len({tuple(x.tolist()) for x in helpers.everything(train).u[31].round(decimals=3)}) == 48
    counts = np.bincount(np.concatenate([helpers.everything(p).target for p in (train, valid)]), minlength=10)
    assert counts.tolist() == np.bincount(labels[:5].ravel(), minlength=10).tolist()


def test_options_reach_the_images(cifar10_source):
    plain, standardised = (
        helpers.load(TASK, cifar10_source, pixels=pixels).train.batch(torch.arange(40), 0).u[:32]
        for pixels in ("raw", "standardised")
    )
    torch.testing.assert_close(standardised, (plain - MEAN) / DEVIATION)
    assert len(helpers.load(TASK, cifar10_source, images=7).train) == 7
    with pytest.raises(BadValue, match=r"^images: "):
        helpers.load(TASK, cifar10_source, images=49)


def test_flipped_images_are_a_random_half_in_training():
    plain, u = padded(40, 3, lengths=(40,)), padded(40, 3, lengths=(40,), flip=True)
    mirror = plain.clone()
    mirror[:, :32] = mirror[:, :32].reshape(40, 32, 3, 32).flip(3).reshape(40, 32, 96)
    swapped = [torch.equal(u[i], mirror[i]) for i in range(40)]
    assert all(torch.equal(u[i], plain[i]) for i in range(40) if not swapped[i])
    assert 8 < sum(swapped) < 32
    assert not torch.equal(padded(40, 4, lengths=(40,), flip=True)[:, :32], u[:, :32])  # another half
    assert torch.equal(padded(40, -1, flip=True), padded(40, -1))  # none in validation


def test_noise():
    def tail(*settings, **more):
        u = padded(3, *settings, **more)
        assert torch.equal(u[:, :32], images(3) / 255)
        return u[:, 32:]

    fresh = tail(0)
    assert 0 <= fresh.min() < fresh.max() < 1
    assert float(fresh.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(fresh.std()) == pytest.approx(12**-0.5, abs=0.01)
    assert not torch.equal(fresh[0], fresh[1])
    shared = tail(0, "shared")
    assert torch.equal(shared[0], shared[2])
    assert torch.equal(shared, tail(-1, "shared", seed=5, first=50_000))
    assert float(shared.std()) == pytest.approx(1, abs=0.01)
