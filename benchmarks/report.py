"""Makes docs/speed.md, its figure, and the figures in README.md from results/layer.json.

python -m benchmarks.report
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {"UnICORNN, invert": "tab:blue", "UnICORNN, store": "tab:cyan", "LSTM": "tab:orange"}


def figure(curves: dict[str, Any], path: Path) -> None:
    """Time and memory of a training step against N, side by side."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, key, scale, label in ((axes[0], "seconds", 1.0, "seconds"), (axes[1], "bytes", 2.0**20, "MiB")):
        for name, values in curves[key].items():
            axis.loglog(curves["N"], [v / scale for v in values], "o-", color=COLOURS[name], label=name)
        axis.set(xlabel="N (time steps)", ylabel=label)
        axis.grid(alpha=0.3, which="both")
    axes[0].set_title("time of a training step")
    axes[1].set_title("memory beyond input and parameters")
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)


def speed_table(result: dict[str, Any]) -> list[str]:
    """One Markdown table per setting."""
    lines = []
    for setting, r in result["speed"].items():
        store, invert = (r["seconds"][f"UnICORNN, 2 layers, {way}"] for way in ("store", "invert"))
        lines += [f"**{setting}** (SGEMM peak in the same run: {r['sgemm_peak_flops'] / 1e9:.0f} GFLOP/s)", ""]
        lines += [
            "| model | ms | × our time, store | × our time, invert | share of SGEMM peak |",
            "|---|---|---|---|---|",
        ]
        for name, t in r["seconds"].items():
            share = f"{r['share_of_peak'][name]:.0%}" if name in r["share_of_peak"] else ""
            lines.append(f"| {name} | {t * 1e3:.0f} | {t / store:.1f} | {t / invert:.1f} | {share} |")
        lines.append("")
    return lines


def page(result: dict[str, Any]) -> str:
    about, (ours, theirs) = result["about"], result["stream"].values()
    growth = ", ".join(f"{t * 1e6:.2f} µs at N={int(N):,}" for N, t in result["growth"].items())
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    lines = [
        "# Speed and memory",
        "",
        "Made by `python -m benchmarks.report` from `results/layer.json`, which `make bench` writes. Times are of one",
        f"run on one noisy machine ({about['machine']}; {versions}); only the ratios mean something.",
        f"Protocol: {about['protocol']}.",
        "",
        "## Training step: forward and backward",
        "",
        *speed_table(result),
        "The share of the peak counts the matrix products only. The reference (a loop in Python) is timed once.",
        "",
        "## One step of a stream",
        "",
        f"`step()` with b=1, d=m=128, two layers takes {ours * 1e6:.0f} µs, nn.LSTM called with one step "
        f"{theirs * 1e6:.0f} µs: {theirs / ours:.1f} times as long.",
        "",
        "## Against the length of the sequence",
        "",
        f"Time per step of a training step (b=1, m=48, three layers, `invert`, last output): {growth}.",
        "",
        "![time and memory against N](figures/layer.png)",
        "",
        "b=8, d=6, m=32, two layers, loss from the last output; memory as torch's profiler sees it.",
    ]
    return "\n".join(lines) + "\n"


def summary(result: dict[str, Any]) -> str:
    """The lines for README.md."""
    rows = ["| training step, 2 layers | LSTM, 1 layer | LSTM, 2 layers | GRU, 2 layers |", "|---|---|---|---|"]
    for setting, r in result["speed"].items():
        for way in ("store", "invert"):
            t = r["seconds"]
            ours = t[f"UnICORNN, 2 layers, {way}"]
            baselines = (t[name] / ours for name in ("LSTM, 1 layer", "LSTM, 2 layers", "GRU, 2 layers"))
            rows.append(f"| {setting}, `{way}` | " + " | ".join(f"{x:.1f} ×" for x in baselines) + " |")
    ours, theirs = result["stream"].values()
    rows += ["", f"One step of a stream (`step()`, b=1, m=128, 2 layers): {theirs / ours:.1f} × faster than nn.LSTM's."]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results/layer.json"))
    parser.add_argument("--root", type=Path, default=Path("."), help="where docs/ and README.md are")
    options = parser.parse_args()
    result = json.loads(options.results.read_text())
    figure(result["curves"], options.root / "docs/figures/layer.png")
    (options.root / "docs/speed.md").write_text(page(result))
    readme = options.root / "README.md"
    if readme.exists():
        text = readme.read_text()
        block = f"<!-- speed -->\n{summary(result)}\n<!-- /speed -->"
        readme.write_text(re.sub(r"<!-- speed -->.*<!-- /speed -->", block, text, flags=re.S))


if __name__ == "__main__":
    main()
