"""Permuted sequential MNIST."""

import numpy as np
import pytest
import torch

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData, MissingData
from unicornn.lab.tasks.psmnist import TASK, _permutation


def test_the_permutations_of_the_literature():
    torch.manual_seed(5544)
    assert torch.equal(_permutation("random"), torch.randperm(784))
    assert _permutation("random")[:8].tolist() == [327, 72, 48, 129, 109, 101, 69, 569]  # whatever torch draws today
    reverse = [sum(1 << (9 - bit) for bit in range(10) if i >> bit & 1) for i in range(1024)]
    assert _permutation("bit-reversal").tolist() == [i for i in reverse if i < 784]


@pytest.mark.parametrize("name", TASK.options["permutation"])
def test_pixels_and_labels(source, name):
    images, labels, test_images, test_labels = helpers.mnist(source.data)
    train, valid, test, _ = splits = helpers.load(TASK, source, permutation=name)
    assert helpers.sizes(splits) == [57, 3, 10]
    u, target, lengths = helpers.everything(test)
    assert u.shape == (784, 10, 1)
    assert lengths is None
    expected = test_images.reshape(10, 784)[:, _permutation(name)] / 255
    np.testing.assert_allclose(u[:, :, 0].T.numpy(), expected, rtol=1e-6)
    assert target.tolist() == test_labels.tolist()
    pixels = torch.cat([helpers.everything(split).u[:, :, 0].T for split in (train, valid)])
    targets = torch.cat([helpers.everything(split).target for split in (train, valid)])
    ordered = images.reshape(60, 784)[:, _permutation(name)]
    label_of = {tuple(image): label for image, label in zip(ordered.tolist(), labels.tolist(), strict=True)}
    assert len(label_of) == 60
    for x, y in zip((pixels * 255).round().long(), targets, strict=True):
        assert label_of.pop(tuple(x.tolist())) == y


def test_missing_and_damaged_files(source):
    with pytest.raises(MissingData, match="train-images-idx3-ubyte"):
        helpers.load(TASK, source)
    helpers.mnist(source.data, packed=False)
    path = source.data / "mnist" / "train-labels-idx1-ubyte"
    for labels, message in ((np.zeros(59), r"train-images.*59 images"), (np.full(60, 10), "train-labels.*got 10")):
        path.write_bytes(helpers.idx(labels))
        with pytest.raises(CorruptData, match=message):
            helpers.load(TASK, source)
