"""UnICORNN with nn.LSTM's contract, and its single step with nn.LSTMCell's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unicornn import _bidirectional as both
from unicornn import _checks as checks
from unicornn import functional
from unicornn._backends import BACKENDS
from unicornn._state import State
from unicornn.errors import BadType, BadValue

INITS = {"paper": (-0.1, 0.1), "spread": (-5.0, 2.0)}
"""The range from which c is drawn, uniformly."""


def _initialise(w: Tensor, V: Tensor, b: Tensor, c: Tensor, init: str = "paper") -> None:
    """Appendix A, but for the range of c."""
    nn.init.uniform_(w, 0.0, 1.0)
    nn.init.kaiming_uniform_(V, a=8.0, mode="fan_in")
    nn.init.zeros_(b)
    nn.init.uniform_(c, *INITS[init])


class UnICORNN(nn.Module):
    """L layers of undamped, independent, controlled oscillators (eq:ucrn) over a batch of sequences.

    It stands where ``nn.LSTM`` stood: same input, output and state, PackedSequence included. Gradients need no stored
    states: they are recovered backwards in time, bit for bit, so memory does not grow with the length of the sequence.

    Args:
        input_size: d.
        hidden_size: m.
        num_layers: L.
        dt: Δt > 0, a number or one per layer.
        alpha: α >= 0, shared by all layers.
        dropout: probability of the variational dropout after each layer: one mask per sequence and layer, constant in
            time. Off in ``eval()``.
        residual: S >= 2, the number of layers that the residual connections skip (eq:ucrn_res); 0 for none.
        train_time_step: whether c, and so the time step of every neuron, is trained.
        init: where c starts. "paper" (Appendix A): from U(-0.1, 0.1), one time step Δt/2 for all neurons. "spread":
            from U(-5, 2), time steps between 0.007 Δt and 0.88 Δt, each octave with about as many neurons; a network
            that begins with many time scales learns faster than one that has to find them.
        batch_first: input and output are (b, N, ·) instead of (N, b, ·); states are (L, b, m) all the same.
        bidirectional: a second set of neurons reads each sequence from its end, as in nn.LSTM. Both directions of a
            layer need the whole output of the layer below, so the layers cannot be inverted together chunk by chunk:
            the gradient then stores activations, as with backward="store", whatever ``backward`` says.
        backward: "invert" (memory independent of N) or "store" (faster); the gradients are bit-identical.
        backend: "auto" (the kernels of the device, else the reference), "reference", "cpu" or "triton".

    Attributes:
        w, b, c: per layer (m,). V: per layer (m, d), then (m, m). Lambda: per layer None or (m, d), then (m, m).
        With ``bidirectional`` there are two of each per layer, forwards first, and (m, m) becomes (m, 2m).

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

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float | Sequence[float] = 0.1,
        alpha: float = 1.0,
        dropout: float = 0.0,
        residual: int = 0,
        train_time_step: bool = True,
        init: str = "paper",
        batch_first: bool = False,
        bidirectional: bool = False,
        backward: str = "invert",
        backend: str = "auto",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = d = checks.whole("input_size", input_size, 1)
        self.hidden_size = m = checks.whole("hidden_size", hidden_size, 1)
        self.num_layers = L = checks.whole("num_layers", num_layers, 1)
        self.dt = checks.time_steps(dt, L)
        self.alpha = checks.not_negative("alpha", alpha)
        self.dropout = checks.number(
            "dropout", dropout, "a number in [0, 1)", isinstance(dropout, (int, float)) and 0 <= dropout < 1
        )
        self.residual = S = checks.whole("residual", residual, 0)
        if S == 1:
            raise BadValue("residual: expected 0 (none) or S >= 2 skipped layers, got 1")
        self.batch_first, self.bidirectional, self.train_time_step = batch_first, bidirectional, train_time_step
        self.init = checks.choice("init", init, INITS)
        self.backward = checks.choice("backward", backward, functional.BACKWARDS)
        self.backend = checks.choice("backend", backend, BACKENDS)

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.w, self.V, self.b, self.c, self.Lambda = (nn.ParameterList() for _ in range(5))
        D = 2 if bidirectional else 1
        for l in range(L):
            for _ in range(D):
                self.w.append(parameter(m))
                self.V.append(parameter(m, D * m if l else d))
                self.b.append(parameter(m))
                self.c.append(parameter(m).requires_grad_(train_time_step))
                self.Lambda.append(parameter(m, D * m if l > S else d) if 0 < S <= l else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as Appendix A does (Λ as V), c as ``init`` says."""
        for i in range(len(self.w)):
            _initialise(self.w[i], self.V[i], self.b[i], self.c[i], self.init)
            if self.Lambda[i] is not None:
                nn.init.kaiming_uniform_(self.Lambda[i], a=8.0, mode="fan_in")

    def extra_repr(self) -> str:
        dt = self.dt[0] if len(set(self.dt)) == 1 else self.dt
        text = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, dt={dt}, alpha={self.alpha}"
        for name, default in (("dropout", 0.0), ("residual", 0), ("train_time_step", True), ("init", "paper"),
                              ("batch_first", False), ("bidirectional", False), ("backward", "invert"),
                              ("backend", "auto")):  # fmt: skip
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)!r}"
        return text

    def time_steps(self) -> Tensor:
        """Δt·σ̂(c): the effective time step of every neuron, (L, m), or (2L, m) in both directions."""
        return functional.time_steps(list(self.c), self._dt)

    @property
    def _dt(self) -> tuple[float, ...]:
        D = len(self.w) // self.num_layers
        return tuple(dt for dt in self.dt for _ in range(D))

    @property
    def _parameters_by_letter(self) -> tuple[list[Any], ...]:
        # Iterating over a ParameterList, or even naming one, takes longer than a step does.
        lists = self._modules
        w, V, b, c = [list(lists[letter]._parameters.values()) for letter in "wVbc"]  # type: ignore[union-attr]
        return w, V, b, c, list(self.Lambda) if self.residual else [None] * len(w)

    def forward(
        self,
        input: Tensor | PackedSequence,
        state: State | tuple[Tensor, Tensor] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        output: str | Tensor = "all",
    ) -> tuple[Any, State]:
        """Runs the layers over the sequences.

        Args:
            input: (N, b, d), (b, N, d) with ``batch_first``, (N, d) unbatched, or a PackedSequence.
            state: initial (y, z), each (L, b, m) or (L, m); zero if None.
            lengths: (b,), the length of each sequence; what comes after is padding, and never looked at.
            output: "all": every step. "last": each sequence's output at its own end (in both directions: where each
                direction ends). A LongTensor of time steps, (k,) or (k, b): only these are computed and stored.

        Returns:
            The output, (N, b, m), (b, m) or (k, b, m) with the batch in front if ``batch_first``, zero in the padding;
            a PackedSequence if one came and all is wanted. And the final ``State``, at each sequence's own length.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, state, lengths, output)
        u, batched = self._time_first(input)
        if not batched:
            if lengths is not None:
                raise BadValue("lengths: expected None with unbatched input (N, d); cut the input instead")
            if isinstance(output, Tensor) and output.dim() != 1:
                raise BadValue(f"output: expected time steps of shape (k,) with unbatched input, got {output.shape}")
        state = self._with_batch(state, batched)
        mask = self._mask(state, u.shape[1])
        options: dict[str, Any] = {"alpha": self.alpha, "lengths": lengths, "backend": self.backend}
        run = both.unicornn if self.bidirectional else functional.unicornn
        result, final = run(
            u, *self._parameters_by_letter, dt=self._dt, state=state, output=output, mask=mask,
            backward=self.backward, **options,
        )  # fmt: skip
        time = result.dim() == 3
        if not batched:
            result, final = result.squeeze(-2), final.map(lambda t: t.squeeze(-2))
        elif time and self.batch_first:
            result = result.transpose(0, 1)
        return result, final

    def step(self, input_n: Tensor, state: State | tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, State]:
        """One time step, for streams: the output (b, m) and the state to give to the next call.

        Args:
            input_n: (b, d) or (d,).
            state: (y, z), each (L, b, m) or (L, m); zero if None.
        """
        if not (self.bidirectional or (self.training and self.dropout)):
            w, V, b, c, Lambda = self._parameters_by_letter
            fast = functional.stream(input_n, w, V, b, c, Lambda, self.dt, self.alpha, state, self.backend)
            if fast is not None:
                return fast
        if self.bidirectional:
            raise BadValue("step: expected bidirectional=False; the reverse direction starts at the end of the stream")
        if not isinstance(input_n, Tensor) or input_n.dim() not in (1, 2):
            got = tuple(input_n.shape) if isinstance(input_n, Tensor) else type(input_n).__name__
            raise BadValue(f"input_n: expected a tensor of shape (b, d) or (d,), got {got}")
        checks.tensor("input_n", input_n, (*input_n.shape[:-1], self.input_size), "(b, d) or (d,)")
        batched = input_n.dim() == 2
        u = input_n if batched else input_n[None]
        state = self._with_batch(state, batched)
        result, final = functional.step(
            u, *self._parameters_by_letter, dt=self.dt, alpha=self.alpha, state=state,
            mask=self._mask(state, len(u)), backward=self.backward, backend=self.backend,
        )  # fmt: skip
        return (result, final) if batched else (result[0], final.map(lambda t: t.squeeze(-2)))

    def inverse(
        self,
        input: Tensor | PackedSequence,
        state: State | tuple[Tensor, Tensor],
        lengths: Tensor | Sequence[int] | None = None,
    ) -> State:
        """eq:inv_ucrn: from the final state back to the initial one, bit for bit.

        Args:
            input, lengths: as they were given to ``forward``.
            state: what ``forward`` returned. A plain pair (y, z) is accepted, but has lost the low-order bits.
        """
        if isinstance(input, PackedSequence):
            input, lengths = self._unpack(input, lengths)
            u, batched = input, True
        else:
            u, batched = self._time_first(input)
            if not batched and lengths is not None:
                raise BadValue("lengths: expected None with unbatched input (N, d); cut the input instead")
        full = self._with_batch(state, batched)
        mask = full.mask if isinstance(full, State) else None
        run = both.inverse if self.bidirectional else functional.inverse
        start = run(
            u, full, *self._parameters_by_letter, dt=self._dt, alpha=self.alpha, lengths=lengths, mask=mask,
            backend=self.backend,
        )  # fmt: skip
        return start if batched else start.map(lambda t: t.squeeze(-2))

    # From nn.LSTM's many forms of input to (N, b, d)

    def _time_first(self, input: Any) -> tuple[Tensor, bool]:
        form = "(b, N, d)" if self.batch_first else "(N, b, d)"
        if not isinstance(input, Tensor):
            raise BadType(f"input: expected a tensor {form} or (N, d), or a PackedSequence, got {type(input).__name__}")
        if input.dim() not in (2, 3):
            raise BadValue(f"input: expected shape {form} or unbatched (N, d), got {tuple(input.shape)}")
        if input.shape[-1] != self.input_size:
            raise BadValue(
                f"input: expected {self.input_size} features (input_size) in the last dimension of {form}, "
                f"got shape {tuple(input.shape)}"
            )
        if input.dim() == 2:
            return input.unsqueeze(1), False
        return (input.transpose(0, 1) if self.batch_first else input), True

    def _with_batch(self, state: Any, batched: bool) -> Any:
        """The state with its batch dimension."""
        if state is None or batched:
            return state
        if isinstance(state, State):
            return state.map(lambda t: t.unsqueeze(-2))
        if isinstance(state, (tuple, list)) and all(isinstance(t, Tensor) for t in state):
            for i, t in enumerate(state):
                checks.tensor(f"state[{i}]", t, (len(self.w), self.hidden_size), "(L, m), the input being unbatched")
            return tuple(t.unsqueeze(1) for t in state)
        return state

    def _mask(self, state: Any, batch: int) -> Tensor | None:
        """The dropout mask (L, b, m) of the sequences: the one they began with, or a new one."""
        if not (self.training and self.dropout):
            return None
        shape, keep = (len(self.w), batch, self.hidden_size), 1 - self.dropout
        if isinstance(state, State) and state.mask is not None and state.mask.shape == shape:
            return state.mask
        return torch.empty(shape, device=self.w[0].device, dtype=self.w[0].dtype).bernoulli_(keep) / keep

    def _unpack(self, packed: PackedSequence, lengths: Any) -> tuple[Tensor, Tensor]:
        if lengths is not None:
            raise BadValue("lengths: expected None with a PackedSequence, which has its own")
        sizes = packed.batch_sizes
        if bool((sizes[1:] > sizes[:-1]).any()) or int(sizes.sum()) != len(packed.data):
            raise BadValue(
                "input: expected a PackedSequence sorted by falling length (batch_sizes never rising, adding up to the "
                f"{len(packed.data)} rows of its data), got batch_sizes {sizes.tolist()}"
            )
        if packed.data.shape[-1] != self.input_size:
            raise BadValue(f"input: expected {self.input_size} features (input_size), got {packed.data.shape[-1]}")
        padded, lengths = pad_packed_sequence(packed)
        return padded, lengths

    def _forward_packed(
        self, packed: PackedSequence, state: Any, lengths: Any, output: str | Tensor
    ) -> tuple[Any, State]:
        padded, lengths = self._unpack(packed, lengths)
        padded = padded.transpose(0, 1) if self.batch_first else padded
        result, final = self(padded, state, lengths, output)
        if not isinstance(output, str) or output != "all":
            return result, final
        result = result.transpose(0, 1) if self.batch_first else result
        if packed.sorted_indices is not None:
            result, lengths = result.index_select(1, packed.sorted_indices), lengths[packed.sorted_indices.cpu()]
        data = pack_padded_sequence(result, lengths).data
        return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices), final


