"""Explains the scores of fitted estimators: exactly for the bank, by integrated gradients for the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from unicornn.estimators import _network as networks
from unicornn.estimators._attribution import Attribution, attribute_bank
from unicornn.estimators._explanation import Explanation
from unicornn.estimators._series import SeriesSet
from unicornn.models import Network

NODES = 64  # of Gauss-Legendre quadrature between a constant series and the given one


def explain(estimator: Any, read: SeriesSet) -> Explanation:
    """The contributions to an estimator's scores of series that it has read and scaled."""
    series, found, features = read.series, {}, None
    if "bank" in estimator.models_:
        features = estimator._bank._features(series)
        found["bank"] = list(attribute_bank(estimator._bank, estimator._ridge, series, features))
    if "network" in estimator.models_:
        found["network"] = list(_attribute_network(estimator._network, [estimator._scaling(x) for x in series]))
    outputs = estimator._predictions(series, features)
    base = {name: np.stack([each.base for each in every]) for name, every in found.items()}
    slopes = estimator._slopes(outputs, base)
    d = series[0].shape[1] // (3 if estimator.missing == "mask" else 1)
    scores = estimator._combined(outputs)
    samples = np.zeros((len(series), max(map(len, series)), d, scores.shape[1]))
    windows: list[Any] = [[] for _ in series]
    others: dict[str, np.ndarray] = {}
    for name, every in found.items():
        for i, (own, matrix) in enumerate(zip(every, slopes[name], strict=True)):
            mapped = own.mapped(matrix)
            parts = mapped.samples.reshape(len(series[i]), -1, d, scores.shape[1])  # with the channels of a mask
            samples[i, : len(series[i])] += parts.sum(1)
            windows[i] += mapped.windows
            for group, each in mapped.others.items():
                others.setdefault(group, np.zeros(scores.shape))[i] = each
    classes = getattr(estimator, "classes_", None)
    names = estimator.channel_names_ or [f"channel {i}" for i in range(d)]
    return Explanation(
        [x[:, :d] for x in series], classes is not None, np.arange(scores.shape[1]) if classes is None else classes,
        names, scores, estimator._combined(base), samples, windows, others,
    )  # fmt: skip


def _attribute_network(network: Network, series: list[np.ndarray]) -> Iterator[Attribution]:
    """Integrated gradients of the network's outputs, from the mean of the training set to each series.

    Memory does not grow with the length beyond the input and its gradient, as the layers run backwards.
    """
    network.eval()
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    path = torch.tensor((nodes + 1) / 2, dtype=torch.float32)[:, None]
    for x in series:
        one, _ = networks.padded(network, [x])  # (N', 1, d); short series are stretched
        u = (one * path.to(one.device)).requires_grad_()
        scores = network(u)
        columns = range(scores.shape[1])
        gradients = [torch.autograd.grad(scores[:, j].sum(), u, retain_graph=True)[0] for j in columns]
        means = [np.einsum("nbd,b->nd", gradient.cpu().double().numpy(), weights / 2) for gradient in gradients]
        samples = one[:, 0, :, None].cpu().double().numpy() * np.stack(means, -1)
        samples = samples.reshape(len(x), -1, *samples.shape[1:]).sum(1)
        base = networks.outputs(network, [np.zeros_like(x)], 1)[0].astype(np.float64)
        yield Attribution(base, samples, [], {"network": samples.sum((0, 1))})
