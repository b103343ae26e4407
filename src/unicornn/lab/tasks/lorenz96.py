"""The Lorenz 96 system (Suppl. Eq. (81)), as in Appendix D and in the coRNN paper (Rusch, Mishra, ICLR 2021).

x'_j = (x_{j+1} - x_{j-2}) x_{j-1} - x_j + F in five dimensions, cyclic. Each sequence starts uniformly at random within
1/2 of the equilibrium (F, ..., F) and has 2000 points 0.01 apart; the target at each point is the state 25 points
later. F = 0.9 is not chaotic, F = 8 is. With inputs=deviation, the input is x - (F, ..., F): sequences then begin near
zero, not with a jump that sets undamped oscillators swinging.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Sequences, Splits, Task, Training, published

N, AHEAD, STEP, DIMENSIONS, SEQUENCES = 2000, 25, 0.01, 5, 128


def _derivative(x: np.ndarray, F: float) -> np.ndarray:
    """Suppl. Eq. (81) for x (n, 5)."""
    return (np.roll(x, -1, 1) - np.roll(x, 2, 1)) * np.roll(x, 1, 1) - x + F


def _trajectories(F: float, sequences: int, seed: int) -> np.ndarray:
    """(n, N + 25, 5) in float64, by the classical Runge-Kutta method with the sampling step."""
    x = F + np.random.default_rng(seed).uniform(-0.5, 0.5, (sequences, DIMENSIONS))
    path = np.empty((sequences, N + AHEAD, DIMENSIONS))
    for n in range(N + AHEAD):
        path[:, n] = x
        k1 = _derivative(x, F)
        k2 = _derivative(x + STEP / 2 * k1, F)
        k3 = _derivative(x + STEP / 2 * k2, F)
        k4 = _derivative(x + STEP * k3, F)
        x = x + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return path


def _load_lorenz96(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    shift = options["F"] if options["inputs"] == "deviation" else 0.0
    paths = (torch.from_numpy(_trajectories(options["F"], SEQUENCES, split)).float() for split in range(3))
    train, valid, test = (Sequences(path[:, :N] - shift, path[:, AHEAD:]) for path in paths)
    return Splits(train, valid, test)  # the same data for every seed of the training


TASK = Task(
    name="lorenz96",
    title="Lorenz 96: the state 25 steps ahead",
    kind="forecast",
    load=_load_lorenz96,
    d=DIMENSIONS,
    outputs=DIMENSIONS,
    size="3 × 128 sequences, N = 2000, d = 5",
    models={
        "unicornn": {"hidden_size": 90, "num_layers": 2, "dt": (0.8, 0.4), "alpha": 1.0},
        "lstm": {"hidden_size": 44},
        "cornn": {"hidden_size": 64, "dt": 0.5, "gamma": 1.0, "epsilon": 1.5},
    },
    training=Training(lr=1.5e-2, batch_size=4, epochs=150, schedule="onecycle", clip=1.0),
    options={"F": (0.9, 8.0), "inputs": ("state", "deviation")},
    variants={"F=8": {"F": 8.0}},
    paper=published("lorenz96"),
    protocol="128 trajectories of 2000 points each for training, validation and test. NRMSE is the root mean square "
    "of the error divided by that of the target: the paper does not define it, but with this definition an LSTM's "
    "error at F = 0.9 is the published one (divided by the deviation, it would be six times as large). The paper "
    "gives no hyperparameters for this task; these are ours.",
)
