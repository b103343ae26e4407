"""The network of a fitted estimator with its preprocessing, for use without the estimator."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from unicornn.errors import BadValue
from unicornn.models import Network


def is_estimator(model: Any) -> bool:
    """Whether an object is one of ``unicornn.estimators``, fitted or not; does not import them."""
    return hasattr(model, "fit") and hasattr(model, "save_pretrained")


def check_fitted(estimator: Any) -> None:
    if not hasattr(estimator, "models_"):
        raise BadValue(f"model: expected a fitted estimator, got a {type(estimator).__name__} that is not fitted")


class FittedNetwork(Network):
    """``predict_proba`` or ``predict`` of an estimator as a network: series (N, b, d) in their original units to
    (b, classes), (b,) or (b, k), in float64.

    ``names``: the names of classes and channels, if there are any.
    """

    input_mean: Tensor
    input_deviation: Tensor
    mean: Tensor
    deviation: Tensor
    names: dict[str, list[str]]
    flat: bool
    doubt: float

    @classmethod
    def from_estimator(cls, estimator: Any, what: str, gaps: bool = False) -> FittedNetwork:
        """A copy of the network of an estimator fitted with model="network".

        Args:
            estimator: Fitted estimator.
            what: Purpose of the network, named in error messages.
            gaps: Whether missing="mask" is possible, with which the network has more channels than the series.
        """
        check_fitted(estimator)
        if tuple(estimator.models_) != ("network",):
            raise BadValue(
                f"model: expected an estimator fitted with model='network' (unicornn fit --model network), got one "
                f"with {' and '.join(estimator.models_)}; {what} needs a single network. For live predictions in "
                "Python use unicornn.streams.Stream(model, window=…)"
            )
        if estimator.missing != "error" and not gaps:
            raise BadValue(
                f"model: expected an estimator with missing='error', got {estimator.missing!r}; {what} cannot fill "
                "gaps. Fill them before fitting"
            )
        if estimator.scale_ == "series":
            raise BadValue(
                f"model: expected an estimator with scale='dataset', got one that scales every series by its own mean "
                f"and deviation; {what} would have to know the whole series in advance"
            )
        network: Any = copy.deepcopy(estimator._network).eval().cpu()
        network.__class__ = cls
        numbers = {"input_mean": estimator._scaling.mean, "input_deviation": estimator._scaling.deviation}
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            numbers |= {"mean": estimator._centre, "deviation": estimator._spread}
        for name, values in numbers.items():
            network.register_buffer(name, torch.as_tensor(values, dtype=torch.float64))
        names = {"channels": estimator.channel_names_, "classes": classes}
        network.names = {name: [str(each) for each in values] for name, values in names.items() if values is not None}
        network.flat = classes is None and estimator._flat
        network.doubt = 0.0 if classes is None else estimator._doubt
        return network

    def prepare(self, u: Tensor) -> Tensor:
        return ((u.double() - self.input_mean) / self.input_deviation).to(self.linear.weight.dtype)

    def finish(self, scores: Tensor) -> Tensor:
        if "classes" in self.names:
            return (1 - self.doubt) * scores.double().softmax(-1) + self.doubt / scores.shape[-1]
        numbers = self.mean + self.deviation * scores.double()
        return numbers.squeeze(-1) if self.flat else numbers
