"""Fills the tables of docs/gpu.md from results/gpu_code.json: the kernels' code, and the speed it lets one expect.

    python -m benchmarks.gpu_report

The speed is a prediction, nothing of it is measured: a training step takes the longest of what each limit alone would
allow (dependent instructions, throughput of instructions, memory, matrix products added, launches from Python).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pages import fill
from unicornn._ops import gpu
from unicornn._ops.stack import chunk_length


@dataclass(frozen=True)
class Card:
    """Makers' figures. Lanes: operations per cycle and multiprocessor, from the CUDA programming guide."""

    name: str
    target: str
    multiprocessors: int
    clock: float  # Hz
    bandwidth: float  # bytes/s
    flops: float  # of float32 matrix products
    fp32: int
    fp64: int
    special: int  # conversions from and to float
    special64: int  # those with 64 bits


CARDS = (
    Card("A100 SXM", "sm_80", 108, 1.41e9, 1.555e12, 19.5e12, 64, 32, 16, 16),
    Card("H100 SXM", "sm_90", 132, 1.83e9, 3.35e12, 62e12, 128, 64, 64, 16),
    Card("RTX 4090", "sm_89", 128, 2.52e9, 1.008e12, 82.6e12, 128, 2, 16, 2),
)
ISSUED, INTEGER = 128, 64  # lanes of the four schedulers; of integer and multiply-add-integer instructions each
EFFICIENCY = 0.7  # of a matrix product of these shapes
LAUNCH = 10e-6  # seconds of Python for one launch
GAP = 2e-6  # seconds between two dependent kernels of the LSTM
TILE = 64 * 64  # of an LSTM step's matrix product that one multiprocessor makes
BYTES = {"advance": 8, "retreat": 8, "adjoint": 12, "retreat and adjoint": 16}
"""Per neuron and step in float32: x read, y written; g read and written in the adjoint."""


def kernel(codes: list[dict[str, Any]], name: str, target: str, dtype: str = "fp32") -> dict[str, Any]:
    wanted = {"kernel": name, "target": target, "dtype": dtype, "ragged": False, "warps": 1}
    return next(c for c in codes if wanted.items() <= c.items())


def pipes(code: dict[str, Any]) -> dict[str, float]:
    """Instructions of a step by the unit that does them."""
    sums = dict.fromkeys(
        ("all", "float32", "multiply-add integer", "float64", "conversions", "64-bit conversions"), 0.0
    )
    sums["integer"] = 0.0
    for name, count in code["instructions"].items():
        sums["all"] += count
        if name.startswith(("FFMA", "FMUL", "FADD")):
            sums["float32"] += count
        elif name.startswith("IMAD"):
            sums["multiply-add integer"] += count
        elif name.startswith("D"):
            sums["float64"] += count
        elif name.startswith(("F2", "I2F", "MUFU")) and not name.startswith("I2FP"):
            sums["64-bit conversions" if name.endswith(("F64", "S64", "U64")) else "conversions"] += count
        elif not name.startswith(("U", "LDG", "STG", "BRA", "CALL", "HFMA2")):
            sums["integer"] += count
    return sums


def throughput(code: dict[str, Any], card: Card) -> float:
    """Cycles of a multiprocessor per neuron and step: what its busiest unit takes."""
    p = pipes(code)
    return max(
        p["all"] / ISSUED, p["float32"] / card.fp32, p["integer"] / INTEGER, p["multiply-add integer"] / INTEGER,
        p["float64"] / card.fp64, p["conversions"] / card.special, p["64-bit conversions"] / card.special64,
    )  # fmt: skip


def recurrence(code: dict[str, Any], card: Card, E: int) -> dict[str, float]:
    """Seconds of a step of E = b·m neurons, by what would limit it; the longest counts."""
    return {
        "chain": code["cycles"] / card.clock,
        "instructions": E / card.multiprocessors * throughput(code, card) / card.clock,
        "memory": E * BYTES.get(code["kernel"], 8) / card.bandwidth,
    }


