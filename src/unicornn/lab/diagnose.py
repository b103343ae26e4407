"""What a trained network is like inside: the theory's quantities of a run, on sequences of its validation set."""

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
from unicornn.models import Network, TextClassifier, patched
from unicornn.readouts import EveryStep, Last

LYAPUNOV_STEPS = 200  # the fewest from which an exponent can be told
VANISHING = 1e-6  # float32 has seven digits: what is so much smaller is lost beside the rest


def diagnose(
    run: Run | str | Path, *, task: Task | None = None, source: Source | None = None, sequences: int = 4
) -> dict[str, Any]:
    """Measures, draws and writes ``diagnosis.json`` and ``diagnosis.png`` into the run's folder.

    Args:
        run: a run with weights, finished or not.
        task: what it was trained on, if that is a task of your own.
        source: where the data is.
        sequences: how many of the validation set are looked at.

    Returns:
        sequences and steps: how many were looked at, and how long they are. gradient_first_tenth, gradient_last_tenth:
        the mean of ‖∂E/∂u_k‖ over the first and the last tenth of the steps, for the loss E that training used, of what
        the network reads off. lyapunov_exponent: the largest one per step; None if the sequences are too short. For
        UnICORNN also gradient_growth: ln of how many times the gradient grows from the last step to the first, its
        exponent per step and the steps after which float32 would overflow, by ``theory.gradient_growth``, if it has one
        direction only; per layer: the smallest and largest effective time_steps, and w_norms, ‖w‖_∞; and
        recovered_exactly: whether the states at the beginning come back bit for bit.

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
    u = u[:N]  # the shortest sequence's length, so that the end is the end of all
    rnn = network.rnn

    def loss(features: Tensor) -> Tensor:
        output = network.linear(features)
        if task.kind == "classify":
            return nn.functional.cross_entropy(output, batch.target)
        target = batch.target[N - 1] if task.kind == "forecast" else batch.target[:, None]
        return nn.functional.mse_loss(output, target)

    if network.readout in (Last(), EveryStep()):
        profile = theory.gradient_profile(rnn, u, loss)
    else:
        u = u.detach().requires_grad_()
        (g,) = torch.autograd.grad(loss(network.features(rnn, u, None)), u)
        u, profile = u.detach(), g.double().flatten(1).norm(dim=1).cpu()
    tenth = max(1, N // 10)
    found: dict[str, Any] = {
        "sequences": u.shape[1],
        "steps": N,
        "gradient_first_tenth": float(profile[:tenth].mean()),
        "gradient_last_tenth": float(profile[-tenth:].mean()),
        "lyapunov_exponent": theory.lyapunov_exponent(rnn, u) if N >= LYAPUNOV_STEPS else None,
    }
    if isinstance(rnn, UnICORNN):
        a = rnn.time_steps().detach()
        found["time_steps"] = [{"smallest": float(row.min()), "largest": float(row.max())} for row in a]
        found["w_norms"] = [float(w.detach().abs().max()) for w in rnn.w]
        with torch.no_grad():
            start = rnn.inverse(u, rnn(u, output="last")[1])
        found["recovered_exactly"] = not (start.y.any() or start.z.any())
        if not rnn.bidirectional:
            growth = theory.gradient_growth(rnn, u)
            overflow = growth.overflow if math.isfinite(growth.overflow) else None
            found["gradient_growth"] = {"ln": growth.growth, "exponent": growth.exponent, "overflow": overflow}
    _draw(run.path / "diagnosis.png", network, profile)
    write_json(run.path / "diagnosis.json", found)
    return found


def in_words(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """For each row of a table: what was measured, the value, and whether that is good or bad.

    Example:
        >>> found = {"sequences": 4, "steps": 100, "gradient_first_tenth": 1e-9, "gradient_last_tenth": 1.0}
        >>> for measured, value, verdict in in_words(found | {"lyapunov_exponent": None}):
        ...     print(f"{measured}: {value} ({verdict})")
        gradient at the first tenth of the steps (1 to 10): 1e-09 (mean of ‖∂E/∂u‖ over 4 sequences)
        gradient at the last tenth of the steps (91 to 100): 1 (mean of ‖∂E/∂u‖ over 4 sequences)
        gradient at the first tenth over that at the last: 1e-09 (bad: it vanishes, the beginning is hardly learned)
        largest Lyapunov exponent: not measured (it takes 200 steps, and there are 100)
    """
    N, tenth = found["steps"], max(1, found["steps"] // 10)
    far, near = found["gradient_first_tenth"], found["gradient_last_tenth"]
    over = f"mean of ‖∂E/∂u‖ over {found['sequences']} sequences"
    rows = [
        (f"gradient at the first tenth of the steps (1 to {tenth:,})", f"{far:.3g}", over),
        (f"gradient at the last tenth of the steps ({N - tenth + 1:,} to {N:,})", f"{near:.3g}", over),
        ("gradient at the first tenth over that at the last", *_on_gradients(far, near)),
        ("largest Lyapunov exponent", *_on_exponent(found["lyapunov_exponent"], N)),
    ]
    if "gradient_growth" in found:
        back = f"growth of the gradient from step {N:,} back to step 1"
        rows.append((back, *_on_growth(found["gradient_growth"], N)))
    for l, a in enumerate(found.get("time_steps", []), 1):
        spread = f"time scales spread by a factor of {a['largest'] / a['smallest']:.3g}"
        rows.append((f"time steps Δt·σ̂(c) of layer {l}", f"{a['smallest']:.3g} to {a['largest']:.3g}", spread))
    for l, norm in enumerate(found.get("w_norms", []), 1):
        rows.append(
            (f"largest |w| of layer {l}", f"{norm:.3g}", "1 at the start; with it grows how fast gradients grow")
        )
    if "recovered_exactly" in found:
        value, verdict = "bit for bit", "good: gradients by inversion are exact"
        if not found["recovered_exactly"]:
            value, verdict = "no", "bad: gradients by inversion are not exact"
        rows.append((f"start recovered by running {N:,} steps backwards", value, verdict))
    return rows


def _on_gradients(far: float, near: float) -> tuple[str, str]:
    if not (math.isfinite(far) and math.isfinite(near)) or near == 0:
        return "–", "bad: zero, or too large for float32; try another dt or alpha"
    value = f"{far / near:.3g}"
    if far < VANISHING * near:
        return value, "bad: it vanishes, the beginning is hardly learned"
    if far > near / VANISHING:
        return value, "bad: it explodes, the end is hardly learned; try a smaller dt or a larger alpha"
    return value, "good: both the beginning and the end are learned"


def _on_exponent(exponent: float | None, N: int) -> tuple[str, str]:
    if exponent is None:
        return "not measured", f"it takes {LYAPUNOV_STEPS} steps, and there are {N:,}"
    growth = exponent * N
    verdict = f"over {N:,} steps a small change becomes e^{growth:.3g} times as large"
    if growth > -math.log(VANISHING):
        verdict = f"bad: chaos, {verdict}"
    elif growth < math.log(VANISHING):
        verdict = f"what was long ago is forgotten: {verdict}"
    else:
        verdict = f"good: {verdict}"
    return f"{exponent:.3g} per step", verdict


def _on_growth(growth: Mapping[str, Any], N: int) -> tuple[str, str]:
    value, overflow = f"e^{growth['ln']:.3g}", growth["overflow"]
    if overflow is None:
        return value, "good: it does not grow exponentially"
    end = f"float32 would overflow after about {overflow:,.0f} steps, at the earliest"
    remedy = "try a smaller dt (dt=auto), a larger alpha or a horizon"
    if growth["ln"] > -math.log(VANISHING):
        return value, f"bad: {end}; {remedy}"
    return value, f"good for {N:,} steps: {end}"


def _inputs(network: Network, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """What the recurrent layers see, (N, b, d), and lengths (b,): words are embedded, several inputs may be one."""
    u = network.embedding(batch.u).detach() if isinstance(network, TextClassifier) else batch.u
    return patched(u, batch.lengths, network.patch)


def _draw(path: Path, network: Network, profile: Tensor) -> None:
    from matplotlib.figure import Figure

    rnn = network.rnn
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    keep = slice(None, None, max(1, len(profile) // 2000))
    left.semilogy(torch.arange(1, len(profile) + 1)[keep], profile.clamp_min(1e-30)[keep])
    left.set(title="How much a step matters to the loss at the end", xlabel="step k", ylabel="‖∂E/∂u_k‖")
    if isinstance(rnn, UnICORNN):
        for l, row in enumerate(rnn.time_steps().detach().cpu(), 1):
            right.semilogy(row.sort(descending=True).values, label=f"layer {l}")
        right.set(title="Effective time steps Δt·σ̂(c), sorted", xlabel="neuron", ylabel="time step")
        right.legend()
    else:
        right.axis("off")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
