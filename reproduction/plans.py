"""What is run for the reproduction: groups of runs, each a call of ``unicornn train``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from reproduction.lorenz import lorenz, trials
from reproduction.planned import Planned
from reproduction.planned import run as _run

SUMS: dict[str, object] = {
    "num_layers": 1, "dt": 0.0066, "dropout": 0, "readout": "state(norm=start)", "readout_init": "zero",
    "schedule": "onecycle", "clip": 1, "lr": 0.001, "layers_rate": 0.2, "words_rate": 10, "words_eps": 1e-4,
    "embedding_dropout": 0.5, "average": 0.998,
}  # fmt: skip


def _imdb() -> Iterator[Planned]:
    """Lengths honoured, hence a larger first time step; one cycle of the learning rate, high and short or low and
    long. "sums": slow oscillators add up what they hear; the whole state is read, standardised once; rare words are
    moved as little as they matter; the weights are averaged."""
    for (name, epochs, lr), seed in product((("twenty", "20", 1e-3), ("fifty", "50", 3e-4)), range(3)):
        options = ("--seed", str(seed), "--epochs", epochs)
        yield _run(f"{name}-{seed}", "imdb", *options, schedule="onecycle", lr=lr, dt="0.06,0.205")
    for seed in range(3):
        yield _run(f"sums-{seed}", "imdb", "--seed", str(seed), "--epochs", "12", **SUMS)


def _imdb_trials() -> Iterator[Planned]:
    """Lengths honoured, the mean of the outputs read too, less dropout: a higher learning rate and few epochs. And
    "sums" with fewer words left out, fewer epochs, and two words per step."""
    same: dict[str, object] = {"schedule": "onecycle", "clip": 1, "lr": 0.002, "dt": "0.06,0.205"}
    both = same | {"readout": "last+mean"}
    fewer = SUMS | {"embedding_dropout": 0.3}
    pairs = SUMS | {"patch": 2, "dt": 0.0132}
    for name, epochs, settings in (
        ("mean", "6", same | {"readout": "mean"}),
        ("mean-spread", "6", same | {"readout": "mean", "init": "spread", "dt": "0.2,0.2"}),
        ("last-mean", "6", both | {"dropout": 0.3}),
        ("last-mean-12", "12", both | {"dropout": 0.15}),
        ("sums-0.3", "6", fewer),
        ("sums-0.3-12", "12", fewer),
        ("sums-pairs-0.4", "8", pairs | {"embedding_dropout": 0.4}),
        ("sums-pairs", "12", pairs),
    ):
        yield _run(name, "imdb", "--seed", "0", "--epochs", epochs, **settings)


WORMS = 5  # folds; the seed of a run is its fold


def _worms() -> Iterator[Planned]:
    """Crops and mirror images for all: of a quarter of a recording, or of several lengths, whole ones included.
    UnICORNN from random biases, and from zero; baselines have a time to keep."""
    same: dict[str, object] = {"schedule": "onecycle", "clip": 1}
    slow = same | {"dt": "0.03,0.03", "alpha": 1}
    ours = slow | {"lr": 0.01, "b_init": 1}
    fewer: dict[str, object] = {"subsample": "random", "entries": 800}
    for name, epochs, settings in (
        ("unicornn", "300", ours | {"crops": "quarters"}),
        ("unicornn-whole", "300", ours | {"crops": "several"}),
        ("unicornn-subsampled", "200", ours | fewer | {"crops": "quarters", "dt": "0.3,0.3"}),
        ("unicornn-zero", "200", slow | {"crops": "quarters", "lr": 0.01}),
        ("unicornn-zero-subsampled", "200", slow | fewer | {"crops": "quarters", "dt": "0.3,0.3", "lr": 0.01}),
    ):
        for fold in range(WORMS):
            yield _run(f"{name}-{fold}", "worms44", "--seed", str(fold), "--epochs", epochs, fold=fold, **settings)
    for fold in range(WORMS):
        options = ("--model", "lstm", "--seed", str(fold), "--epochs", "200", "--budget", "2m")
        settings = same | fewer | {"crops": "quarters", "lr": 0.005}
        yield _run(f"lstm-subsampled-{fold}", "worms44", *options, fold=fold, **settings)
    baselines = {name: (name, 0) for name in ("indrnn", "linoss", "lstm", "cornn", "exprnn", "lem")}
    baselines["lstm-truncated"] = ("lstm", 500)
    for crops, fold, (name, (model, bptt)) in product(("quarters", "several"), range(WORMS), baselines.items()):
        whole = crops == "several"
        options = ("--model", model, "--seed", str(fold), "--epochs", "200", "--budget", "2m")
        settings = same | {"crops": crops, "lr": 0.005} | ({"bptt": bptt} if bptt else {})
        yield _run(f"{name}{'-whole' if whole else ''}-{fold}", "worms44", *options, fold=fold, **settings)


ALONE: dict[str, object] = {  # energies of pieces that start from rest; readout and layers in one step an epoch
    "schedule": "onecycle", "clip": 1, "lr": 0.01, "layers_rate": 0.01, "batch_size": 36, "readout_init": "zero",
    "num_layers": 1, "hidden_size": 128, "validation": "training",
}  # fmt: skip
SCALES: dict[str, object] = {"alpha": 10, "b_init": 1, "init": "spread"}
PIECES, DT = 32, 0.05


def _energies_of(pieces: int) -> str:
    return f"energy(segments={pieces},from_rest=True,pool=moments,mirrored=True)"


def _worms_alone() -> Iterator[Planned]:
    """Recordings in pieces that start from rest, each told by its energies; the rivals by their states squared."""
    for seed, fold in product(range(5), range(WORMS)):
        options = ("--seed", str(seed), "--epochs", "40")
        settings = ALONE | SCALES | {"dt": DT, "readout": _energies_of(PIECES)}
        yield _run(f"unicornn-{seed}-{fold}", "worms44", *options, fold=fold, **settings)
    for model, fold in product(("lstm", "cornn", "exprnn", "indrnn", "lem", "linoss"), range(WORMS)):
        options = ("--model", model, "--seed", str(fold), "--epochs", "40", "--budget", "20s")
        yield _run(f"{model}-0-{fold}", "worms44", *options, fold=fold, readout=_energies_of(PIECES), **ALONE)


def _subsampling() -> Iterator[Planned]:
    """Fig. 3: these entries and no others, read as above. Of the last ones there are fewer pieces; random ones have
    a larger Δt, so that the oscillators' time is the same, as far as the scheme is stable. All entries: above."""
    for fold, entries, how in product(range(WORMS), (1000, 4000, 10_000), ("last", "random")):
        share = 18_000 / entries
        pieces = {"readout": _energies_of(round(PIECES / share)), "dt": DT} if how == "last" else {
            "readout": _energies_of(PIECES), "dt": min(0.6, round(DT * share, 3))}  # fmt: skip
        more: dict[str, object] = {"subsample": how, "entries": entries, **pieces}
        options = ("--seed", str(fold), "--epochs", "40")
        yield _run(f"{how}-{entries}-{fold}", "worms44", *options, fold=fold, **more, **ALONE, **SCALES)


