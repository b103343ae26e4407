"""The network of the estimators: how it is built, trained and evaluated, and how its time step is chosen."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unicornn._layer import UnICORNN
from unicornn._training.batches import Batches
from unicornn._training.seeds import seeded
from unicornn._training.trainer import BatchLoss, Row, Trainer, mean_loss
from unicornn.errors import Diverged
from unicornn.estimators._series import Series
from unicornn.models import Network
from unicornn.readouts import Energy, parse

CLIP = 1.0  # largest norm of a gradient
MAX_HALVINGS = 3  # of an automatically chosen time step with which training diverges
FASTEST_NEURON = 0.95  # largest effective time step of init="spread", relative to Δt
SHORTEST_SEGMENT = 16  # number of steps in a segment of which the energy is measured
DT_FRACTION = 0.2  # of max_epochs and of the remaining time: most that the candidates for Δt may use together
clock = time.monotonic  # measures the budget


@dataclass(frozen=True)
class Examples:
    """Standardised series and their targets."""

    series: Series
    target: Tensor  # (n,) classes or (n, k) numbers
    weight: Tensor  # (n,) of mean 1

    def __len__(self) -> int:
        return len(self.series)

    def rows(self, chosen: np.ndarray) -> Examples:
        return Examples([self.series[i] for i in chosen], self.target[chosen], self.weight[chosen])


@dataclass
class Settings:
    """Settings of a network and its training; see ``UnICORNNClassifier``. ``deadline`` is a time of ``clock``."""

    hidden_size: int
    num_layers: int
    alpha: float
    readout: str
    segments: int
    horizon: float | None
    max_epochs: int
    batch_size: int
    lr: float
    patience: int
    device: torch.device
    deadline: float | None
    seed: int


def build_network(d: int, outputs: int, dt: float, settings: Settings) -> Network:
    """Builds an untrained network, the same for the same seed."""
    options: dict[str, Any] = {} if settings.horizon is None else {"horizon": settings.horizon}
    with seeded(settings.seed):
        rnn = UnICORNN(
            d, settings.hidden_size, settings.num_layers, dt=dt, alpha=settings.alpha, init="spread", **options
        )
        for b in rnn.b:  # with b = 0, -u gives -y, and properties that do not depend on the sign are learned late
            nn.init.uniform_(b, -1, 1)
        readout = parse(settings.readout)
        if readout == Energy() and settings.segments > 1:
            # From rest: undamped oscillators would carry along everything before a segment.
            readout = Energy(segments=settings.segments, from_rest=True, pool="moments")
        # With few series, training would not remove random initial numbers from the readout.
        return Network(rnn, outputs, readout=readout, readout_init="zero").to(settings.device)


def energy_segments(most: int, readout: str, series: Series) -> int:
    """Number of segments of which energies are measured: at most ``most``, fewer for short series.

    It is 1 if the readout has more than energies, because outputs and states should have seen the whole series.
    """
    if parse(readout) != Energy():
        return 1
    return min(most, max(1, min(len(x) for x in series) // SHORTEST_SEGMENT))


def padded(network: Network, series: Series) -> tuple[Tensor, Tensor | None]:
    """Series (N_i, d) as the network's input (N, b, d), and their lengths (b,), or None if all are equal.

    A series with fewer steps than the network has segments is stretched by repeating every step.
    """
    shortest = network.readout.segments
    series = [np.repeat(x, -(-shortest // len(x)), 0) if len(x) < shortest else x for x in series]
    lengths = torch.tensor([len(x) for x in series])
    u = torch.zeros(int(lengths.max()), len(series), series[0].shape[1])
    for i, x in enumerate(series):
        u[: len(x), i] = torch.from_numpy(np.ascontiguousarray(x))
    equal = bool((lengths == lengths[0]).all())
    return u.to(next(network.parameters()).device), None if equal else lengths


@torch.no_grad()
def outputs(network: Network, series: Series, batch_size: int, features: bool = False) -> np.ndarray:
    """The network's outputs (n, outputs), or the features that its readout sees."""
    network.eval()
    batches = Batches(len(series), batch_size, lengths=torch.tensor([len(x) for x in series])).complete(0)
    results = []
    for chosen in batches:
        u, lengths = padded(network, [series[i] for i in chosen])
        results.append((network.features(network.rnn, u, lengths) if features else network(u, lengths)).cpu())
    return torch.cat(results)[torch.cat(batches).argsort()].numpy()


