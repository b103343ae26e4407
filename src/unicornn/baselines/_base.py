"""What all baselines share with ``unicornn.UnICORNN``: constructor, forms of input, lengths, states, dropout.

A baseline is a stack of equal layers. Its file says what one layer does: a ``Layer``, run over a whole sequence, or
a ``StepLayer``, of which only the step in time is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn import functional
from unicornn._ops.problem import check_values
from unicornn._recurrent import Recurrent
from unicornn._state import State

Step = Callable[..., tuple[Tensor, ...]]
"""``step(x_n, *state)``, all (b, ·): the state after the step; its first tensor is the output."""


class Common(TypedDict, total=False):
    """Keywords that every baseline takes: ``def __init__(self, …, **common: Unpack[Common])``."""

    dropout: float
    batch_first: bool
    device: Any
    dtype: Any


class Layer(nn.Module):
    """One layer of a baseline: ``forward(x, state, lengths)`` over a whole sequence.

    Made by ``Baseline`` as ``layer(width, hidden_size, device=…, dtype=…, **own)``.

    Shapes: x (N, b, width), zero in the padding; state a tuple of (b, ·); lengths (b,) int64 on x's device, or None.
    It returns its output (N, b, m), of which the padding does not matter, and the state at each sequence's own end.
    """

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as published."""
        raise NotImplementedError

    def free_parameters(self) -> int:
        """Trained numbers; fewer than the parameters' elements where a constraint ties some of them."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class StepLayer(Layer):
    """A layer that goes through time step by step: its ``prepare`` says how."""

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        """All that need not wait for the state: x (N, b, width) to what the steps see of it, and the step itself."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        drive, step = self.prepare(x)
        return over_time(step, drive, state, lengths)


def within(N: int, lengths: Tensor) -> Tensor:
    """(N, b, 1): whether step n belongs to the sequence or to the padding after it."""
    return (torch.arange(N, device=lengths.device)[:, None] < lengths)[:, :, None]


def over_time(
    step: Step, drive: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A loop over time: the first state after every step, (N, b, ·), and all states at each sequence's own end.

    Example:
        >>> import torch
        >>> x = torch.ones(3, 2, 1)
        >>> sums, (final,) = over_time(lambda x_n, h: (h + x_n,), x, (torch.zeros(2, 1),), torch.tensor([3, 1]))
        >>> sums[:, 0, 0], final[:, 0]
        (tensor([1., 2., 3.]), tensor([3., 1.]))
    """
    outputs = []
    if lengths is None:
        for x_n in drive.unbind(0):
            state = step(x_n, *state)
            outputs.append(state[0])
    else:
        for x_n, running in zip(drive.unbind(0), within(len(drive), lengths).unbind(0), strict=True):
            after = step(x_n, *state)
            state = tuple(torch.where(running, new, old) for new, old in zip(after, state, strict=True))
            outputs.append(state[0])
    return torch.stack(outputs), state


class Baseline(Recurrent):
    """A stack of equal layers with ``unicornn.UnICORNN``'s contract.

    A subclass names its published hyperparameters as keywords and hands them on as ``own``, checked:

        class CoRNN(Baseline):
            def __init__(self, input_size, hidden_size, num_layers=1, *, dt=0.04, **common: Unpack[Common]):
                own = {"dt": checks.positive("dt", dt)}
                super().__init__(input_size, hidden_size, num_layers, CoRNNLayer, own, states=2, **common)

    Args:
        input_size: d.
        hidden_size: m.
        num_layers: L.
        layer: makes one layer: ``layer(width, m, device=…, dtype=…, **own)``.
        own: hyperparameters of this kind of layer.
        states: number of tensors in the state, or the width of each if they are not all m wide.
        dropout: probability of the variational dropout after each layer: one mask per sequence and layer, constant in
            time. Off in ``eval()``.
        batch_first: input and output are (b, N, ·) instead of (N, b, ·); states are (L, b, ·) all the same.

    Shapes:
        input (N, b, d), (b, N, d) or unbatched (N, d); output (N, b, m) accordingly; states (L, b, m) or (L, m), but
        for the few that a baseline's own docstring says are narrower.

    Example:
        >>> import torch
        >>> from unicornn.baselines import MODELS
        >>> baseline = MODELS["lstm"](3, 16, num_layers=2)
        >>> output, (h, c) = baseline(torch.randn(100, 4, 3), lengths=[100, 70, 5, 5])
        >>> output.shape, h.shape
        (torch.Size([100, 4, 16]), torch.Size([2, 4, 16]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        layer: Callable[..., Layer],
        own: Mapping[str, Any] | None = None,
        *,
        states: int | tuple[int, ...] = 1,
        dropout: float = 0.0,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, dropout=dropout, batch_first=batch_first)
        m = self.hidden_size
        self.own = dict(own or {})
        self.state_rows = self.num_layers
        self.state_widths = (m,) * states if isinstance(states, int) else states
        kind = checks.factory_options(dtype, device)
        self.layers = nn.ModuleList(layer(width, m, **kind, **self.own) for width in self._widths())
        self.reset_parameters()

    def _widths(self) -> list[int]:
        """Features that each layer reads."""
        return [self.input_size] + [self.hidden_size] * (self.num_layers - 1)

    def _stack(
        self, x: Tensor, start: tuple[Tensor, ...], ends: Tensor | None, shown: Callable[[Tensor, int], Tensor]
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """All layers over the input x (N, b, d): the output, and each layer's final state.

        ``shown(h, l)`` is what is seen of the output of layer l: dropout applied, zero in the padding.
        """
        finals = []
        for l, layer in enumerate(self.layers):
            h, final = layer(x, tuple(t[l] for t in start), ends)
            x = shown(h, l)
            finals.append(final)
        return x, finals

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as published."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def learning_rates(self) -> dict[str, float]:
        """Published learning rates relative to the others', by the end of a parameter's name."""
        return {}

    def free_parameters(self) -> int:
        """Trained numbers, those of an orthogonal matrix counted by its m(m-1)/2 degrees of freedom."""
        return sum(layer.free_parameters() for layer in self.layers)  # type: ignore[operator]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"
        text += "".join(f", {name}={value!r}" for name, value in self.own.items())
        text += f", dropout={self.dropout}" if self.dropout else ""
        return text + (", batch_first=True" if self.batch_first else "")

    def _run(
        self, u: Tensor, state: Any, lengths: Tensor | None, output: str | Tensor, mask: Tensor | None
    ) -> tuple[Tensor, State]:
        checks.same_kind("input", u, next(self.parameters()), "the parameters'")
        every, steps = functional.selected_steps(output, u)
        check_values(len(u), lengths, steps)
        if state is None:
            state = tuple(u.new_zeros(self.num_layers, u.shape[1], width) for width in self.state_widths)
        for i, t in enumerate(state):
            checks.same_kind(f"state[{i}]", t, u, "the input's")
        running = None if lengths is None else within(len(u), lengths)

        def shown(h: Tensor, l: int | None = None) -> Tensor:
            h = h if mask is None or l is None else h * mask[l]
            return h if running is None else torch.where(running, h, 0)

        result, finals = self._stack(shown(u), tuple(state), lengths, shown)
        final = State(*map(torch.stack, zip(*finals, strict=True)), mask=mask)
        if steps is not None:
            return functional.at_steps(result, steps), final
        if every:
            return result, final
        last = result[-1] if lengths is None else result[lengths - 1, torch.arange(u.shape[1], device=u.device)]
        return last, final
