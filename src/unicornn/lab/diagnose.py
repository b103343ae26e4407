"""Diagnosis of a trained network: the theory's quantities, measured on sequences of its validation set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import theory
from unicornn._files import atomic_write, write_json
from unicornn._layer import UnICORNN
from unicornn.lab._run_folder import Run
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Task
from unicornn.lab.tasks._checked import load_checked
from unicornn.lab.training._evaluate import config_of, load_network, task_of
from unicornn.models import Network, TextClassifier
from unicornn.readouts import EveryStep, Last
from unicornn.theory import plots

LYAPUNOV_STEPS = 200  # the fewest for which an exponent is estimated
VANISHING = 1e-6  # float32 has seven digits: smaller contributions are lost in a sum
EVEN = 10.0  # largest ratio of gradients that counts as even


def diagnose(
    run: Run | str | Path, *, task: Task | None = None, source: Source | None = None, sequences: int = 4
) -> dict[str, Any]:
    """Measures a trained network and writes ``diagnosis.json`` and ``diagnosis.png`` into the run's folder.

    Args:
        run: Run with weights, finished or not.
        task: Task of the run, if it is not part of the package.
        source: Location of the data.
        sequences: Number of sequences of the validation set.

    Returns:
        sequences, steps: number of sequences and their length. gradient_first_tenth, gradient_last_tenth: mean of
        ‖∂E/∂u_k‖ over the first and the last tenth of the steps, where E is the training loss. lyapunov_exponent: the
        largest one per step; None if the sequences are too short. For UnICORNN also time_steps: the smallest and
        largest effective time step of each layer; w_norms: ‖w‖_∞ of each layer; recovered_exactly: whether the inverse
        returns the initial state bit for bit; and, if it is not bidirectional, gradient_growth: ln of the gradient's
        growth from the last step to the first, its exponent per step and the number of steps after which float32
        would overflow, by ``theory.gradient_growth``.

    Example:
        >>> import tempfile
        >>> from unicornn.lab import tasks
        >>> from unicornn.lab.diagnose import diagnose
        >>> from unicornn.lab.training import resolve, train
        >>> config = resolve(tasks.find("digits"), settings={"epochs": 1, "hidden_size": 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     diagnose(train(config, folder + "/run"))["recovered_exactly"]
        True
    """
    run = run if isinstance(run, Run) else Run(run)
    task = task_of(run, task)
    config, network = config_of(run, task), load_network(run, task=task)
    valid = load_checked(task, source or Source(), config.task_options, config.seed, ("valid",)).valid
    batch = valid.batch(torch.arange(min(sequences, len(valid))), -1)
    u, lengths = _inputs(network, batch)
    N = len(u) if lengths is None else int(lengths.min())
    u = u[:N]  # cut to the shortest sequence, so that all end at the same step
    rnn, profile = network.rnn, _gradient_profile(network, task.kind, u, batch.target)
    tenth = max(1, N // 10)
    diagnosis: dict[str, Any] = {
        "sequences": u.shape[1],
        "steps": N,
        "gradient_first_tenth": float(profile[:tenth].mean()),
        "gradient_last_tenth": float(profile[-tenth:].mean()),
        "lyapunov_exponent": theory.lyapunov_exponent(rnn, u) if N >= LYAPUNOV_STEPS else None,
    }
    if isinstance(rnn, UnICORNN):
        time_steps = rnn.time_steps().detach()
        diagnosis["time_steps"] = [{"smallest": float(a.min()), "largest": float(a.max())} for a in time_steps]
        diagnosis["w_norms"] = [float(w.detach().abs().max()) for w in rnn.w]
        with torch.no_grad():
            start = rnn.inverse(u, rnn(u, output="last")[1])
        diagnosis["recovered_exactly"] = not (start.y.any() or start.z.any())
        if not rnn.bidirectional:
            growth = theory.gradient_growth(rnn, u)
            overflow = growth.overflow if math.isfinite(growth.overflow) else None
            diagnosis["gradient_growth"] = {"ln": growth.growth, "exponent": growth.exponent, "overflow": overflow}
    _draw(run.path / "diagnosis.png", rnn, profile)
    write_json(run.path / "diagnosis.json", diagnosis)
    return diagnosis


def _inputs(network: Network, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The input (N, b, d) of the recurrent layers, with words embedded and inputs concatenated, and lengths (b,)."""
    u = network.embedding(batch.u).detach() if isinstance(network, TextClassifier) else batch.u
    with torch.no_grad():
        return network.steps(u, batch.lengths)


def _gradient_profile(network: Network, kind: str, u: Tensor, target: Tensor) -> Tensor:
    """‖∂E/∂u_k‖ for each step k (N,)."""

    def loss(features: Tensor) -> Tensor:
        output = network.head(features)
        if kind == "classify":
            return nn.functional.cross_entropy(output, target)
        return nn.functional.mse_loss(output, target[len(u) - 1] if kind == "forecast" else target[:, None])

    if network.readout in (Last(), EveryStep()):
        return theory.gradient_profile(network.rnn, u, loss)
    u = u.detach().requires_grad_()
    features = network.features(network.rnn, u, None)
    (gradient,) = torch.autograd.grad(loss(features[-1] if features.dim() == 3 else features), u)
    return gradient.double().flatten(1).norm(dim=1).cpu()


def diagnosis_rows(diagnosis: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Rows of a table: quantity, value and assessment.

    Example:
        >>> diagnosis = {"sequences": 4, "steps": 100, "gradient_first_tenth": 1e-9, "gradient_last_tenth": 1.0}
        >>> for quantity, value, assessment in diagnosis_rows(diagnosis | {"lyapunov_exponent": None}):
        ...     print(f"{quantity}: {value} ({assessment})")
        gradient, first tenth of the steps (1 to 10): 1e-09 (mean of ‖∂E/∂u‖ over 4 sequences)
        gradient, last tenth of the steps (91 to 100): 1 (mean of ‖∂E/∂u‖ over 4 sequences)
        gradient, ratio of the first tenth to the last: 1e-09 (bad: vanishes, the beginning is hardly learned)
        largest Lyapunov exponent: not measured (needs 200 steps, the sequences have 100)
    """
    N, tenth = diagnosis["steps"], max(1, diagnosis["steps"] // 10)
    first, last = diagnosis["gradient_first_tenth"], diagnosis["gradient_last_tenth"]
    mean = f"mean of ‖∂E/∂u‖ over {diagnosis['sequences']} sequences"
    rows = [
        (f"gradient, first tenth of the steps (1 to {tenth:,})", f"{first:.3g}", mean),
        (f"gradient, last tenth of the steps ({N - tenth + 1:,} to {N:,})", f"{last:.3g}", mean),
        ("gradient, ratio of the first tenth to the last", *_assess_ratio(first, last)),
        ("largest Lyapunov exponent", *_assess_exponent(diagnosis["lyapunov_exponent"], N)),
    ]
    if growth := diagnosis.get("gradient_growth"):
        rows.append((f"growth of the gradient from step {N:,} back to step 1", *_assess_growth(growth, N)))
    for l, a in enumerate(diagnosis.get("time_steps", []), 1):
        factor = f"time scales differ by a factor of {a['largest'] / a['smallest']:.3g}"
        rows.append((f"time steps Δt·σ̂(c) of layer {l}", f"{a['smallest']:.3g} to {a['largest']:.3g}", factor))
    advice = "1 at the start; larger values let gradients grow faster"
    rows += [(f"largest |w| of layer {l}", f"{w:.3g}", advice) for l, w in enumerate(diagnosis.get("w_norms", []), 1)]
    if (exact := diagnosis.get("recovered_exactly")) is not None:
        outcome = (
            ("bit for bit", "good: reversible gradients are exact") if exact else ("no", "bad: they are not exact")
        )
        rows.append((f"initial state recovered by inverting {N:,} steps", *outcome))
    return rows


_RATIOS = (  # largest ratio of the first tenth to the last, and its assessment
    (VANISHING, "bad: vanishes, the beginning is hardly learned"),
    (1 / EVEN, "uneven: the end dominates"),
    (EVEN, "good: both the beginning and the end are learned"),
    (1 / VANISHING, "uneven: the beginning dominates; a smaller dt or a larger alpha balances them"),
    (math.inf, "bad: explodes, the end is hardly learned; try a smaller dt or a larger alpha"),
)


def _assess_ratio(first: float, last: float) -> tuple[str, str]:
    if not (math.isfinite(first) and math.isfinite(last)) or last == 0:
        return "–", "bad: zero, or too large for float32; try another dt or alpha"
    ratio = first / last
    return f"{ratio:.3g}", next(assessment for limit, assessment in _RATIOS if ratio <= limit)


def _assess_exponent(exponent: float | None, N: int) -> tuple[str, str]:
    if exponent is None:
        return "not measured", f"needs {LYAPUNOV_STEPS} steps, the sequences have {N:,}"
    growth, limit = exponent * N, -math.log(VANISHING)
    kind = "bad, chaotic" if growth > limit else "early inputs are forgotten" if growth < -limit else "good"
    return f"{exponent:.3g} per step", f"{kind}: a small change grows by a factor of e^{growth:.3g} in {N:,} steps"


def _assess_growth(growth: Mapping[str, Any], N: int) -> tuple[str, str]:
    value, overflow = f"e^{growth['ln']:.3g}", growth["overflow"]
    if overflow is None:
        return value, "good: no exponential growth"
    limit = f"float32 overflows after {overflow:,.0f} steps or more"
    if growth["ln"] > -math.log(VANISHING):
        return value, f"bad: {limit}; try a smaller dt (dt=auto), a larger alpha or a horizon"
    return value, f"{'uneven' if growth['ln'] > math.log(EVEN) else 'good'} for {N:,} steps: {limit}"


def _draw(path: Path, rnn: nn.Module, profile: Tensor) -> None:
    thin = slice(None, None, max(1, len(profile) // 2000))
    k = torch.arange(1, len(profile) + 1)[thin].tolist()
    line = plots.Line("influence on the loss", k, profile.clamp_min(1e-30)[thin].tolist())
    panels = [plots.Panel("step k", "‖∂E/∂u_k‖", [line], {"yscale": "log"})]
    panels += plots.time_steps(rnn).panels if isinstance(rnn, UnICORNN) else []
    with atomic_write(path) as file:
        plots.Plot("", panels).draw().savefig(file, format="png", dpi=120)
