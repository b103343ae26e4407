"""The runs of the reproduction, in groups; each run is a call of ``unicornn train``.

Trials and superseded recipes are not planned here. Their records in results/reproduction have their commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

Settings = dict[str, object]


@dataclass(frozen=True)
class Planned:
    """One run: the name of its folder, and the arguments of ``unicornn train``."""

    name: str
    arguments: tuple[str, ...]


def plan(name: str, task: str, settings: Settings, *, seed: int | None = None, **options: object) -> Planned:
    """A run with some options of the command line, such as ``epochs=10``, and ``settings`` for --set."""
    options |= {} if seed is None else {"seed": seed}
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return Planned(name, (task, *words))


CYCLE: Settings = {"schedule": "onecycle", "clip": 1}
SPREAD = CYCLE | {"init": "spread"}
FOLDS = range(5)  # of the 44 worms


def _protocol() -> Iterator[Planned]:
    """The authors' protocol in full for IMDB; two more seeds of "curves" for CIFAR-10."""
    yield plan("imdb-0", "imdb", {}, seed=0, variant="authors")
    for seed in (1, 2):
        yield plan(f"cifar10-{seed}", "cifar10-noise", {}, seed=seed, variant="authors", epochs=3)


def _curves() -> Iterator[Planned]:
    """The paper's hyperparameters, for as many epochs as the time allows."""
    yield plan("cifar10", "cifar10-noise", {}, variant="authors", epochs=7)
    yield plan("psmnist", "psmnist", {}, variant="256", epochs=1)
    for rate in ("hr", "rr"):
        yield plan(rate, f"bidmc-{rate}", {}, budget="6m")


def _scales() -> Iterator[Planned]:
    """Time scales spread from the start, one-cycle learning rate. "lorenz-both" has two layers, as in the paper."""
    for name, more in (("psmnist", {"lr": 0.002}), ("psmnist-energy", {"lr": 0.0006, "readout": "last+energy"})):
        yield plan(name, "psmnist", SPREAD | {"dropout": 0.05} | more, epochs=24 if name == "psmnist" else 26)
    rates = {"patch": 16, "dt": 0.5, "alpha": 10, "standardise": "true", "shift": 500, "lr": 0.003, "dropout": 0}
    for rate in ("hr", "rr"):
        yield plan(rate, f"bidmc-{rate}", SPREAD | rates, epochs=200)
    forecast = {"clip": 0.1, "F": 0.9, "batch_size": 1, "lr": 0.002, "dt": "0.6,0.3", "alpha": 0.2}
    decay = {"optimizer": "adamw", "weight_decay": 0.01}
    yield plan("lorenz-both-0", "lorenz96", SPREAD | forecast | decay, seed=0, epochs=900)


def _images() -> Iterator[Planned]:
    """CIFAR-10 with standardised and mirrored images, sequences that grow in two stages, and averaged weights."""
    recipe = CYCLE | {
        "alpha": 7, "lr": 0.006, "batch_size": 50, "pixels": "standardised", "flip": "true", "short_epochs": "16,4",
        "short_steps": "100,316", "average": 0.999,
    }  # fmt: skip
    yield plan("cifar10-longer", "cifar10-noise", recipe, variant="authors", epochs=46, budget="135m")
    yield plan("cifar10-uniform", "cifar10-noise", recipe, epochs=46, budget="135m")


def _imdb() -> Iterator[Planned]:
    """Lengths honoured. Slow oscillators add up their input, the full state is read, standardised once, and word
    vectors move in proportion to their gradients."""
    sums = CYCLE | {
        "num_layers": 1, "dt": 0.0066, "dropout": 0, "embedding_dropout": 0.5, "lr": 0.001, "layers_rate": 0.2,
        "words_rate": 10, "words_eps": 1e-4, "average": 0.998, "readout": "state(norm=start)", "readout_init": "zero",
    }  # fmt: skip
    for seed in range(3):
        yield plan(f"sums-{seed}", "imdb", sums, seed=seed, epochs=12)


