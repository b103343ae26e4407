"""What a task is: its data, its protocol, the paper's hyperparameters and its metric.

Letters: N length, b batch, d input features; n sequences in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from unicornn.errors import BadValue
from unicornn.lab._metric import Metric
from unicornn.lab.data._files import File, Source

KINDS = {  # kind of task: its metric
    "classify": Metric("accuracy", more_is_better=True),
    "regress": Metric("RMSE", more_is_better=False),
    "forecast": Metric("NRMSE", more_is_better=False),
}


class Batch(NamedTuple):
    """Some sequences, time first.

    Shapes: u (N, b, d), or (N, b) integers for text; target (b,) classes or numbers, (N, b, k) for a forecast;
    lengths (b,) or None if all are N long. There may be k sequences to every target, one after another, (N, b·k, d):
    then the network's outputs for them are averaged, for classes their log-probabilities.

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
    """One split of the data: the training, the validation or the test set.

    ``Sequences`` is one; a class of one's own needs these two methods. It may have ``sizes``, a tensor (n,)
    of the sequences' lengths: then those in a batch are of similar length. And it may have ``target``, a tensor of all
    targets, sequence by sequence: then they are checked before training without a look at each sequence.

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
        """The sequences with these indices. Whatever is random in them depends on (index, draw) alone: ``draw`` is the
        epoch in training and -1 otherwise, so that runs can be repeated and resumed."""
        ...


@dataclass(frozen=True)
class Sequences:
    """A Split held in memory, or memory-mapped.

    Args:
        u: (n, N, d), or (n, N) integers for text.
        target: (n,) or (n, N, k).
        lengths: (n,) or None.
        change: if given, called with the chosen u (b, N, d), their indices (b,) and the draw; returns what the network
            sees instead, (b, N', d).

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
    change: Callable[[Tensor, Tensor, int], Tensor] | None = None

    def __post_init__(self) -> None:
        for name, value in (("target", self.target), ("lengths", self.lengths)):
            if value is not None and len(value) != len(self.u):
                raise BadValue(f"{name}: expected one for each of the {len(self.u)} sequences, got {len(value)}")

    def __len__(self) -> int:
        return len(self.u)

    def batch(self, indices: Tensor, draw: int) -> Batch:
        u = self.u[indices] if isinstance(self.u, Tensor) else torch.from_numpy(self.u[indices.numpy()])
        if self.change is not None:
            u = self.change(u, indices, draw)
        target, lengths = self.target[indices], None if self.lengths is None else self.lengths[indices]
        if lengths is not None:
            longest = int(lengths.max())
            u, target = u[:, :longest], target[:, :longest] if target.dim() == 3 else target
        return Batch(u.transpose(0, 1), target.transpose(0, 1) if target.dim() == 3 else target, lengths)


class Splits(NamedTuple):
    """What ``Task.load`` returns. ``embedding`` (words, k) are a text's initial word vectors.

    Example:
        >>> import torch
        >>> from unicornn.lab.tasks import Sequences, Splits
        >>> splits = [Sequences(torch.zeros(n, 100, 3), torch.zeros(n)) for n in (70, 15, 15)]
        >>> len(Splits.of(splits).test)
        15
    """

    train: Split
    valid: Split
    test: Split
    embedding: Tensor | None = None

    @classmethod
    def of(cls, splits: Iterable[Split], embedding: Tensor | None = None) -> Splits:
        train, valid, test = splits
        return cls(train, valid, test, embedding)


@dataclass(frozen=True)
class Training:
    """How a network is trained; ``--set NAME=VALUE`` changes any of it.

    Args:
        lr: learning rate (the highest one of the schedule).
        batch_size: sequences in a batch, over all processes.
        epochs: how many.
        schedule: "step" (the paper's: divided by ten after ``drop_after`` epochs), "onecycle", "cosine" or "constant".
        drop_after: epochs before the step; 0 for none.
        optimizer: "adam" or "adamw".
        weight_decay: of the optimiser.
        clip: largest norm of the gradient; 0 for no clipping.
        layers_rate: the share of the learning rate at which the recurrent layers learn; the readout learns at all.
        words_rate: the same for word vectors; it may be more than 1.
        words_eps: Adam's ε for word vectors. Adam moves every number by about the learning rate, however small its
            gradient is, unless it is below ε. With a large one, rare words are moved as little as they matter, and are
            not learned by heart.
        average: the weights that are judged, and kept, are an exponential average over steps, of which each step keeps
            this share, as 0.998; 0 for no average.
        bptt: steps at a sequence's end through which the gradient goes back (truncated back-propagation through time);
            0 for all.
        standardise: a regression's readout starts from the mean and the deviation of the training targets.
        eval_batch_size: sequences in a batch of validation and test.

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
    eval_batch_size: int = 256


class Quoted(NamedTuple):
    """A published number, in the task's metric (accuracies as fractions), and where it is from.

    ``only`` names the options for which it holds, if not for all.

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


@dataclass(frozen=True)
class Task:
    """An experiment. Write a file with ``TASK = Task(...)`` and give its path to ``unicornn train``.

    Args:
        name: as on the command line.
        title: one line.
        kind: "classify" (accuracy, cross-entropy), "regress" (RMSE) or "forecast" (NRMSE of a sequence).
        load: called with a ``Source`` (where files are), the task's options and the seed; returns ``Splits``.
        d: input features (for text: the size of a word vector).
        outputs: classes, or numbers to predict.
        size: the data in words, "60,000 images, N = 784, d = 1".
        models: for each model with published settings, the arguments of its constructor.
        training: the protocol.
        options: what else can be chosen: name to the possible values, the default first; a single number is a default
            that may be any number, and a single tuple one that may be any numbers.
        variants: named sets of changes, over all of the above: ``{"256": {"hidden_size": 256, "lr": 2.51e-3}}``.
        paper: published numbers.
        files: the data files; none if it is generated or comes with a library.
        text: whether the input is words, embedded first. An option ``embedding_dropout`` is the share of them left out.
        protocol: what a reader must know beside the numbers.

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
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
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