def _curves() -> Iterator[Planned]:
    """The paper's hyperparameters, as many epochs as the budget allows."""
    for name, task, options in (
        ("imdb", "imdb", ("--variant", "authors", "--budget", "15m")),
        ("cifar10", "cifar10-noise", ("--variant", "authors", "--epochs", "7")),
        ("psmnist", "psmnist", ("--variant", "256", "--epochs", "1")),
        ("hr", "bidmc-hr", ("--budget", "6m")),
        ("rr", "bidmc-rr", ("--budget", "6m")),
    ):
        yield _run(name, task, *options)


def _recipes() -> Iterator[Planned]:
    """At most one hour on two cores, as two hours on one: any schedule, optimiser or size."""
    hr: dict[str, object] = {
        "patch": 8,
        "dt": 0.368,
        "lr": 0.006,
        "schedule": "onecycle",
        "clip": 1,
        "standardise": "true",
    }
    rr = hr | {"dt": 0.088}
    yield _run("hr", "bidmc-hr", "--epochs", "130", "--budget", "115m", **hr)
    yield _run("rr-8", "bidmc-rr", "--epochs", "100", "--budget", "70m", **rr)
    yield _run("rr", "bidmc-rr", "--epochs", "200", "--budget", "30m", **(rr | {"patch": 16, "dt": 0.176}))
    yield _run("hr-patient", "bidmc-hr", "--epochs", "40", "--budget", "5m", split="patient", **hr)
    yield _run("rr-patient", "bidmc-rr", "--epochs", "40", "--budget", "5m", split="patient", **rr)
    once: dict[str, object] = {"schedule": "onecycle", "clip": 1}
    options = ("--variant", "authors", "--epochs", "30", "--budget", "45m")
    yield _run("cifar10", "cifar10-noise", *options, short_epochs=16, alpha=7, lr=0.006, batch_size=50, **once)
    uniform = once | {
        "short_epochs": 20,
        "alpha": 7,
        "lr": 0.006,
        "batch_size": 50,
    }  # the noise that the paper describes
    yield _run("cifar10-uniform", "cifar10-noise", "--epochs", "32", **uniform)
    yield _run("psmnist-4", "psmnist", "--epochs", "30", "--budget", "65m", patch=4, dt=0.482, lr=0.006, **once)
    yield _run("psmnist-short", "psmnist", "--epochs", "40", "--budget", "22m", patch=8, dt=0.7, lr=0.006, **once)
    yield _run("psmnist", "psmnist", "--epochs", "75", "--budget", "52m", patch=8, dt=0.7, lr=0.006, **once)


