"""What a trained network is like inside: the theory's quantities of a run, on sequences of its validation set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unicornn import theory
from unicornn._layer import UnICORNN
from unicornn.lab._run_folder import Run, write_json, written_whole
from unicornn.lab.data._files import Source
from unicornn.lab.tasks._base import Batch, Task
from unicornn.lab.training._evaluate import config_of, load_network, task_of
from unicornn.models import Network, TextClassifier, patched


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
        far and near: ‖∂E/∂u_k‖ over the first and the last tenth of the steps, the mean, for the loss E that
        training used, of what the network reads off; lyapunov: the largest exponent per step, None if the sequences are
        too short. For UnICORNN also, per layer: smallest and largest effective time steps, ‖w‖_∞; and
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
    valid = task.load(source or Source(), config.task_options, config.seed).valid
    batch = valid.batch(torch.arange(min(sequences, len(valid))), -1)
    u, lengths = _inputs(network, batch)
    N = len(u) if lengths is None else int(lengths.min())
    u = u[:N]  # the shortest sequence's length, so that the end is the end of all
    rnn, readout = network.rnn, network.readout

    def loss(features: Tensor) -> Tensor:
        output = readout(features)
        if task.kind == "classify":
            return nn.functional.cross_entropy(output, batch.target)
        target = batch.target[N - 1] if task.kind == "forecast" else batch.target[:, None]
        return nn.functional.mse_loss(output, target)

    if network.features.readouts == ("last",):
        profile = theory.gradient_profile(rnn, u, loss)
    else:
        u = u.detach().requires_grad_()
        (g,) = torch.autograd.grad(loss(network.features(rnn, u, None)), u)
        u, profile = u.detach(), g.double().flatten(1).norm(dim=1).cpu()
    tenth = max(1, N // 10)
    found: dict[str, Any] = {
        "sequences": u.shape[1],
        "N": N,
        "far": float(profile[:tenth].mean()),
        "near": float(profile[-tenth:].mean()),
        "lyapunov": theory.lyapunov_exponent(rnn, u).exponent if N >= 200 else None,
    }
    if isinstance(rnn, UnICORNN):
        a = rnn.time_steps().detach()
        found["time_steps"] = [{"smallest": float(row.min()), "largest": float(row.max())} for row in a]
        found["w_norms"] = [float(w.detach().abs().max()) for w in rnn.w]
        with torch.no_grad():
            start = rnn.inverse(u, rnn(u, output="last")[1])
        found["recovered_exactly"] = not (start.y.any() or start.z.any())
    _draw(run.path / "diagnosis.png", network, profile)
    write_json(run.path / "diagnosis.json", found)
    return found


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
    with written_whole(path) as file:
        figure.savefig(file, format="png", dpi=120)
