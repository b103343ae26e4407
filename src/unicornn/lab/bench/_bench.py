"""The paper's Fig. 2 on this machine: time and memory of a training step of every model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape

from unicornn import _checks as checks
from unicornn._files import write_json
from unicornn.errors import BadValue
from unicornn.lab._environment import command, environment
from unicornn.lab.bench._jobs import SECONDS, Job, find_candidates, run_jobs

PROTOCOL = (
    "Each measurement in a separate process, flush-to-zero on, input without gradient. Time: forward and backward "
    "from the mean of all outputs, in rounds, each between two training steps of UnICORNN, stored; the ratio is to "
    "these, the median over the rounds; one round if the limit leaves no time for more. Memory: the rise of the peak "
    "resident memory in one training step from the last output, beyond parameters and input. Forward: all outputs "
    "without gradient, in rounds as above. Step: the next output of a live sequence, in rounds as above."
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
    """Measures time and memory of a training step, the paper's Fig. 2, and writes bench.json and a chart.

    The same call resumes a bench that was killed.

    Args:
        models: Names in ``unicornn.baselines.MODELS``, or NAME:L for L layers instead of the paper's (two for UnICORNN,
            SRU, IndRNN, one for others); None for all whose libraries are installed. UnICORNN is always included, with
            both gradient methods.
        lengths: Sequence lengths (N). Memory is also measured at a half and a quarter of the shortest.
        batch_size: Number of sequences (b).
        d: Number of input features (d).
        hidden_size: Number of neurons per layer (m).
        seconds: Time limit for one model at one length. A model whose first step takes longer is timed once.
        out: Folder for bench.json and bench.png.
        console: Console for progress and a table; None for no output.

    Returns:
        The content of bench.json: command, date, versions, environment, sizes, and for each model its layers,
        parameters, time by N (ms, ratio to UnICORNN's, rounds) of a training step and of a forward pass without
        gradient, memory by N (MiB) and its growth, and the time of one step of a stream.

    Example:
        >>> from unicornn.lab.bench import bench
        >>> result = bench(["lstm"], out="bench")  # doctest: +SKIP
        >>> result["models"]["lstm"]["time"]["1000"]["ratio"]  # doctest: +SKIP
        4.7
    """
    from unicornn.lab.bench._chart import chart  # slow to import

    if not lengths:
        raise BadValue("lengths: expected at least one, got none")
    times = sorted({checks.integer("lengths", N, 1) for N in lengths})
    sizes = {"b": checks.integer("batch_size", batch_size, 1), "d": checks.integer("d", d, 1)}
    sizes["m"] = checks.integer("hidden_size", hidden_size, 1)
    limit = checks.positive("seconds", seconds)
    candidates, folder = find_candidates(models), Path(out)
    memory = sorted({max(1, times[0] // 4), max(1, times[0] // 2), *times})
    options = sizes | {"reference_layers": candidates["unicornn, stored"]["layers"], "seconds": limit}
    jobs = {
        (name, kind, N): Job(kind=kind, N=N, **candidate | options | ({"b": 1} if kind == "step" else {}))
        for kind, Ns in {"time": times, "memory": memory, "forward": times, "step": [1]}.items()
        for name, candidate in candidates.items()
        for N in Ns
    }
    partial = folder / "bench.partial.json"
    measured = run_jobs(jobs, partial, console)
    result = {
        "command": command(),
        **environment(),
        "protocol": PROTOCOL,
        "sizes": sizes | {"N": times, "seconds": limit},
        "models": {
            name: candidate | _model_record({key[1:]: measured[key] for key in jobs if key[0] == name})
            for name, candidate in candidates.items()
        },
    }
    write_json(folder / "bench.json", result)
    chart(result).savefig(folder / "bench.png", dpi=150)
    if all("failed" not in r for r in measured.values()):
        partial.unlink(missing_ok=True)
    if console is not None:
        console.print(result_table(result), highlight=False, soft_wrap=True)
        console.print(f"wrote {escape(str(folder / 'bench.json'))} and bench.png", highlight=False, soft_wrap=True)
    return result


def _model_record(results: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[str, Any]:
    """One model's record from its results by kind and N; failed measurements leave only the reason."""
    by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in ("time", "memory", "forward", "step")}
    parameters, failed = None, []
    for (kind, N), result in results.items():
        if "failed" in result:
            failed.append(result["failed"])
        else:
            parameters = result["parameters"]
            by_kind[kind][str(N)] = {key: value for key, value in result.items() if key != "parameters"}
    memory = {N: result["MiB"] for N, result in by_kind["memory"].items()}
    record = {
        "parameters": parameters, "time": by_kind["time"], "memory": memory, "MiB_per_1000_steps": _growth(memory),
        "forward": by_kind["forward"], "step": by_kind["step"].get("1", {}),
    }  # fmt: skip
    return record | ({"failed": failed} if failed else {})


def _growth(memory: Mapping[str, float]) -> float | None:
    """MiB per 1000 time steps: the slope of a straight line through MiB by N; None for less than two lengths."""
    return 1000 * float(np.polyfit([*map(int, memory)], [*memory.values()], 1)[0]) if len(memory) > 1 else None


def result_table(result: Mapping[str, Any]) -> str:
    """The result as a table for a terminal, fastest model first; times in ms, and relative to UnICORNN, stored."""
    from unicornn.lab.bench._chart import fastest_first

    rows = {}
    for name in fastest_first(result):
        model = result["models"][name]
        row = {"L": model["layers"]}
        for N in map(str, result["sizes"]["N"]):
            for kind, label in (("time", "training"), ("forward", "forward")):
                time = model[kind].get(N, {})
                row |= {f"{label}, N={N}": time.get("ms"), f"× ({label}, {N})": time.get("ratio")}
            row[f"MiB, N={N}"] = model["memory"].get(N)
        rows[name] = row | {"MiB per 1000 steps": model["MiB_per_1000_steps"]}
    table = pd.DataFrame.from_dict(rows, orient="index", dtype=object)
    return table.to_string(float_format="{:.4g}".format, na_rep="failed")
