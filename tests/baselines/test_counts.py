"""Numbers of parameters, compared with the paper's tables (baseline and linear readout, without embedding)."""

import pytest

from unicornn.baselines import MODELS

# task, baseline, d, m, outputs, published, half a unit of its last digit, exact
AGREE = [
    ("psMNIST", "lstm", 1, 256, 10, 270e3, 5e3, 267_786),
    ("psMNIST", "gru", 1, 256, 10, 200e3, 5e3, 201_482),
    ("psMNIST", "cornn", 1, 256, 10, 134e3, 500, 134_154),
    ("CIFAR-10", "lipschitz", 96, 256, 10, 158e3, 500, 158_474),
    ("CIFAR-10", "cornn", 96, 128, 10, 46e3, 500, 46_474),
    # The rows of an image have 96 features; the quoted counts are for 3, that is for CIFAR-10 pixel by pixel.
    ("CIFAR-10", "antisymmetric", 3, 256, 10, 36e3, 500, 36_234),
    ("CIFAR-10", "gated-antisymmetric", 3, 256, 10, 37e3, 500, 37_258),
    # Two bias vectors: with one it would be 5,157.
    ("EigenWorms", "lstm", 6, 32, 5, 5.3e3, 50, 5_285),
    ("EigenWorms", "exprnn", 6, 64, 5, 2.8e3, 50, 2_789),
    ("EigenWorms", "cornn", 6, 32, 5, 2.4e3, 50, 2_437),
    # The embeddings in the paper have 100 features; the counts quoted from other papers are for 300 and 128.
    ("IMDB", "lstm", 300, 128, 1, 220e3, 500, 220_289),
    ("IMDB", "skip-lstm", 300, 128, 1, 220e3, 500, 219_906),
    ("IMDB", "skip-gru", 300, 128, 1, 165e3, 500, 164_994),
    ("IMDB", "gru", 128, 128, 1, 99e3, 500, 99_201),
    ("IMDB", "relu-gru", 128, 128, 1, 99e3, 500, 98_817),
    ("IMDB", "cornn", 100, 128, 1, 46e3, 500, 45_825),
    ("Lorenz 96", "lstm", 5, 44, 5, 9e3, 500, 9_201),
    ("Lorenz 96", "cornn", 5, 64, 5, 9e3, 500, 8_901),
]


@pytest.mark.parametrize(("task", "name", "d", "m", "k", "published", "half", "exact"), AGREE)
def test_published_counts(task, name, d, m, k, published, half, exact):
    assert MODELS[name](d, m).free_parameters() + (m + 1) * k == exact
    assert abs(exact - published) <= half, task


@pytest.mark.parametrize(
    ("arguments", "options", "classes", "thousands"),
    [
        ((1, 128, 6), {}, 10, "86"),  # psMNIST, as published
        ((1, 128, 6), {"connection": "dense"}, 10, "257"),
        ((6, 32, 2), {}, 5, "1.6"),  # EigenWorms
    ],
)
def test_published_counts_of_indrnn(arguments, options, classes, thousands):
    model = MODELS["indrnn"](*arguments, **options)
    total = (model.free_parameters() + (model.output_size + 1) * classes) / 1000
    assert thousands == (f"{total:.1f}" if total < 10 else f"{total:.0f}")
