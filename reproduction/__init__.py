"""The paper's experiments: plans, the driver that trains and records them, and a comparison."""

from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results" / "reproduction"
