"""The parts of a task: its data, protocol, metric and the paper's hyperparameters.

Symbols: N length, b batch size, d input features, n number of sequences.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue
from unicornn.lab._metric import Metric
from unicornn.lab.data._files import File, Source

KINDS = {  # kind of task: its metric
    "classify": Metric("accuracy", more_is_better=True),
    "regress": Metric("RMSE", more_is_better=False),
    "forecast": Metric("NRMSE", more_is_better=False),
}


class Batch(NamedTuple):
    """A batch of sequences, time first.

    Shapes: u (N, b, d), or integers (N, b) for text; target (b,) classes or numbers, (N, b, k) for a forecast; lengths
    (b,), or None if all sequences have N steps. There may be k consecutive sequences for every target, (N, b·k, d):
    the network's outputs for them are then averaged (for classes, their log-probabilities).

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Batch
        >>> Batch(torch.zeros(100, 4, 3), torch.zeros(4, dtype=torch.int64)).lengths is None
        True
    """

    u: Tensor
    target: Tensor
    lengths: Tensor | None = None


class Split(Protocol):
    """The training, validation or test set: any class with these two methods, such as ``Sequences``.

    Two attributes are optional. With ``sizes``, a tensor (n,) of the sequences' lengths, batches are made of sequences
    of similar length. With ``target``, a tensor of the targets of all sequences, targets are checked before training
    without making every sequence.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Batch
        >>> class Ramps:
        ...     def __len__(self):
        ...         return 1000
        ...     def batch(self, indices, draw):
        ...         return Batch(torch.linspace(0, 1, 50)[:, None, None] * indices[:, None], indices.float())
        >>> Ramps().batch(torch.tensor([3, 4]), draw=-1).u.shape
        torch.Size([50, 2, 1])
    """

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor, draw: int) -> Batch:
        """The sequences with these indices. Anything random in them must depend on (index, draw) alone, so that runs
        can be repeated and resumed; ``draw`` is the epoch in training and -1 otherwise."""
        ...


@dataclass(frozen=True)
class Sequences:
    """A Split held in memory or memory-mapped.

    Args:
        u: Sequences (n, N, d), or integers (n, N) for text.
        target: Targets (n,) or (n, N, k).
        lengths: Lengths (n,), or None if all sequences have N steps.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences
        >>> split = Sequences(torch.zeros(10, 100, 3), torch.zeros(10, dtype=torch.int64))
        >>> split.batch(torch.tensor([0, 4]), draw=0).u.shape
        torch.Size([100, 2, 3])
    """

    u: Tensor | np.ndarray
    target: Tensor
    lengths: Tensor | None = None

    def __post_init__(self) -> None:
        for name, value in (("target", self.target), ("lengths", self.lengths)):
            if value is not None and len(value) != len(self.u):
                raise BadValue(f"{name}: expected one per sequence ({len(self.u)}), got {len(value)}")

    def __len__(self) -> int:
        return len(self.u)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        u = self.u[indices] if isinstance(self.u, Tensor) else torch.from_numpy(self.u[indices.numpy()])
        target, lengths = self.target[indices], None if self.lengths is None else self.lengths[indices]
        if lengths is not None:
            longest = int(lengths.max())
            u, target = u[:, :longest], target[:, :longest] if target.dim() == 3 else target
        return Batch(u.transpose(0, 1), target.transpose(0, 1) if target.dim() == 3 else target, lengths)


class Splits(NamedTuple):
    """The result of ``Task.load``. ``embedding`` (words, k) holds the initial word vectors of a text.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences, Splits
        >>> train, valid, test = (Sequences(torch.zeros(n, 100, 3), torch.zeros(n)) for n in (70, 15, 15))
        >>> len(Splits(train, valid, test).test)
        15
    """

    train: Split
    valid: Split
    test: Split
    embedding: Tensor | None = None


@dataclass(frozen=True)
class Training:
    """Settings of the training; ``--set NAME=VALUE`` changes any of them.

    Args:
        lr: Learning rate (the highest one of the schedule).
        batch_size: Number of sequences in a batch, over all processes.
        epochs: Number of epochs.
        schedule: "step" (the paper's: divided by ten after ``drop_after`` epochs), "onecycle", "cosine" or "constant".
        drop_after: Number of epochs before the learning rate drops; 0 for no drop.
        optimizer: "adam" or "adamw".
        weight_decay: Weight decay of the optimiser.
        clip: Largest norm of the gradient; 0 for no clipping.
        layers_rate: Factor of the learning rate for the recurrent layers; the readout has the full rate.
        words_rate: Factor of the learning rate for word vectors; it may be larger than 1.
        words_eps: Adam's ε for word vectors. Adam moves every number by about the learning rate, however small its
            gradient, unless the gradient is below ε. A large ε therefore moves rare words little, which keeps the
            network from memorising them.
        average: Share of an exponential average of the weights that each step keeps, for example 0.998; the averaged
            weights are evaluated and saved. 0 for no average.
        bptt: Number of steps at the end of a sequence through which gradients are propagated (truncated
            back-propagation through time); 0 for all.
        standardise: Start the readout of a regression from the mean and deviation of the training targets.
        label_smoothing: Share of each class's probability spread over all classes, in training only.
        huber: Error, in deviations of the training targets, above which the training loss of a regression is linear
            (needs ``standardise``); 0 for the squared error.
        eval_batch_size: Number of sequences in a batch of validation and test.

    Example:
        >>> from unicornn.lab.tasks import Training
        >>> Training(lr=1e-2, epochs=500, drop_after=250).schedule
        'step'
    """

    lr: float = 1e-3
    batch_size: int = 32
    epochs: int = 100
    schedule: str = "step"
    drop_after: int = 0
    optimizer: str = "adam"
    weight_decay: float = 0.0
    clip: float = 0.0
    layers_rate: float = 1.0
    words_rate: float = 1.0
    words_eps: float = 1e-8
    average: float = 0.0
    bptt: int = 0
    standardise: bool = False
    label_smoothing: float = 0.0
    huber: float = 0.0
    eval_batch_size: int = 256


class Quoted(NamedTuple):
    """A published result in the task's metric (accuracies as fractions), and its source.

    ``only`` maps options to the values for which the result holds, if not for all.

    Example:
        >>> from unicornn.lab.tasks import Quoted
        >>> Quoted("coRNN", 0.867, 0.03, units=32, parameters=2_400, source="Table 3").value
        0.867
    """

    model: str
    value: float
    deviation: float | None = None
    units: int | None = None
    parameters: int | None = None
    source: str = ""
    only: Mapping[str, Any] = {}


def published(task: str) -> tuple[Quoted, ...]:
    """The paper's results for a task, from published.csv."""
    with resources.files("unicornn.lab.tasks").joinpath("published.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == task]
    return tuple(
        Quoted(
            row["model"],
            float(row["value"]),
            float(row["deviation"]) if row["deviation"] else None,
            units=int(row["units"]) if row["units"] else None,
            parameters=int(row["parameters"]) if row["parameters"] else None,
            source=row["source"],
            only={"F": float(row["F"])} if row["F"] else {},
        )
        for row in rows
    )


class Number(NamedTuple):
    """An option of a task that takes any number within limits: an integer if the default is one, several integers if
    the default is a tuple.

    Example:
        >>> from unicornn.lab.tasks import Number
        >>> Number(1000, least=10).check("N", 9)
        Traceback (most recent call last):
        ...
        unicornn.errors.BadValue: N: expected an integer >= 10, got 9
    """

    default: Any
    least: float = 0
    below: float = 2**31

    def check(self, name: str, value: Any) -> Any:
        """Returns a valid value; several integers may be given as floats, as the command line and config.json do."""
        least = int(self.least)
        if isinstance(self.default, tuple):
            try:
                numbers = [int(n) if n == int(n) else n for n in (value if isinstance(value, Sequence) else [value])]
            except (TypeError, ValueError, OverflowError):
                raise BadType(f"{name}: expected integers such as 1000,10000, got {value!r}") from None
            return tuple(checks.integer(name, number, least, int(self.below) - 1) for number in numbers)
        if isinstance(self.default, int):
            return checks.integer(name, value, least, int(self.below) - 1)
        limits = f"a number in [{self.least:g}, {self.below:g})"
        return checks.number(name, value, limits, lambda x: self.least <= x < self.below)


@dataclass(frozen=True)
class Task:
    """An experiment. Write a file with ``TASK = Task(...)`` and pass its path to ``unicornn train``.

    Args:
        name: Name on the command line.
        title: Description in one line.
        kind: "classify" (accuracy, cross-entropy), "regress" (RMSE) or "forecast" (NRMSE of a sequence).
        load: Function of a ``Source`` (where files are), the task's options and the seed; returns ``Splits``.
        d: Number of input features (for text, the size of a word vector).
        outputs: Number of classes, or of values to predict.
        size: Size of the data, such as "60,000 images, N = 784, d = 1".
        models: Constructor arguments of each model with published settings.
        training: Settings of the training.
        options: Options of the task: a ``Number``, or the possible values, the default first.
        variants: Named sets of changes to any of the above: ``{"256": {"hidden_size": 256, "lr": 2.51e-3}}``.
        paper: Published results.
        files: Data files; empty if the data are generated or come with a library.
        text: Whether the input is words, which are embedded first. An option ``embedding_dropout`` is the share of
            words that are dropped.
        protocol: Anything else a reader of the results must know.

    Example:
        >>> from unicornn.lab import tasks
        >>> task = tasks.find("psmnist")
        >>> task.kind, task.metric.name, task.models["unicornn"]["alpha"]
        ('classify', 'accuracy', 12.53)
    """

    name: str
    title: str
    kind: str
    load: Callable[[Source, Mapping[str, Any], int], Splits]
    d: int
    outputs: int
    size: str
    models: Mapping[str, Mapping[str, Any]]
    training: Training
    options: Mapping[str, Number | Sequence[Any]] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paper: Sequence[Quoted] = ()
    files: Sequence[File] = ()
    text: bool = False
    protocol: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadValue(f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        if "unicornn" not in self.models:
            raise BadValue("models: expected at least 'unicornn' and the arguments of its layer")

    @property
    def metric(self) -> Metric:
        return KINDS[self.kind]

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each option."""
        return {name: o.default if isinstance(o, Number) else o[0] for name, o in self.options.items()}

    def check(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each option, if all are there and valid."""
        for name, option in self.options.items():
            if name not in options:
                raise BadValue(f"{name}: expected a value of this option of {self.name}, found none")
            if not isinstance(option, Number) and options[name] not in option:
                raise BadValue(f"{name}: expected one of {', '.join(map(str, option))}, got {options[name]!r}")
        return {n: o.check(n, options[n]) if isinstance(o, Number) else options[n] for n, o in self.options.items()}


def epoch_lengths(options: Mapping[str, Any], full: int) -> tuple[int, ...]:
    """Length of the sequences in each of the first training epochs, then the full one, which holds for all later ones.

    By the options ``short_epochs`` and ``short_steps``: numbers of epochs, and of steps in these.
    """
    epochs, steps = options["short_epochs"], options["short_steps"]
    if len(epochs) != len(steps):
        raise BadValue(f"short_steps: expected {len(epochs)} numbers, as in short_epochs, got {len(steps)}")
    return *(n for k, n in zip(epochs, steps, strict=True) for _ in range(k)), full


def length_in_epoch(lengths: Sequence[int], draw: int) -> int:
    """Length of the sequences in epoch ``draw``; in validation and test (-1) the last one."""
    return lengths[min(draw, len(lengths) - 1)] if draw >= 0 else lengths[-1]
