"""The map of the tree in CONTRIBUTING.md is complete, and nothing in it is made up."""

import re

from docs.build.pages import ROOT

MAP = re.findall(r"^    +(\S+)  +\S", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M)
ROOMS = {name.rstrip("/") for name in MAP if not name.startswith("make")} | {"src"}


def own(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith((".", "_"))} - {"runs", "build", "dist"}


def test_every_room_is_on_the_map():
    top = {path.name for path in ROOT.iterdir() if path.is_dir()} & own(ROOT)
    library, lab = (own(ROOT / "src/unicornn" / name) for name in (".", "lab"))
    assert (top | library | lab) - {"py.typed"} <= ROOMS


def test_the_map_has_no_rooms_that_are_not_there():
    for name in ROOMS - {"src", "src/unicornn"}:
        assert any((ROOT / folder / name).exists() for folder in (".", "src/unicornn", "src/unicornn/lab")), name
