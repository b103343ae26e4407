"""minGRU: a GRU whose gate and candidate do not depend on the state."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from unicornn.baselines._base import Baseline, Common, Layer, States
from unicornn.baselines._ops import rowwise
from unicornn.baselines._ops.planes import to_planes


class MinGRULayer(Layer):
    """W (2, m, width) and b (2, m) of the candidate and of z."""

    def __init__(self, width: int, m: int, **factory: Any) -> None:
        super().__init__()
        self.W, self.b = (nn.Parameter(torch.empty(shape, **factory)) for shape in ((2, m, width), (2, m)))

    def reset_parameters(self) -> None:
        bound = self.W.shape[2] ** -0.5
        nn.init.uniform_(self.W, -bound, bound)
        nn.init.uniform_(self.b, -bound, bound)

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        # 1 - σ̂(k) = σ̂(-k): SRU's forget gate without recurrent weights.
        sign = self.W.new_tensor([1.0, -1.0])[:, None]
        zero = torch.zeros_like(self.b)
        drives, biases = to_planes(x, self.W * sign[:, None]), torch.cat([self.b * sign, zero[:1]])
        h, final = rowwise.gated(drives, None, zero, biases, state[0], 1.0, lengths)
        return h, (final,)


class MinGRU(Baseline):
    """minGRU (Feng et al., "Were RNNs all we needed?", arXiv:2410.01201).

    With σ̂ the sigmoid and ⊙ the element-wise product:

        z_n = σ̂(W_z x_n + b_z)
        h_n = (1 - z_n) ⊙ h_{n-1} + z_n ⊙ (W_h x_n + b_h)

    This is the paper's first form, without the scan in log-space and the positive candidate that it requires.
    Initialisation: torch's for linear maps, U(-1/√d, 1/√d).

    Args: as for ``Baseline``.

    Shapes: input (N, b, d), output (N, b, m) = h, state (h,), h (L, b, m).

    Example:
        >>> import torch
        >>> from unicornn.baselines import MinGRU
        >>> output, (h,) = MinGRU(3, 16, num_layers=2)(torch.randn(50, 4, 3))
        >>> output.shape, h.shape
        (torch.Size([50, 4, 16]), torch.Size([2, 4, 16]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **common: Unpack[Common]) -> None:
        super().__init__(input_size, hidden_size, num_layers, MinGRULayer, **common)
