"""Networks for learning tasks: recurrent layers, a readout, and a linear map or a small MLP of its features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._energies import check_recurrent
from unicornn._features import Features
from unicornn.errors import BadType, BadValue
from unicornn.frames import Frames
from unicornn.readouts import USES, EveryStep, Last, Mean, Readout, parse


class Network(nn.Module):
    """Recurrent layers, a readout of ``unicornn.readouts``, and a linear map or a small MLP of its features.

    For memory over long sequences, what works is ``UnICORNN(..., init="spread")`` with readout="state", whose features
    are standardised, and for what is not a linear function of the remembered inputs, such as their XOR, a hidden layer.

    Args:
        rnn: Recurrent layers, time first: UnICORNN or one of ``unicornn.baselines``.
        outputs: Number of outputs.
        readout: Features of the layers from which the network predicts: a readout, or its text, as in
            "energy(segments=8)". The default is the last output of each sequence, as in the paper.
        patch: Number of consecutive inputs concatenated into one step (k). The layers then have input_size = k·d, and
            sequences are k times shorter.
        frames: Front end for raw signals, see ``Frames``, whose features are the input of the layers; several for
            frames of frames, the one over the signal first.
        readout_init: Initial weights of the linear map: "kaiming", normally distributed as in the authors' code, or
            "zero". With fewer examples than features, training leaves the directions that it does not see as they
            were drawn; starting from zero removes that noise.
        head_size: Number of neurons (ReLU) in a hidden layer between the features and the linear map; 0 for none.

    The head has the dtype and the device of the layers.

    Shapes: input (N, b, d), lengths (b,) or None; output (b, outputs), or (N, b, outputs) with ``EveryStep``.

    ``bptt`` truncates back-propagation through time: gradients cover the last ``bptt`` steps of each sequence and stop
    at the state before them. 0 stands for all steps.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Network
        >>> from unicornn.readouts import Energy
        >>> Network(UnICORNN(3, 16), 2, readout=Energy(segments=8))(torch.randn(100, 4, 3)).shape
        torch.Size([4, 2])
        >>> Network(UnICORNN(3, 16, init="spread"), 2, readout="state", head_size=32)(torch.randn(100, 4, 3)).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        rnn: nn.Module,
        outputs: int,
        *,
        readout: str | Readout = "last",
        patch: int = 1,
        frames: Frames | Sequence[Frames] = (),
        readout_init: str = "kaiming",
        head_size: int = 0,
    ) -> None:
        super().__init__()
        check_recurrent(rnn)
        self.rnn = rnn
        self.readout = parse(readout)
        self.beside: nn.Module | None = None  # its scores (b, outputs) for the same sequences are added
        self.patch = checks.integer("patch", patch, 1, checks.SIZE)
        if self.patch > 1:
            self.readout.check("patch", "patch")
        self.frames = nn.ModuleList([frames] if isinstance(frames, Frames) else frames)
        if self.frames:
            self.readout.check("frames", "frames")
            sizes = [int(level.size) for level in self.frames]  # type: ignore[arg-type]
            wanted = [int(level.input_size) for level in (*self.frames, rnn)][1:]
            if sizes != wanted:
                raise BadValue(f"frames: expected {wanted} features for the layers above, got {sizes}")
        like = next(p for p in rnn.parameters() if p.is_floating_point())
        self.features = Features(rnn, self.readout).to(like)
        width, self.hidden = self.features.size, nn.Sequential()
        if checks.integer("head_size", head_size, 0, checks.SIZE):
            self.hidden = nn.Sequential(nn.Linear(width, head_size), nn.ReLU()).to(like)
            width = head_size
        self.linear = nn.Linear(width, checks.integer("outputs", outputs, 1, checks.SIZE)).to(like)
        if checks.choice("readout_init", readout_init, ("kaiming", "zero")) == "kaiming":
            nn.init.kaiming_normal_(self.linear.weight)
        else:
            nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, u: Tensor, lengths: Tensor | None = None, bptt: int = 0) -> Tensor:
        return self.finish(self.scores(self.prepare(u), lengths, bptt))

    def prepare(self, u: Tensor) -> Tensor:
        """The input of the recurrent layers (N, b, d), before patches are formed."""
        return u

    def scores(self, u: Tensor, lengths: Tensor | None = None, bptt: int = 0) -> Tensor:
        """The output of the head for prepared input u (N, b, d)."""
        checks.integer("bptt", bptt, 0)
        others = None if self.beside is None else self.beside(u, lengths)
        u, lengths = self.steps(u, lengths)
        inputs = self._tail(u, lengths, bptt) if 0 < bptt < u.shape[0] else (u, lengths)
        scores = self.head(self.features(self.rnn, *inputs))
        return scores if others is None else scores + others

    def head(self, features: Tensor) -> Tensor:
        """The scores (…, outputs) of features (…, size)."""
        return self.linear(self.hidden(features.to(self.linear.weight.dtype)))

    def steps(self, u: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The input of the recurrent layers and its lengths, after patches or frames are formed."""
        u, lengths = patched(u, lengths, self.patch)
        for level in self.frames:
            u, lengths = level(u, lengths)
        return u, lengths

    def finish(self, scores: Tensor) -> Tensor:
        """The network's output from its scores."""
        return scores

    def check(self, use: str, argument: str) -> None:
        """Raises an error that names ``argument`` if the network does not support a use, see ``readouts.USES``."""
        if self.frames and use == "step":
            raise BadValue(f"{argument}: expected a network without frames for {USES[use]}, got {list(self.frames)}")
        if self.beside is not None:
            raise BadValue(
                f"{argument}: expected a network that only reads its own layers for {USES[use]}, got one with octaves; "
                "fit the estimator with segments=1 or frames=0"
            )
        self.readout.check(use, argument)

    def _tail(self, u: Tensor, lengths: Tensor | None, bptt: int) -> tuple[Tensor, None, Any, tuple[Tensor, Tensor]]:
        """The last steps of each sequence (bptt, b, d), and, without gradients, the state before them, the sum of the
        outputs up to there and their number."""
        self.readout.check("bptt", "bptt")
        if lengths is not None and int(lengths.min()) <= bptt:
            raise BadValue(f"bptt: expected fewer steps than the shortest sequence's {int(lengths.min())}, got {bptt}")
        ends = torch.full((u.shape[1],), len(u)) if lengths is None else lengths.cpu()
        before = ends - bptt
        averages = any(isinstance(part, Mean) for part in self.readout.parts)
        with torch.no_grad():
            earlier, wanted = u[: int(before.max())], "all" if averages else "last"
            output, state = self.rnn(earlier, lengths=None if lengths is None else before, output=wanted)
        steps = (before + torch.arange(bptt)[:, None]).to(u.device)
        total = output.sum(0) if averages else output  # zero in the padding
        return u[steps, torch.arange(u.shape[1], device=u.device)], None, state, (total, before.to(u.device)[:, None])


def patched(u: Tensor, lengths: Tensor | None, k: int) -> tuple[Tensor, Tensor | None]:
    """Concatenates every k inputs to one step: (N, b, d) to (N / k rounded up, b, k·d), padded with zeros at the end.

    Example:
        >>> import torch
        >>> from unicornn.models import patched
        >>> u, lengths = patched(torch.zeros(10, 2, 3), torch.tensor([10, 7]), 4)
        >>> u.shape, lengths
        (torch.Size([3, 2, 12]), tensor([3, 2]))
    """
    checks.array("u", u, (3,), "(N, b, d)")
    if lengths is not None:
        lengths = checks.tensor("lengths", checks.indices("lengths", lengths, u.device), (u.shape[1],), "(b,)")
    if checks.integer("k", k, 1, checks.SIZE) == 1:
        return u, lengths
    u = nn.functional.pad(u, (0, 0, 0, 0, 0, -u.shape[0] % k))
    if lengths is not None:  # padding within the last patch of a sequence has to be zero too
        inside = torch.arange(u.shape[0], device=u.device)[:, None] < lengths.to(u.device)
        u, lengths = torch.where(inside[:, :, None], u, 0.0), (lengths + k - 1) // k
    return u.unflatten(0, (-1, k)).transpose(1, 2).flatten(2), lengths


class Classifier(Network):
    """Logits of the classes, (b, classes).

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Classifier
        >>> Classifier(UnICORNN(3, 16, 2), 5)(torch.randn(100, 4, 3)).shape
        torch.Size([4, 5])
    """


class Regressor(Network):
    """One number per sequence, (b,), or several, (b, outputs).

    ``standardise`` sets the mean and the standard deviation of the targets, so that they need not be learned.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Regressor
        >>> Regressor(UnICORNN(3, 16, 2), 1)(torch.randn(100, 4, 3)).shape
        torch.Size([4])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, rnn: nn.Module, outputs: int, **options: Any) -> None:
        super().__init__(rnn, outputs, **options)
        self.register_buffer("mean", self.linear.bias.new_zeros(()))
        self.register_buffer("deviation", self.linear.bias.new_ones(()))

    def standardise(self, targets: Tensor) -> None:
        """Sets mean and deviation from the training targets: a score of 0 then stands for the targets' mean."""
        if not (checks.is_dense(targets) and targets.is_floating_point() and targets.numel()):
            raise BadValue(f"targets: expected a tensor of floating-point numbers, got {checks.describe(targets)}")
        deviation = targets.std(correction=min(1, targets.numel() - 1))
        if not (targets.isfinite().all() and deviation.isfinite()):
            raise BadValue("targets: expected finite numbers with a finite variance, got NaN, infinity or an overflow")
        self.mean.fill_(targets.mean())
        self.deviation.fill_(deviation if deviation > 0 else 1.0)

    def finish(self, scores: Tensor) -> Tensor:
        numbers = self.mean + self.deviation * scores
        return numbers.squeeze(-1) if numbers.shape[-1] == 1 else numbers


class SequenceToSequence(Network):
    """Outputs at every step, (N, b, outputs).

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import SequenceToSequence
        >>> SequenceToSequence(UnICORNN(3, 16, 2), 2)(torch.randn(100, 4, 3)).shape
        torch.Size([100, 4, 2])
    """

    def __init__(self, rnn: nn.Module, outputs: int, *, readout: str | Readout = "last", **options: Any) -> None:
        each = EveryStep() if parse(readout) == Last() else parse(readout)
        if not isinstance(each, EveryStep):
            raise BadValue(f"readout: expected 'last', which is read at every step, or 'every_step', got {readout!r}")
        super().__init__(rnn, outputs, readout=each, **options)


class TextClassifier(Classifier):
    """A classifier of texts: sequences of words (N, b), int64, which are embedded first. The embedding is trained.

    Args:
        rnn: Recurrent layers with input_size = d.
        outputs: Number of classes.
        vectors: Initial word vectors (words, d). Word 0 is the padding, whose vector is not trained.
        embedding_dropout: Fraction of the words that are replaced by zero wherever they occur, drawn for every batch.
        options: Further arguments of ``Network``.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import TextClassifier
        >>> net = TextClassifier(UnICORNN(10, 16), 2, vectors=torch.randn(1000, 10), embedding_dropout=0.65)
        >>> net(torch.randint(1000, (50, 4)), lengths=torch.tensor([50, 20, 3, 7])).shape
        torch.Size([4, 2])
    """

    def __init__(
        self, rnn: nn.Module, outputs: int, *, vectors: Tensor, embedding_dropout: float = 0.0, **options: Any
    ) -> None:
        super().__init__(rnn, outputs, **options)
        d = int((*self.frames, rnn)[0].input_size) // self.patch
        if not checks.is_dense(vectors) or not vectors.is_floating_point():
            raise BadType(f"vectors: expected floating-point numbers (words, {d}), got {checks.describe(vectors)}")
        if vectors.dim() != 2 or not len(vectors) or vectors.shape[1] != d:
            raise BadValue(f"vectors: expected shape (words, {d}), d = {d} of the layers, got {tuple(vectors.shape)}")
        embedding_dropout = checks.fraction("embedding_dropout", embedding_dropout)
        own = vectors.detach().clone().to(self.linear.weight)
        self.embedding = nn.Embedding.from_pretrained(own, freeze=False, padding_idx=0)
        self.dropout = nn.Dropout(embedding_dropout)

    def prepare(self, u: Tensor) -> Tensor:
        vectors, count = self.embedding.weight, self.embedding.num_embeddings
        u = checks.indices("u", u, vectors.device)
        checks.array("u", u, (2,), "(N, b)")
        if not torch.compiler.is_compiling() and (u.min() < 0 or u.max() >= count):
            raise BadValue(f"u: expected words from 0 to {count - 1}, got {int(u.min())} to {int(u.max())}")
        return self.embedding(u) * self.dropout(vectors.new_ones(count, 1))[u]


def free_parameters(rnn: nn.Module) -> int:
    """Number of trained parameters of recurrent layers; for constrained matrices (orthogonal ones), of free parameters.

    Example:
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import free_parameters
        >>> free_parameters(UnICORNN(2, 8))
        40
    """
    own = getattr(rnn, "free_parameters", None)
    return int(own() if own else sum(p.numel() for p in rnn.parameters() if p.requires_grad))


def count(network: Network) -> int:
    """Number of trained parameters as in the paper's tables: without word vectors, see ``free_parameters``.

    Example:
        >>> from unicornn.baselines import MODELS
        >>> from unicornn.models import Regressor, count
        >>> count(Regressor(MODELS["gru"](2, 8), 1))
        297
    """
    if not isinstance(network, Network):
        raise BadType(f"network: expected a Network, got {type(network).__name__}")
    layers = [network.rnn, *(layer for level in network.frames for layer in level.layers)]  # type: ignore[union-attr]
    head = (*network.hidden.parameters(), *network.linear.parameters())
    return sum(map(free_parameters, layers)) + sum(p.numel() for p in head)


__all__ = [
    "Classifier",
    "Network",
    "Regressor",
    "SequenceToSequence",
    "TextClassifier",
    "count",
    "free_parameters",
    "patched",
]
