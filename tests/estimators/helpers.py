"""Series and settings for the tests of the estimators."""

import numpy as np

SMALL = {"hidden_size": 8, "num_layers": 1, "random_state": 0}
QUICK = {"dt": 0.5, "max_epochs": 1, **SMALL}


def speakers(n, count, seed=0):
    """n noisy tones by each speaker, with one level per speaker and class; classes, and speakers by number."""
    rng = np.random.default_rng(seed)
    y, who = np.tile(np.arange(n) % 2, count), np.repeat(np.arange(count), n)
    phase, noise = rng.uniform(0, 6, (len(y), 1)), rng.normal(size=(len(y), 80))
    X = np.sin(np.where(y, 0.3, 0.2)[:, None] * np.arange(80) + phase) + 1.5 * noise
    return X + rng.normal(0, 100, (count, 2))[who, y][:, None], y, who


def tones(n=40, seed=0, d=1):
    """Sine waves of unequal length, their classes and their frequencies."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    f = np.where(y, 0.3, 0.2)
    X = [np.sin(f[i] * np.arange(rng.integers(50, 70))[:, None] + rng.uniform(0, 6, d)) for i in range(n)]
    return X, np.array(["low", "high"])[y], f
