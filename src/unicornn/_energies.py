"""Logarithms of the energies of recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._layer import UnICORNN
from unicornn._ops.reference import ENERGY_FLOOR, energy
from unicornn.errors import BadType

SCALE_UP = 2.0**20
"""Factor applied before ENERGY_FLOOR is added, and removed afterwards: onnxscript folds 1e-8 to 0."""


def check_recurrent(rnn: Any) -> None:
    if not (isinstance(rnn, nn.Module) and hasattr(rnn, "state_widths")):
        raise BadType(f"rnn: expected UnICORNN or one of unicornn.baselines, got {type(rnn).__name__}")


def log_energies(rnn: nn.Module, state: Sequence[Tensor], floor: float = ENERGY_FLOOR) -> Tensor:
    """Logarithm of each neuron's energy, all layers side by side: (b, L·m) from a state of (L, b, m) tensors.

    Computed as ½ log(E² + ε²), which differs from log E only near and below the floor ε. Baselines have no energy; for
    them E is the sum of squares of the state tensors with one number per neuron (h² + c² for an LSTM).

    Args:
        rnn: Recurrent layers: UnICORNN or one of ``unicornn.baselines``.
        state: State returned by them for a batch.
        floor: Energy ε > 0 below which the result is nearly constant.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> from unicornn.readouts import log_energies
        >>> layer = UnICORNN(3, 16, 2)
        >>> log_energies(layer, layer(torch.randn(100, 4, 3))[1]).shape
        torch.Size([4, 32])
    """
    check_recurrent(rnn)
    if not isinstance(state, (tuple, list)) or not state or not all(checks.is_dense(t) and t.dim() == 3 for t in state):
        raise BadType(f"state: expected a tuple of tensors (L, b, m), got {checks.describe(state)}")
    rnn._with_batch(state, state[0].shape[1])  # type: ignore[operator]
    if isinstance(rnn, UnICORNN):
        E = energy(state[0], state[1], torch.stack(list(rnn.w))[:, None], rnn.alpha)
    else:
        E = torch.stack([h**2 for h in state if h.shape[-1] == rnn.hidden_size]).sum(0)
    scaled = torch.log((SCALE_UP * E) ** 2 + (SCALE_UP * floor) ** 2)
    return scaled.div(2).sub(math.log(SCALE_UP)).transpose(0, 1).flatten(1)
