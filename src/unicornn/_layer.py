"""The UnICORNN layer, a drop-in for nn.LSTM, and its cell, a drop-in for nn.LSTMCell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unicornn import _bidirectional as both
from unicornn import _checks as checks
from unicornn import functional
from unicornn._backends import BACKENDS
from unicornn._ops.cpu.step import step as fast_step
from unicornn._recurrent import Recurrent, SavedSettings
from unicornn._state import State
from unicornn._torch_internals import any_mode_active, has_global_hooks
from unicornn.errors import BadType, BadValue

INITS = {"paper": (-0.1, 0.1), "spread": (-3.0, 3.0)}
"""Ranges of the uniform distribution from which c is drawn."""


def _initialise(w: Tensor, V: Tensor, b: Tensor, c: Tensor, init: str = "paper") -> None:
    """Appendix A, except for the range of c."""
    nn.init.uniform_(w, 0.0, 1.0)
    nn.init.kaiming_uniform_(V, a=8.0, mode="fan_in")
    nn.init.zeros_(b)
    nn.init.uniform_(c, *INITS[init])


def _by_name(module: Any, names: Sequence[str]) -> list[Tensor]:
    """The tensors of a ParameterList by name. Its own order is unreliable: removing a parametrisation or a pruning
    moves the parameter to the end, and tensors derived from others are not among its parameters."""
    parameters = module._parameters
    try:
        return [parameters[name] for name in names]
    except KeyError:
        for derive in module._forward_pre_hooks.values():  # pruning and weight_norm; a ParameterList is never called
            derive(module, ())
        return [getattr(module, name) for name in names]


class UnICORNN(SavedSettings, Recurrent):
    """L layers of undamped, independent, controlled oscillators (Eq. (6)) over a batch of sequences.

    Inputs and outputs are those of ``nn.LSTM``, including PackedSequence. Gradients need no stored states: the states
    are recovered backwards in time, bit for bit, so memory does not grow with the length of the sequence.

    Args:
        input_size: Number of input features (d).
        hidden_size: Number of neurons per layer (m).
        num_layers: Number of layers (L).
        bias: True, as in nn.LSTM; every layer has a bias.
        dt: Time step Δt > 0, a number or one per layer.
        alpha: Restoring force α >= 0, shared by all layers.
        horizon: Number of steps H > 0, one for all layers or one per layer, over which gradients fade: the adjoint is
            multiplied by e^(-1/H) at each step backwards. With one H for all layers, the contribution of step k to the
            output of step n is weighted by e^(-(n-k)/H). Without a horizon (None), gradients of very long sequences
            grow exponentially. The output does not depend on it.
        dropout: Probability of variational dropout after each layer: one mask per sequence and layer, constant in time.
            Off in ``eval()``.
        skip_layers: Number of layers S >= 2 that residual connections skip (Suppl. Eq. (75)); 0 for no connections.
        learn_dt: Whether c, and with it the time step of every neuron, is trained.
        init: Initial distribution of c. "paper" (Appendix A): U(-0.1, 0.1), about the same time step Δt/2 for all
            neurons. "spread": U(-3, 3), time steps between 0.047 Δt and 0.95 Δt, from which networks learn faster.
            docs/estimators.md compares this range with five others on five tasks.
        batch_first: Whether input and output are (b, N, ·) instead of (N, b, ·). States are (L, b, m) in both cases.
        bidirectional: Whether a second set of neurons reads each sequence from its end, as in nn.LSTM. Both directions
            of a layer need the whole output of the layer below, so the layers cannot be inverted together chunk by
            chunk; the gradient then always stores activations, as with gradient="stored".
        gradient: Backward pass: "reversible" (memory independent of N) or "stored" (faster), with identical gradients.
        backend: Implementation: "auto" (the kernels of the device, or the reference), "reference", "cpu" or "triton".

    Attributes:
        w, b, c: One vector (m,) per layer.
        V: One matrix per layer, (m, d), then (m, m).
        Lambda: None or one matrix per layer, (m, d), then (m, m).
        With ``bidirectional`` each layer has two of each, forward direction first, and (m, m) becomes (m, 2m).

    On the CPU the layer computes in float32 under ``torch.autocast``: results are those without autocast.

    Shapes:
        input (N, b, d), (b, N, d) or unbatched (N, d); output (N, b, m) accordingly; y, z (L, b, m) or (L, m).

    Example:
        >>> import torch
        >>> from unicornn import UnICORNN
        >>> layer = UnICORNN(3, 16, num_layers=2, dt=0.1, alpha=1.0)
        >>> u = torch.randn(1000, 4, 3)
        >>> output, (y, z) = layer(u)
        >>> output.shape, y.shape
        (torch.Size([1000, 4, 16]), torch.Size([2, 4, 16]))
        >>> last, state = layer(u, output="last")
        >>> y0, z0 = layer.inverse(u, state)
        >>> bool((y0 == 0).all() and (z0 == 0).all())
        True
    """

    settings: ClassVar[Any] = Recurrent.settings | {
        "dt": lambda layer, value: checks.time_steps(value, layer.num_layers),
        "alpha": lambda _, value: checks.not_negative("alpha", value),
        "horizon": lambda layer, value: checks.horizon(value, layer.num_layers) or None,
    }
    horizon: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bias: bool = True,
        dt: float | Sequence[float] = 0.1,
        alpha: float = 1.0,
        horizon: float | Sequence[float] | None = None,
        dropout: float = 0.0,
        skip_layers: int = 0,
        learn_dt: bool = True,
        init: str = "paper",
        batch_first: bool = False,
        bidirectional: bool = False,
        gradient: str = "reversible",
        backend: str = "auto",
        device: Any = None,
        dtype: Any = None,
        **others: Any,
    ) -> None:
        for name in others:
            hint = checks.did_you_mean(name, UnICORNN.__init__.__annotations__)
            hint = "; use nn.Linear(hidden_size, proj_size) after the layer" if name == "proj_size" else hint
            raise BadType(f"{name}: expected an argument of UnICORNN, got an unknown one{hint}")
        if bias is not True:
            raise BadValue(f"bias: expected True (every layer has a bias), got {checks.describe(bias)}")
        super().__init__(input_size, hidden_size, num_layers, dropout=dropout, batch_first=batch_first)
        d, m, L = self.input_size, self.hidden_size, self.num_layers
        self.dt, self.alpha, self.horizon = dt, alpha, horizon
        self.skip_layers = S = checks.integer("skip_layers", skip_layers, 0)
        if S == 1:
            raise BadValue("skip_layers: expected 0 (none) or S >= 2 skipped layers, got 1")
        self.bidirectional = checks.flag("bidirectional", bidirectional)
        self.learn_dt = checks.flag("learn_dt", learn_dt)
        self.init = checks.choice("init", init, INITS)
        self.gradient = checks.choice("gradient", gradient, functional.GRADIENTS)
        self.backend = checks.choice("backend", backend, BACKENDS)
        self._scale_checked = False
        D = 2 if bidirectional else 1
        self.state_rows, self.state_widths = D * L, (m, m)
        self._names = tuple(map(str, range(D * L)))  # of the tensors in a ParameterList

        kind = checks.factory_options(dtype, device)

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, **kind))

        self.w, self.V, self.b, self.c, self.Lambda = (nn.ParameterList() for _ in range(5))
        for l in range(L):
            for _ in range(D):
                self.w.append(parameter(m))
                self.V.append(parameter(m, D * m if l else d))
                self.b.append(parameter(m))
                self.c.append(parameter(m).requires_grad_(learn_dt))
                self.Lambda.append(parameter(m, D * m if l > S else d) if 0 < S <= l else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters again as in Appendix A (Λ like V), and c according to ``init``."""
        for i in range(len(self.w)):
            _initialise(self.w[i], self.V[i], self.b[i], self.c[i], self.init)
            if self.Lambda[i] is not None:
                nn.init.kaiming_uniform_(self.Lambda[i], a=8.0, mode="fan_in")

    def flatten_parameters(self) -> None:
        """Does nothing: there is no cuDNN weight buffer. For code written for ``nn.LSTM``."""

    def extra_repr(self) -> str:
        dt = self.dt[0] if len(set(self.dt)) == 1 else self.dt
        text = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, dt={dt}, alpha={self.alpha}"
        for name, default in (("horizon", None), ("dropout", 0.0), ("skip_layers", 0), ("learn_dt", True),
                              ("init", "paper"), ("batch_first", False), ("bidirectional", False),
                              ("gradient", "reversible"), ("backend", "auto")):  # fmt: skip
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)!r}"
        return text

    def time_steps(self) -> Tensor:
        """Effective time step Δt·σ̂(c) of every neuron, (L, m), or (2L, m) if bidirectional."""
        return functional.time_steps(self.weights.c, self._dt)

    @property
    def _dt(self) -> tuple[float, ...]:
        return self._per_direction(self.dt)

    def _per_direction(self, each: tuple[float, ...]) -> tuple[float, ...]:
        """Numbers per layer, repeated for each direction."""
        return tuple(number for number in each for _ in range(self.state_rows // self.num_layers))

    @property
    def weights(self) -> functional.Weights:
        """The parameters as ``functional.unicornn`` takes them, after any pruning or parametrisation."""
        names, S = self._names, self.skip_layers * self.state_rows // self.num_layers
        lists = self._modules  # attribute access to a ParameterList takes longer than a step
        w, V, b, c = (_by_name(lists[letter], names) for letter in "wVbc")
        Lambda = [*([None] * S), *_by_name(lists["Lambda"], names[S:])] if 0 < S < len(names) else None
        return functional.Weights(w, V, b, c, Lambda)

    def _run(
        self, u: Tensor, state: Any, lengths: Tensor | None, output: str | Tensor, mask: Tensor | None
    ) -> tuple[Tensor, State]:
        if not (torch.compiler.is_compiling() or self._scale_checked or any_mode_active()):
            self._scale_checked = True
            checks.log_unusual_scale(u)
        options: dict[str, Any] = {"dt": self._dt, "alpha": self.alpha, "state": state, "lengths": lengths}
        options |= {"output": output, "mask": mask, "backend": self.backend}
        options["horizon"] = None if self.horizon is None else self._per_direction(self.horizon)
        if self.bidirectional:
            return both.unicornn(u, self.weights, **options)
        return functional.unicornn(u, self.weights, gradient=self.gradient, **options)

    def _state_form(self) -> str:
        return "a pair (y, z) of tensors"

    def step(self, input_n: Tensor, state: State | tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, State]:
        """One time step, for streams: returns the output (b, m) and the state for the next call.

        Args:
            input_n: Input of one step, (b, d) or (d,).
            state: State (y, z), each (L, b, m) or (L, m); zero if None.
        """
        if self.bidirectional:
            raise BadValue("step: expected bidirectional=False; the reverse direction starts at the end of the stream")
        weights = self.weights
        if not (self.dropout and self.training):
            fast = fast_step(input_n, weights, self.dt, self.alpha, state, self.backend)
            if fast is not None:
                return fast
        checks.array("input_n", input_n, (1, 2), "(b, d) or (d,)")
        checks.tensor("input_n", input_n, (*input_n.shape[:-1], self.input_size), "(b, d) or (d,)")
        batched = input_n.dim() == 2
        u = input_n if batched else input_n[None]
        state = self._with_batch(state, len(u) if batched else None)
        result, final = functional.unicornn(
            u[None], weights, dt=self.dt, alpha=self.alpha, state=state, output="last",
            mask=self._mask(state, len(u)), horizon=self.horizon, gradient=self.gradient, backend=self.backend,
        )  # fmt: skip
        return (result, final) if batched else (result[0], final.map(lambda t: t.squeeze(-2)))

    def inverse(
        self,
        input: Tensor | PackedSequence,
        state: State | tuple[Tensor, Tensor],
        lengths: Tensor | Sequence[int] | None = None,
    ) -> State:
        """Eq. (7): from the final state back to the initial one, bit for bit.

        Args:
            input, lengths: Arguments of ``forward``.
            state: State that ``forward`` returned. A plain pair (y, z) is accepted but lacks the low-order bits.
        """
        u, ends, batched, _ = self._input(input, lengths)
        if state is None:
            raise BadType(f"state: expected {self._state_form()}, got None")
        full = self._with_batch(state, u.shape[1] if batched else None)
        mask = full.mask if isinstance(full, State) else None
        if mask is not None:
            checks.tensor("state.mask", mask, (self.state_rows, u.shape[1], self.hidden_size), "(L, b, m)")
        run = both.inverse if self.bidirectional else functional.inverse
        options: dict[str, Any] = {"lengths": ends, "mask": mask, "backend": self.backend}
        start = run(u, self.weights, full, dt=self._dt, alpha=self.alpha, **options)
        return start if batched else start.map(lambda t: t.squeeze(-2))


class UnICORNNCell(SavedSettings):
    """One step of one layer, as nn.LSTMCell: ``y, z = cell(input, (y, z))``.

    Arguments as for ``UnICORNN``.

    Shapes: input (b, d) or (d,); y, z (b, m) or (m,). Parameters w, b, c (m,), V (m, d).

    Example:
        >>> import torch
        >>> from unicornn import UnICORNNCell
        >>> cell, state = UnICORNNCell(3, 8, dt=0.2), None
        >>> for u_n in torch.randn(10, 4, 3):
        ...     state = cell(u_n, state)
        >>> state.y.shape
        torch.Size([4, 8])
    """

    settings: ClassVar[Any] = {
        "dt": lambda _, value: checks.positive("dt", value),
        "alpha": lambda _, value: checks.not_negative("alpha", value),
    }

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        dt: float = 0.1,
        alpha: float = 1.0,
        learn_dt: bool = True,
        gradient: str = "reversible",
        backend: str = "auto",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, _ = d, m, _ = checks.sizes(input_size, hidden_size)
        self.dt, self.alpha = dt, alpha
        self.gradient = checks.choice("gradient", gradient, functional.GRADIENTS)
        self.backend = checks.choice("backend", backend, BACKENDS)
        self.w, self.V, self.b, self.c = (
            nn.Parameter(torch.empty(shape, **checks.factory_options(dtype, device)))
            for shape in ((m,), (m, d), (m,), (m,))
        )
        self.c.requires_grad_(checks.flag("learn_dt", learn_dt))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters again as in Appendix A."""
        _initialise(self.w, self.V, self.b, self.c)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, dt={self.dt}, alpha={self.alpha}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hooks = self._backward_hooks or self._backward_pre_hooks or has_global_hooks()
        if not hooks:
            return super().__call__(*args, **kwargs)
        # A backward hook replaces the State by a tuple of new tensors, without the low-order bits.
        states: list[Any] = []
        handle = self.register_forward_hook(lambda module, args, state: states.append(state))
        try:
            result = super().__call__(*args, **kwargs)
        finally:
            handle.remove()
        for state in states:
            if isinstance(state, State) and isinstance(result, tuple) and _memory(state) == _memory(result):
                return State(*result, **state._others)
        return result

    def forward(self, input: Tensor, state: State | tuple[Tensor, Tensor] | None = None) -> State:
        """Returns the next (y, z) from the input (b, d) or (d,) and the state, each (b, m) or (m,); zero if None."""
        checks.array("input", input, (1, 2), "(b, d) or (d,)")
        checks.tensor("input", input, (*input.shape[:-1], self.input_size), "(b, d) or (d,)")
        missing = 3 - input.dim()  # leading dimensions to add: time, and the batch if the input is unbatched
        for _ in range(missing):
            input = input[None]
        if state is not None:
            batch = (input.shape[1],) if missing == 1 else ()
            state = _lift(state, (*batch, self.hidden_size), missing)
        _, final = functional.unicornn(
            input, functional.Weights([self.w], [self.V], [self.b], [self.c]), dt=self.dt, alpha=self.alpha,
            state=state, output="last", gradient=self.gradient, backend=self.backend,
        )  # fmt: skip
        return final.map(lambda t: t.squeeze(-3) if missing == 1 else t.squeeze(-3).squeeze(-2))


def _memory(tensors: Sequence[Tensor]) -> list[int]:
    return [t.data_ptr() for t in tensors]


def _lift(state: Any, shape: tuple[int, ...], missing: int) -> Any:
    """The state of a cell, (b, m) or (m,), as that of a stack, (1, b, m)."""
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise BadType(f"state: expected a pair (y, z) of tensors of shape {shape}, got {type(state).__name__}")
    for i, t in enumerate(state):
        checks.tensor(f"state[{i}]", t, shape, "as the input is batched or not")

    def lift(t: Tensor) -> Tensor:
        return t.unsqueeze(-2).unsqueeze(-3) if missing == 2 else t.unsqueeze(-3)

    return state.map(lift) if isinstance(state, State) else tuple(map(lift, state))