MINUTES = 1  # that every model has in the group "equal"


def _equal() -> Iterator[Planned]:
    """The models of the paper's tables at their published sizes, the same time for each; one cycle of the learning rate
    for all. UnICORNN as in the paper, and with time scales spread from the start."""
    models = {
        "psmnist": ("lstm", "gru", "exprnn", "cornn", "indrnn"),
        "cifar10-noise": (
            "lstm", "incremental", "lipschitz", "fastrnn", "antisymmetric", "gated-antisymmetric", "cornn",
        ),
        "bidmc-rr": ("lstm", "exprnn", "indrnn", "cornn", "sign-ncde"),
        "bidmc-hr": ("lstm", "exprnn", "indrnn", "cornn", "sign-ncde"),
    }  # fmt: skip
    for task, baselines in models.items():
        rate = task.startswith("bidmc")
        variant = ("--variant", "authors") if task == "cifar10-noise" else ()
        common: dict[str, object] = {"schedule": "onecycle", "clip": 1} | ({"standardise": "true"} if rate else {})
        options = (*variant, "--budget", f"{MINUTES}m", "--epochs", "100")
        yield _run(f"{task}-unicornn", task, *options, **common, lr=0.006)
        yield _run(f"{task}-unicornn-spread", task, *options, **common, lr=0.006, init="spread")
        for model in baselines:
            yield _run(f"{task}-{model}", task, "--model", model, *options, **common, lr=0.003)


def _ablations() -> Iterator[Planned]:
    """Fig. 4 and Fig. 6 on a twelfth of the training images, N = 100, with half the units."""
    smaller: dict[str, object] = {
        "images": 4000, "steps": 100, "hidden_size": 64, "schedule": "onecycle", "lr": 0.01, "clip": 1,
    }  # fmt: skip

    def run(name: str, seed: int = 0, **settings: object) -> Planned:
        return _run(f"{name}-{seed}", "cifar10-noise", "--epochs", "10", "--seed", str(seed), **smaller, **settings)

    for dt in (0.04, 0.07, 0.126, 0.22, 0.4):
        yield run(f"dt-{dt}", dt=dt)
    for alpha in (4, 7, 13, 23, 40):
        yield run(f"alpha-{alpha}", alpha=alpha)
    for L in (3, 4, 5, 6):
        for seed in range(5 if L == 3 else 2):
            yield run(f"stacked-{L}", seed, num_layers=L)
        for seed in range(2):
            yield run(f"residual-{L}", seed, num_layers=L, skip_layers=2)
            yield run(f"frozen-{L}", seed, num_layers=L, learn_dt="false")


