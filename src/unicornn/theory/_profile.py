"""How much each past step still matters to the loss: the vanishing or exploding gradient problem as one curve."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._state import State
from unicornn._torch_internals import pytree
from unicornn.errors import BadType, BadValue


def tensors_of(state: Any) -> list[Tensor]:
    """The tensors that a recurrent state consists of: h, (h, c), (y, z)."""
    return pytree.tree_leaves(tuple(state) if isinstance(state, State) else state)


def check_sequence(input: Any) -> None:
    if not isinstance(input, Tensor) or input.dim() != 3 or 0 in input.shape or input.layout != torch.strided:
        got = tuple(input.shape) if isinstance(input, Tensor) else type(input).__name__
        raise BadValue(f"input: expected a tensor of shape (N, b, d), got {got}")


def check_module(module: Any) -> None:
    if not isinstance(module, nn.Module) or len(inspect.signature(module.forward).parameters) < 2:
        raise BadType(f"module: expected one that takes (input, state), got {type(module).__name__}")


def ran(module: nn.Module, *arguments: Any) -> tuple[Tensor, Any]:
    """What the module makes of input and state."""
    result = module(*arguments)
    if not isinstance(result, tuple) or len(result) != 2:
        raise BadType(f"module: expected one that gives (output, state), but {type(module).__name__} does not")
    return result


def _half_square(output: Tensor) -> Tensor:
    return output.square().sum() / 2


def gradient_profile(
    module: nn.Module,
    input: Tensor,
    loss: Callable[[Tensor], Tensor] | None = None,
    chunk: int = 1000,
) -> Tensor:
    """‖∂E_n/∂u_k‖ for k = 1, …, n: how much each step of the input still matters to the loss at the last step n, (n,).

    For any module that takes (input, state) and gives (output, state), as nn.LSTM, nn.GRU, nn.RNN and UnICORNN do. Time
    is cut into chunks, of which only one is differentiated at a time, so memory does not grow with n, whatever module.

    Args:
        module: in its own dtype; dropout is left out.
        input: (N, b, d), (b, N, d) if the module is ``batch_first``; the norm is over b and d.
        loss: of the module's output at the last step, (b, m), a number; ½‖output‖² if None.
        chunk: steps that are differentiated at once.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> u = torch.randn(500, 1, 2)
        >>> ours, lstm = (theory.gradient_profile(net, u) for net in (UnICORNN(2, 8), torch.nn.LSTM(2, 8)))
        >>> bool(lstm[0] < 1e-6 * lstm[-1]), bool(ours[0] > 1e-3 * ours[-1])
        (True, True)
    """
    check_module(module)
    checks.integer("chunk", chunk, 1)
    check_sequence(input)
    first = bool(getattr(module, "batch_first", False))
    u = input.detach().transpose(0, 1) if first else input.detach()
    training = module.training
    module.eval()
    try:
        with torch.backends.cudnn.flags(enabled=False):  # cuDNN has no gradient in evaluation
            return _profile(module, u, loss or _half_square, chunk, first)
    finally:
        module.train(training)


def _profile(module: nn.Module, u: Tensor, loss: Callable[[Tensor], Tensor], chunk: int, first: bool) -> Tensor:
    def run(piece: Tensor, state: Any) -> tuple[Tensor, Any]:
        output, state = ran(module, piece.transpose(0, 1) if first else piece, state)
        return (output.transpose(0, 1) if first else output)[-1], state

    cuts = list(range(0, len(u), chunk))
    states: list[Any] = [None]
    with torch.no_grad():
        for n in cuts[:-1]:
            states.append(run(u[n : n + chunk], states[-1])[1])
    result = torch.empty(len(u), dtype=torch.float64)
    down: list[Tensor] = []
    for n, state in reversed(list(zip(cuts, states, strict=True))):
        piece = u[n : n + chunk].clone().requires_grad_()
        leaves = [t.detach().clone().requires_grad_() for t in ([] if state is None else tensors_of(state))]
        given = leaves[0] if isinstance(state, Tensor) else (tuple(leaves) or None)
        last, after = run(piece, given)
        if n == cuts[-1]:
            gradients = torch.autograd.grad(loss(last), [piece, *leaves])
        else:
            gradients = torch.autograd.grad(tensors_of(after), [piece, *leaves], down)
        result[n : n + chunk] = gradients[0].double().flatten(1).norm(dim=1).cpu()
        down = list(gradients[1:])
    return result
