"""Tables larger than the memory limit of a process."""

import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from tests.processes import python
from unicornn.estimators import UnICORNNClassifier, _base
from unicornn.estimators._bank import OscillatorBank

MEMORY = 130 << 20  # bytes beyond those in use at the start
CHANNELS, LENGTH, SERIES = ["a", "b", "c", "d"], 5000, 3500

LIMITED = f"""
import resource, sys
from pathlib import Path
from typer.testing import CliRunner
from unicornn.lab.cli import app
from unicornn.lab.fit import read
few, table, folder = map(Path, sys.argv[1:])

def run(*given):
    result = CliRunner().invoke(app, list(map(str, given)))
    if result.exception:
        raise result.exception
    return result.stdout

def commands(table):
    run("predict", folder / "model", table, "--target", "kind", "--out", folder / "predicted.csv")
    return run("fit", table, "--target", "kind", "--dry-run")

commands(few)  # imports and compiles everything
held = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (held + {MEMORY}, resource.RLIM_INFINITY))
print(commands(table))
try:
    read(table, "kind")
except MemoryError:
    print("read ran out of memory")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="uses RLIMIT_DATA")
def test_tables_larger_than_memory(tmp_path, monkeypatch):
    assert SERIES * LENGTH * len(CHANNELS) * 4 > 2 * MEMORY  # in float32; more as text
    rng = np.random.default_rng(0)
    monkeypatch.setattr(_base, "OscillatorBank", partial(OscillatorBank, 2))  # fast
    model = UnICORNNClassifier(random_state=0).fit(rng.normal(size=(8, 8, 4)), np.arange(8) % 2)
    model.channel_names_ = CHANNELS
    model.save_pretrained(tmp_path / "model")
    some = pd.DataFrame(rng.normal(size=(LENGTH, 4)).round(1), columns=CHANNELS).to_csv(index=False, header=False)
    lines = some.splitlines()
    for name, n in (("few.csv", 3), ("table.csv", SERIES)):
        with (tmp_path / name).open("w") as file:
            file.write(f"series,kind,{','.join(CHANNELS)}\n")
            for i in range(n):
                file.writelines(f"{i},{i % 2},{line}\n" for line in lines)
    printed = python("-c", LIMITED, tmp_path / "few.csv", tmp_path / "table.csv", tmp_path)
    assert f"{SERIES:,}" in printed
    assert "read ran out of memory" in printed
    with (tmp_path / "predicted.csv").open() as file:
        assert sum(1 for _ in file) == SERIES + 1
