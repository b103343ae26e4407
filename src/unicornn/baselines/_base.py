"""Base classes of the baselines, which share constructor, input forms, lengths, states and dropout with ``UnICORNN``.

A baseline is a stack of equal layers. Each file defines one layer: a ``Layer``, which processes a whole sequence, or a
``StepLayer``, which defines a single step in time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._ops.problem import at_steps, check_values, selected_steps
from unicornn._recurrent import Recurrent
from unicornn._state import State

States = tuple[Tensor, ...]
Step = Callable[..., States]
"""``step(x_n, *state)``, all (b, ·), returns the next state; its first tensor is the output."""


Check = Callable[[str, Any], Any]
"""``check(name, value)`` returns a valid value of an argument, or raises."""
Options = Mapping[str, tuple[Any, Check]]
"""Hyperparameters of a baseline: default and check of each."""


def hyperparameters(**each: tuple[Any, Check]) -> Options:
    """Hyperparameters, as a constant."""
    return MappingProxyType(each)


at_least_one = partial(checks.integer, least=1)


def or_none(check: Check) -> Check:
    """A check that accepts None as well."""
    return lambda name, value: None if value is None else check(name, value)


class Layer(nn.Module):
    """One layer of a baseline, from ``width`` to m features, with the checked options of the baseline."""

    def __init__(self, width: int, m: int, options: Mapping[str, Any], factory: Mapping[str, Any]) -> None:
        super().__init__()
        self.width, self.m, self.options = width, m, options
        self.build(**factory)

    def build(self, **factory: Any) -> None:
        """Creates the parameters, with ``factory``'s dtype and device."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        """Processes sequences x (N, b, width), which are zero in the padding.

        state: tensors (b, ·). lengths: (b,) int64 on x's device, or None. Returns outputs (N, b, m), undefined in the
        padding, and the state at the end of each sequence.
        """
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Draws all parameters as published; here those of modules, as torch does."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

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
    """``torch.nn.BatchNorm1d`` for (N, b, m), with one mean and variance per feature over time and batch."""

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
    """A loop over time: the first state tensor after every step, (N, b, ·), and the state at each sequence's end."""
    running = None if lengths is None else within(len(drive), lengths)
    outputs = []
    for n, x_n in enumerate(drive.unbind(0)):
        after = step(x_n, *state)
        if running is not None:
            after = tuple(torch.where(running[n], new, old) for new, old in zip(after, state, strict=True))
        state = after
        outputs.append(state[0])
    return torch.stack(outputs), state


USE = """
    The other arguments are those of ``Baseline``.
"""
SHAPES = """
    Shapes: input (N, b, d), output (N, b, m), state ({states}), each (L, b, m).
"""
EXAMPLE = """
    Example:
        >>> import torch
        >>> from unicornn.baselines import {name}
        >>> output, ({states}) = {name}(3, 16)(torch.randn(50, 4, 3))
        >>> output.shape, {first}.shape
        (torch.Size([50, 4, 16]), torch.Size([1, 4, 16]))
    """


class Baseline(Recurrent):
    """A stack of equal layers with the interface of ``unicornn.UnICORNN``.

    A subclass names its layer, its published hyperparameters, which become keywords of the constructor, and its states:

        class CoRNN(Baseline):
            layer, states = CoRNNLayer, ("y", "z")
            options = hyperparameters(dt=(0.04, checks.positive))

    What all baselines have in common (these arguments, shapes, an example) is added to its docstring.

    Args:
        input_size, hidden_size, num_layers, dropout, batch_first, device, dtype: As for ``UnICORNN``.
        options: Hyperparameters of the baseline.

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

    layer: type[Layer]
    options: Options = MappingProxyType({})
    states: tuple[str, ...] = ("h",)
    __signature__: inspect.Signature

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _, *shared, _ = inspect.signature(Baseline.__init__).parameters.values()  # without self and options
        own = [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v) for k, (v, _) in cls.options.items()]
        cls.__signature__ = inspect.Signature([*shared[:3], *own, *shared[3:]])
        if not (hasattr(cls, "layer") and cls.__module__.startswith("unicornn.")):
            return
        states = "".join(f"{name}, " for name in cls.states)
        text = {"name": cls.__name__, "first": cls.states[0], "states": states[: -1 if len(cls.states) == 1 else -2]}
        doc = (cls.__doc__ or "").rstrip() + "\n"
        for part in (USE, SHAPES, EXAMPLE):
            heading = part.split(":")[0].strip()
            doc += "" if f"{heading}:" in doc else part.format(**text)
        cls.__doc__ = doc

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dropout: float = 0.0,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, dropout=dropout, batch_first=batch_first)
        if unknown := options.keys() - self.options.keys():
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {unknown.pop()!r}")
        self.hyperparameters = self._checked(options)
        self.state_rows, self.state_widths = self.num_layers, self._state_widths()
        factory = checks.factory_options(dtype, device)
        self.layers = nn.ModuleList(
            self.layer(width, self.hidden_size, self.hyperparameters, factory) for width in self._widths()
        )
        self.reset_parameters()

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Valid values of all options."""
        return {name: check(name, given.get(name, default)) for name, (default, check) in self.options.items()}

    def _state_widths(self) -> tuple[int, ...]:
        return (self.hidden_size,) * len(self.states)

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
        every, steps = selected_steps(output, u)
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
            return at_steps(result, steps), final
        if every:
            return result, final
        last = result[-1] if lengths is None else result[lengths - 1, torch.arange(u.shape[1], device=u.device)]
        return last, final
