"""The trained half of the estimators: a network, a small training loop, the choice of the time step."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unicornn._layer import UnICORNN
from unicornn.errors import Diverged
from unicornn.estimators._series import Series
from unicornn.models import Network
from unicornn.readouts import Energy, parse

CLIP = 1.0  # the largest norm of a gradient
SPREAD = 0.95  # the largest share of Δt that init="spread" gives to a neuron
clock = time.monotonic  # by which a budget is counted
PIECE = 16  # steps, at least, of the pieces in which energies are measured; shorter series have fewer pieces
DT_SHARE = 0.2  # of max_epochs and of the time left, at most, for all candidates for Δt together


@dataclass(frozen=True)
class Examples:
    """Standardised series, their targets ((n,) classes or (n, k) numbers) and their weights (n,), of mean 1."""

    series: Series
    target: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.series)

    def rows(self, chosen: np.ndarray) -> Examples:
        return Examples([self.series[i] for i in chosen], self.target[chosen], self.weight[chosen])


@dataclass
class Settings:
    """Of a network and of its training; see ``UnICORNNClassifier``."""

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
    deadline: float | None  # by the clock
    seed: int


@dataclass
class Progress:
    """How a training went, epoch by epoch."""

    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    stopped: str = "max_epochs"


@contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """torch's random numbers from this seed within, and as they were afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def network(d: int, outputs: int, dt: float, settings: Settings) -> Network:
    """An untrained network, the same for the same seed."""
    options: dict[str, Any] = {} if settings.horizon is None else {"horizon": settings.horizon}
    with own_random_numbers(settings.seed):
        rnn = UnICORNN(
            d, settings.hidden_size, settings.num_layers, dt=dt, alpha=settings.alpha, init="spread", **options
        )
        for b in rnn.b:  # else -u gives -y, and what does not depend on the sign is learned late
            nn.init.uniform_(b, -1, 1)
        readout = parse(settings.readout)
        if readout == Energy() and settings.segments > 1:
            # From rest: undamped oscillators would carry along everything before a segment.
            readout = Energy(segments=settings.segments, from_rest=True, pool="moments")
        # From zero, few series leave no chance number in the readout.
        return Network(rnn, outputs, readout=readout, readout_init="zero").to(settings.device)


