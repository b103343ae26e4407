"""The paper's Fig. 2 on this machine: all models, time and memory of a training step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unicornn import _checks as checks
from unicornn.errors import BadValue
from unicornn.lab.bench._jobs import SECONDS, Job, candidates, collect

PROTOCOL = (
    "Each measurement in a process of its own, flush-to-zero on, input without gradient. Time: forward and backward "
    "from the mean of all outputs, in rounds, each between two training steps of UnICORNN, store; the ratio is to "
    "these, the median over the rounds; one round if the limit leaves no time for more. Memory: the rise of the peak "
    "resident memory in one training step from the last output, beyond parameters and input. Forward: all outputs "
    "without gradient, in rounds as above. Step: the next output of a live sequence, in rounds as above. Matrix "
    "product: torch's in float32, the best over three shapes and rounds."
)


def bench(
    models: Iterable[str] | None = None,
    *,
    lengths: Sequence[int] = (1000, 2000),
    batch_size: int = 128,
    d: int = 128,
    hidden_size: int = 128,
    seconds: float = SECONDS,
    out: Path | str,
    console: Console | None = None,
) -> dict[str, Any]:
    """Measures time and memory of a training step, the paper's Fig. 2, and leaves bench.json and a chart.

    A run that was killed goes on where it was if it is started again with the same sizes.

    Args:
        models: names of ``unicornn.baselines.MODELS``, or NAME:L for L layers instead of the paper's (two for UnICORNN,
            SRU, IndRNN, else one); all that can be run if None. UnICORNN is always there, with both gradient methods.
        lengths: N. Memory is also measured at a half and a quarter of the shortest.
        batch_size, d, hidden_size: b, d, m.
        seconds: the limit for the time of one model at one length. A model whose first step takes longer is timed once.
        out: a folder for bench.json, bench.png, bench.svg.
        console: for progress and a table; None for none.

    Returns:
        What bench.json has: command, date, versions, environment, sizes, GFLOP/s of torch's matrix product, and of each
        model layers, parameters, time by N (ms, ratio to UnICORNN's, rounds), also of a forward pass without gradient,
        MiB by N and their growth, and the time of one step of a stream.

    Example:
        >>> from unicornn.lab.bench import bench
        >>> result = bench(["lstm"], out="bench")  # doctest: +SKIP
        >>> result["models"]["lstm"]["time"]["1000"]["ratio"]  # doctest: +SKIP
        4.7
    """
    from unicornn._files import write_json
    from unicornn.lab._environment import command, environment
    from unicornn.lab.bench._chart import chart  # not needed where it is measured, and slow to import

    if not lengths:
        raise BadValue("lengths: expected at least one, got none")
    times = sorted({checks.integer("lengths", N, 1) for N in lengths})
    sizes = {"b": checks.integer("batch_size", batch_size, 1), "d": checks.integer("d", d, 1)}
    sizes["m"] = checks.integer("hidden_size", hidden_size, 1)
    limit = checks.positive("seconds", seconds)
    found, folder = candidates(models), Path(out)
    kinds = {"time": times, "memory": sorted({max(1, times[0] // 4), max(1, times[0] // 2), *times})}
    ours = found["unicornn, stored"].layers
    jobs = {
        f"{name}, {kind}, N={N}": Job(kind, each, N, **sizes, ours=ours, seconds=limit)
        for kind, Ns in kinds.items()
        for name, each in found.items()
        for N in Ns
    }
    jobs |= {
        f"{name}, forward, N={N}": Job("forward", each, N, **sizes, ours=ours, seconds=limit)
        for name, each in found.items()
        for N in times
    }
    one = sizes | {"N": 1, "b": 1}
    jobs |= {f"{name}, step": Job("step", each, **one, ours=ours, seconds=limit) for name, each in found.items()}
    jobs["matrix product"] = Job("product", found["unicornn, stored"], **one)
    partial = folder / "bench.partial.json"
    measured = collect(jobs, partial, console)
    result = {
        "command": command(),
        **environment(),
        "protocol": PROTOCOL,
        "sizes": sizes | {"N": times, "seconds": limit},
        "matrix_product_GFLOPS": measured["matrix product"].get("GFLOPS"),
        "models": {
            name: {"model": each.model, "layers": each.layers, "options": dict(each.options)}
            | joined(*({str(N): measured[f"{name}, {kind}, N={N}"] for N in kinds[kind]} for kind in kinds))
            | {"forward": {str(N): timed(measured[f"{name}, forward, N={N}"]) for N in times}}
            | {"step": timed(measured[f"{name}, step"])}
            for name, each in found.items()
        },
    }
    write_json(folder / "bench.json", result)
    figure = chart(result)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"bench.{suffix}", dpi=150)
    if all("failed" not in r for r in measured.values()):
        partial.unlink(missing_ok=True)
    if console is not None:
        console.print(table(result))
        wrote = escape(str(folder / "bench.json"))
        console.print(f"wrote {wrote}, bench.png and bench.svg", highlight=False, soft_wrap=True)
    return result


def timed(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what is not a time.

    Example:
        >>> timed({"ms": 1.0, "parameters": 9})
        {'ms': 1.0}
    """
    return {k: v for k, v in result.items() if k not in ("parameters", "failed")}


def joined(time: Mapping[str, Mapping[str, Any]], memory: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One model's results by N, those of both kinds side by side; what failed is left out, but for the reason.

    Example:
        >>> own = joined({"5": {"ms": 1.0, "parameters": 9}}, {"5": {"failed": "no memory left"}})
        >>> own["parameters"], own["time"], own["memory"], own["failed"]
        (9, {'5': {'ms': 1.0}}, {}, ['no memory left'])
    """
    every = [*time.values(), *memory.values()]
    MiB = {N: r["MiB"] for N, r in memory.items() if "failed" not in r}
    own = {
        "parameters": next((r["parameters"] for r in every if "failed" not in r), None),
        "time": {N: {k: v for k, v in r.items() if k != "parameters"} for N, r in time.items() if "failed" not in r},
        "memory": MiB,
        "MiB_per_1000_steps": growth(MiB),
    }
    failed = [r["failed"] for r in every if "failed" in r]
    return own | ({"failed": failed} if failed else {})


def growth(memory: Mapping[str, float]) -> float | None:
    """MiB per 1000 time steps, the slope of a straight line through MiB by N; None if there are not two of them.

    Example:
        >>> from unicornn.lab.bench import growth
        >>> round(growth({"500": 120.0, "1000": 220.0}))
        200
    """
    return 1000 * float(np.polyfit([*map(int, memory)], [*memory.values()], 1)[0]) if len(memory) > 1 else None


def table(result: Mapping[str, Any]) -> Table:
    """The result to be printed, the fastest model first."""
    from unicornn.lab.bench._chart import fastest_first

    lengths, models = [str(N) for N in result["sizes"]["N"]], result["models"]
    shown = Table(title="Training step: forward and backward; forward pass without gradient")
    shown.add_column("model", no_wrap=True)
    shown.add_column("L")
    for N in lengths:
        for head in (f"ms, {N}", "× store", "MiB", "forward, ms", "× store"):
            shown.add_column(head, justify="right")
    shown.add_column("MiB per 1000 steps", justify="right")
    for name in fastest_first(result):
        own, cells = models[name], []
        for N in lengths:
            time, MiB = own["time"].get(N), own["memory"].get(N)
            cells += ["failed", ""] if time is None else [f"{time['ms']:.0f}", f"{time['ratio']:.2f}"]
            cells.append("failed" if MiB is None else f"{MiB:.0f}")
            forward = own["forward"][N]
            cells += [f"{forward['ms']:.0f}", f"{forward['ratio']:.2f}"] if forward else ["", ""]
        slope = own["MiB_per_1000_steps"]
        shown.add_row(name, str(own["layers"]), *cells, "–" if slope is None else f"{slope:.0f}")
    return shown
