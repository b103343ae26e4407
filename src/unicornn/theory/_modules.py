"""Gradient profiles and Lyapunov exponents of any recurrent module: one that maps (input, state) to (output, state)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._state import State
from unicornn._torch_internals import pytree
from unicornn.errors import BadType, BadValue


def _check(module: Any, input: Any) -> None:
    if not isinstance(module, nn.Module) or len(inspect.signature(module.forward).parameters) < 2:
        raise BadType(f"module: expected a module that takes (input, state), got {type(module).__name__}")
    checks.array("input", input, (3,), "(N, b, d)")


def _run(module: nn.Module, input: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """Output and final state of ``module``."""
    result = module(input, state)
    if not isinstance(result, tuple) or len(result) != 2:
        raise BadType(f"module: expected a module that returns (output, state), got {type(module).__name__}")
    return result


def _state_tensors(state: Any) -> list[Tensor]:
    """Tensors of a recurrent state: h, (h, c), (y, z)."""
    return pytree.tree_leaves(tuple(state) if isinstance(state, State) else state)


def _rebuilt(state: Any, tensors: list[Tensor]) -> Any:
    """A state of the same form as ``state``, made of other tensors."""
    return tensors[0] if isinstance(state, Tensor) else (tuple(tensors) or None)


def gradient_profile(
    module: nn.Module, input: Tensor, loss: Callable[[Tensor], Tensor] | None = None, chunk: int = 1000
) -> Tensor:
    """Size ‖∂E_n/∂u_k‖ of the gradient at each input step k = 1, …, n; the loss is that of the last step n: (n,).

    Works for any module that maps (input, state) to (output, state), such as nn.LSTM, nn.GRU, nn.RNN and UnICORNN. Only
    one chunk of time is differentiated at once, so memory does not grow with n.

    Args:
        module: Recurrent module, run in its own dtype without dropout.
        input: Input sequences, (N, b, d), or (b, N, d) if the module is ``batch_first``; the norm is over b and d.
        loss: Function from the output at the last step, (b, m), to a scalar; ½‖output‖² if None.
        chunk: Number of steps differentiated at once.

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN, theory
        >>> u = torch.randn(500, 1, 2)
        >>> ours, lstm = (theory.gradient_profile(net, u) for net in (UnICORNN(2, 8), torch.nn.LSTM(2, 8)))
        >>> bool(lstm[0] < 1e-6 * lstm[-1]), bool(ours[0] > 1e-3 * ours[-1])
        (True, True)
    """
    _check(module, input)
    checks.integer("chunk", chunk, 1)
    if loss is not None and not callable(loss):
        raise BadType(f"loss: expected a function from the last output (b, m) to a scalar, got {checks.describe(loss)}")
    first = bool(getattr(module, "batch_first", False))
    u = input.detach().transpose(0, 1) if first else input.detach()
    loss = loss or (lambda output: output.square().sum() / 2)
    training = module.training
    module.eval()
    try:
        with torch.backends.cudnn.flags(enabled=False):  # cuDNN has no gradient in evaluation mode
            return _profile(module, u, loss, chunk, first)
    finally:
        module.train(training)


def _profile(module: nn.Module, u: Tensor, loss: Callable[[Tensor], Tensor], chunk: int, first: bool) -> Tensor:
    def last_output(piece: Tensor, state: Any) -> tuple[Tensor, Any]:
        output, state = _run(module, piece.transpose(0, 1) if first else piece, state)
        return (output[:, -1] if first else output[-1]), state

    pieces = u.split(chunk)
    states: list[Any] = [None]
    with torch.no_grad():
        for piece in pieces[:-1]:
            states.append(last_output(piece, states[-1])[1])
    result: list[Tensor] = []
    adjoint: list[Tensor] = []
    for piece, state in zip(reversed(pieces), reversed(states), strict=True):
        leaf = piece.clone().requires_grad_()
        leaves = [t.detach().clone().requires_grad_() for t in ([] if state is None else _state_tensors(state))]
        last, after = last_output(leaf, _rebuilt(state, leaves))
        outputs = _state_tensors(after) if result else loss(last)
        if not result and not (isinstance(outputs, Tensor) and outputs.numel() == 1 and outputs.requires_grad):
            got = checks.describe(outputs)
            raise BadValue(f"loss: expected a function whose scalar result depends on the output, got {got}")
        gradients = torch.autograd.grad(outputs, [leaf, *leaves], adjoint if result else None)
        result.append(gradients[0].double().flatten(1).norm(dim=1).cpu())
        adjoint = list(gradients[1:])
    return torch.cat(result[::-1])


def lyapunov_exponent(module: nn.Module, input: Tensor, size: float = 1e-7, period: int = 10) -> float:
    """Largest Lyapunov exponent per step with respect to a perturbation of the input, mean over the batch.

    Two runs receive the same input except for the first step. After every ``period`` steps the logarithm of the
    distance between their states is recorded, and the second state is pulled back to ``size`` from the first. The
    exponent is negative if changes of the input are forgotten, zero if they neither decay nor grow exponentially,
    positive if the module is chaotic. Computed in float64 and without dropout. A driven UnICORNN has a small positive
    exponent; over N steps an estimate cannot distinguish it from the growth by a power of N, which adds ln(N)/N:
    use ``gradient_growth``, which follows a UnICORNN over a million steps in seconds.

    Args:
        module: Module that maps (input, state) to (output, state), such as nn.LSTM and UnICORNN.
        input: Input sequences, (N, b, d), or (b, N, d) if the module is ``batch_first``; the first tenth is transient.
        size: Size of the perturbation.
        period: Number of steps between renormalisations.

    Example:
        >>> import torch
        >>> from unicornn import theory
        >>> theory.lyapunov_exponent(torch.nn.LSTM(2, 8), torch.randn(1000, 2, 2)) < -0.1  # it forgets
        True
    """
    checks.positive("size", size)
    checks.integer("period", period, 1)
    _check(module, input)
    net = copy.deepcopy(module).double().eval()
    u = input.detach().double()
    if getattr(net, "batch_first", False):
        u = u.transpose(0, 1)
        setattr(net, "batch_first", False)  # noqa: B010, for mypy
    N, b, _ = u.shape
    if 20 * period > N:
        raise BadValue(f"input: expected at least 20 periods of {period} steps, got N={N}")
    both = torch.cat([u, u], 1)
    both[0, b:] += size * torch.randn_like(u[0]) / u.shape[2] ** 0.5

    growth, transient = [], N // 10 // period
    with torch.no_grad():
        _, state = _run(net, both[:period])
        for n in range(period, N - period + 1, period):
            _, state = _run(net, both[n : n + period], _pulled_back(state, b, size))
            growth.append(torch.log(_distance(state, b) / size))
    return float(torch.stack(growth[transient:]).mean()) / period


def _distance(state: Any, b: int) -> Tensor:
    """Distance between the states of the two runs, by sequence: (b,)."""
    squares = [(t[..., b:, :] - t[..., :b, :]).square().sum(-1) for t in _state_tensors(state)]
    return torch.stack([s.sum(0) if s.dim() > 1 else s for s in squares]).sum(0).sqrt()


def _pulled_back(state: Any, b: int, size: float) -> Any:
    """The state of the second run moved towards that of the first, to a distance of ``size``."""
    distance, tensors = _distance(state, b), []
    for t in _state_tensors(state):
        mine, other = t[..., :b, :], t[..., b:, :]
        tensors.append(torch.cat([mine, mine + (other - mine) * (size / distance)[:, None]], -2))
    return _rebuilt(state, tensors)
