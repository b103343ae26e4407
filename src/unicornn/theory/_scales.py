"""Norms of the hidden weights during training: Fig. 7. (The multi-scale time steps are ``layer.time_steps()``.)"""

from __future__ import annotations

import torch
from torch import Tensor

from unicornn._layer import UnICORNN
from unicornn.errors import BadType


class WeightNorms:
    """Notes ‖wˡ‖_∞ of every layer each time it is called: the bounds of Eq. (12) need them bounded.

    Attributes:
        at: the steps or epochs at which it was called, counted from 0 unless given.
        norms: (calls, L).

    Example:
        >>> from unicornn import UnICORNN, theory
        >>> layer = UnICORNN(2, 8, 3)
        >>> norms = theory.WeightNorms(layer)
        >>> for epoch in range(5):  # train an epoch, then
        ...     norms()
        >>> norms.norms.shape
        torch.Size([5, 3])
    """

    def __init__(self, layer: UnICORNN) -> None:
        if not isinstance(layer, UnICORNN):
            raise BadType(f"layer: expected a UnICORNN, got {type(layer).__name__}")
        self.layer = layer
        self.at: list[int] = []
        self._norms: list[Tensor] = []

    def __call__(self, at: int | None = None) -> None:
        self.at.append(len(self.at) if at is None else at)
        self._norms.append(torch.stack([w.detach().abs().max().cpu() for w in self.layer.w]))

    @property
    def norms(self) -> Tensor:
        return torch.stack(self._norms) if self._norms else torch.empty(0, len(self.layer.w))