class UnICORNNCell(nn.Module):
    """One step of one layer, as nn.LSTMCell: ``y, z = cell(input, (y, z))``.

    Args: as for ``UnICORNN``.

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

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        dt: float = 0.1,
        alpha: float = 1.0,
        train_time_step: bool = True,
        backward: str = "invert",
        backend: str = "auto",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = d = checks.whole("input_size", input_size, 1)
        self.hidden_size = m = checks.whole("hidden_size", hidden_size, 1)
        self.dt, self.alpha = checks.positive("dt", dt), checks.not_negative("alpha", alpha)
        self.backward = checks.choice("backward", backward, functional.BACKWARDS)
        self.backend = checks.choice("backend", backend, BACKENDS)
        self.w, self.V, self.b, self.c = (
            nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) for shape in ((m,), (m, d), (m,), (m,))
        )
        self.c.requires_grad_(train_time_step)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as Appendix A does."""
        _initialise(self.w, self.V, self.b, self.c)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, dt={self.dt}, alpha={self.alpha}"

    def forward(self, input: Tensor, state: State | tuple[Tensor, Tensor] | None = None) -> State:
        """The next (y, z) from the input (b, d) or (d,) and the state, each (b, m) or (m,); zero if None."""
        if not isinstance(input, Tensor) or input.dim() not in (1, 2) or input.shape[-1] != self.input_size:
            got = tuple(input.shape) if isinstance(input, Tensor) else type(input).__name__
            raise BadValue(
                f"input: expected a tensor of shape (b, {self.input_size}) or ({self.input_size},), got {got}"
            )
        missing = 3 - input.dim()  # dimensions in front of (b, d) or (d,): time, and the batch if there is none
        for _ in range(missing):
            input = input[None]
        if state is not None:
            batch = (input.shape[1],) if missing == 1 else ()
            state = _lift(state, (*batch, self.hidden_size), missing)
        _, final = functional.unicornn(
            input, [self.w], [self.V], [self.b], [self.c], dt=self.dt, alpha=self.alpha, state=state, output="last",
            backward=self.backward, backend=self.backend,
        )  # fmt: skip
        return final.map(lambda t: t.squeeze(-3) if missing == 1 else t.squeeze(-3).squeeze(-2))


def _lift(state: Any, shape: tuple[int, ...], missing: int) -> Any:
    """A cell's state, (b, m) or (m,), as a stack's, (1, b, m)."""
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise BadType(f"state: expected a pair (y, z) of tensors of shape {shape}, got {type(state).__name__}")
    for i, t in enumerate(state):
        checks.tensor(f"state[{i}]", t, shape, "as the input is batched or not")

    def lift(t: Tensor) -> Tensor:
        return t.unsqueeze(-2).unsqueeze(-3) if missing == 2 else t.unsqueeze(-3)

    return state.map(lift) if isinstance(state, State) else tuple(map(lift, state))
