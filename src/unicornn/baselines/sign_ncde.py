"""Signature NCDE: a differential equation driven by log-signatures of windows of the sequence."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import _checks as checks
from unicornn._extras import install_hint
from unicornn.baselines._base import Baseline, Layer, States, at_least_one, hyperparameters
from unicornn.errors import BadValue

LYNDON = 1  # pysiglib's constant for coordinates by Lyndon words, as in the authors' library


def channels(width: int, depth: int) -> int:
    """Size of the log-signature of a path with ``width`` channels: number of Lyndon words up to ``depth`` letters."""
    words: dict[int, int] = {}
    for k in range(1, depth + 1):
        words[k] = (width**k - sum(j * words[j] for j in words if k % j == 0)) // k
    return sum(words.values())


def log_signatures(paths: Tensor, depth: int) -> Tensor:
    """(k, channels) of k paths (k, points, width), linear between their points."""
    try:
        library, differentiable = (importlib.import_module(name) for name in ("pysiglib", "pysiglib.torch_api"))
    except ImportError as error:
        raise ImportError(f"sign-ncde: log-signatures need pysiglib: {install_hint('ncde')}") from error
    library.prepare_log_sig(paths.shape[-1], depth, method=LYNDON)
    return differentiable.log_sig(paths, depth, method=LYNDON)


class SignatureNCDELayer(Layer):
    """``initial`` (m, width + 1), and f_θ: ``enter`` (p, m), ``hidden`` (p, p), ``leave`` (m · channels, p)."""

    def build(self, **factory: Any) -> None:
        m, p = self.m, self.options["multiplier"] * self.m
        self.step, self.depth = self.options["step"], self.options["depth"]
        self.initial, self.enter = nn.Linear(self.width + 1, m, **factory), nn.Linear(m, p, **factory)
        self.hidden = nn.Linear(p, p, **factory) if self.options["hidden_layers"] > 1 else None
        self.leave = nn.Linear(p, m * channels(self.width + 1, self.depth), **factory)

    def slope(self, h: Tensor, signature: Tensor) -> Tensor:
        """f_θ(h) times the log-signature: h (b, m), signature (b, channels)."""
        z = self.enter(h)
        for _ in range(self.options["hidden_layers"] - 1):
            z = self.hidden(z.relu())  # type: ignore[misc]
        return torch.bmm(self.leave(z.tanh()).unflatten(1, (self.m, -1)), signature[:, :, None]).squeeze(2)

    def advance(self, h: Tensor, signature: Tensor) -> Tensor:
        """One Runge-Kutta step of length 1, by the 3/8 rule: what torchdiffeq, which the authors use, calls rk4."""
        k1 = self.slope(h, signature)
        k2 = self.slope(h + k1 / 3, signature)
        k3 = self.slope(h + k2 - k1 / 3, signature)
        k4 = self.slope(h + k1 - k2 + k3, signature)
        return h + (k1 + 3 * (k2 + k3) + k4) / 8

    def forward(self, x: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        (N, b, width), step = x.shape, self.step
        h, waiting, count = state
        if not bool(((count >= 0) & (count <= step)).all()):
            raise BadValue(
                f"state[2]: expected 0 to step={step} samples in unfinished windows, got {count.flatten().tolist()}"
            )
        # The k samples of the unfinished window directly precede the new ones: the first of them is at step - k.
        earlier = waiting.unflatten(1, (step, -1)).transpose(0, 1)
        samples = torch.cat([earlier[..., :width], x])
        k, sequence = count.ceil().long().flatten(), torch.arange(b, device=x.device)
        ends = torch.full_like(k, N) if lengths is None else lengths
        done = (k + ends - 1) // step
        h = torch.where(k[:, None] > 0, h, self.initial(nn.functional.pad(x[0], (1, 0))))

        trajectory = [h]
        for w, signature in enumerate(self.drive(samples, k, int(done.max()))):
            h = torch.where(w < done[:, None], self.advance(h, signature), h)
            trajectory.append(h)
        n = torch.arange(N, device=x.device)[:, None]
        output = torch.stack(trajectory)[((k + n) // step).clamp(max=len(trajectory) - 1), sequence]

        j = torch.arange(step, device=x.device)[:, None]
        rest = k + ends - done * step
        last = torch.where((j >= step - rest)[:, :, None], samples[ends + j, sequence], 0)
        last = nn.functional.pad(last, (0, earlier.shape[2] - width))
        return output, (h, last.transpose(0, 1).flatten(1), count + (ends - done * step)[:, None])

    def drive(self, samples: Tensor, k: Tensor, windows: int) -> Sequence[Tensor]:
        """Log-signatures (b, channels), window by window; undefined after the end of a sequence."""
        b, step = len(k), self.step
        first = step * torch.arange(windows, device=k.device)[:, None] + step - k
        at = first[:, :, None] + torch.arange(step + 1, device=k.device)
        at, sequence = at.clamp(max=len(samples) - 1), torch.arange(b, device=k.device)[:, None]
        paths = samples[at, sequence].flatten(0, 1)
        time = self.options["dt"] * torch.arange(step + 1, device=k.device, dtype=samples.dtype)
        paths = torch.cat([time[:, None].expand(len(paths), -1, -1), paths], -1)
        # With unflatten and unbind, pysiglib would receive the gradient as a view and warn. split returns one piece of
        # an empty tensor, hence [:windows].
        return log_signatures(paths, self.depth).split(b)[:windows]


class SignatureNCDE(Baseline):
    """Neural controlled differential equation on log-signatures (Morrill, Salvi, Kidger, Foster & Lyons, ICML 2021).

    Time is added to the input as a channel, and the sequence is cut into windows of ``step`` samples that share their
    endpoints. Over a window

        dh/ds = f_θ(h) ℓ,   s from 0 to 1,

    ℓ being the window's log-signature: at depth 1 the increments of all channels, at depth 2 also the Lévy areas
    ½∫(X_i dX_j - X_j dX_i) of all pairs. One Runge-Kutta step per window; h starts as a linear map of the first sample.
    f_θ is a network with ReLU between its hidden layers, tanh after the last, and a linear map to the m · channels
    entries of the matrix. As in the authors' code, all hidden layers but the first share one matrix.

    h changes when a window is complete. Until then, the output is that of the previous window and the state contains
    the samples, so that a sequence can be cut anywhere and continued. As in the authors' code, an unfinished window at
    the end of a sequence does not affect its last output. A state with 0 samples marks the start of a sequence; only
    then is h computed from the first sample instead of being taken from the state.

    Initialisation: torch's for linear maps, U(-1/√fan-in, 1/√fan-in). Needs the extra ``ncde`` to run.

    Args:
        step: Number of samples by which a window advances.
        depth: Depth of the log-signature, whose size grows as (d + 1)^depth.
        dt: Time between two samples. The authors let time run from 0 to 1 over the sequence.
        multiplier: Width of the hidden layers of f_θ, in units of m.
        hidden_layers: Number of hidden layers of f_θ, at least 1.

    Defaults are those published for EigenWorms, with the best step and depth.

    Shapes: input (N, b, d), output (N, b, m) = h, state (h, samples, count): h (L, b, m), the samples of the
    unfinished window (L, b, step · d), or step · max(d, m) if there are layers above, and their number (L, b, 1).

    Example:
        >>> import torch
        >>> from unicornn.baselines import SignatureNCDE
        >>> baseline = SignatureNCDE(3, 16, step=8)
        >>> baseline.free_parameters()
        11088
        >>> output, (h, samples, count) = baseline(torch.randn(50, 4, 3))  # doctest: +SKIP
    """

    layer, states = SignatureNCDELayer, ("h", "samples", "count")
    options = hyperparameters(
        step=(4, at_least_one),
        depth=(2, at_least_one),
        dt=(1 / 17983, checks.positive),
        multiplier=(3, at_least_one),
        hidden_layers=(2, at_least_one),
    )

    def _state_widths(self) -> tuple[int, ...]:
        widest = self.input_size if self.num_layers == 1 else max(self.input_size, self.hidden_size)
        return self.hidden_size, self.hyperparameters["step"] * widest, 1
