"""One of ten symbols is shown during the first ten steps, and asked for at the end.

White noise goes on in two other channels all along. What is to be learned is to keep the symbol for N steps of noise:
with ``--set N=1000000`` for a million.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Splits, Task, Training
from unicornn.lab.tasks._generated import ABOUT, OPTIONS, generated

SYMBOLS, SHOWN, NOISY = 10, 10, 2


def make(random: np.random.Generator, u: np.ndarray) -> float:
    """Fills u (N, 12): a channel for each symbol, then two of noise N(0, 1). Returns the symbol."""
    symbol = int(random.integers(SYMBOLS))
    u[:SHOWN, symbol] = 1
    u[:, SYMBOLS:] = random.standard_normal((len(u), NOISY), dtype=np.float32)
    return symbol


def load(source: Source, options: Mapping[str, Any], seed: int) -> Splits:
    return generated(make, options, seed, d=SYMBOLS + NOISY, least=SHOWN, dtype=torch.int64)


TASK = Task(
    name="recall",
    title="One of ten symbols, recalled after N steps of noise",
    kind="classify",
    load=load,
    d=SYMBOLS + NOISY,
    outputs=SYMBOLS,
    size="generated, N = 1000 or any other, d = 12",
    models={
        "unicornn": {"hidden_size": 64, "num_layers": 2, "dt": 0.02, "alpha": 1.0},
        "lstm": {"hidden_size": 32},
    },
    training=Training(lr=1e-2, batch_size=32, epochs=20, schedule="onecycle", clip=1.0, eval_batch_size=32),
    options=OPTIONS,
    protocol=f"{ABOUT} Guessing is right in 10 % of all cases. Ours, not the paper's.",
)
