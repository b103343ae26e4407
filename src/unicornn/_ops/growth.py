"""Warns when gradients overflow: oscillators that are driven for very long have a positive Lyapunov exponent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from unicornn._state import GONE

_warned = False


def warn_of_growth(gradients: Sequence[Tensor], incoming: Sequence[Tensor | None], grid: Tensor, N: int) -> None:
    """Warns, once per process, if a gradient is not finite or too large to be squared.

    gradients: of the states and parameters. incoming: gradients of the output and the final state. grid: the final
    state; where it is NaN the gradient must be too, and the forward pass has warned.
    """
    global _warned
    if _warned:
        return
    largest = torch.finfo(gradients[0].dtype).max
    size = float(get_total_norm(gradients, math.inf))
    if size <= math.sqrt(largest):
        return
    first = max((float(g.abs().max()) for g in incoming if g is not None and g.numel()), default=0.0)
    if not 0 < first < math.inf or bool((grid == GONE).any()):
        return
    _warned = True
    finite = math.isfinite(size)
    exponent = math.log((size if finite else largest) / first) / N
    warnings.warn(
        f"the gradient {f'grew to {size:.1e}' if finite else 'overflowed'} on its way back through N={N} steps: by "
        f"{'about' if finite else 'at least'} e^({exponent:.1e}) per step. From {math.sqrt(largest):.1e} on, squares "
        "overflow, Adam's second moment among them. A smaller dt, a larger alpha or a (smaller) horizon keeps it small",
        RuntimeWarning,
        stacklevel=2,
    )
