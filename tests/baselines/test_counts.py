"""Numbers of parameters against the paper's tables: baseline and linear readout (without embedding)."""

import pytest

from unicornn.baselines import MODELS


def count(name, d, m, k, **options):
    return MODELS[name](d, m, **options).free_parameters() + (m + 1) * k


# task, baseline, d, m, outputs, published, half a unit of its last digit, exact
MET = [
    ("psMNIST", "lstm", 1, 256, 10, 270e3, 5e3, 267_786),
    ("psMNIST", "gru", 1, 256, 10, 200e3, 5e3, 201_482),
    ("psMNIST", "cornn", 1, 256, 10, 134e3, 500, 134_154),
    ("CIFAR-10", "lipschitz", 96, 256, 10, 158e3, 500, 158_474),
    ("CIFAR-10", "cornn", 96, 128, 10, 46e3, 500, 46_474),
    # The rows of an image are 96 features; the counts quoted are those of 3, that is of CIFAR-10 pixel by pixel.
    ("CIFAR-10", "antisymmetric", 3, 256, 10, 36e3, 500, 36_234),
    ("CIFAR-10", "gated-antisymmetric", 3, 256, 10, 37e3, 500, 37_258),
    # Two bias vectors: with one it would be 5,157.
    ("EigenWorms", "lstm", 6, 32, 5, 5.3e3, 50, 5_285),
    ("EigenWorms", "exprnn", 6, 64, 5, 2.8e3, 50, 2_789),
    ("EigenWorms", "cornn", 6, 32, 5, 2.4e3, 50, 2_437),
    # The embeddings in the paper have 100 features; the counts quoted from others are those of 300 and of 128.
    ("IMDB", "lstm", 300, 128, 1, 220e3, 500, 220_289),
    ("IMDB", "skip-lstm", 300, 128, 1, 220e3, 500, 219_906),
    ("IMDB", "skip-gru", 300, 128, 1, 165e3, 500, 164_994),
    ("IMDB", "gru", 128, 128, 1, 99e3, 500, 99_201),
    ("IMDB", "relu-gru", 128, 128, 1, 99e3, 500, 98_817),
    ("IMDB", "cornn", 100, 128, 1, 46e3, 500, 45_825),
    ("Lorenz 96", "lstm", 5, 44, 5, 9e3, 500, 9_201),
    ("Lorenz 96", "cornn", 5, 64, 5, 9e3, 500, 8_901),
]


@pytest.mark.parametrize(("task", "name", "d", "m", "k", "published", "half", "exact"), MET)
def test_published_counts_are_met(task, name, d, m, k, published, half, exact):
    assert count(name, d, m, k) == exact
    assert abs(exact - published) <= half, task


# task, baseline, d, m, outputs, published, exact
UNMET = [
    # Ours would be printed as 137k: one digit differs. The same formula meets the count for EigenWorms.
    ("psMNIST", "exprnn", 1, 512, 10, 127e3, 136_970),
    # With the 96 features that the task has; see above.
    ("CIFAR-10", "antisymmetric", 96, 256, 10, 36e3, 60_042),
    ("CIFAR-10", "gated-antisymmetric", 96, 256, 10, 37e3, 84_874),
    # 64k, 16k and 12k are, in units of 1,024, 4m² and m², the recurrent matrices alone, and md, the input's alone.
    # Matrices of low rank could also explain the last two. No choice of biases or readout comes near.
    ("CIFAR-10", "lstm", 96, 128, 10, 64e3, 117_002),
    ("CIFAR-10", "fastrnn", 96, 128, 10, 16e3, 30_092),
    ("CIFAR-10", "incremental", 96, 128, 10, 12e3, 30_091),
    # The result quoted is that of depth 2; 35k is the count of the same network at depth 1, see below.
    ("EigenWorms", "sign-ncde", 6, 32, 5, 35e3, 99_813),
]


@pytest.mark.parametrize(("task", "name", "d", "m", "k", "published", "exact"), UNMET)
def test_published_counts_that_are_not_met(task, name, d, m, k, published, exact):
    assert count(name, d, m, k) == exact
    assert exact - published > 5_000, task


@pytest.mark.parametrize(
    ("task", "d", "m", "k", "multiplier", "hidden_layers", "published"),
    [
        ("EigenWorms", 6, 32, 5, 3, 2, 34_629),
        ("HR", 2, 64, 1, 2, 2, 49_921),
        ("RR", 2, 64, 1, 3, 3, 86_913),
    ],
)
def test_counts_of_the_search_for_a_signature_ncde(task, d, m, k, multiplier, hidden_layers, published):
    """Hyperparameters were sought at depth 1; the table of that search has the number of layers and the multiplier
    under each other's heading."""
    options = {"depth": 1, "multiplier": multiplier, "hidden_layers": hidden_layers}
    assert count("sign-ncde", d, m, k, **options) == published, task


@pytest.mark.parametrize("m", [2, 5, 16])
def test_an_orthogonal_matrix_counts_by_its_free_numbers(m):
    baseline = MODELS["exprnn"](3, m, 2)
    assert sum(p.numel() for p in baseline.parameters()) == 2 * m * m + 3 * m + m * m + 2 * m
    assert baseline.free_parameters() == m * (m - 1) + 3 * m + m * m + 2 * m
