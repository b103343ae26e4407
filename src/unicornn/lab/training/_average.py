"""The average of a network's weights along its training, which generalises like a network trained at a lower rate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn


class Average:
    """An exponential average over steps, of all that ``state_dict`` has: the weights, and the features' mean and
    deviation, which belong to them.

    Args:
        network: whose.
        decay: the share of the average that a step keeps; less in the first steps, whose weights are soon outdated. 0
            for no average.

    Example:
        >>> import torch
        >>> from unicornn.lab.training._average import Average
        >>> line = torch.nn.Linear(1, 1, bias=False)
        >>> average = Average(line, 0.5)
        >>> torch.nn.init.constant_(line.weight, 2.0).requires_grad
        True
        >>> for step in range(100):
        ...     average.update(step)
        >>> round(average.values["weight"].item(), 3)
        2.0
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.values: dict[str, Tensor] = self._copy() if decay else {}
        self._aside: dict[str, Tensor] = {}  # the network's own weights, while it has the averaged ones

    def _copy(self) -> dict[str, Tensor]:
        return {name: t.detach().clone() for name, t in self.network.state_dict().items()}

    @property
    def own(self) -> dict[str, Tensor]:
        """The network's own weights, with which training goes on, also where the averaged ones are shown."""
        return self._aside or self.network.state_dict()

    def update(self, step: int) -> None:
        """After a step, whose number is counted from 0."""
        if not self.decay:
            return
        keep = min(self.decay, (1 + step) / (10 + step))
        for name, t in self.network.state_dict().items():
            if t.is_floating_point():
                self.values[name].lerp_(t, 1 - keep)
            else:
                self.values[name].copy_(t)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """The network has the averaged weights, if there are any, to the end of the block."""
        if not self.decay:
            yield
            return
        self._aside = self._copy()
        self.network.load_state_dict(self.values)
        try:
            yield
        finally:
            self.network.load_state_dict(self._aside)
            self._aside = {}