def _protocol() -> Iterator[Planned]:
    """The authors' protocol to the letter and in full, beside their learning curve."""
    yield _run("imdb-0", "imdb", "--variant", "authors", "--seed", "0")
    for seed in (1, 2):  # whether epochs below the authors' curve are chance; seed 0 is in "curves"
        yield _run(f"cifar10-{seed}", "cifar10-noise", "--variant", "authors", "--seed", str(seed), "--epochs", "3")


def _energies() -> Iterator[Planned]:
    """The same network with the last output and with the energies as readout: worms, bearings, and the two rates on
    the paper's split and by patient. Time scales are spread from the start for both."""
    worms: dict[str, object] = {
        "crops": "quarters", "schedule": "onecycle", "clip": 1, "lr": 0.003, "num_layers": 1, "hidden_size": 128,
        "dt": 0.05, "alpha": 10, "b_init": 1, "init": "spread",
    }  # fmt: skip
    readouts: dict[str, dict[str, object]] = {"energy": {"readout": "energy(segments=8)"}, "last": {}}
    for (readout, more), fold in product(readouts.items(), range(WORMS)):
        yield _run(
            f"worms-{readout}-{fold}", "worms44", "--seed", str(fold), "--epochs", "60", fold=fold, **worms, **more
        )
    bearings: dict[str, tuple[str, dict[str, object]]] = {
        "last": ("15", {"readout": "last"}),
        "energy": ("15", {"readout": "energy"}),
        "energy-8": ("15", {"readout": "energy(segments=8)"}),
        "energy-24": ("15", {}),
        "energy-8-longer": ("30", {"readout": "energy(segments=8)"}),
    }
    for name, (epochs, settings) in bearings.items():
        yield _run(f"bearings-{name}", "bearings", "--epochs", epochs, **settings)
    options = ("--variant", "whole", "--epochs", "40")
    yield _run("bearings-whole", "bearings", *options, readout="energy(segments=80)", batch_size=8)
    rates: dict[str, object] = {
        "patch": 16, "dt": 0.65, "alpha": 10, "init": "spread", "schedule": "onecycle", "clip": 1,
        "standardise": "true",
    }  # fmt: skip
    for split, epochs, lr in (("patient", "6", 0.006), ("random", "60", 0.002)):
        for rate, readout in product(("hr", "rr"), ("last", "energy", "last+energy")):
            name = f"{rate}-{split}-{readout}"
            yield _run(name, f"bidmc-{rate}", "--epochs", epochs, split=split, readout=readout, lr=lr, **rates)
    for rate, epochs in (("hr", "40"), ("rr", "12")):
        name = f"{rate}-patient-stretched"
        yield _run(name, f"bidmc-{rate}", "--epochs", epochs, split="patient", stretch=0.3, lr=0.002, **rates)


ONCE: dict[str, object] = {"init": "spread", "schedule": "onecycle", "clip": 1}
RATES = ONCE | {"patch": 16, "dt": 0.5, "alpha": 10, "standardise": "true", "lr": 0.003}


