"""Base class of all recurrent layers: nn.LSTM's forms of input and state, lengths, and variational dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unicornn import _checks as checks
from unicornn._state import State
from unicornn.errors import BadType, BadValue


class Checked(nn.Module):
    """A module with settings that are checked on assignment.

    settings: by name, a function ``check(module, value)`` that returns the value to store, or raises.
    """

    settings: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        check = self.settings.get(name)
        super().__setattr__(name, value if check is None else check(self, value))


class SavedSettings(Checked):
    """A module whose ``state_dict`` includes dt and alpha: with other values, its weights mean something else.

    Weights without them, saved elsewhere or put together by hand, can be loaded too.
    """

    dt: Any
    alpha: Any

    def get_extra_state(self) -> Tensor:
        dt = self.dt if isinstance(self.dt, tuple) else (self.dt,)
        return torch.tensor([*dt, self.alpha], dtype=torch.float64, device="cpu")

    def set_extra_state(self, state: Any) -> None:
        own = self.get_extra_state()
        if not checks.is_dense(state) or state.shape != own.shape or not state.is_floating_point():
            raise BadValue(f"state_dict: expected dt of {len(own) - 1} layers and alpha, got {checks.describe(state)}")
        if not torch.equal(own.to(state.dtype), state.cpu()):  # weights may have been rounded to another dtype
            *saved, alpha = state.tolist()
            raise BadValue(
                f"dt, alpha: expected those of the layer, {self.dt} and {self.alpha}, got weights for {saved} and "
                f"{alpha}; create the layer with these, or delete '_extra_state' from the state_dict"
            )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing: list[str] = args[2]
        if (key := prefix + "_extra_state") in missing:
            missing.remove(key)


class Recurrent(Checked):
    """A stack of recurrent layers with nn.LSTM's interface.

    A subclass implements ``_run`` and sets ``state_rows`` and ``state_widths``: its state has one tensor
    (state_rows, b, width) for each width.
    """

    state_rows: int
    state_widths: tuple[int, ...]
    settings: ClassVar[Any] = {"dropout": lambda _, value: checks.fraction("dropout", value)}
    dropout: Any

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int, *, dropout: float, batch_first: bool
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = checks.sizes(input_size, hidden_size, num_layers)
        self.dropout = dropout
        self.batch_first = checks.flag("batch_first", batch_first)

    def _run(
        self, u: Tensor, state: Any, lengths: Tensor | None, output: str | Tensor, mask: Tensor | None
    ) -> tuple[Tensor, State]:
        """Runs the layers over u (N, b, d), from a state of valid shapes, or None.

        ``lengths`` (b,) int64, with unchecked values, or None; ``output`` unchecked; ``mask`` (state_rows, b, m) or
        None. Returns the output (N, b, ·), (k, b, ·) or, for "last", (b, ·), zero in the padding; and the final state.
        """
        raise NotImplementedError

    def forward(
        self,
        input: Tensor | PackedSequence,
        state: Sequence[Tensor] | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        output: str | Tensor = "all",
    ) -> tuple[Any, State]:
        """Runs the layers over the sequences.

        Args:
            input: Sequences (N, b, d), (b, N, d) with ``batch_first``, unbatched (N, d), or a PackedSequence.
            state: Initial state, each tensor (L, b, m) or unbatched (L, m); zero if None.
            lengths: Length of each sequence (b,); later steps are padding and are ignored.
            output: Steps to return: "all", "last" (the last step of each sequence; of a bidirectional layer, where each
                direction ends), or a LongTensor of time steps, (k,) or (k, b).

        Returns:
            The output (N, b, m), (b, m) or (k, b, m), with the batch first if ``batch_first``, zero in the padding; a
            PackedSequence if the input is one and ``output`` is "all". And the final ``State``, at each sequence's end.
        """
        u, ends, batched, packed = self._input(input, lengths)
        if not batched and isinstance(output, Tensor) and output.dim() != 1:
            got = tuple(output.shape)
            raise BadValue(f"output: expected time steps of shape (k,) with unbatched input, got {got}")
        state = self._with_batch(state, u.shape[1] if batched else None)
        mask = self._mask(state, u.shape[1])
        result, final = self._run(u, state, ends, output, mask)
        if packed is not None and isinstance(output, str) and output == "all":
            return _packed_as(packed, result, ends), final
        if not batched:
            return result.squeeze(-2), final.map(lambda t: t.squeeze(-2))
        return (result.transpose(0, 1) if self.batch_first and result.dim() == 3 else result), final

    def _input(self, input: Any, lengths: Any) -> tuple[Tensor, Tensor | None, bool, PackedSequence | None]:
        """Input (N, b, d); lengths (b,) or None; whether the input was batched; the PackedSequence, if it was one."""
        if isinstance(input, PackedSequence):
            u, ends = self._unpacked(input)
            if lengths is not None:
                raise BadValue("lengths: expected None with a PackedSequence, which has lengths, got some")
            return u, ends.to(u.device), True, input
        u, batched = self._time_first(input)
        if lengths is None:
            return u, None, batched, None
        if not batched:
            raise BadValue("lengths: expected None with unbatched input (N, d); cut the input instead")
        ends = checks.tensor("lengths", checks.indices("lengths", lengths, u.device), (u.shape[1],), "(b,)")
        return u, ends, batched, None

    def _time_first(self, input: Any) -> tuple[Tensor, bool]:
        form = "(b, N, d)" if self.batch_first else "(N, b, d)"
        checks.array("input", input, (2, 3), f"{form} or unbatched (N, d), or a PackedSequence")
        if input.shape[-1] != self.input_size:
            raise BadValue(
                f"input: expected {self.input_size} features (input_size) in the last dimension of {form}, "
                f"got shape {tuple(input.shape)}"
            )
        if input.dim() == 2:
            return input.unsqueeze(1), False
        return (input.transpose(0, 1) if self.batch_first else input), True

    def _unpacked(self, packed: PackedSequence) -> tuple[Tensor, Tensor]:
        data, sizes, *orders = packed
        for part in (data, sizes):
            if not isinstance(part, Tensor):
                raise BadType(f"input: expected a PackedSequence of tensors, got {checks.describe(part)}")
            checks.dense("input", part)
        sizes = checks.indices("input", sizes, torch.device("cpu"))
        falling = sizes.dim() == 1 and len(sizes) and bool((sizes >= 1).all() and (sizes[1:] <= sizes[:-1]).all())
        if data.dim() != 2 or not falling or int(sizes.sum()) != len(data):
            raise BadValue(
                "input: expected a PackedSequence sorted by decreasing length (batch_sizes that never increase and add "
                f"up to the rows of its data), got data of shape {tuple(data.shape)}, batch_sizes {sizes.tolist()}"
            )
        if data.shape[-1] != self.input_size:
            got = data.shape[-1]
            raise BadValue(f"input: expected {self.input_size} features (input_size) in a PackedSequence, got {got}")
        if any(order is not None for order in orders):
            there, back = (checks.indices("input", order, torch.device("cpu")) for order in orders)
            every = torch.arange(int(sizes[0]))
            if not (torch.equal(there.sort().values, every) and torch.equal(back, there.argsort())):
                raise BadValue(
                    "input: expected a PackedSequence whose sorted_indices are a permutation of its sequences and "
                    f"unsorted_indices the inverse of it, got {there.tolist()} and {back.tolist()}"
                )
        return pad_packed_sequence(packed)

    def _with_batch(self, state: Any, batch: int | None) -> Any:
        """The checked state with a batch dimension; ``batch`` is None for unbatched input."""
        if state is None:
            return None
        widths = self.state_widths
        if not isinstance(state, (tuple, list)) or len(state) != len(widths):
            got = type(state).__name__ + (f" of {len(state)}" if isinstance(state, (tuple, list)) else "")
            raise BadType(f"state: expected {self._state_form()}, got {got}")
        meaning = "(L, m) for unbatched input" if batch is None else "(L, b, m)"
        for i, (t, width) in enumerate(zip(state, widths, strict=True)):
            shape = (self.state_rows, width) if batch is None else (self.state_rows, batch, width)
            checks.tensor(f"state[{i}]", t, shape, meaning)
        if batch is not None:
            return state
        if isinstance(state, State):
            return state.map(lambda t: t.unsqueeze(-2))
        return tuple(t.unsqueeze(-2) for t in state)

    def _state_form(self) -> str:
        return f"a tuple of {len(self.state_widths)} tensors"

    def _mask(self, state: Any, batch: int) -> Tensor | None:
        """The dropout mask (L, b, m) of the sequences: that of the state, or a new one."""
        if not (self.training and self.dropout):
            return None
        shape, keep, like = (self.state_rows, batch, self.hidden_size), 1 - self.dropout, next(self.parameters())
        if isinstance(state, State) and state.mask is not None and state.mask.shape == shape:
            return state.mask
        return torch.empty(shape, device=like.device, dtype=like.dtype).bernoulli_(keep) / keep


def _packed_as(packed: PackedSequence, result: Tensor, lengths: Tensor | None) -> PackedSequence:
    """The output (N, b, ·) as a PackedSequence like the input."""
    assert lengths is not None
    if packed.sorted_indices is not None:
        result, lengths = result.index_select(1, packed.sorted_indices), lengths[packed.sorted_indices]
    data = pack_padded_sequence(result, lengths.cpu()).data
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
