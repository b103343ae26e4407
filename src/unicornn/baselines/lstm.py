"""LSTM: torch.nn.LSTM with the interface of the baselines."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from unicornn.baselines._base import Baseline, Layer, States


class TorchLayer(Layer):
    """One layer of torch.nn.LSTM or torch.nn.GRU, with their layout: gates i, f, g, o or r, z, n, two biases.

    Their states have an additional layer dimension, (1, b, m).
    """

    kind: type[nn.LSTM] | type[nn.GRU]

    def build(self, **factory: Any) -> None:
        self.rnn = self.kind(self.width, self.m, **factory)

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        start = tuple(t[None].contiguous() for t in state)
        if lengths is None:
            output, final = self._run(x, start)
        elif x.device.type == "cpu":
            output, final = self._run_pieces(x, start, lengths.cpu())
        else:
            packed, final = self._run(pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False), start)
            output, _ = pad_packed_sequence(packed, total_length=len(x))
        return output, tuple(t[0] for t in final)

    def _run(self, x: Any, start: States) -> tuple[Any, States]:
        output, final = self.rnn(x, start if len(start) > 1 else start[0])
        return output, final if isinstance(final, tuple) else (final,)

    def _run_pieces(self, x: Tensor, state: States, lengths: Tensor) -> tuple[Tensor, States]:
        """Runs from the end of one sequence to the next, with the sequences that are still running.

        On the CPU, torch's backward pass over a packed sequence takes time quadratic in the length.
        """
        outputs, begin = [], 0
        for end in [*lengths.unique().tolist(), len(x)]:
            rows = (lengths > begin).nonzero()[:, 0]
            padded = x.new_zeros(end - begin, x.shape[1], self.m)
            if end > begin and len(rows):
                output, after = self._run(x[begin:end, rows], tuple(t[:, rows] for t in state))
                padded = padded.index_copy(1, rows, output)
                state = tuple(t.index_copy(1, rows, new) for t, new in zip(state, after, strict=True))
            outputs.append(padded)
            begin = end
        return torch.cat(outputs), state


class LSTMLayer(TorchLayer):
    kind = nn.LSTM


class LSTM(Baseline):
    """Long short-term memory (Hochreiter & Schmidhuber, Neural Computation 1997; forget gate by Gers et al., 2000).

    With σ̂ the sigmoid and ⊙ the element-wise product:

        i, f, o = σ̂(W x_n + b + U h_{n-1} + b'), each with its own W, U, b, b'
        g = tanh(W_g x_n + b_g + U_g h_{n-1} + b'_g)
        c_n = f ⊙ c_{n-1} + i ⊙ g
        h_n = o ⊙ tanh(c_n)

    It is ``torch.nn.LSTM``, one per layer, with torch's initialisation: all parameters U(-1/√m, 1/√m).
    """

    layer, states = LSTMLayer, ("h", "c")
