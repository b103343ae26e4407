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
from unicornn.estimators._octaves import Octaves
from unicornn.estimators._ridge import Ridge, clearly_smaller
from unicornn.estimators._series import Series
from unicornn.frames import Frames, oscillators
from unicornn.models import Network
from unicornn.readouts import Energy, parse

CLIP = 1.0  # largest norm of a gradient
MAX_HALVINGS = 3  # of an automatically chosen time step with which training diverges
FASTEST_NEURON = 0.95  # largest effective time step of init="spread", relative to Δt
SHORTEST_SEGMENT = 16  # number of steps in a segment of which the energy is measured
SHORTEST_FRAME, LONGEST_FRAME, FRAMES_PER_SERIES = 16, 256, 32  # frames overlap by half, so there are twice as many
OSCILLATORS = 48  # in every frame
FRAMES_DT, FRAMES_DROPOUT = 0.5, 0.1  # of networks with frames
FRAMES_DECAY, LABEL_SMOOTHING, AVERAGE = 0.01, 0.05, 0.98  # of their training
FRAMES_READOUT, WHOLE_READOUT = "mean+max+state+input", "energy"  # readout="auto" with and without frames
DT_FRACTION = 0.2  # of max_epochs and of the remaining time: most that the candidates for Δt may use together
OCTAVES_WEIGHTS = ((1.0,), (1.0, 64.0))  # candidates for energies and for summary statistics; see Ridge
FEWEST_VALID = 10  # validation series that can justify an addition to the octaves
clock = time.monotonic  # measures the budget


@dataclass(frozen=True)
class Examples:
    """Standardised series, their targets, and scores to which those of the network are added."""

    series: Series
    target: Tensor  # (n,) classes or (n, k) numbers
    weight: Tensor  # (n,) of mean 1
    offset: Tensor | None = None  # (n, outputs)

    def __len__(self) -> int:
        return len(self.series)

    def rows(self, chosen: np.ndarray) -> Examples:
        offset = None if self.offset is None else self.offset[chosen]
        return Examples([self.series[i] for i in chosen], self.target[chosen], self.weight[chosen], offset)

    def scores(self, output: Tensor) -> Tensor:
        return output if self.offset is None else output + self.offset.to(output)


@dataclass
class Settings:
    """Settings of a network and its training; see ``UnICORNNClassifier``. ``deadline`` is a time of ``clock``."""

    hidden_size: int
    num_layers: int
    alpha: float
    readout: str
    frames: int | str
    segments: int
    horizon: float | None
    max_epochs: int
    batch_size: int
    lr: float
    patience: int
    device: torch.device
    deadline: float | None
    seed: int
    alternatives: tuple[int, ...]  # lengths of frames to choose from; see ``adapt``