def _lorenz() -> Iterator[Planned]:
    """Lorenz 96. "wide" is one layer of 700 units, with as many parameters as two layers of 90. "state" reads y and z
    of two layers of 90, the first of which has large time steps: most of the error is made in the first steps. "head"
    has 64 neurons between them and the output."""
    once: Settings = {"schedule": "onecycle"}
    settings: dict[str, dict[str, Settings]] = {
        "unicornn": {
            "0.9": {"batch_size": 4, "lr": 0.015, "dt": "0.8,0.4", "alpha": 1},
            "8": {"batch_size": 8, "lr": 0.005, "dt": 1, "alpha": 1, "inputs": "deviation"},
        },
        "lstm": {F: {"batch_size": 8, "lr": 0.01} for F in ("0.9", "8")},
        "cornn": {F: {"batch_size": 8, "lr": 0.01, "dt": 0.5, "gamma": 1, "epsilon": 1.5} for F in ("0.9", "8")},
    }
    epochs = {("unicornn", "0.9"): 150, ("unicornn", "8"): 200}
    for model, seed, F in product(settings, range(5), ("0.9", "8")):
        options = {"model": model, "epochs": epochs.get((model, F), 60)}
        yield plan(f"F{F}-{model}-{seed}", "lorenz96", once | {"F": F} | settings[model][F], seed=seed, **options)
    for model in ("cornn", "lstm"):
        single = once | {"F": "0.9", "batch_size": 1, "lr": 0.003}
        yield plan(f"F0.9-{model}-batch-1", "lorenz96", single, model=model, epochs=60)
    wide = once | {"num_layers": 1, "hidden_size": 700, "init": "spread", "batch_size": 1}
    chosen: dict[str, Settings] = {
        "0.9": {"clip": 0.1, "dt": 0.6, "alpha": 0.2, "lr": 0.02},
        "8": {"clip": 1, "dt": 1, "alpha": 1, "lr": 0.006, "inputs": "deviation"},
    }
    for seed, F in product(range(3), chosen):
        yield plan(f"F{F}-wide-{seed}", "lorenz96", wide | {"F": F} | chosen[F], seed=seed, epochs=60)
    state = once | {
        "F": "0.9", "readout": "every_step(state=True)", "init": "spread", "batch_size": 1, "clip": 0.1, "alpha": 1,
        "inputs": "deviation",
    }  # fmt: skip
    more = {"dt": "1.3,0.3", "lr": 0.01, "layers_rate": 0.3}
    yield plan("F0.9-state-0", "lorenz96", state | more, seed=0, epochs=150)
    yield plan("F0.9-head-0", "lorenz96", state | more | {"head_size": 64}, seed=0, epochs=40, budget="390s")


SEGMENTS, DT = 32, 0.05
ALONE = CYCLE | {  # energies of segments that start from rest; layers learn more slowly than the readout
    "lr": 0.01, "layers_rate": 0.01, "batch_size": 36, "readout_init": "zero", "num_layers": 1,
    "hidden_size": 128, "validation": "training",
}  # fmt: skip
OSCILLATORS: Settings = {"alpha": 10, "b_init": 1, "init": "spread"}


def _energies_from_rest(segments: int) -> str:
    return f"energy(segments={segments},from_rest=True,pool=moments,mirrored=True)"


def _worms_alone() -> Iterator[Planned]:
    """Recordings in segments that start from rest. Baselines are read by the squares of their states."""
    ours = ALONE | OSCILLATORS | {"dt": DT, "readout": _energies_from_rest(SEGMENTS)}
    for seed, fold in product(range(5), FOLDS):
        yield plan(f"unicornn-{seed}-{fold}", "worms44", ours | {"fold": fold}, seed=seed, epochs=40)
    for model, fold in product(("lstm", "cornn", "exprnn", "indrnn", "lem", "linoss"), FOLDS):
        settings = ALONE | {"fold": fold, "readout": _energies_from_rest(SEGMENTS)}
        yield plan(f"{model}-0-{fold}", "worms44", settings, seed=fold, model=model, epochs=40, budget="20s")