def segments(most: int, readout: str, series: Series) -> int:
    """In how many pieces energies are measured: fewer than asked for where the shortest series has not the steps, and
    one if outputs or the state are read too, which are to have seen the whole of a series."""
    return min(most, max(1, min(len(x) for x in series) // PIECE)) if parse(readout) == Energy() else 1


def batch(series: Series, device: torch.device, shortest: int = 1) -> tuple[Tensor, Tensor | None]:
    """Series (N_i, d) as (N, b, d), padded, and their lengths (b,), or None if all are equal. In series shorter than
    the shortest that is possible, every step is repeated."""
    series = [np.repeat(x, -(-shortest // len(x)), 0) if len(x) < shortest else x for x in series]
    lengths = torch.tensor([len(x) for x in series])
    u = torch.zeros(int(lengths.max()), len(series), series[0].shape[1])
    for i, x in enumerate(series):
        u[: len(x), i] = torch.from_numpy(np.ascontiguousarray(x))
    same = bool((lengths == lengths[0]).all())
    return u.to(device), None if same else lengths


def batches(lengths: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Rows to be evaluated together: of similar lengths, so that little is padded."""
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]


def outputs(net: Network, series: Series, size: int, features: bool = False) -> np.ndarray:
    """What the network reads off, (n, outputs), or the features from which it does."""
    device = next(net.parameters()).device
    net.eval()
    rows, results = [], []
    with torch.no_grad():
        for chosen in batches(np.array([len(x) for x in series]), size):
            u, lengths = batch([series[i] for i in chosen], device, net.readout.segments)
            results.append((net.features(net.rnn, u, lengths) if features else net(u, lengths)).cpu())
            rows.append(chosen)
    result = torch.cat(results).numpy()
    return result[np.argsort(np.concatenate(rows))]


def loss(read: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """The mean of the log loss of classes, or of the squared error of numbers, times the weights, whose mean is 1."""
    if target.dim() == 1:
        each = nn.functional.cross_entropy(read, target, reduction="none")
    else:
        each = ((read - target) ** 2).mean(1)
    return (weight * each).mean()


def evaluate(net: Network, examples: Examples, size: int) -> float:
    read = torch.from_numpy(outputs(net, examples.series, size))
    return float(loss(read, examples.target, examples.weight))


def epoch(net: Network, optimiser: torch.optim.Optimizer, examples: Examples, size: int, random: Any) -> float:
    """One pass over the examples in random order. Returns the mean loss."""
    device = next(net.parameters()).device
    net.train()
    total = 0.0
    order = random.permutation(len(examples))
    for start in range(0, len(order), size):
        some = examples.rows(order[start : start + size])
        u, lengths = batch(some.series, device, net.readout.segments)
        value = loss(net(u, lengths), some.target.to(device), some.weight.to(device))
        optimiser.zero_grad()
        value.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        number = float(value.detach())
        if not (math.isfinite(number) and math.isfinite(float(norm))):
            raise Diverged(
                f"fit: expected a finite loss and gradient, got {number} and {float(norm)}; try a smaller dt or lr"
            )
        optimiser.step()
        total += number * len(some)
    return total / len(examples)


def warm_up(net: Network, examples: Examples) -> None:
    """Compiles what training needs, with a few steps of two series, so that the first epoch is as long as the others:
    by its length, a budget says whether there is time for another."""
    device = next(net.parameters()).device
    some = examples.rows(np.arange(min(2, len(examples))))
    short = [x[: 2 - i] for i, x in enumerate(some.series)]
    with own_random_numbers(0):
        for k in {1, len(short)}:  # of one length, and of several
            u, lengths = batch(short[:k], device, net.readout.segments)
            loss(net(u, lengths), some.target[:k].to(device), some.weight[:k].to(device)).backward()
        outputs(net, short, len(short))


def train(
    net: Network,
    examples: Examples,
    valid: Examples | None,
    settings: Settings,
    tell: Callable[[int, dict[str, float]], None] = lambda epoch, numbers: None,
) -> Progress:
    """Trains in place, with Adam; stops when the validation loss (without one: the training loss) has not improved for
    ``patience`` epochs, or another epoch as long as the last would end after the deadline; and restores the best
    weights. There is one epoch at least."""
    random = np.random.RandomState(settings.seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=0.3, patience=max(1, settings.patience // 3)
    )
    progress, least, best = Progress(), math.inf, copy.deepcopy(net.state_dict())
    with own_random_numbers(settings.seed):
        for number in range(1, settings.max_epochs + 1):
            begin = clock()
            numbers = {"train_loss": epoch(net, optimiser, examples, settings.batch_size, random)}
            if valid is not None:
                numbers["valid_loss"] = evaluate(net, valid, settings.batch_size)
            watched = numbers.get("valid_loss", numbers["train_loss"])
            if not math.isfinite(watched):  # it would never be better, and the weights be those of the start
                raise Diverged(f"fit: expected a finite validation loss, got {watched}; try a smaller dt or lr")
            progress.history.append(numbers)
            tell(number, numbers)
            schedule.step(watched)
            if watched < least:
                least, best, progress.best_epoch = watched, copy.deepcopy(net.state_dict()), number
            elif number - progress.best_epoch >= settings.patience:
                progress.stopped = "patience"
                break
            now = clock()
            if settings.deadline is not None and now + (now - begin) > settings.deadline:
                progress.stopped = "budget"
                break
    net.load_state_dict(best)
    return progress


def time_step_candidates(series: Series, alpha: float) -> list[float]:
    """Values of Δt to be tried, all from the data.

    One is the closed form for the length, 0.1 (10⁴/N)^(2/3), with which gradients neither vanish nor explode whatever N
    is. One lets the fastest neurons just follow what is in a few of the series: with time steps up to 0.95 Δt, and a
    frequency of a·√(α + w) per step, the frequency below which 95 % of their power lies. And one lies between.
    """
    N = float(np.median([len(x) for x in series]))
    most = 1.6 / math.sqrt(alpha + 1)
    for_length = 0.1 * (1e4 / N) ** (2 / 3)
    few = series[:: max(1, len(series) // 16)][:16]
    fastest = float(np.median([_fastest(x) for x in few]))
    for_signal = fastest / (SPREAD * math.sqrt(alpha + 0.5))
    found: list[float] = []
    for dt in (for_signal, for_length, math.sqrt(for_signal * for_length)):
        dt = float(f"{min(max(dt, 1e-4), most):.3g}")
        if all(max(dt / other, other / dt) > 1.3 for other in found):
            found.append(dt)
    return found


def _fastest(x: np.ndarray) -> float:
    """The frequency, in radians per step, below which 95 % of the power is."""
    power = (np.abs(np.fft.rfft(x - x.mean(0), axis=0)) ** 2).sum(1)
    if len(x) < 4 or not power.sum() > 0:
        return math.pi / 2
    at = int(np.searchsorted(np.cumsum(power), 0.95 * power.sum()))
    return max(at, 1) * 2 * math.pi / len(x)


def choose_time_step(
    make: Callable[[float], Network], examples: Examples, valid: Examples, settings: Settings
) -> float:
    """The candidate with the least validation loss after a short run; all together take at most a fifth of the epochs,
    and of the time that is left. Where that is short, those that come last are not tried."""
    candidates = time_step_candidates(examples.series, settings.alpha)
    epochs = int(DT_SHARE * settings.max_epochs / len(candidates))
    if len(candidates) == 1 or epochs < 1:
        return candidates[0]
    short = copy.copy(settings)
    short.max_epochs = min(epochs, 5)
    begin, losses = clock(), []
    end = None if settings.deadline is None else begin + DT_SHARE * (settings.deadline - begin)
    for i, dt in enumerate(candidates):
        now = clock()
        if end is not None:
            if now + (now - begin) / max(1, i) > end:  # as long as those before it
                break
            short.deadline = now + (end - now) / (len(candidates) - i)
        net = make(dt)
        try:
            short.max_epochs = len(train(net, examples, valid, short).history)  # for all the same
            losses.append(evaluate(net, valid, settings.batch_size))
        except Diverged:
            losses.append(math.inf)
    return candidates[int(np.argmin(losses))] if losses else candidates[0]