def training_step(codes: list[dict[str, Any]], card: Card, N: int, b: int, m: int, way: str) -> float:
    """Seconds of a training step of two layers, d = m, the input being data without gradient."""

    def steps(name: str) -> float:
        return 2 * N * max(recurrence(kernel(codes, name, card.target), card, b * m).values())

    products = 5 + (2 if way == "invert" else 0)  # two forwards, two for weights, one between layers; two once more
    time = steps("advance") + products * 2.0 * N * b * m * m / (EFFICIENCY * card.flops)
    time += steps("retreat and adjoint") if way == "store" else steps("retreat") + steps("adjoint")
    chunks = -(-N // chunk_length(gpu.Recurrence, N, b, m))
    return max(time, chunks * (14 + (4 if way == "invert" else 0)) * LAUNCH)


def lstm(card: Card, N: int, b: int, m: int) -> float:
    """Seconds of a training step of one layer, d = m: dependent products forwards and backwards, large ones besides."""
    busy = min(1.0, -(-b * 4 * m // TILE) / card.multiprocessors)
    step = 2.0 * b * m * 4 * m / (busy * card.flops) + 2 * GAP
    large = 3 * 2.0 * N * b * m * 4 * m / (EFFICIENCY * card.flops)  # of the input, and the gradients of both weights
    return 2 * N * step + large


def code_table(codes: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| kernel, float32 | bytes | instructions: sm_80 | sm_90 | sm_100 | gfx942 | "
        "chain on sm_80, cycles | registers, at most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, size in BYTES.items():
        each = {t: kernel(codes, name, t) for t in ("sm_80", "sm_90", "sm_100", "gfx942")}
        registers = max(c["registers"] for c in codes if c["kernel"] == name)
        counts = " | ".join(f"{c['per_step']:.0f}" for c in each.values())
        lines.append(f"| {name} | {size} | {counts} | {each['sm_80']['cycles']} | {registers} |")
    return lines


def choice_table(codes: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| a step forwards | instructions | of them float64 | 64-bit conversions | "
        "cycles per neuron: A100 | H100 | RTX 4090 | ns per step of 128 × 128 neurons: A100 | H100 | RTX 4090 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, label in (("advance", "int64 fixed point (ours)"), ("advance in float64", "float64")):
        each = [(kernel(codes, name, card.target), card) for card in CARDS]
        p = pipes(each[0][0])
        cycles = " | ".join(f"{throughput(code, card):.2f}" for code, card in each)
        times = " | ".join(f"{max(recurrence(code, card, 128 * 128).values()) * 1e9:.0f}" for code, card in each)
        lines.append(
            f"| {label} | {p['all']:.0f} | {p['float64']:.0f} | {p['64-bit conversions']:.0f} | {cycles} | {times} |"
        )
    return lines


def prediction_table(codes: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| training step, b=128, d=m=128 | UnICORNN, 2 layers, store | invert | cuDNN LSTM, 1 layer | ratio, store | "
        "a step's limits: chain, instructions, memory |",
        "|---|---|---|---|---|---|",
    ]
    for card in CARDS:
        limits = recurrence(kernel(codes, "advance", card.target), card, 128 * 128)
        shown = ", ".join(f"{t * 1e9:.0f}" for t in limits.values())
        for N in (1000, 2000):
            store, invert = (training_step(codes, card, N, 128, 128, way) for way in ("store", "invert"))
            theirs = lstm(card, N, 128, 128)
            lines.append(
                f"| {card.name}, N={N} | {store * 1e3:.1f} ms | {invert * 1e3:.1f} ms | {theirs * 1e3:.0f} ms | "
                f"{theirs / store:.0f} | {shown} ns |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results/gpu_code.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/gpu.md"))
    options = parser.parse_args()
    codes = json.loads(options.results.read_text())["kernels"]
    tables = {"code": code_table(codes), "choice": choice_table(codes), "prediction": prediction_table(codes)}
    options.page.write_text(fill(options.page.read_text(), tables))
    print("\n\n".join("\n".join(lines) for lines in tables.values()))


if __name__ == "__main__":
    main()