def _subsampling() -> Iterator[Planned]:
    """Fig. 3: the last or random entries only. The last entries make fewer segments; for random entries, Δt grows with
    their distance, as far as the scheme is stable."""
    for fold, entries, which in product(FOLDS, (1000, 4000, 10_000), ("last", "random")):
        ratio = 18_000 / entries
        segments, dt = (round(SEGMENTS / ratio), DT) if which == "last" else (SEGMENTS, min(0.6, round(DT * ratio, 3)))
        chosen = {"fold": fold, "subsample": which, "entries": entries, "dt": dt}
        chosen["readout"] = _energies_from_rest(segments)
        yield plan(f"{which}-{entries}-{fold}", "worms44", ALONE | OSCILLATORS | chosen, seed=fold, epochs=40)


def _ablations() -> Iterator[Planned]:
    """Fig. 4 and Fig. 6 on a twelfth of the training images, with N = 100 and half the units."""
    smaller = CYCLE | {"images": 4000, "steps": 100, "hidden_size": 64, "lr": 0.01}
    changes: dict[str, Settings] = {f"dt-{dt}": {"dt": dt} for dt in (0.04, 0.07, 0.126, 0.22, 0.4)}
    changes |= {f"alpha-{alpha}": {"alpha": alpha} for alpha in (4, 7, 13, 23, 40)}
    for L in (3, 4, 5, 6):
        changes[f"stacked-{L}"] = {"num_layers": L}
        changes[f"residual-{L}"] = {"num_layers": L, "skip_layers": 2}
        changes[f"frozen-{L}"] = {"num_layers": L, "learn_dt": "false"}
    for name, change in changes.items():
        for seed in range(3 if name == "stacked-3" else 1):
            yield plan(f"{name}-{seed}", "cifar10-noise", smaller | change, seed=seed, epochs=10)


def _energies() -> Iterator[Planned]:
    """The same networks with different readouts: worms, bearings, and the two rates on both splits."""
    worms = SPREAD | {
        "crops": "quarters", "lr": 0.003, "num_layers": 1, "hidden_size": 128, "dt": 0.05, "alpha": 10, "b_init": 1,
    }  # fmt: skip
    readouts: dict[str, Settings] = {"energy": {"readout": "energy(segments=8)"}, "last": {}}
    for name, fold in product(readouts, FOLDS):
        yield plan(f"worms-{name}-{fold}", "worms44", worms | readouts[name] | {"fold": fold}, seed=fold, epochs=60)
    bearings: dict[str, tuple[int, Settings]] = {
        "last": (15, {"readout": "last"}),
        "energy": (15, {"readout": "energy"}),
        "energy-8": (15, {"readout": "energy(segments=8)"}),
        "energy-24": (15, {}),
        "energy-8-longer": (30, {"readout": "energy(segments=8)"}),
    }
    for name, (epochs, settings) in bearings.items():
        yield plan(f"bearings-{name}", "bearings", settings, epochs=epochs)
    yield plan(
        "bearings-whole", "bearings", {"readout": "energy(segments=80)", "batch_size": 8}, variant="whole", epochs=40
    )
    rates = SPREAD | {"patch": 16, "dt": 0.65, "alpha": 10, "standardise": "true"}
    for rate, readout in product(("hr", "rr"), ("last", "energy")):
        chosen = {"split": "patient", "readout": readout, "lr": 0.006}
        yield plan(f"{rate}-patient-{readout}", f"bidmc-{rate}", rates | chosen, epochs=6)
    for rate, epochs in (("hr", 40), ("rr", 12)):
        chosen = {"split": "patient", "stretch": 0.3, "lr": 0.002}
        yield plan(f"{rate}-patient-stretched", f"bidmc-{rate}", rates | chosen, epochs=epochs)
    for rate, readout in (("hr", "last"), ("rr", "last"), ("rr", "last+energy")):
        chosen = {"split": "random", "readout": readout, "lr": 0.002}
        yield plan(f"{rate}-random-{readout}", f"bidmc-{rate}", rates | chosen, epochs=60)


GROUPS = {
    "protocol": _protocol,
    "curves": _curves,
    "scales": _scales,
    "images": _images,
    "imdb": _imdb,
    "lorenz": _lorenz,
    "worms-alone": _worms_alone,
    "subsampling": _subsampling,
    "ablations": _ablations,
    "energies": _energies,
}


def planned(group: str) -> list[Planned]:
    """The runs of a group, in the order in which they are trained."""
    return list(GROUPS[group]())