class NetworkTrainer(Trainer):
    """Trains on ``examples`` in random order; validates on ``valid``, or without it by the training loss."""

    def __init__(
        self,
        network: Network,
        examples: Examples,
        settings: Settings,
        valid: Examples | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        optimizer = optimizer or torch.optim.Adam(network.parameters(), lr=settings.lr)
        super().__init__(network, optimizer, clip=CLIP, patience=settings.patience)
        self.examples, self.valid, self.batch_size = examples, valid, settings.batch_size
        self.random = np.random.RandomState(settings.seed)

    def epoch_batches(self) -> Iterator[Examples]:
        order = self.random.permutation(len(self.examples))
        for start in range(0, len(order), self.batch_size):
            yield self.examples.rows(order[start : start + self.batch_size])

    def batch_loss(self, batch: Examples) -> BatchLoss:
        u, lengths = padded(self.network, batch.series)
        loss = mean_loss(self.network(u, lengths), batch.target.to(u.device), batch.weight.to(u.device))
        return BatchLoss(loss, len(batch))

    def validate(self) -> Row:
        row = {"train_loss": self.loss_sum / self.sequences}
        if self.valid is not None:
            output = torch.from_numpy(outputs(self.network, self.valid.series, self.batch_size))
            row["valid_loss"] = mean_loss(output, self.valid.target, self.valid.weight).item()
            if self.valid.target.dim() == 1:
                row["valid_accuracy"] = (output.argmax(1) == self.valid.target).double().mean().item()
        return row

    def cost(self, row: Row) -> float:
        return row.get("valid_loss", row["train_loss"])


def warm_up(network: Network, examples: Examples, settings: Settings) -> None:
    """Compiles the kernels with a few steps on short series, so that the first epoch takes as long as the others.

    A budget decides by the time of an epoch whether there is time for another one. Changes the network's weights.
    """
    trainer = NetworkTrainer(network, examples, settings)
    few = examples.rows(np.arange(min(2, len(examples))))
    short = [x[: 2 - i] for i, x in enumerate(few.series)]
    with seeded(0), contextlib.suppress(Diverged):
        for k in {1, len(short)}:  # equal lengths, and different ones
            trainer.train_step(Examples(short[:k], few.target[:k], few.weight[:k]))
    outputs(network, short, len(short))


def train(
    network: Network,
    examples: Examples,
    valid: Examples | None,
    settings: Settings,
    tell: Callable[..., None] = lambda epoch, **numbers: None,
) -> Trainer:
    """Trains with Adam in place and restores the best weights. ``tell`` receives each epoch's number and scores.

    Stops when the validation loss, or without validation series the training loss, has not improved for ``patience``
    epochs, or when another epoch as long as the last would end after the deadline.
    """
    trainer = NetworkTrainer(network, examples, settings, valid)
    patience = max(1, settings.patience // 3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(trainer.optimizer, factor=0.3, patience=patience)
    begin = clock()

    def after_epoch(row: Row) -> None:
        nonlocal begin
        tell(trainer.epoch, **row)
        schedule.step(trainer.cost(row))
        seconds, begin = clock() - begin, clock()
        if not trainer.stopped and settings.deadline is not None and begin + seconds > settings.deadline:
            trainer.stopped = "budget"

    with seeded(settings.seed):
        trainer.run(settings.max_epochs, after_epoch=after_epoch)
    trainer.stopped = trainer.stopped or "max_epochs"
    network.load_state_dict(trainer.best_weights)
    return trainer


def fit_new(
    make: Callable[[float], Network],
    examples: Examples,
    valid: Examples | None,
    settings: Settings,
    dt: float | None,
    tell: Callable[..., None],
) -> tuple[Network, Trainer]:
    """Makes and trains a network with time step ``dt``; None chooses one.

    A chosen one with which training diverges is halved: the short runs that chose it may succeed where the long one
    fails.
    """
    halvings_left = MAX_HALVINGS if dt is None else 0
    if dt is None:
        dt = choose_time_step(make, examples, valid, settings)
    while True:
        network = make(dt)
        try:
            return network, train(network, examples, valid, settings, tell)
        except Diverged:
            if not halvings_left:
                raise
            dt, halvings_left = dt / 2, halvings_left - 1


def time_step_candidates(series: Series, alpha: float) -> list[float]:
    """Values of Δt to try, derived from the data.

    One lets the fastest neurons follow the signal: with time steps up to 0.95 Δt and a frequency of a·√(α + w) per
    step, they reach the frequency below which 95 % of the signal's power lies. One depends on the length only,
    0.1 (10⁴/N)^(2/3), with which gradients neither vanish nor explode for any N. The third is their geometric mean.
    """
    N = float(np.median([len(x) for x in series]))
    largest = 1.6 / math.sqrt(alpha + 1)
    for_length = 0.1 * (1e4 / N) ** (2 / 3)
    few = series[:: max(1, len(series) // 16)][:16]
    fastest = float(np.median([_highest_frequency(x) for x in few]))
    for_signal = fastest / (FASTEST_NEURON * math.sqrt(alpha + 0.5))
    candidates: list[float] = []
    for dt in (for_signal, for_length, math.sqrt(for_signal * for_length)):
        dt = float(f"{min(max(dt, 1e-4), largest):.3g}")
        if all(max(dt / other, other / dt) > 1.3 for other in candidates):
            candidates.append(dt)
    return candidates


def _highest_frequency(x: np.ndarray) -> float:
    """The frequency below which 95 % of the power lies, in radians per step."""
    power = (np.abs(np.fft.rfft(x - x.mean(0), axis=0)) ** 2).sum(1)
    if len(x) < 4 or not power.sum() > 0:
        return math.pi / 2
    index = int(np.searchsorted(np.cumsum(power), 0.95 * power.sum()))
    return max(index, 1) * 2 * math.pi / len(x)


def choose_time_step(
    make: Callable[[float], Network], examples: Examples, valid: Examples | None, settings: Settings
) -> float:
    """The candidate with the smallest validation loss after a short training; the first without validation series.

    Together the candidates take at most a fifth of the epochs and of the remaining time; the last ones are skipped if
    that is not enough.
    """
    candidates = time_step_candidates(examples.series, settings.alpha)
    epochs = int(DT_FRACTION * settings.max_epochs / len(candidates))
    if len(candidates) == 1 or epochs < 1 or valid is None:
        return candidates[0]
    short = copy.copy(settings)
    short.max_epochs = min(epochs, 5)
    begin, losses = clock(), []
    end = None if settings.deadline is None else begin + DT_FRACTION * (settings.deadline - begin)
    for i, dt in enumerate(candidates):
        now = clock()
        if end is not None:
            if now + (now - begin) / max(1, i) > end:  # it would take as long as each of those before
                break
            short.deadline = now + (end - now) / (len(candidates) - i)
        try:
            trainer = train(make(dt), examples, valid, short)
            short.max_epochs = trainer.epoch  # the same number for all candidates
            losses.append(trainer.best_row["valid_loss"])
        except Diverged:
            losses.append(math.inf)
    return candidates[int(np.argmin(losses))] if losses else candidates[0]
