"""Skip LSTM and Skip GRU: gated networks that learn which steps to skip."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unicornn.baselines._base import Baseline, Layer, States, Step, StepLayer
from unicornn.baselines.relu_gru import gru_step


def update_gate(wait: Tensor) -> Tensor:
    """(b, 1): 1 to update, 0 to skip; round(1 - wait), with the gradient of 1 - wait."""
    chance = 1 - wait
    return (chance >= 0.5).to(chance.dtype) + (chance - chance.detach())


class SkipLayer(StepLayer):
    """W (4m or 3m, d) with the biases, U (·, m), and the gate's w (1, m) with its bias."""

    rows: tuple[int, ...]  # of the recurrent matrices, in units of m
    bias: tuple[float, ...]  # initial value for each gate

    def build(self, **factory: Any) -> None:
        rows, m = self.rows, self.m
        self.W = nn.Linear(self.width, sum(rows) * m, **factory)
        self.U = nn.ModuleList(nn.Linear(m, k * m, bias=False, **factory) for k in rows)
        self.w = nn.Linear(m, 1, **factory)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for linear in (self.W, *self.U, self.w):
            nn.init.xavier_uniform_(linear.weight)
        for b, start in zip(self.W.bias.chunk(len(self.bias)), self.bias, strict=True):
            nn.init.constant_(b, start)
        nn.init.ones_(self.w.bias)

    def next_wait(self, s: Tensor, wait: Tensor, u: Tensor) -> Tensor:
        """1 - ũ for the next step, from the state s (b, m) and this step's decision u."""
        chance = self.w(s).sigmoid()
        return (wait - chance).relu().lerp(1 - chance, u)


class SkipLSTMLayer(SkipLayer):
    rows, bias = (4,), (0.0, 1.0, 0.0, 0.0)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        U = self.U[0].weight.t()  # type: ignore[operator]

        def step(x_n: Tensor, h: Tensor, c: Tensor, wait: Tensor) -> States:
            u = update_gate(wait)
            i, f, g, o = torch.addmm(x_n, h, U).chunk(4, 1)
            c_new = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h_new = o.sigmoid() * c_new.tanh()
            h, c = h.lerp(h_new, u), c.lerp(c_new, u)
            return h, c, self.next_wait(c, wait, u)

        return self.W(x), step


class SkipGRULayer(SkipLayer):
    rows, bias = (2, 1), (1.0, 1.0, 0.0)

    def prepare(self, x: Tensor) -> tuple[Tensor, Step]:
        U, U_c = (linear.weight.t() for linear in self.U)  # type: ignore[operator]

        def step(x_n: Tensor, h: Tensor, wait: Tensor) -> States:
            u = update_gate(wait)
            h = h.lerp(gru_step(h, x_n, U, U_c, torch.tanh), u)
            return h, self.next_wait(h, wait, u)

        return self.W(x), step


class SkipLSTM(Baseline):
    """Skip LSTM (Campos, Jou, Giró-i-Nieto, Torres & Chang, ICLR 2018).

    A binary gate u_n decides whether an LSTM's state s_n = (h_n, c_n) is updated or copied:

        u_n = round(ũ_n), with the gradient of ũ_n (straight-through)
        s_n = u_n LSTM(s_{n-1}, x_n) + (1 - u_n) s_{n-1}
        δ_n = σ̂(w · c_n + w_0)
        ũ_{n+1} = u_n δ_n + (1 - u_n)(ũ_n + min(δ_n, 1 - ũ_n)), ũ_1 = 1

    The state contains 1 - ũ instead of ũ, so that a zero state starts with an update. Every layer of a stack has a
    gate; the published stack shares one among all layers. The published loss can also penalise updates; here not.
    Initialisation: matrices Glorot-uniform, biases 0, but 1 for the forget gate and w_0.

    Shapes: input (N, b, d), output (N, b, m) = h, state (h, c, 1 - ũ), (L, b, m) twice and (L, b, 1).
    """

    layer: type[Layer] = SkipLSTMLayer
    states: tuple[str, ...] = ("h", "c", "wait")

    def _state_widths(self) -> tuple[int, ...]:
        return *super()._state_widths()[1:], 1


class SkipGRU(SkipLSTM):
    """Skip GRU (Campos, Jou, Giró-i-Nieto, Torres & Chang, ICLR 2018).

    As ``SkipLSTM``, with a GRU, whose reset gate comes before the product, and δ_n = σ̂(w · h_n + w_0).
    Initialisation: matrices Glorot-uniform, biases of the gates and w_0 1, that of the candidate 0.

    Shapes: input (N, b, d), output (N, b, m), state (h, 1 - ũ), (L, b, m) and (L, b, 1).
    """

    layer, states = SkipGRULayer, ("h", "wait")
