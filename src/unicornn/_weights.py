"""The parameters of a stack of layers, and the checks of their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue


class Weights(NamedTuple):
    """The parameters of L layers, each a sequence with one tensor per layer. ``UnICORNN.weights`` returns those of a
    layer.

    Args:
        w, b, c: One vector (m,) per layer.
        V: One matrix per layer, (m, d) for the first and (m, m) for the others.
        Lambda: None, or a sequence with None for the first S >= 2 layers and a matrix for the others, (m, d) for the
            first of them and (m, m) for the rest (Suppl. Eq. (75)).

    Example:
        >>> import torch
        >>> from unicornn.functional import Weights
        >>> weights = Weights([torch.rand(4)], [torch.randn(4, 2)], [torch.zeros(4)], [torch.zeros(4)])
        >>> weights.L, weights.m, weights.d
        (1, 4, 2)
    """

    w: Sequence[Tensor]
    V: Sequence[Tensor]
    b: Sequence[Tensor]
    c: Sequence[Tensor]
    Lambda: Sequence[Tensor | None] | None = None

    @property
    def L(self) -> int:
        """Number of layers."""
        return len(self.w)

    @property
    def m(self) -> int:
        """Number of neurons per layer."""
        return len(self.w[0])

    @property
    def d(self) -> int:
        """Number of input features."""
        return self.V[0].shape[1]

    @property
    def S(self) -> int:
        """Number of layers that residual connections skip: the index of the first layer with a Λ, or L."""
        if self.Lambda is None:
            return len(self.w)
        return next((l for l, matrix in enumerate(self.Lambda) if matrix is not None), len(self.w))

    def map(self, f: Any) -> Weights:
        """``f`` applied to every tensor."""
        w, V, b, c = ([f(t) for t in letter] for letter in self[:4])
        return Weights(w, V, b, c, None if self.Lambda is None else [None if t is None else f(t) for t in self.Lambda])

    def converted(self, full: torch.dtype, low: torch.dtype) -> tuple[Tensor, list[Tensor], Tensor, list[Tensor]]:
        """w (L, m), V, b (L, m) and the matrices of Lambda, as the ops take them: matrices in ``low`` precision."""
        w, b = torch.stack(list(self.w)).to(full), torch.stack(list(self.b)).to(full)
        return w, [V.to(low) for V in self.V], b, [matrix.to(low) for matrix in self.Lambda or () if matrix is not None]


def check_weights(weights: Any) -> None:
    """Raises an error that names the first tensor with a wrong shape, dtype or device."""
    if not isinstance(weights, Weights):
        raise BadType(f"weights: expected functional.Weights, got {type(weights).__name__}")
    letters = dict(zip(("w", "V", "b", "c"), weights[:4], strict=True))
    for name, letter in letters.items():
        if not isinstance(letter, (list, tuple, nn.ParameterList)):
            raise BadType(f"{name}: expected a sequence with one tensor per layer, got {type(letter).__name__}")
    if not len(weights.w) == len(weights.V) == len(weights.b) == len(weights.c) >= 1:
        got = ", ".join(str(len(letter)) for letter in letters.values())
        raise BadValue(f"w, V, b, c: expected one tensor per layer in each, got {got}")
    first, V = weights.w[0], weights.V[0]
    checks.array("w[0]", first, (1,), "(m,)")
    checks.array("V[0]", V, (2,), "(m, d)")
    if not first.is_floating_point():
        raise BadType(f"w: expected floating-point parameters, got {first.dtype}")
    (m,), d, L = first.shape, V.shape[1], len(weights.w)
    for l in range(L):
        checks.tensor(f"V[{l}]", weights.V[l], (m, m if l else d), "(m, m)" if l else "(m, d)", first)
        for name in "wbc":
            checks.tensor(f"{name}[{l}]", letters[name][l], (m,), "(m,)", first)
    if weights.Lambda is None:
        return
    if not isinstance(weights.Lambda, (list, tuple, nn.ParameterList)) or len(weights.Lambda) != L:
        got = str(len(weights.Lambda)) if hasattr(weights.Lambda, "__len__") else type(weights.Lambda).__name__
        raise BadValue(f"Lambda: expected one matrix or None per layer ({L}), got {got}")
    S = weights.S
    if (S < 2 and L > S) or any(matrix is None for matrix in weights.Lambda[S:]):
        raise BadValue("Lambda: expected None for the first S >= 2 layers and matrices for all others")
    for l, matrix in enumerate(weights.Lambda[S:], start=S):
        checks.tensor(f"Lambda[{l}]", matrix, (m, d if l == S else m), "(m, width of the skipped layer)", first)


def time_steps(c: Sequence[Tensor], dt: float | Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
    """Effective time steps a = Δt·σ̂(c) (L, m), of every neuron of every layer. σ̂ of the paper is the logistic
    function.

    Example:
        >>> import torch
        >>> time_steps([torch.zeros(2)], dt=0.1)
        tensor([[0.0500, 0.0500]])
    """
    if not isinstance(c, (list, tuple, nn.ParameterList)) or not len(c) or not all(isinstance(t, Tensor) for t in c):
        raise BadType(f"c: expected a sequence with one tensor per layer, got {checks.describe(c)}")
    checks.dense("c[0]", c[0])
    checks.floating_dtype("dtype", dtype)
    for l, t in enumerate(c):
        checks.tensor(f"c[{l}]", t, c[0].shape[:1], "(m,)", c[0])
    steps = checks.time_steps(dt, len(c))
    share = torch.sigmoid(torch.stack(list(c)).to(dtype or c[0].dtype))
    if len(set(steps)) == 1:
        return share * steps[0]
    return share * torch.tensor(steps, dtype=share.dtype, device=share.device)[:, None]
