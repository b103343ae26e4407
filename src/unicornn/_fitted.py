"""The network of a fitted estimator, with what stands before and after it, for use without the estimator."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import BadValue
from unicornn.models import Network


def is_estimator(model: Any) -> bool:
    """Whether it is one of ``unicornn.estimators``, fitted or not, without importing them."""
    return hasattr(model, "fit") and hasattr(model, "save_pretrained")


def network_of(estimator: Any, what: str, gaps: bool = False) -> Network:
    """A copy of an estimator's network, whose outputs are logits, or a regressor's numbers in their own units.

    Args:
        estimator: fitted with model="network".
        what: is not possible with another one, for the error.
        gaps: whether it is possible with missing="mask", where the network sees more channels than the series have.
    """
    if not hasattr(estimator, "models_"):
        raise BadValue(f"model: expected a fitted estimator, got a {type(estimator).__name__} that is not fitted")
    if tuple(estimator.models_) != ("network",):
        raise BadValue(
            f"model: expected an estimator fitted with model='network' (unicornn fit --model network), got one with "
            f"{' and '.join(estimator.models_)}; {what} needs a single network. In Python it predicts as it is, also "
            "live: unicornn.streams.Stream(model, window=…)"
        )
    if estimator.missing != "error" and not gaps:
        raise BadValue(
            f"model: expected an estimator with missing='refuse', got {estimator.missing!r}; {what} has no form for "
            "gaps, which are filled before the network sees a series. Fill them yourself, and fit again"
        )
    network = copy.deepcopy(estimator._network).eval().cpu()
    if not hasattr(estimator, "classes_"):
        centre, spread = (torch.as_tensor(t, dtype=torch.float64) for t in (estimator._centre, estimator._spread))
        with torch.no_grad():
            network.readout.weight.copy_(spread[:, None] * network.readout.weight)
            network.readout.bias.copy_(centre + spread * network.readout.bias)
    return network


class FittedNetwork(Network):
    """What ``predict_proba`` or ``predict`` says of series (N, b, d) in their own units: (b, classes), (b,) or (b, k).

    ``about``: the names of classes and channels, where there are any.
    """

    centre: Tensor
    spread: Tensor
    about: dict[str, list[str]]
    finish: str

    @classmethod
    def of(cls, estimator: Any, what: str) -> FittedNetwork:
        network: Any = network_of(estimator, what)
        network.__class__ = cls
        network.register_buffer("centre", torch.as_tensor(estimator._scaling.mean, dtype=torch.float64))
        network.register_buffer("spread", torch.as_tensor(estimator._scaling.deviation, dtype=torch.float64))
        names = {"channels": estimator.channel_names_, "classes": getattr(estimator, "classes_", None)}
        network.about = {name: [str(each) for each in own] for name, own in names.items() if own is not None}
        network.finish = "softmax" if "classes" in network.about else "flat" if estimator._flat else "none"
        return network

    def forward(self, u: Tensor, lengths: Tensor | None = None, bptt: int = 0) -> Tensor:
        like = self.readout.weight.dtype
        output = super().forward(((u.double() - self.centre) / self.spread).to(like), lengths, bptt)
        if self.finish == "softmax":
            return output.softmax(-1)
        return output.squeeze(-1) if self.finish == "flat" else output