def build_network(d: int, outputs: int, dt: float, settings: Settings) -> Network:
    """Builds an untrained network, the same for the same seed."""
    options: dict[str, Any] = {} if settings.horizon is None else {"horizon": settings.horizon}
    W = int(settings.frames)
    with seeded(settings.seed):
        frames = Frames(oscillators(d, OSCILLATORS, W), W, W // 2) if W else None
        rnn = UnICORNN(
            d if frames is None else frames.size, settings.hidden_size, settings.num_layers, dt=dt,
            alpha=settings.alpha, init="spread", dropout=FRAMES_DROPOUT if W else 0.0, **options,
        )  # fmt: skip
        for b in rnn.b:  # with b = 0, -u gives -y, and properties that do not depend on the sign are learned late
            nn.init.uniform_(b, -1, 1)
        text = settings.readout if settings.readout != "auto" else FRAMES_READOUT if W else WHOLE_READOUT
        readout = parse(text)
        if readout == Energy() and settings.segments > 1 and not W:
            # From rest: undamped oscillators would carry along everything before a segment.
            readout = Energy(segments=settings.segments, from_rest=True, pool="moments")
        # With few series, training would not remove random initial numbers from the readout.
        return Network(rnn, outputs, readout=readout, readout_init="zero", frames=frames or ()).to(settings.device)


def adapt(settings: Settings, series: Series) -> None:
    """Derives the length of frames, where it is "auto", and the number of segments from the lengths of the series.

    A 32nd of the median length is the length of a frame, within limits; series of fewer than 128 steps have none.
    Energies of a whole series are measured in segments, fewer for short series, unless the readout has more than
    energies: outputs and states should have seen the whole series.
    """
    if settings.frames == "auto":
        W = int(np.median([len(x) for x in series])) // FRAMES_PER_SERIES
        W = min(max(W, SHORTEST_FRAME), LONGEST_FRAME) if 4 * W >= SHORTEST_FRAME else 0
        settings.frames, settings.alternatives = W, (W, 0) if W else (0,)
    else:
        settings.alternatives = (int(settings.frames),)
    if settings.readout != "auto" and parse(settings.readout) != Energy():
        settings.segments = 1
    settings.segments = min(settings.segments, max(1, min(len(x) for x in series) // SHORTEST_SEGMENT))


def padded(network: nn.Module, series: Series) -> tuple[Tensor, Tensor | None]:
    """Series (N_i, d) as the network's input (N, b, d), and their lengths (b,), or None if all are equal.

    A series with fewer steps than the network has segments is stretched by repeating every step.
    """
    shortest = network.readout.segments if isinstance(network, Network) else 1
    series = [np.repeat(x, -(-shortest // len(x)), 0) if len(x) < shortest else x for x in series]
    lengths = torch.tensor([len(x) for x in series])
    u = torch.zeros(int(lengths.max()), len(series), series[0].shape[1])
    for i, x in enumerate(series):
        u[: len(x), i] = torch.from_numpy(np.ascontiguousarray(x))
    equal = bool((lengths == lengths[0]).all())
    return u.to(next(network.parameters()).device), None if equal else lengths


@torch.no_grad()
def outputs(network: nn.Module, series: Series, batch_size: int, features: bool = False) -> np.ndarray:
    """The network's outputs (n, outputs), or the features that its readout sees."""
    network.eval()
    batches = Batches(len(series), batch_size, lengths=torch.tensor([len(x) for x in series])).complete(0)
    results = []
    for chosen in batches:
        u, lengths = padded(network, [series[i] for i in chosen])
        if features and isinstance(network, Network):
            results.append(network.features(network.rnn, *network.steps(u, lengths)).cpu())
        else:
            results.append(network(u, lengths).cpu())
    return torch.cat(results)[torch.cat(batches).argsort()].numpy()


def make_optimizer(network: Network, settings: Settings) -> torch.optim.Optimizer:
    decay = FRAMES_DECAY if network.frames else 0.0
    return torch.optim.AdamW(network.parameters(), lr=settings.lr, weight_decay=decay)


def one_cycle(done: float) -> float:
    """The learning rate relative to its maximum: rising over a tenth of the training, then a half cosine."""
    return 0.04 + 9.6 * done if done < 0.1 else 0.5 + 0.5 * math.cos(math.pi * min(1.0, (done - 0.1) / 0.9))


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
        framed = bool(network.frames) and optimizer is None  # partial_fit has no end for a schedule
        optimizer = optimizer or make_optimizer(network, settings)
        super().__init__(
            network, optimizer, clip=CLIP, patience=0 if framed else settings.patience,
            average=AVERAGE if framed else 0.0,
        )  # fmt: skip
        self.settings, self.begin, self.framed = settings, clock(), framed
        self.smoothing = LABEL_SMOOTHING if framed else 0.0
        self.examples, self.valid, self.batch_size = examples, valid, settings.batch_size
        self.random = np.random.RandomState(settings.seed)

    def epoch_batches(self) -> Iterator[Examples]:
        order = self.random.permutation(len(self.examples))
        for start in range(0, len(order), self.batch_size):
            yield self.examples.rows(order[start : start + self.batch_size])

    def batch_loss(self, batch: Examples) -> BatchLoss:
        u, lengths = padded(self.network, batch.series)
        target, weight = batch.target.to(u.device), batch.weight.to(u.device)
        loss = mean_loss(batch.scores(self.network(u, lengths)), target, weight, smoothing=self.smoothing)
        return BatchLoss(loss, len(batch))

    def train_step(self, batch: Any) -> float:
        if self.framed:
            settings = self.settings
            done = self.step / (settings.max_epochs * -(-len(self.examples) // self.batch_size))
            if settings.deadline is not None:
                done = max(done, (clock() - self.begin) / max(settings.deadline - self.begin, 1e-9))
            for group in self.optimizer.param_groups:
                group["lr"] = settings.lr * one_cycle(done)
        return super().train_step(batch)

    def validate(self) -> Row:
        row = {"train_loss": self.loss_sum / self.sequences}
        if self.valid is not None:
            output = self.valid.scores(torch.from_numpy(outputs(self.evaluated, self.valid.series, self.batch_size)))
            row["valid_loss"] = mean_loss(output, self.valid.target, self.valid.weight).item()
            if self.valid.target.dim() == 1:
                row["valid_accuracy"] = (output.argmax(1) == self.valid.target).double().mean().item()
        return row

    def cost(self, row: Row) -> float:
        if self.framed and self.history:  # the schedule ends with the best weights; validation sets may be tiny
            return 0.0 if row is self.history[-1] else 1.0
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
        if not trainer.framed:
            schedule.step(trainer.cost(row))
        seconds, begin = clock() - begin, clock()
        if not trainer.stopped and settings.deadline is not None and begin + seconds > settings.deadline:
            trainer.stopped = "budget"

    with seeded(settings.seed):
        trainer.run(settings.max_epochs, after_epoch=after_epoch)
    trainer.stopped = trainer.stopped or "max_epochs"
    network.load_state_dict(trainer.best_weights)
    return trainer


def fit_octaves(
    octaves: Octaves | None, examples: Examples, Y: np.ndarray, groups: Any, settings: Settings
) -> tuple[Octaves, Ridge]:
    """Octaves for these series, new ones unless given, and the ridge regression of their features to Y (n, k)."""
    if octaves is None:
        with seeded(settings.seed):
            octaves = Octaves.fit(examples.series).to(settings.device)
    F = outputs(octaves, examples.series, settings.batch_size)
    kinds = np.zeros(octaves.size, int)
    kinds[-octaves.summaries :] = 1
    weights = examples.weight.double().numpy()
    return octaves, Ridge.fit(F, Y, weights, groups, settings.seed, kinds, OCTAVES_WEIGHTS)


def improves(network: Network, valid: Examples, settings: Settings) -> bool:
    """Whether the network's outputs reduce the loss of validation series by more than a standard error."""
    assert valid.offset is not None
    both = valid.scores(torch.from_numpy(outputs(network, valid.series, settings.batch_size)))
    rows = [valid.rows(np.array([i])) for i in range(len(valid))]
    losses = [
        np.array([mean_loss(each[[i]], row.target, row.weight).item() for i, row in enumerate(rows)])
        for each in (both, valid.offset)
    ]
    return clearly_smaller(*losses)


def fit_new(
    make: Callable[[float], Network],
    examples: Examples,
    valid: Examples | None,
    settings: Settings,
    dt: float | None,
    tell: Callable[..., None],
) -> tuple[Network, Trainer | None]:
    """Makes and trains a network with time step ``dt``; None chooses one.

    A chosen one with which training diverges is halved: the short runs that chose it may succeed where the long one
    fails. With an offset, the network is only trained if short runs reduce the validation loss, and then only kept if
    the reduction is clear; otherwise its outputs are zero.
    """
    halvings_left = MAX_HALVINGS if dt is None else 0
    added = examples.offset is not None
    if added and (valid is None or len(valid) < FEWEST_VALID):
        return make(FRAMES_DT if dt is None else dt), None
    if dt is None:
        choice = choose(make, examples, valid, settings)
        settings.frames, dt = choice or (0, FRAMES_DT)
        if choice is None:
            return make(dt), None
    while True:
        network = make(dt)
        try:
            done = train(network, examples, valid, settings, tell)
            if added and not improves(network, valid, settings):  # type: ignore[arg-type]
                nn.init.zeros_(network.linear.weight)
                nn.init.zeros_(network.linear.bias)
            return network, done
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


def choose(
    make: Callable[[float], Network], examples: Examples, valid: Examples | None, settings: Settings
) -> tuple[int, float] | None:
    """The length of frames and the time step with the smallest validation loss after a short training; the first
    candidates without validation series; None if there is an offset and no candidate reduces the loss.

    Together the candidates take at most a fifth of the epochs and of the remaining time; the last ones are skipped if
    that is not enough.
    """
    candidates: list[tuple[int, float]] = []
    for W in settings.alternatives:
        steps = [FRAMES_DT] if W else time_step_candidates(examples.series, settings.alpha)
        candidates += [(W, dt) for dt in steps]
    epochs = int(DT_FRACTION * settings.max_epochs / len(candidates))
    if len(candidates) == 1 or epochs < 1 or valid is None:
        return candidates[0]
    short = copy.copy(settings)
    short.max_epochs = min(epochs, 5)
    begin, losses = clock(), []
    end = None if settings.deadline is None else begin + DT_FRACTION * (settings.deadline - begin)
    for i, (settings.frames, dt) in enumerate(candidates):
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
    given = math.inf if valid.offset is None else mean_loss(valid.offset, valid.target, valid.weight).item()
    if losses and min(losses) > given:
        return None
    return candidates[int(np.argmin(losses))] if losses else candidates[0]
