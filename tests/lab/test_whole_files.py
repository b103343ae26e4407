"""Unfinished files say whose they are, and are swept up if their owner was killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from unicornn._unfinished import abandoned, mark
from unicornn.lab._whole_files import write_json, written_whole

DEAD = 4_194_305  # larger than any process number of Linux
KILLED = """
import os, signal, sys
from pathlib import Path
from unicornn.lab._whole_files import written_whole
with written_whole(Path(sys.argv[1]), "w") as file:
    file.write("half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("owner", "dead"),
    [
        (mark(), False),
        (f"{socket.gethostname()}-{DEAD}", True),
        (f"{socket.gethostname()}-1", False),
        (f"elsewhere-{DEAD}", False),
        (f"{socket.gethostname()}-{10**30}", False),
        (f"{socket.gethostname()}-x", False),
        ("", False),
    ],
    ids=["ours", "dead", "alive", "elsewhere", "huge", "no number", "empty"],
)
def test_abandoned(owner, dead):
    assert abandoned(owner) == dead


def test_what_a_killed_process_left_is_swept_up(tmp_path):
    path, other = tmp_path / "a[1].json", tmp_path / f".b.json.{socket.gethostname()}-{DEAD}"
    other.touch()
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    write_json(path, {"a": 1})
    assert set(tmp_path.iterdir()) == {path, other}, "another file's is left for its own writer"


def test_what_another_process_writes_is_left_alone(tmp_path):
    own = tmp_path / f".a.json.{mark().rpartition('-')[0]}-{os.getppid()}"
    own.touch()
    with written_whole(tmp_path / "a.json", "w") as file:
        file.write("{}")
    assert own.exists()


def test_lists_of_numbers_are_one_line(tmp_path):
    path, value = tmp_path / "a.json", {"a": [1, 2.5, -3e-9], "b": ["[1,\n 2]", []], "c": [[1], [2, 3]]}
    write_json(path, value)
    assert json.loads(path.read_text()) == value
    assert '"a": [ 1, 2.5, -3e-09 ],\n' in path.read_text()


def test_files_are_whole_or_absent(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with contextlib.suppress(KeyboardInterrupt), written_whole(path, "w") as file:
        file.write("half")
        raise KeyboardInterrupt
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]
