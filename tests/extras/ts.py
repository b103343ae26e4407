"""Files of the UEA and TSR archives, as the tasks read them; beside the extra "train"."""

from pathlib import Path

from unicornn.lab.data._formats import read_ts

HEAD = """@problemName pitch
@timestamps false
@missing false
@univariate true
@equalLength true
@seriesLength 3
@classLabel true low high
@data
"""
path = Path("a.ts")
path.write_text(f"{HEAD}1,2,3:low\n4,5,6:high\n")
u, target = read_ts(path)
assert u.shape == (2, 3, 1)
assert target.tolist() == ["low", "high"]
