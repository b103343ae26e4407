"""Networks for learning tasks: recurrent layers, and a linear map of what is read off them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._readouts import Features
from unicornn.errors import BadType, BadValue


class Network(nn.Module):
    """Recurrent layers with the layer's contract and a linear readout, drawn as in the authors' code (Kaiming normal).

    Args:
        rnn: UnICORNN or one of ``unicornn.baselines``, time first.
        outputs: how many numbers are read off.
        every_step: read them off at every step instead of each sequence's last.
        patch: so many inputs make one step of the layers, which then have input_size = patch·d: nothing of the input is
            lost, and the sequence is shorter.
        readout: what the readout sees, of "last", "mean", "energy" and "state"; several as a tuple or as "last+energy".
            "last": each sequence's last output, the paper's way. "mean": the mean of all its outputs, for what is told
            by the whole of a sequence, rather than to be remembered from a part of it. "energy": the logarithm of every
            neuron's energy, of all layers, for signals whose start means nothing; averaged or side by side over
            ``segments``. "state": y and z of every neuron, of all layers, as they are left at the end of each sequence,
            standardised (of a baseline, all tensors of its state). It is the better choice where what is to be
            remembered may be in any layer, and in the velocities as well as the positions: the phase at which the last
            output happens to be does not matter then, since a linear map of y and z can undo any rotation.
        segments: energies are taken at the end of so many equal pieces of each sequence, of its own length.
        segment_pool: "mean", that of the segments' energies, "moments", their mean and their deviation, or "concat",
            all of them, where their order matters.
        segment_start: "carried", each segment starts where the one before it has ended, or "rest", each starts from
            rest and is told by itself: the better choice for long recordings whose order does not matter.
        mirrored: energies are the means of those for u and for -u, for signals whose sign means nothing.
        readout_init: "kaiming", or "zero", from which few examples leave no chance number in the readout: with fewer
            examples than features, training does not change what was drawn in the directions that it does not see.
        feature_norm: "batch", energies and states are standardised over each batch of training, and later by what was
            seen so far; or "start", by the first batches of training, once: the better choice where the sequences of a
            batch are of similar length, and so have something in common that their own norm would take away.

    Shapes: input (N, b, d), lengths (b,) or None; output (b, outputs), or (N, b, outputs).

    ``bptt`` truncates back-propagation through time: the gradient goes back through so many steps at the end of each
    sequence, and not through the state in which they find the layers. 0 for all steps.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Network
        >>> Network(UnICORNN(3, 16), 2, every_step=True)(torch.randn(100, 4, 3)).shape
        torch.Size([100, 4, 2])
    """

    def __init__(
        self,
        rnn: nn.Module,
        outputs: int,
        *,
        every_step: bool = False,
        patch: int = 1,
        readout: str | Sequence[str] = "last",
        segments: int = 1,
        segment_pool: str = "mean",
        segment_start: str = "carried",
        mirrored: bool = False,
        readout_init: str = "kaiming",
        feature_norm: str = "batch",
    ) -> None:
        super().__init__()
        if not (isinstance(rnn, nn.Module) and hasattr(rnn, "num_layers")):
            raise BadType(f"rnn: expected UnICORNN or one of unicornn.baselines, got {type(rnn).__name__}")
        self.rnn = rnn
        self.every_step = checks.flag("every_step", every_step)
        self.patch = checks.integer("patch", patch, 1)
        self.features = Features(rnn, readout, segments, segment_pool, segment_start, mirrored, feature_norm)
        if every_step and self.patch > 1:
            raise BadValue(f"patch: expected 1 with an output at every step, got {self.patch}")
        if every_step and self.features.readouts != ("last",):
            raise BadValue(f"readout: expected 'last' with an output at every step, got {readout!r}")
        self.readout = nn.Linear(self.features.size, checks.integer("outputs", outputs, 1))
        if checks.choice("readout_init", readout_init, ("kaiming", "zero")) == "kaiming":
            nn.init.kaiming_normal_(self.readout.weight)
        else:
            nn.init.zeros_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def forward(self, u: Tensor, lengths: Tensor | None = None, bptt: int = 0) -> Tensor:
        checks.integer("bptt", bptt, 0)
        if not isinstance(u, Tensor) or u.dim() != 3:
            raise BadValue(f"u: expected a tensor of shape (N, b, d), got {checks.describe(u)}")
        if self.patch > 1:
            u, lengths = patched(u, lengths, self.patch)
        truncated = 0 < bptt < u.shape[0]
        if self.every_step:
            if truncated:
                raise BadValue(f"bptt: expected 0 with an output at every step, got {bptt}")
            return self.readout(self.rnn(u, lengths=lengths)[0])
        if truncated:
            return self.readout(self.features(self.rnn, *self._tail(u, lengths, bptt)))
        return self.readout(self.features(self.rnn, u, lengths))

    def _tail(self, u: Tensor, lengths: Tensor | None, bptt: int) -> tuple[Tensor, None, Any, tuple[Tensor, Tensor]]:
        """The last steps of each sequence, (bptt, b, d); and without a gradient the state before them, and of the steps
        that led there, the sum of the outputs and the number."""
        if self.features.segments > 1 or self.features.mirrored:
            why = "mirrored sequences" if self.features.mirrored else f"{self.features.segments} segments"
            raise BadValue(f"bptt: expected 0 with {why}, got {bptt}")
        if lengths is not None and int(lengths.min()) <= bptt:
            raise BadValue(f"bptt: expected fewer steps than the shortest sequence's {int(lengths.min())}, got {bptt}")
        ends = torch.full((u.shape[1],), len(u)) if lengths is None else lengths.cpu()
        before = ends - bptt
        mean = "mean" in self.features.readouts
        with torch.no_grad():
            output, state = self.rnn(
                u[: int(before.max())], lengths=None if lengths is None else before, output="all" if mean else "last"
            )
        steps = (before + torch.arange(bptt)[:, None]).to(u.device)
        total = output.sum(0) if mean else output  # zero in the padding
        return u[steps, torch.arange(u.shape[1], device=u.device)], None, state, (total, before.to(u.device)[:, None])


def patched(u: Tensor, lengths: Tensor | None, k: int) -> tuple[Tensor, Tensor | None]:
    """Every k inputs as one: (N, b, d) to (N / k rounded up, b, k·d), the last one filled up with zeros.

    Example:
        >>> import torch
        >>> from unicornn.models import patched
        >>> u, lengths = patched(torch.zeros(10, 2, 3), torch.tensor([10, 7]), 4)
        >>> u.shape, lengths
        (torch.Size([3, 2, 12]), tensor([3, 2]))
    """
    if not isinstance(u, Tensor) or u.dim() != 3 or u.layout != torch.strided or 0 in u.shape[:2]:
        raise BadValue(f"u: expected a tensor of shape (N, b, d), N, b >= 1, got {checks.describe(u)}")
    if lengths is not None:
        lengths = checks.tensor("lengths", checks.indices("lengths", lengths, u.device), (u.shape[1],), "(b,)")
    checks.integer("k", k, 1)
    u = nn.functional.pad(u, (0, 0, 0, 0, 0, -u.shape[0] % k))
    if lengths is not None:  # the padding that shares a step with the end of a sequence is zero too
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
    """One number, (b,), or several, (b, outputs).

    ``standardise`` takes the mean and the deviation of the targets, so that the network need not learn them.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import Regressor
        >>> Regressor(UnICORNN(3, 16, 2), 1)(torch.randn(100, 4, 3)).shape
        torch.Size([4])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, rnn: nn.Module, outputs: int, **reading: Any) -> None:
        super().__init__(rnn, outputs, **reading)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("deviation", torch.ones(()))

    def standardise(self, targets: Tensor) -> None:
        """From now on a readout of 0 means the targets' mean, and one of 1 a deviation more."""
        dense = isinstance(targets, Tensor) and targets.layout == torch.strided and not targets.is_meta
        if not (dense and targets.is_floating_point() and targets.numel()):
            raise BadValue(f"targets: expected a tensor of floating-point numbers, got {checks.describe(targets)}")
        deviation = targets.std(correction=min(1, targets.numel() - 1))
        if not (targets.isfinite().all() and deviation.isfinite()):
            raise BadValue("targets: expected finite numbers with a finite variance, got others")
        self.mean.fill_(targets.mean())
        self.deviation.fill_(deviation if deviation > 0 else 1.0)

    def forward(self, u: Tensor, lengths: Tensor | None = None, bptt: int = 0) -> Tensor:
        return self.mean + self.deviation * super().forward(u, lengths, bptt).squeeze(-1)


