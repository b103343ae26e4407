"""The measured results at the top of README.md and docs/index.md."""

from __future__ import annotations

from statistics import fmean

from docs.build import archive
from docs.build.long import longest_mastered, results_of_task
from docs.build.pages import load_results, part
from docs.build.signals import spoken_digits
from docs.build.speed import LSTM, REVERSIBLE, SIZES


def headlines() -> list[tuple[str, str, str, str]]:
    """Each result: the page about it, its title, its number, and a sentence."""
    lengths, rivals = load_results("bench/lengths"), load_results("speed")["rivals"]
    N = str(lengths["sizes"]["N"][-1])
    ours, lstm = (lengths["models"][name]["memory"][N] for name in (REVERSIBLE, LSTM))
    wide, long = (rivals[f"{size}, stored"]["ratio"] for size in SIZES)
    best, *others = results_of_task("recall")
    runner_up = max(others, key=longest_mastered)
    digits, accuracies = spoken_digits(), archive.published()
    test, seconds = (fmean(run[key] for run in digits) for key in ("test", "seconds"))
    mean = accuracies.mean()
    return [
        ("speed", "Memory", f"{ours:.1f} MiB",
         f"a training step over {int(N):,} time steps needs {ours:.1f} MiB beyond input and parameters; an LSTM of the "
         f"same size needs {lstm:,.0f} MiB."),
        ("speed", "Speed", f"{wide:.1f} – {long:.1f} ×",
         f"on two CPU cores, a training step of two layers is {wide:.1f} × ({SIZES['wide']}) to {long:.1f} × "
         f"({SIZES['long']}) as fast as one of a single LSTM layer."),
        ("long", "Long dependencies", f"{longest_mastered(best):,} steps",
         f"trained for {best['CPU seconds'] / 60:.0f} minutes on one core, it recalls a symbol after "
         f"{longest_mastered(best):,} steps of noise; the best of {len(others)} other models "
         f"({runner_up['model'].upper()}) reaches {longest_mastered(runner_up):,}."),
        ("signals", "Raw signals", f"{test:.1%}",
         f"a network of {digits[0]['parameters']:,} parameters classifies {test:.1%} of spoken digits correctly, from "
         f"16,000 raw samples each and for unseen speakers, after {seconds / 60:.0f} minutes of training on one core."),
        ("archive", "Classification", f"{mean[archive.OURS]:.3f}",
         f"the scikit-learn classifier with its defaults has a mean accuracy of {mean[archive.OURS]:.3f} on "
         f"{len(accuracies)} UCR and UEA datasets; published: MultiRocket-Hydra {mean['MR-Hydra']:.3f}, HIVE-COTE 2 "
         f"{mean['HC2']:.3f}."),
    ]  # fmt: skip


@part
def headline_list() -> list[str]:
    return [f"- **{title}:** {sentence}" for _, title, _, sentence in headlines()]


@part
def headline_cards() -> list[str]:
    """A card per result, its number in the accent colour."""
    cards = [
        f":::{{grid-item-card}} {short}\n:class-title: headline\n:link: {page}\n:link-type: doc\n"
        f"**{title}:** {sentence}\n:::\n"
        for page, title, short, sentence in headlines()
    ]
    return ["::::{grid} 1 1 2 3", ":gutter: 2", "", *cards, "::::"]
