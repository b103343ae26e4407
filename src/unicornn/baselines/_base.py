"""Base classes of the baselines, which share constructor, input forms, lengths, states and dropout with ``UnICORNN``.

A baseline is a stack of equal layers. Each file defines one layer: a ``Layer``, which processes a whole sequence, or a
``StepLayer``, which defines a single step in time.
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

States = tuple[Tensor, ...]
Step = Callable[..., States]
"""``step(x_n, *state)``, all (b, ·), returns the next state; its first tensor is the output."""


class Common(TypedDict, total=False):
    """Keywords of every baseline: ``def __init__(self, …, **common: Unpack[Common])``."""

    dropout: float
    batch_first: bool
    device: Any
    dtype: Any


class Layer(nn.Module):
    """One layer of a baseline, created as ``layer(width, hidden_size, device=…, dtype=…, **hyperparameters)``."""

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        """Processes sequences x (N, b, width), which are zero in the padding.

        state: tensors (b, ·). lengths: (b,) int64 on x's device, or None. Returns outputs (N, b, m), undefined in the
        padding, and the state at the end of each sequence.
        """
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Draws all parameters as published."""
        raise NotImplementedError

    def free_parameters(self) -> int:
        """Number of trained numbers; smaller than the number of elements where a constraint ties some of them."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class StepLayer(Layer):
    """A layer that runs step by step, as defined by ``prepare``."""

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        """The part of the computation that does not depend on the state: drives (N, b, ·) and the step function."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        drive, step = self.prepare(x)
        return over_time(step, drive, state, lengths)


class SequenceNorm(nn.BatchNorm1d):
    """``torch.nn.BatchNorm1d`` for (N, b, m), with one mean and variance per feature over time and batch.

    Example:
        >>> x = SequenceNorm(3)(5 + torch.randn(100, 4, 3))
        >>> bool(x.mean() < 1e-5)
        True
    """

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (N, b, m) normalised. With ``lengths`` (b,), the padding is ignored and becomes zero."""
        rows = x.reshape(-1, x.shape[-1])
        if lengths is None:
            return super().forward(rows).view(x.shape)
        inside = within(len(x), lengths).flatten().nonzero().squeeze(1)
        return rows.new_zeros(rows.shape).index_copy(0, inside, super().forward(rows[inside])).view(x.shape)


def within(N: int, lengths: Tensor) -> Tensor:
    """(N, b, 1): whether step n belongs to the sequence, not to the padding after it."""
    return (torch.arange(N, device=lengths.device)[:, None] < lengths)[:, :, None]


def over_time(step: Step, drive: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
    """A loop over time: the first state tensor after every step, (N, b, ·), and the state at each sequence's end.

    Example:
        >>> x = torch.ones(3, 2, 1)
        >>> sums, (final,) = over_time(lambda x_n, h: (h + x_n,), x, (torch.zeros(2, 1),), torch.tensor([3, 1]))
        >>> sums[:, 0, 0], final[:, 0]
        (tensor([1., 2., 3.]), tensor([3., 1.]))
    """
    running = None if lengths is None else within(len(drive), lengths)
    outputs = []
    for n, x_n in enumerate(drive.unbind(0)):
        after = step(x_n, *state)
        if running is not None:
            after = tuple(torch.where(running[n], new, old) for new, old in zip(after, state, strict=True))
        state = after
        outputs.append(state[0])
    return torch.stack(outputs), state


class Baseline(Recurrent):
    """A stack of equal layers with the interface of ``unicornn.UnICORNN``.

    A subclass takes its published hyperparameters as keywords, checks them, and passes them on:

        class CoRNN(Baseline):
            def __init__(self, input_size, hidden_size, num_layers=1, *, dt=0.04, **common: Unpack[Common]):
                hyperparameters = {"dt": checks.positive("dt", dt)}
                super().__init__(input_size, hidden_size, num_layers, CoRNNLayer, hyperparameters, states=2, **common)

    Args:
        input_size: Number of input features (d).
        hidden_size: Number of neurons per layer (m).
        num_layers: Number of layers (L).
        layer: Constructor of a layer, called as ``layer(width, m, device=…, dtype=…, **hyperparameters)``.
        hyperparameters: Hyperparameters of the layers.
        states: Number of state tensors, or the width of each if they are not all m wide.
        dropout: Probability of variational dropout after each layer: one mask per sequence and layer, constant in
            time; inactive in ``eval()``.
        batch_first: Whether input and output are (b, N, ·) instead of (N, b, ·); states are always (L, b, ·).

    Shapes:
        input (N, b, d), (b, N, d) or unbatched (N, d); output (N, b, m) accordingly; states (L, b, m) or (L, m), unless
        the docstring of a baseline gives another width.

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
        hyperparameters: Mapping[str, Any] | None = None,
        *,
        states: int | tuple[int, ...] = 1,
        dropout: float = 0.0,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, dropout=dropout, batch_first=batch_first)
        m = self.hidden_size
        self.hyperparameters = dict(hyperparameters or {})
        self.state_rows = self.num_layers
        self.state_widths = (m,) * states if isinstance(states, int) else states
        factory = checks.factory_options(dtype, device)
        self.layers = nn.ModuleList(layer(width, m, **factory, **self.hyperparameters) for width in self._widths())
        self.reset_parameters()

    def _widths(self) -> list[int]:
        """Number of features that each layer reads."""
        return [self.input_size] + [self.hidden_size] * (self.num_layers - 1)

    def _stack(
        self, x: Tensor, start: States, lengths: Tensor | None, finish: Callable[[Tensor, int], Tensor]
    ) -> tuple[Tensor, list[States]]:
        """All layers over the input x (N, b, d): the output, and each layer's final state.

        ``finish(h, l)`` applies dropout to the outputs h of layer l and sets the padding to zero.
        """
        finals = []
        for l, layer in enumerate(self.layers):
            h, final = layer(x, tuple(t[l] for t in start), lengths)
            x = finish(h, l)
            finals.append(final)
        return x, finals

    def reset_parameters(self) -> None:
        """Draws all parameters as published."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def learning_rates(self) -> dict[str, float]:
        """Published learning rates relative to that of the other parameters, by the end of a parameter's name."""
        return {}

    def free_parameters(self) -> int:
        """Number of trained numbers; an orthogonal matrix counts as its m(m-1)/2 degrees of freedom."""
        return sum(layer.free_parameters() for layer in self.layers)  # type: ignore[operator]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"
        text += "".join(f", {name}={value!r}" for name, value in self.hyperparameters.items())
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

        def finish(h: Tensor, l: int | None = None) -> Tensor:
            h = h if mask is None or l is None else h * mask[l]
            return h if running is None else torch.where(running, h, 0)

        result, finals = self._stack(finish(u), tuple(state), lengths, finish)
        final = State(*map(torch.stack, zip(*finals, strict=True)), mask=mask)
        if steps is not None:
            return functional.at_steps(result, steps), final
        if every:
            return result, final
        last = result[-1] if lengths is None else result[lengths - 1, torch.arange(u.shape[1], device=u.device)]
        return last, final
