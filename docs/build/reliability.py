"""The numbers of docs/reliability.md: python -m docs.build.reliability counts the tests, ``make docs`` shows them.

Counting means to let pytest collect all tests: their names say what they are about. Nothing is run.
"""

from __future__ import annotations

import inspect
import os
import re
from typing import Any

from matplotlib.figure import Figure

from docs.build.pages import RESULTS, ROOT, measured, provenance, table
from unicornn._files import write_json
from unicornn.lab._environment import environment

PAGE = "docs/reliability.md"
COMMAND = "python -m docs.build.reliability"
SUBJECTS = {
    "values and gradients, against the rung below": r"tests/ops/test_(ladder|triton|op|cpu)|"
    r"tests/baselines/test_(ops|equations|sign_ncde)|is_the_reference",
    "exact reversal, and `invert` equal to `store`": r"test_exact|theory/test_reconstruction|invert_is_store|goes_back",
    "numbers that are not finite": r"not_finite|nan_|_nan|no_class|never_better",
    "arguments that are refused": r"test_checks|test_fuzz|wrong_argument|are_named|is_named|mistakes",
    "tensors that are not what they seem, in the fast step": r"ops/test_step",
    "kills, stops and full disks": r"kill|stopped|resume|sigterm|ctrl_c|full_disk|disk_that|swept_up|abandoned",
    "damaged, altered and hostile files": r"lab/data/test_(archives|fetch|files|formats)|corrupt|damaged|malformed|"
    r"truncated|flipped|refused|missing_or_out_of_order|bad_checkpoint|broken",
    "no code from data, names shown as they are": r"test_no_code|executed|pickle|escape|markup|formula",
}
"""What a test is about, by its name; one may count for several subjects."""


class Collector:
    """A plugin of pytest that keeps the tests it found."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.items = list(items)


def collected() -> list[dict[str, Any]]:
    """Every test: its name, whether it is slow, and how many cases it tries, if they are drawn (1 if they are not)."""
    import pytest

    collector = Collector()
    os.chdir(ROOT)
    status = pytest.main(["--collect-only", "-qq", "-m", "", "-p", "no:cacheprovider", "tests"], plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise SystemExit("tests: expected all of them to be found, but some cannot be imported")
    from hypothesis import settings  # pytest wants to import it first

    default = settings().max_examples  # of the profile that tests/conftest.py loads
    found = []
    for item in collector.items:
        function = getattr(item, "function", None)
        found.append(
            {
                "name": item.nodeid,
                "slow": item.get_closest_marker("slow") is not None,
                "cases": cases(function, default) if function else 1,
            }
        )
    return found


def cases(function: Any, default: int) -> int:
    """How many examples Hypothesis draws for a test, or how many calls it asks a fuzzer for; else 1."""
    if getattr(function, "is_hypothesis_test", False):
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        return own.max_examples if own else default
    asked = re.search(r"\b(?:fuzz|wrong)\((?:count=)?([\d_]+)", inspect.getsource(function))
    return int(asked[1]) if asked else 1


def counted(tests: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """By subject: quick and slow tests, and cases, of which a test may try many."""
    result = {}
    for subject, pattern in {**SUBJECTS, "all tests": ""}.items():
        own = [test for test in tests if re.search(pattern, test["name"], flags=re.IGNORECASE)]
        result[subject] = {
            "quick": sum(not test["slow"] for test in own),
            "slow": sum(test["slow"] for test in own),
            "cases": sum(test["cases"] for test in own),
        }
    return result


def blocks() -> dict[str, list[str]]:
    result = measured("reliability")
    rows = [(subject, *(f"{n:,}" for n in own.values())) for subject, own in result["subjects"].items()]
    return {
        "counts": table(("subject", "quick tests", "slow tests", "cases"), rows),
        "counted": [provenance(result)],
    }


def plots() -> dict[str, Figure]:
    return {}


def main() -> None:
    result = {"command": COMMAND, **environment(), "subjects": counted(collected())}
    write_json(RESULTS / "reliability.json", result)


if __name__ == "__main__":
    main()
