"""IndRNN: independently recurrent neurons, plain, residual and dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.baselines._base import Baseline, Common, Layer
from unicornn.baselines._normalise import SequenceNorm
from unicornn.baselines._ops.elementwise import autograd as elementwise

CONNECTIONS = ("plain", "residual", "dense")


class IndRNNLayer(Layer):
    """W (m, width), u and b (m,), and the normalisation if there is one."""

    def __init__(
        self,
        width: int,
        m: int,
        *,
        connection: str,
        batch_norm: bool,
        length: int | None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.bound = 1.0 if length is None else 2 ** (1 / length)
        self.shared = connection == "residual"  # the drive has another reader
        self.W, self.u, self.b = (
            nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) for shape in ((m, width), (m,), (m,))
        )
        self.norm = SequenceNorm(m, device=device, dtype=dtype) if batch_norm else None

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.W, a=8.0, mode="fan_in")
        nn.init.uniform_(self.u, 0.0, self.bound)
        nn.init.zeros_(self.b)
        if self.norm is not None:
            self.norm.reset_parameters()

    def drive(self, x: Tensor) -> Tensor:
        """What x adds to the neurons; with a residual connection, which takes it along, the bias is part of it."""
        return nn.functional.linear(x, self.W, self.b if self.shared else None)

    def recur(self, drive: Tensor, h: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            if bool((self.u.abs() > self.bound).any()):  # after a step of the optimiser
                self.u.clamp_(-self.bound, self.bound)
        drive, b = (drive.clone(), torch.zeros_like(self.b)) if self.shared else (drive, self.b)
        outputs, final = elementwise.indrnn(drive, self.u, b, h, lengths)
        return (outputs if self.norm is None else self.norm(outputs, lengths)), final

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        outputs, final = self.recur(self.drive(x), state[0], lengths)
        return outputs, (final,)


class IndRNN(Baseline):
    """Independently recurrent neural network (Li et al., CVPR 2018; Deep IndRNN, arXiv:1910.06251).

        h_n = relu(W x_n + u ⊙ h_{n-1} + b),  |u| <= 2^(1/N)

    A neuron sees the others of its layer only through the layer above. ``connection`` says what that reads:

    - "plain": the layer below.
    - "residual": the same; and the drives W x + b of layers 1, 3, … are added to those of layers 3, 5, …: blocks of two
      layers, the recurrence before the weights.
    - "dense": all layers below, one after the other; the output, too, is that of all layers, (N, b, L·m).

    Initialisation: u ~ U(0, 2^(1/N)), and U(2^(-1/N), 2^(1/N)) in the last layer, which has to remember; W
    Kaiming-uniform (fan-in, a=8), b = 0. After each step of the optimiser u is clipped to its bound, at the next use.

    Args:
        connection: "plain", "residual" or "dense".
        batch_norm: whether h is normalised on its way up, over all steps of all sequences, as in the published
            networks.
        length: N, for which u is bounded; None for any, which bounds u by 1 and draws it from U(0, 1).
        The others are as for ``Baseline``.

    Attributes:
        output_size: features of the output, m, or L·m if dense.

    Shapes: input (N, b, d), output (N, b, m) or (N, b, L·m), state (h,), h (L, b, m), before normalisation.

    Example:
        >>> import torch
        >>> from unicornn.baselines import IndRNN
        >>> output, (h,) = IndRNN(3, 16, num_layers=6, connection="dense", length=50)(torch.randn(50, 4, 3))
        >>> output.shape, h.shape
        (torch.Size([50, 4, 96]), torch.Size([6, 4, 16]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        connection: str = "plain",
        batch_norm: bool = True,
        length: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        own = {
            "connection": checks.choice("connection", connection, CONNECTIONS),
            "batch_norm": checks.flag("batch_norm", batch_norm),
            "length": None if length is None else checks.integer("length", length, 1),
        }
        super().__init__(input_size, hidden_size, num_layers, IndRNNLayer, own, **common)
        self.output_size = hidden_size * (num_layers if connection == "dense" else 1)

    def _widths(self) -> list[int]:
        dense = self.own["connection"] == "dense"
        return [self.input_size] + [self.hidden_size * (l if dense else 1) for l in range(1, self.num_layers)]

    def reset_parameters(self) -> None:
        super().reset_parameters()
        last = self.layers[-1]
        if isinstance(last, IndRNNLayer) and self.own["length"] is not None:
            nn.init.uniform_(last.u, 1 / last.bound, last.bound)

    def _stack(
        self, x: Tensor, start: tuple[Tensor, ...], ends: Tensor | None, shown: Callable[[Tensor, int], Tensor]
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        connection = self.own["connection"]
        outputs: list[Tensor] = []
        drives: list[Tensor] = []
        finals: list[tuple[Tensor, ...]] = []
        for l, layer in enumerate(self.layers):
            drive = layer.drive(x)  # type: ignore[operator]
            if connection == "residual":
                drive = drive + drives[l - 2] if l >= 2 and l % 2 == 0 else drive
                drives.append(drive)
            h, final = layer.recur(drive, start[0][l], ends)  # type: ignore[operator]
            outputs.append(shown(h, l))
            finals.append((final,))
            x = torch.cat(outputs, -1) if connection == "dense" else outputs[-1]
        return x, finals