def _scales() -> Iterator[Planned]:
    """Time scales spread from the start, one cycle of the learning rate; psMNIST pixel by pixel, CIFAR-10 with the
    noise of the authors' code."""
    forecast = ONCE | {"clip": 0.1, "F": 0.9, "batch_size": 1, "lr": 0.003, "dt": "0.6,0.3", "alpha": 0.2}
    decay = {"optimizer": "adamw", "weight_decay": 0.01}
    for name, seed, epochs, more in (
        ("lorenz", 0, "200", {}), ("lorenz", 1, "200", {}), ("lorenz-longer", 0, "400", {}),
        ("lorenz-longest", 0, "800", {}), ("lorenz-slower", 0, "600", {"lr": 0.002}), ("lorenz-decay", 0, "500", decay),
        ("lorenz-both", 0, "900", decay | {"lr": 0.002}),
        ("lorenz-averaged", 0, "600", {"lr": 0.002, "average": 0.999}),
    ):  # fmt: skip
        yield _run(f"{name}-{seed}", "lorenz96", "--seed", str(seed), "--epochs", epochs, **forecast | more)
    for name, epochs in (("psmnist", "24"), ("psmnist-longer", "36")):  # the second went on where the first had ended
        yield _run(name, "psmnist", "--epochs", epochs, lr=0.002, dropout=0.05, **ONCE)
    with_energies = ONCE | {"readout": "last+energy"}  # which wants a lower learning rate
    yield _run("psmnist-energy", "psmnist", "--epochs", "26", lr=0.0006, dropout=0.05, **with_energies)
    options = ("--variant", "authors", "--epochs", "44")
    yield _run("cifar10", "cifar10-noise", *options, short_epochs=36, alpha=7, lr=0.006, batch_size=50, **ONCE)
    for rate in ("hr", "rr"):
        yield _run(rate, f"bidmc-{rate}", "--epochs", "200", shift=500, dropout=0, **RATES)


def _states() -> Iterator[Planned]:
    """The whole state is read at the end; sequences grow in two stages; pixels are standardised. ``flip`` had
    no effect in the run that is in the results."""
    yield _run(
        "cifar10", "cifar10-noise", "--variant", "authors", "--epochs", "60", "--budget", "3750s", **ONCE,
        readout="state", readout_init="zero", dt=0.35, alpha=7, lr=0.003, batch_size=50, pixels="standardised",
        flip="true", short_epochs="40,4", short_steps="64,250", dropout=0.2, optimizer="adamw", weight_decay=0.03,
    )  # fmt: skip


def _images() -> Iterator[Planned]:
    """CIFAR-10 with standardised pixels and mirror images; sequences grow in two stages. "cifar10" went on from
    epoch 22 of "cifar10-short", whose learning rate it had until then; the last two have averaged weights."""
    recipe: dict[str, object] = {
        "schedule": "onecycle", "clip": 1, "alpha": 7, "lr": 0.006, "batch_size": 50, "pixels": "standardised",
        "flip": "true", "short_epochs": "10,2", "short_steps": "100,316",
    }  # fmt: skip
    longer = recipe | {"short_epochs": "16,4", "average": 0.999}
    normal = ("--variant", "authors")
    for name, noise, epochs, budget, settings in (
        ("cifar10-short", normal, "28", "80m", recipe),
        ("cifar10", normal, "38", "95m", recipe),
        ("cifar10-longer", normal, "46", "135m", longer),
        ("cifar10-uniform", (), "46", "135m", longer),
    ):
        yield _run(name, "cifar10-noise", *noise, "--epochs", epochs, "--budget", budget, **settings)


def _rate_trials() -> Iterator[Planned]:
    """What the settings of the heart rate were chosen by, on the validation set."""
    for name, settings in (
        ("hr-dropout-0", {"dropout": 0}),
        ("hr-shift", {"dropout": 0, "shift": 500}),
        ("hr-stretch", {"dropout": 0.02, "stretch": 0.1}),
    ):
        yield _run(name, "bidmc-hr", "--epochs", "14", **RATES, **settings)


GROUPS = {
    "protocol": _protocol,
    "energies": _energies,
    "scales": _scales,
    "states": _states,
    "images": _images,
    "rate-trials": _rate_trials,
    "lorenz": lorenz,
    "trials": trials,
    "imdb": _imdb,
    "imdb-trials": _imdb_trials,
    "curves": _curves,
    "recipes": _recipes,
    "equal": _equal,
    "ablations": _ablations,
    "worms": _worms,
    "worms-alone": _worms_alone,
    "subsampling": _subsampling,
}


def planned(group: str) -> list[Planned]:
    """The runs of a group, in the order in which they are done."""
    return list(GROUPS[group]())
