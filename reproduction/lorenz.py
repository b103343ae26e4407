"""Lorenz 96: the runs of the paper's table, and the trials by which their settings were chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from reproduction.planned import Planned, run

WIDE: dict[str, object] = {
    "num_layers": 1,
    "hidden_size": 700,
    "init": "spread",
    "schedule": "onecycle",
    "batch_size": 1,
}
WIDE_09: dict[str, object] = WIDE | {"clip": 0.1, "dt": 0.6, "alpha": 0.2, "lr": 0.02}
WIDE_8: dict[str, object] = WIDE | {"clip": 1, "dt": 1, "alpha": 1, "lr": 0.01, "inputs": "deviation"}
ONE: dict[str, object] = {"schedule": "onecycle", "batch_size": 1, "lr": 0.003}  # coRNN and LSTM, with its batches


def lorenz() -> Iterator[Planned]:
    """All with one cycle of the learning rate. "wide" is one layer of 700 units, which has as many parameters as two
    of 90."""
    ours: dict[str, dict[str, object]] = {
        "0.9": {"batch_size": 4, "lr": 0.015, "dt": "0.8,0.4", "alpha": 1},
        "8": {"batch_size": 8, "lr": 0.005, "dt": 1, "alpha": 1, "inputs": "deviation"},
    }
    theirs: dict[str, dict[str, object]] = {
        "lstm": {"batch_size": 8, "lr": 0.01},
        "cornn": {"batch_size": 8, "lr": 0.01, "dt": 0.5, "gamma": 1, "epsilon": 1.5},
    }
    many = {"unicornn": {"0.9": "150", "8": "200"}, "lstm": {"0.9": "60", "8": "60"}, "cornn": {"0.9": "60", "8": "60"}}
    for (model, epochs), seed, F in product(many.items(), range(5), ("0.9", "8")):
        settings = ours[F] if model == "unicornn" else theirs[model]
        options = ("--model", model, "--seed", str(seed), "--epochs", epochs[F])
        yield run(f"F{F}-{model}-{seed}", "lorenz96", *options, schedule="onecycle", F=F, **settings)
    for model in ("cornn", "lstm"):
        options = ("--model", model, "--epochs", "60")
        yield run(f"F0.9-{model}-batch-1", "lorenz96", *options, F="0.9", **ONE)
    for seed, (F, wide) in product(range(3), (("0.9", WIDE_09), ("8", WIDE_8 | {"lr": 0.006}))):
        yield run(f"F{F}-wide-{seed}", "lorenz96", "--seed", str(seed), "--epochs", "60", F=F, **wide)


def trials() -> Iterator[Planned]:
    """What Lorenz 96's settings were chosen by: one seed, few epochs, the validation set."""
    first: dict[str, object] = {"schedule": "onecycle", "clip": 1, "batch_size": 8, "dt": 0.4, "alpha": 1, "lr": 0.02}
    slower = first | {"dt": 1, "lr": 0.005}
    spread = first | {"init": "spread", "batch_size": 4, "lr": 0.015, "dt": "0.8,0.4"}
    fewer = {"batch_size": 2, "lr": 0.01}
    shorter = spread | {"batch_size": 2, "lr": 0.006, "dt": "0.6,0.3", "alpha": 0.2}
    for name, epochs, settings in (
        ("F0.9", "50", first),
        ("F0.9-alpha-0", "50", first | {"alpha": 0}),
        ("F0.9-alpha-3", "50", first | {"alpha": 3}),
        ("F0.9-alpha-8", "50", first | {"alpha": 8}),
        ("F0.9-lr-0.04", "50", first | {"lr": 0.04}),
        ("F0.9-batch-4", "50", first | {"batch_size": 4, "lr": 0.015}),
        ("F0.9-dt-0.8-0.4", "50", first | {"dt": "0.8,0.4"}),
        ("F0.9-dt-1", "40", slower),
        ("F0.9-dt-1-deviation", "40", slower | {"inputs": "deviation"}),
        ("F0.9-dt-2", "40", slower | {"dt": 2}),
        ("F0.9-dt-1-lr-0.02", "40", slower | {"lr": 0.02}),
        ("F0.9-dt-0.5", "200", first | {"dt": 0.5, "lr": 0.01}),
        ("F0.9-deviation", "60", first | {"inputs": "deviation"}),
        ("F0.9-spread", "50", spread),
        ("F0.9-spread-deviation", "50", spread | {"inputs": "deviation"}),
        ("F0.9-spread-dt-0.8", "50", spread | {"dt": "0.8,0.8", "lr": 0.007}),
        ("F0.9-spread-alpha-0.3", "50", spread | {"alpha": 0.3}),
        ("F0.9-spread-alpha-0.1", "50", spread | {"alpha": 0.1}),
        ("F0.9-spread-alpha-0.03", "50", spread | {"alpha": 0.03}),
        ("F0.9-spread-batch-2", "50", spread | fewer),
        ("F0.9-spread-alpha-0.1-batch-2", "50", spread | fewer | {"alpha": 0.1}),
        ("F0.9-spread-alpha-0.2-batch-2", "150", spread | fewer | {"alpha": 0.2}),
        ("F0.9-spread-alpha-0.1-lr-0.006", "150", spread | fewer | {"alpha": 0.1, "lr": 0.006}),
        ("F0.9-spread-horizon", "50", spread | fewer | {"alpha": 0.2, "horizon": 100}),
        ("F0.9-spread-lr-0.006", "50", spread | fewer | {"alpha": 0.3, "lr": 0.006}),
        ("F0.9-spread-dt-0.6", "50", shorter),
        ("F0.9-spread-dt-0.6-horizon", "50", shorter | {"alpha": 0.3, "lr": 0.01, "horizon": 100}),
        ("F0.9-spread-dt-0.6-batch-1", "50", shorter | {"batch_size": 1}),
        ("F0.9-spread-dt-0.6-batch-1-longer", "150", shorter | {"batch_size": 1}),
        ("F0.9-spread-dt-0.6-alpha-0.1", "50", shorter | {"alpha": 0.1}),
        ("F8-dt-1-lr-0.015", "40", slower | {"lr": 0.015}),
        ("F8-dt-0.4-deviation", "60", first | {"alpha": 3, "lr": 0.01, "inputs": "deviation"}),
        ("F8-dt-1-deviation", "60", slower | {"inputs": "deviation"}),
        ("F8-dt-1", "40", slower),
        ("F8-dt-1-deviation-lr-0.015", "40", slower | {"lr": 0.015, "inputs": "deviation"}),
        ("F8-dt-2", "40", slower | {"dt": 2}),
        ("F0.9-wide", "20", WIDE_09),
        ("F0.9-wide-lr-0.006", "20", WIDE_09 | {"lr": 0.006}),
        ("F0.9-wide-lr-0.012", "20", WIDE_09 | {"lr": 0.012}),
        ("F0.9-wide-lr-0.035", "20", WIDE_09 | {"lr": 0.035}),
        ("F0.9-wide-dt-0.4", "20", WIDE_09 | {"lr": 0.006, "dt": 0.4}),
        ("F0.9-wide-dt-0.9", "20", WIDE_09 | {"lr": 0.006, "dt": 0.9}),
        ("F0.9-wide-dt-1.2", "20", WIDE_09 | {"lr": 0.006, "dt": 1.2}),
        ("F0.9-wide-alpha-1", "20", WIDE_09 | {"lr": 0.006, "alpha": 1}),
        ("F8-wide", "20", WIDE_8),
        ("F8-wide-lr-0.006", "20", WIDE_8 | {"lr": 0.006}),
    ):
        yield run(name, "lorenz96", "--epochs", epochs, F=name.partition("-")[0][1:], **settings)
    for F, (dt, gamma, epsilon) in product(("0.9", "8"), ((0.25, 2, 3), (0.5, 1, 1.5))):
        options = ("--model", "cornn", "--epochs", "15")
        common: dict[str, object] = {"schedule": "onecycle", "clip": 1, "batch_size": 8, "lr": 0.01}
        own = {"dt": dt, "gamma": gamma, "epsilon": epsilon}
        yield run(f"F{F}-cornn-dt-{dt}", "lorenz96", *options, F=F, **common, **own)
    for model in ("cornn", "lstm"):
        yield run(f"F0.9-{model}-batch-1", "lorenz96", "--model", model, "--epochs", "20", F="0.9", **ONE)