class SequenceToSequence(Network):
    """Numbers (N, b, outputs) at every step.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import SequenceToSequence
        >>> SequenceToSequence(UnICORNN(3, 16, 2), 2)(torch.randn(100, 4, 3)).shape
        torch.Size([100, 4, 2])
    """

    def __init__(self, rnn: nn.Module, outputs: int, **reading: Any) -> None:
        super().__init__(rnn, outputs, every_step=True, **reading)


class TextClassifier(Classifier):
    """A Classifier over words, (N, b) integers, embedded first; the vectors are trained too.

    Args:
        vectors: (words, d), the words' initial vectors; word 0 is the padding, whose vector stays.
        embedding_dropout: the share of the words, drawn anew for every batch, that are left out wherever they occur.
        reading: what else any Network takes: ``patch``, ``readout``, ``segments``, ...

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.models import TextClassifier
        >>> net = TextClassifier(UnICORNN(10, 16), 2, vectors=torch.randn(1000, 10), embedding_dropout=0.65)
        >>> net(torch.randint(1000, (50, 4)), lengths=torch.tensor([50, 20, 3, 7])).shape
        torch.Size([4, 2])
    """

    def __init__(
        self, rnn: nn.Module, outputs: int, *, vectors: Tensor, embedding_dropout: float = 0.0, **reading: Any
    ) -> None:
        super().__init__(rnn, outputs, **reading)
        if not isinstance(vectors, Tensor) or vectors.dim() != 2 or not vectors.is_floating_point() or not len(vectors):
            raise BadType(f"vectors: expected a tensor of shape (words, d), got {checks.describe(vectors)}")
        embedding_dropout = checks.fraction("embedding_dropout", embedding_dropout)
        self.embedding = nn.Embedding.from_pretrained(vectors.clone(), freeze=False, padding_idx=0)
        self.dropout = nn.Dropout(embedding_dropout)

    def forward(self, u: Tensor, lengths: Tensor | None = None, bptt: int = 0) -> Tensor:
        words = self.dropout(torch.ones(self.embedding.num_embeddings, 1, device=u.device))
        return super().forward(self.embedding(u) * words[u], lengths, bptt)


def free_parameters(rnn: nn.Module) -> int:
    """Trained numbers of recurrent layers; where a constraint ties some (orthogonal matrices), only the free ones."""
    own = getattr(rnn, "free_parameters", None)
    return int(own() if own else sum(p.numel() for p in rnn.parameters() if p.requires_grad))


def count(network: Network) -> int:
    """The number of trained parameters as the paper's tables have it: without word vectors, and where a constraint ties
    some (orthogonal matrices), only the free ones.

    Example:
        >>> from unicornn.baselines import MODELS
        >>> from unicornn.models import Regressor, count
        >>> count(Regressor(MODELS["gru"](2, 8), 1))
        297
    """
    if not isinstance(network, Network):
        raise BadType(f"network: expected a Network, got {type(network).__name__}")
    return free_parameters(network.rnn) + sum(p.numel() for p in network.readout.parameters())


__all__ = ["Classifier", "Network", "Regressor", "SequenceToSequence", "TextClassifier", "count"]
