"""The benchmark and its report run, on toy sizes; what they measure is not looked at."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*arguments):
    environment = os.environ | {"MPLBACKEND": "Agg"}
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_benchmark_and_report(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("a\n<!-- speed -->\nold\n<!-- /speed -->\nb\n")
    assert "share of SGEMM peak" in run("benchmarks.layer", "--quick", "--out", tmp_path)
    result = json.loads((tmp_path / "layer-quick.json").read_text())
    assert {"command", "seed", "protocol", "versions", "seconds"} <= set(result["about"])
    run("benchmarks.report", "--results", tmp_path / "layer-quick.json", "--root", tmp_path)
    readme = (tmp_path / "README.md").read_text()
    assert "old" not in readme
    assert "LSTM, 2 layers" in readme
    assert (tmp_path / "docs/figures/layer.png").stat().st_size > 5000
    assert "Training step" in (tmp_path / "docs/speed.md").read_text()
