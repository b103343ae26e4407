"""Random problems for the tests of the ops: stacks with all options, and gradients to pull back through them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from unicornn import functional
from unicornn._ops.problem import Problem as Arguments
from unicornn._state import to_grid
from unicornn.functional import Weights, time_steps


@dataclass
class Problem:
    """Tensors of a stack with L layers and skip connections over S layers, and the gradients of its outputs."""

    N: int = 20
    batch: int = 3
    d: int = 2
    m: int = 5
    L: int = 2
    S: int = 0
    alpha: float = 1.3
    dt: float = 0.2
    dropout: bool = False
    lengths: list[int] | None = None
    dtype: torch.dtype = torch.float64
    seed: int = 0

    def __post_init__(self) -> None:
        make = torch.Generator().manual_seed(self.seed)

        def rand(*shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
            return (torch.rand(shape, generator=make, dtype=torch.float64) * (high - low) + low).to(self.dtype)

        L, m, batch, d, S = self.L, self.m, self.batch, self.d, self.S
        self.w = [rand(m, low=0) for _ in range(L)]
        self.V = [rand(m, m if l else d) * (3 / (m if l else d)) ** 0.5 for l in range(L)]
        self.b = [rand(m) * 0.3 for _ in range(L)]
        self.c = [rand(m) for _ in range(L)]
        self.Lambda = [rand(m, m if l > S else d) if 0 < S <= l else None for l in range(L)]
        self.u = rand(self.N, batch, d)
        self.y, self.z = rand(L, batch, m), rand(L, batch, m)
        self.mask = (rand(L, batch, m) > -0.5).to(self.dtype) / 0.75 if self.dropout else None
        self.g_output, self.g_y, self.g_z = rand(self.N, batch, m), rand(L, batch, m), rand(L, batch, m)

    @property
    def weights(self) -> Weights:
        return Weights(self.w, self.V, self.b, self.c, self.Lambda)

    def arguments(self, **changes: Any) -> Arguments:
        """As the ops take them."""
        w, V, b, Lambda = self.weights.converted(self.dtype, self.dtype)
        start = torch.stack([self.y, self.z])
        grid, rest = to_grid(start)
        lengths = None if self.lengths is None else torch.tensor(self.lengths, device=self.u.device)
        return Arguments(
            u=self.u, start=start, grid=grid, rest=rest, w=w, V=V, b=b, a=time_steps(self.c, self.dt, torch.float64),
            Lambda=Lambda, alpha=self.alpha, mask=self.mask, lengths=lengths, steps=None, every=True, keep="nothing",
            horizon=None, backend="cpu",
        )._replace(**changes)  # fmt: skip

    def leaves(self, **changes: Any) -> Arguments:
        """``arguments`` whose differentiable tensors are leaves of the graph, with a horizon if there is dropout."""
        p = self.arguments(horizon=[9.0] * self.L if self.dropout else None)
        leaves = {name: getattr(p, name).detach().requires_grad_() for name in ("u", "start", "w", "b", "a")}
        leaves |= {name: [V.detach().requires_grad_() for V in getattr(p, name)] for name in ("V", "Lambda")}
        return p._replace(**leaves, **changes)

    @property
    def options(self) -> dict[str, Any]:
        return {"dt": self.dt, "alpha": self.alpha, "lengths": self.lengths, "mask": self.mask}

    @property
    def differentiable(self) -> list[Tensor]:
        """Input, initial states, and all parameters."""
        letters = [t for letter in self.weights for t in letter if t is not None]
        return [self.u, self.y, self.z, *letters]

    def names(self) -> list[str]:
        letters = zip(("w", "V", "b", "c", "Λ"), self.weights, strict=True)
        return ["u", "y", "z", *(f"{n}{l + 1}" for n, ts in letters for l, t in enumerate(ts) if t is not None)]

    def requiring_grad(self) -> "Problem":
        for t in self.differentiable:
            t.requires_grad_()
        return self

    def gradients(self, output: Tensor, state: Any) -> list[Tensor]:
        """Gradients of a loss that depends on every output and on the final y and z."""
        loss = (output * self.g_output).sum() + (state[0] * self.g_y).sum() + (state[1] * self.g_z).sum()
        return list(torch.autograd.grad(loss, self.differentiable))

    def run(self, **options: Any) -> tuple[list[Tensor], list[Tensor]]:
        """Output and final state of ``functional.unicornn``, and the gradients."""
        self.requiring_grad()
        output, state = functional.unicornn(self.u, self.weights, state=(self.y, self.z), **self.options, **options)
        return [t.detach() for t in (output, *state)], self.gradients(output, state)

    def ordered(self, g: Any) -> list[Tensor]:
        """The gradients of a stack in the order of ``names``."""
        σ = torch.sigmoid(torch.stack(self.c))
        return [g.u, *g.start, *g.w, *g.V, *g.b, *(g.a * self.dt * σ * (1 - σ)), *g.Lambda]

    def to(self, device: str) -> "Problem":
        """Moves all tensors to a device."""
        return self._map(lambda t: t.to(device))

    def double(self) -> "Problem":
        """A copy in float64."""
        twin = replace(self, dtype=torch.float64)
        vars(twin).update({name: vars(self)[name] for name in TENSORS})
        return twin._map(lambda t: t.detach().double())

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Problem":
        def changed(value: Any) -> Any:
            return [changed(t) for t in value] if isinstance(value, list) else None if value is None else change(value)

        vars(self).update({name: changed(vars(self)[name]) for name in TENSORS})
        return self


TENSORS = ("u", "y", "z", "g_output", "g_y", "g_z", "mask", "w", "V", "b", "c", "Lambda")

GPU = "cuda" if torch.cuda.is_available() else "cpu"
"""Device of the Triton kernels in tests."""

COMPILED = GPU == "cuda" or os.environ.get("UNICORNN_TRITON") == "compiled"
"""Whether compiled Triton kernels run (on this CPU: see ops/on_host.py), not the slow interpreter."""

TRITON = pytest.param("triton", marks=() if COMPILED else pytest.mark.slow)
"""The back-end as a test parameter; the interpreter makes such tests slow, ops/test_triton.py has quick ones."""

# Odd sizes; N = 1, b = 1, m = 1; more than one chunk (N > 1024), more than one block, all options.
CASES = {
    "plain": {},
    "one of everything": {"N": 1, "batch": 1, "d": 1, "m": 1, "L": 1},
    "one step": {"N": 1},
    "one layer, alpha 0": {"L": 1, "alpha": 0.0, "m": 9},
    "two chunks": {"N": 1027, "batch": 2, "m": 3, "dt": 0.05},
    "two blocks": {"N": 7, "batch": 5, "m": 27, "d": 3},
    "a block exactly": {"N": 5, "batch": 2, "m": 64},
    "residual": {"L": 5, "S": 2, "m": 4},
    "residual, wide": {"L": 4, "S": 3, "m": 17, "N": 9},
    "dropout": {"dropout": True},
    "lengths": {"lengths": [20, 7, 1]},
    "lengths, unsorted": {"lengths": [3, 20, 8, 20, 1], "batch": 5},
    "lengths over chunks": {"N": 1042, "batch": 3, "m": 2, "lengths": [1025, 1024, 1042], "dt": 0.05},
    "no sequence of full length": {"lengths": [5, 3, 2]},
    "everything": {"L": 4, "S": 2, "dropout": True, "lengths": [2, 20, 11], "m": 11, "alpha": 7.0},
}


def random_problems(
    N: int, m: int, batch: int = 3, dtypes: Any = (torch.float32, torch.float64), alphas: Any = (1.3,)
) -> st.SearchStrategy[Problem]:
    """Problems of up to these sizes and four layers, with all options."""

    def build(ragged: bool, N: int, S: int, **given: Any) -> Problem:
        S = S if given["L"] > S else 0
        lengths = [1 + (given["seed"] + 5 * i) % N for i in range(given["batch"])] if ragged else None
        return Problem(N=N, S=S, lengths=lengths, **given)

    sizes = {"N": N, "batch": batch, "m": m, "L": 4}
    chosen = {"S": [0, 2, 3], "dtype": dtypes, "alpha": alphas, "dropout": [False, True], "ragged": [False, True]}
    return st.builds(
        build,
        seed=st.integers(0, 999),
        **{name: st.integers(1, most) for name, most in sizes.items()},
        **{name: st.sampled_from(values) for name, values in chosen.items()},
    )


def draw(*shape: int) -> Tensor:
    """Standard normal numbers in double precision."""
    return torch.randn(shape, dtype=torch.float64)


def relative(x: Tensor, reference: Tensor) -> float:
    """Norm of the difference divided by that of the reference."""
    x, reference = x.detach().cpu(), reference.detach().cpu()
    return float((x.double() - reference.double()).norm() / reference.double().norm().clamp_min(1e-300))
