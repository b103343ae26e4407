"""Files are complete or absent; what a killed process left is removed by the next writer."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

from unicornn._files import atomic_write, atomic_write_all, write_json

DEAD = 4_194_305  # larger than any process number of Linux
HOST = socket.gethostname()
KILLED = """
import os, signal, sys
from pathlib import Path
from unicornn._files import atomic_write
with atomic_write(Path(sys.argv[1]), "w") as file:
    file.write("half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    path, other = tmp_path / "a[1].json", tmp_path / f".unicornn-elsewhere-{DEAD}-0"
    other.touch()
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / f".unicornn-{HOST}-{DEAD}-1").mkdir()
    write_json(path, {"a": 1})
    assert set(tmp_path.iterdir()) == {path, other}


def test_temporary_files_of_live_processes_are_kept(tmp_path):
    own = tmp_path / f".unicornn-{HOST}-{os.getppid()}-0"
    own.touch()
    with atomic_write(tmp_path / "a.json", "w") as file:
        file.write("{}")
    assert own.exists()


def test_an_interrupted_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with contextlib.suppress(KeyboardInterrupt), atomic_write(path, "w") as file:
        file.write("half")
        raise KeyboardInterrupt
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_threads_writing_several_files_leave_those_of_one_thread(tmp_path, monkeypatch):
    replace, other = os.replace, threading.Thread(target=atomic_write_all, args=(tmp_path, {"a": b"y", "b": b"y"}))

    def interrupted(source, path):
        replace(source, path)
        if path.name == "a" and threading.current_thread() is not other:  # between the first thread's two files
            other.start()
            other.join(0.5)

    monkeypatch.setattr(os, "replace", interrupted)
    atomic_write_all(tmp_path, {"a": b"x", "b": b"x"})
    other.join()
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
