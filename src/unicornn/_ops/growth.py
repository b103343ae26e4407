"""A word about gradients that outgrow their numbers on the way back through time: oscillators that are driven for very
long have a positive Lyapunov exponent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from unicornn._state import GONE

_told = False


def watch(gradients: Sequence[Tensor], incoming: Sequence[Tensor | None], grid: Tensor, N: int) -> None:
    """Warns, once in a process, if a gradient is not finite or too large to be squared.

    gradients: of states and parameters. incoming: what they were made of, the gradients of output and final state.
    grid: the final state; where that is no number, the gradient cannot be one, and the forward pass has said so.
    """
    global _told
    if _told:
        return
    largest = torch.finfo(gradients[0].dtype).max
    size = float(get_total_norm(gradients, math.inf))
    if size <= math.sqrt(largest):
        return
    first = max((float(g.abs().max()) for g in incoming if g is not None and g.numel()), default=0.0)
    if not 0 < first < math.inf or bool((grid == GONE).any()):
        return
    _told = True
    finite = math.isfinite(size)
    exponent = math.log((size if finite else largest) / first) / N
    warnings.warn(
        f"the gradient {f'grew to {size:.1e}' if finite else 'overflowed'} on its way back through N={N} steps: by "
        f"{'about' if finite else 'at least'} e^({exponent:.1e}) per step. From {math.sqrt(largest):.1e} on, squares "
        "overflow, Adam's second moment among them. A smaller dt, a larger alpha or a (smaller) horizon keeps it small",
        RuntimeWarning,
        stacklevel=2,
    )
