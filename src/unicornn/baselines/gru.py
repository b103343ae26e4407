"""GRU: torch.nn.GRU with the interface of the baselines."""

from __future__ import annotations

from torch import nn

from unicornn.baselines._base import Baseline
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
    """

    layer = GRULayer
