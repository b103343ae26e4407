"""GRU: torch.nn.GRU with the interface of the baselines."""

from __future__ import annotations

from typing import Unpack

from torch import nn

from unicornn.baselines._base import Baseline, Common
from unicornn.baselines.lstm import TorchLayer


class GRULayer(TorchLayer):
    kind = nn.GRU


class GRU(Baseline):
    """Gated recurrent unit (Cho et al., EMNLP 2014).

    With σ̂ the sigmoid and ⊙ the element-wise product:

        r, z = σ̂(W x_n + b + U h_{n-1} + b'), each with its own W, U, b, b'
        g = tanh(W_g x_n + b_g + r ⊙ (U_g h_{n-1} + b'_g))
        h_n = (1 - z) ⊙ g + z ⊙ h_{n-1}

    It is ``torch.nn.GRU``, one per layer, with torch's initialisation: all parameters U(-1/√m, 1/√m). As in cuDNN,
    the reset gate r comes after the product with U_g; in the paper it comes before.

    Args: as for ``Baseline``.

    Shapes: input (N, b, d), output (N, b, m), state (h,), h (L, b, m).

    Example:
        >>> import torch
        >>> from unicornn.baselines import GRU
        >>> output, (h,) = GRU(3, 16, num_layers=2)(torch.randn(50, 4, 3))
        >>> output.shape, h.shape
        (torch.Size([50, 4, 16]), torch.Size([2, 4, 16]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **common: Unpack[Common]) -> None:
        super().__init__(input_size, hidden_size, num_layers, GRULayer, **common)
