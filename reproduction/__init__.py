"""The paper's experiments: repeats and records the runs of results/reproduction."""

from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results" / "reproduction"
