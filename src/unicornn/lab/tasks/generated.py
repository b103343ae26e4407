"""Two tasks with generated sequences of any length: recall and adding. There is nothing to download or to store.

Training sequences are new in every epoch, so no sequence is seen twice; those of validation and test never change,
whatever the seed. ``short_epochs`` and ``short_steps`` make the first ones shorter: a network trained on short
sequences is a good start for long ones.

recall: one of ten symbols is shown during the first ten steps and has to be named at the end; two other channels carry
white noise throughout. The network has to keep the symbol for N steps of noise (``--set N=1000000`` for a million).

adding: two of N numbers, uniform in [0, 1], are marked, one in each half, and their sum has to be predicted at the end.
Always answering 1 has a mean square error of 1/6, an RMSE of 0.408. Published results, such as those of coRNN and LEM,
are mean square errors for N up to 10,000. To take in only marked numbers, the layers need non-zero biases (``b_init``);
to report their size whenever they came, they need energies, since an oscillator's phase at the end depends on when it
was driven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Number, Splits, Task, Training, epoch_lengths, length_in_epoch

Make = Callable[[np.random.Generator, np.ndarray], float]

SYMBOLS, SHOWN_STEPS, NOISY = 10, 10, 2


@dataclass(frozen=True)
class Generated:
    """A Split whose sequences are made by a function from a generator of random numbers."""

    make: Make  # fills zeros (N, d) and returns the target, which depends on the first random numbers only, not on N
    n: int  # number of sequences
    d: int
    least: int  # smallest N that ``make`` can fill
    lengths: tuple[int, ...]  # see ``epoch_lengths``
    seed: tuple[int, ...]  # two splits with different seeds have no sequence in common
    dtype: torch.dtype  # of the target

    def __len__(self) -> int:
        return self.n

    @property
    def target(self) -> Tensor:
        """Targets (n,) with draw -1, found without making the whole sequences."""
        u = np.zeros((self.least, self.d), np.float32)
        targets = [self.make(self._random(index, -1), u) for index in range(self.n)]
        return torch.tensor(targets, dtype=self.dtype)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        N = length_in_epoch(self.lengths, draw)
        u = np.zeros((N, len(indices), self.d), np.float32)  # time first, as the layer needs it: no copy
        targets = [self.make(self._random(index, draw), u[:, i]) for i, index in enumerate(indices.tolist())]
        return Batch(torch.from_numpy(u), torch.tensor(targets, dtype=self.dtype))

    def _random(self, index: int, draw: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64((*self.seed, draw + 1, index)))


def make_recall(random: np.random.Generator, u: np.ndarray) -> float:
    """Fills u (N, 12): a channel for each symbol, then two of noise N(0, 1). Returns the symbol."""
    symbol = int(random.integers(SYMBOLS))
    u[:SHOWN_STEPS, symbol] = 1
    u[:, SYMBOLS:] = random.standard_normal((len(u), NOISY), dtype=np.float32)
    return symbol


def make_adding(random: np.random.Generator, u: np.ndarray) -> float:
    """Fills u (N, 2): the numbers, and 1 where one is marked. Returns the sum of the two."""
    N, two = len(u), random.random(2, dtype=np.float32)
    marked = [int(random.integers(N // 2)), int(random.integers(N // 2, N))]
    u[:, 0] = random.random(N, dtype=np.float32)
    u[marked, 0], u[marked, 1] = two, 1
    return float(two.sum())


def _load_generated(
    make: Make, d: int, least: int, dtype: torch.dtype, source: Source, options: Mapping[str, Any], seed: int
) -> Splits:
    """Training, validation and test set; ``least`` is the smallest possible N."""
    N, held_out = options["N"], options["held_out"]
    return Splits(
        Generated(make, options["sequences"], d, least, epoch_lengths(options, N), (0, seed), dtype),
        Generated(make, held_out, d, least, (N,), (1,), dtype),
        Generated(make, held_out, d, least, (N,), (2,), dtype),
    )


def _options(least: int) -> dict[str, Number]:
    return {
        "N": Number(1000, least), "sequences": Number(1000, least=1), "held_out": Number(200, least=1),
        "short_epochs": Number(()), "short_steps": Number((), least),
    }  # fmt: skip


_PROTOCOL = (
    "Generated: `sequences` new training sequences in every epoch; `held_out` sequences each in validation and test, "
    "the same for all seeds and always of full length N. In the first short_epochs epochs, training sequences have "
    "short_steps steps; several numbers for both are consecutive stages."
)

TASKS = [
    Task(
        name="recall",
        title="One of ten symbols, recalled after N steps of noise",
        kind="classify",
        load=partial(_load_generated, make_recall, SYMBOLS + NOISY, SHOWN_STEPS, torch.int64),
        d=SYMBOLS + NOISY,
        outputs=SYMBOLS,
        size="generated, N = 1000 or any other, d = 12",
        models={
            "unicornn": {"hidden_size": 64, "num_layers": 2, "dt": 0.02, "alpha": 1.0},
            "lstm": {"hidden_size": 32},
        },
        training=Training(lr=1e-2, batch_size=32, epochs=20, schedule="onecycle", clip=1.0, eval_batch_size=32),
        options=_options(SHOWN_STEPS),
        protocol=f"{_PROTOCOL} Guessing is right in 10 % of all cases. Ours, not the paper's.",
    ),
    Task(
        name="adding",
        title="The adding problem",
        kind="regress",
        load=partial(_load_generated, make_adding, 2, 2, torch.float32),
        d=2,
        outputs=1,
        size="generated, N = 1000 or any other, d = 2",
        models={
            "unicornn": {
                "hidden_size": 64,
                "num_layers": 2,
                "dt": 0.05,
                "alpha": 0.3,
                "init": "spread",
                "b_init": 2.0,
                "readout": "last+energy",
            },
            "lstm": {"hidden_size": 64},
        },
        training=Training(lr=1e-2, batch_size=64, epochs=100, schedule="onecycle", clip=1.0, eval_batch_size=64),
        options=_options(2),
        protocol=f"{_PROTOCOL} The RMSE of always answering 1 is 0.408; a mean square error of 0.01 is an RMSE of 0.1. "
        "Ours, not the paper's.",
    ),
]
