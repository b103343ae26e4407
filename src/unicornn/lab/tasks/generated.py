"""Two tasks with generated sequences of any length: recall and adding. There is nothing to download or to store.

Training sequences are new in every epoch, so no sequence is seen twice; those of validation and test never change,
whatever the seed. ``stages`` lengthens them: a network trained on short sequences is a good start for long ones.

recall: one of ten symbols is shown during the first ten steps and has to be named at the end; two other channels carry
white noise throughout. The network has to keep the symbol for N steps of noise (``--set N=1000000`` for a million).

adding: two of N numbers, uniform in [0, 1], are marked, one in each half, and their sum has to be predicted at the end.
Always answering 1 has a mean square error of 1/6, an RMSE of 0.408. Published results, such as those of coRNN and LEM,
are mean square errors for N up to 10,000. To take in only marked numbers, the layers need non-zero biases (``b_init``);
to report their size whenever they came, they need energies, since an oscillator's phase at the end depends on when it
was driven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Splits, Task, Training, integer_list, length_in_epoch

Make = Callable[[np.random.Generator, np.ndarray], float]

SYMBOLS, SHOWN_STEPS, NOISY = 10, 10, 2


@dataclass(frozen=True)
class Generated:
    """A Split whose sequences are made by a function from a generator of random numbers.

    Args:
        make: Called with the generator and zeros (N, d), which it fills; returns the target, which must depend on its
            first random numbers only, not on N.
        n: Number of sequences.
        d: Number of input features.
        least: Smallest N that ``make`` can fill.
        lengths: N of each training epoch; the last one also holds for later epochs, validation and test.
        seed: Seed of these sequences; two splits with different seeds have no sequence in common.
        dtype: Dtype of the target.
    """

    make: Make
    n: int
    d: int
    least: int
    lengths: tuple[int, ...]
    seed: tuple[int, ...]
    dtype: torch.dtype

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
    N, n, held_out, stage_epochs = (
        checks.integer(name, options[name], low)
        for name, low in (("N", least), ("sequences", 1), ("held_out", 1), ("stage_epochs", 1))
    )
    stages = integer_list("stages", options["stages"], least)
    lengths = (*(stage for stage in stages for _ in range(stage_epochs)), N)
    return Splits(
        Generated(make, n, d, least, lengths, (0, seed), dtype),
        Generated(make, held_out, d, least, (N,), (1,), dtype),
        Generated(make, held_out, d, least, (N,), (2,), dtype),
    )


_OPTIONS: dict[str, Sequence[Any]] = {
    "N": (1000,), "sequences": (1000,), "held_out": (200,), "stages": ((),), "stage_epochs": (1,),
}  # fmt: skip
_PROTOCOL = (
    "Generated: `sequences` new training sequences in every epoch; `held_out` sequences each in validation and test, "
    "the same for all seeds and always of full length N. With stages=1000,10000 the sequences of the first "
    "stage_epochs epochs have 1,000 steps, those of the next stage_epochs epochs 10,000, and all later ones N."
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
        options=_OPTIONS,
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
        options=_OPTIONS,
        protocol=f"{_PROTOCOL} The RMSE of always answering 1 is 0.408; a mean square error of 0.01 is an RMSE of 0.1. "
        "Ours, not the paper's.",
    ),
]
