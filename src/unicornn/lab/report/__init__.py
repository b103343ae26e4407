"""One HTML page about runs and searches: results next to the published ones, learning curves, learned parameters.

Needs Jinja2, matplotlib, pandas and safetensors: the extra ``train``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unicornn.errors import BadValue
from unicornn.lab.report._folders import find_runs as find_runs
from unicornn.lab.report._folders import find_studies as find_studies
from unicornn.lab.report._groups import group_runs
from unicornn.lab.report._page import write_runs_page


def report(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Writes one self-contained page: no scripts, no requests, readable offline and on a phone.

    Args:
        runs: Folders of runs or searches, or folders that contain some.
        out: Path of the page. It is written atomically.

    Returns: the path of the page.

    Raises ``NotARun`` for a folder without runs, and for a run that cannot be read.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from unicornn.lab.report import report
        >>> config = {"task": "mine", "model": "unicornn", "seed": 1, "metric": "RMSE", "more_is_better": False}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "config.json").write_text(json.dumps(config))
        ...     page = report([folder], Path(folder, "report.html"))
        >>> page.name
        'report.html'
    """
    out = Path(out)
    if out.is_dir():
        raise BadValue(f"out: expected the path of a file to write, got the folder {out}")
    return write_runs_page(out, group_runs(find_runs(runs)), find_studies(runs))


__all__ = ["find_runs", "find_studies", "report"]
