"""What all baselines share with ``unicornn.UnICORNN``: constructor, forms of input, lengths, states, dropout.

A baseline is a stack of equal layers. Its file says what one layer does: a ``Layer``, run over a whole sequence, or
a ``StepLayer``, of which only the step in time is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from unicornn import _checks as checks
from unicornn.errors import BadType, BadValue

Step = Callable[..., tuple[Tensor, ...]]
"""``step(x_n, *state)``, all (b, ·): the state after the step; its first tensor is the output."""


class Common(TypedDict, total=False):
    """Keywords that every baseline takes: ``def __init__(self, …, **common: Unpack[Common])``."""

    dropout: float
    batch_first: bool
    device: Any
    dtype: Any


class BaselineState(tuple[Tensor, ...]):
    """The final state of a baseline: a tuple of tensors (L, b, ·) that also carries the dropout mask of the sequences.

    Handing it back goes on with the same mask; with a plain tuple of tensors a new one is drawn.

    Example:
        >>> import torch
        >>> from unicornn.baselines import CoRNN
        >>> y, z = CoRNN(3, 8)(torch.randn(20, 5, 3))[1]
        >>> y.shape
        torch.Size([1, 5, 8])
    """

    mask: Tensor | None

    def __new__(cls, tensors: Iterable[Tensor], mask: Tensor | None = None) -> BaselineState:
        self = tuple.__new__(cls, tensors)
        self.mask = mask
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.mask

    def map(self, f: Callable[[Tensor], Tensor]) -> BaselineState:
        """``f`` applied to every tensor, the mask too."""
        return BaselineState(map(f, self), None if self.mask is None else f(self.mask))

    def detach(self) -> BaselineState:
        """The same state, cut off from the graph: for truncated back-propagation."""
        return self.map(Tensor.detach)


pytree.register_pytree_node(BaselineState, lambda s: (list(s), s.mask), BaselineState)


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


class Baseline(nn.Module):
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
        super().__init__()
        self.input_size = checks.whole("input_size", input_size, 1)
        self.hidden_size = m = checks.whole("hidden_size", hidden_size, 1)
        self.num_layers = checks.whole("num_layers", num_layers, 1)
        self.dropout = checks.number(
            "dropout", dropout, "a number in [0, 1)", isinstance(dropout, (int, float)) and 0 <= dropout < 1
        )
        self.batch_first = batch_first
        self.own = dict(own or {})
        self.state_widths = (m,) * states if isinstance(states, int) else states
        self.layers = nn.ModuleList(layer(width, m, device=device, dtype=dtype, **self.own) for width in self._widths())
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

    def forward(
        self,
        input: Tensor,
        state: Sequence[Tensor] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        output: str = "all",
    ) -> tuple[Tensor, BaselineState]:
        """Runs the layers over the sequences.

        Args:
            input: (N, b, d), (b, N, d) with ``batch_first``, or (N, d) unbatched.
            state: the initial state, each tensor (L, b, m) or (L, m); zero if None.
            lengths: (b,), the length of each sequence; what comes after is padding, and never looked at.
            output: "all": every step. "last": each sequence's output at its own end.

        Returns:
            The output, (N, b, m) or (b, m) with the batch in front if ``batch_first``, zero in the padding. And the
            final state, at each sequence's own length.
        """
        u, batched = self._time_first(input)
        checks.choice("output", output, ("all", "last"))
        ends = self._ends(lengths, u, batched)
        start = self._start(state, u, batched)
        mask = self._mask(state, u.shape[1], batched)
        running = None if ends is None else within(len(u), ends)

        def shown(h: Tensor, l: int | None = None) -> Tensor:
            h = h if mask is None or l is None else h * mask[l]
            return h if running is None else torch.where(running, h, 0)

        result, finals = self._stack(shown(u), start, ends, shown)
        if output == "last":
            result = result[-1] if ends is None else result[ends - 1, torch.arange(len(ends), device=ends.device)]
        after = BaselineState(map(torch.stack, zip(*finals, strict=True)), mask)
        if not batched:
            return result.squeeze(-2), after.map(lambda t: t.squeeze(-2))
        return (result.transpose(0, 1) if self.batch_first and output == "all" else result), after

    def _time_first(self, input: Any) -> tuple[Tensor, bool]:
        form = "(b, N, d)" if self.batch_first else "(N, b, d)"
        if not isinstance(input, Tensor):
            raise BadType(f"input: expected a tensor {form} or (N, d), got {type(input).__name__}")
        if input.dim() not in (2, 3) or 0 in input.shape[:-1]:
            raise BadValue(f"input: expected shape {form} or unbatched (N, d), N, b >= 1, got {tuple(input.shape)}")
        if input.shape[-1] != self.input_size:
            raise BadValue(
                f"input: expected {self.input_size} features (input_size) in the last dimension of {form}, "
                f"got shape {tuple(input.shape)}"
            )
        checks.same_kind("input", input, next(self.parameters()), "the parameters'")
        if input.dim() == 2:
            return input.unsqueeze(1), False
        return (input.transpose(0, 1) if self.batch_first else input), True

    def _ends(self, lengths: Any, u: Tensor, batched: bool) -> Tensor | None:
        if lengths is None:
            return None
        if not batched:
            raise BadValue("lengths: expected None with unbatched input (N, d); cut the input instead")
        ends = checks.tensor("lengths", checks.indices("lengths", lengths, u.device), (u.shape[1],), "(b,)")
        if not bool(((ends >= 1) & (ends <= len(u))).all()):
            raise BadValue(f"lengths: expected numbers from 1 to N={len(u)}, got {ends.tolist()}")
        return ends

    def _start(self, state: Any, u: Tensor, batched: bool) -> tuple[Tensor, ...]:
        """The initial states, each (L, b, ·)."""
        L, batch, widths = self.num_layers, u.shape[1], self.state_widths
        if state is None:
            return tuple(u.new_zeros(L, batch, width) for width in widths)
        if not isinstance(state, (tuple, list)) or len(state) != len(widths):
            got = type(state).__name__ + (f" of {len(state)}" if isinstance(state, (tuple, list)) else "")
            raise BadType(f"state: expected a tuple of {len(widths)} tensors, got {got}")
        meaning = "(L, b, m)" if batched else "(L, m), the input being unbatched"
        for i, (t, width) in enumerate(zip(state, widths, strict=True)):
            checks.tensor(f"state[{i}]", t, (L, batch, width) if batched else (L, width), meaning, u)
        return tuple(state) if batched else tuple(t.unsqueeze(-2) for t in state)

    def _mask(self, state: Any, batch: int, batched: bool) -> Tensor | None:
        """The dropout mask (L, b, m) of the sequences: the one they began with, or a new one."""
        if not (self.training and self.dropout):
            return None
        shape, keep, like = (self.num_layers, batch, self.hidden_size), 1 - self.dropout, next(self.parameters())
        if isinstance(state, BaselineState) and state.mask is not None:
            old = state.mask if batched else state.mask.unsqueeze(-2)
            if old.shape == shape:
                return old
        return torch.empty(shape, device=like.device, dtype=like.dtype).bernoulli_(keep) / keep
