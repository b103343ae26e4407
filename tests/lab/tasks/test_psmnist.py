"""Permuted sequential MNIST."""

import hashlib

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData, MissingData
from unicornn.lab.tasks.psmnist import FILES, TASK, permutation


def test_the_literature_s_permutation():
    """torch.manual_seed(5544); torch.randperm(784)."""
    torch.manual_seed(5544)
    order = permutation("random")
    assert torch.equal(order, torch.randperm(784))
    assert order[:8].tolist() == [327, 72, 48, 129, 109, 101, 69, 569]  # and torch still draws the same


def test_bit_reversal():
    """Bit-reversed counting to 1024, without the numbers that are no pixel."""
    reverse = [sum(1 << (9 - bit) for bit in range(10) if i >> bit & 1) for i in range(1024)]
    assert permutation("bit-reversal").tolist() == [i for i in reverse if i < 784]


@pytest.mark.parametrize("packed", [True, False])
def test_load(source, packed):
    images, labels, test_images, test_labels = helpers.mnist(source.data, packed=packed)
    for name in TASK.options["permutation"]:
        train, valid, test, _ = TASK.load(source, helpers.options(TASK, permutation=name), 0)
        assert (len(train), len(valid), len(test)) == (57, 3, 10)
        u, target, lengths = helpers.everything(test)
        assert u.shape == (784, 10, 1)
        assert lengths is None
        np.testing.assert_allclose(
            u[:, :, 0].T.numpy(), test_images.reshape(10, 784)[:, permutation(name)] / 255, rtol=1e-6
        )
        assert target.tolist() == test_labels.tolist()
        seen = torch.cat([helpers.everything(split).u[:, :, 0].T for split in (train, valid)])
        targets = torch.cat([helpers.everything(split).target for split in (train, valid)])
        ordered = images.reshape(60, 784)[:, permutation(name)]
        key = {tuple(image): label for image, label in zip(ordered.tolist(), labels.tolist(), strict=True)}
        assert len(key) == 60
        for x, y in zip((seen * 255).round().long(), targets, strict=True):
            assert key.pop(tuple(x.tolist())) == y


def test_split_depends_on_its_own_seed_only(source):
    helpers.mnist(source.data)

    def valid(seed, **options):
        return helpers.everything(TASK.load(source, helpers.options(TASK, **options), seed).valid).u

    assert torch.equal(valid(0), valid(1))
    assert not torch.equal(valid(0), valid(0, split_seed=1))


def test_missing_and_corrupt(source):
    with pytest.raises(MissingData, match="train-images-idx3-ubyte"):
        TASK.load(source, helpers.options(TASK), 0)
    helpers.mnist(source.data, packed=False)
    path = source.data / "mnist" / "train-labels-idx1-ubyte"
    path.write_bytes(helpers.idx(np.zeros(59)))
    with pytest.raises(CorruptData, match=r"as many images as labels \(59\), got \(60, 28, 28\)"):
        TASK.load(source, helpers.options(TASK), 0)
    path.write_bytes(helpers.idx(np.full(60, 10)))
    with pytest.raises(CorruptData, match="labels from 0 to 9, got 10"):
        TASK.load(source, helpers.options(TASK), 0)


def test_real(real):
    helpers.needs(real, *FILES)
    train, valid, test, _ = TASK.load(real, helpers.options(TASK, permutation="none"), 0)
    assert (len(train), len(valid), len(test)) == (57_000, 3_000, 10_000)
    u, target, _ = helpers.everything(test)
    assert target.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert float(u.mean()) == pytest.approx(0.1325, abs=1e-4)
    image = (u[:, 0, 0] * 255).round().to(torch.uint8).numpy().tobytes()
    assert target[0] == 7
    assert hashlib.sha256(image).hexdigest()[:16] == "8f6a418c9a639f9e"
