"""Two workers with separate folders share a search in a real PostgreSQL server, which this test starts."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from glob import glob
from pathlib import Path

import pytest

from tests.lab.search.helpers import numbers, parameters_of, start_process
from unicornn.lab.search import read_study


def program(name):
    found = shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    return found or pytest.skip(f"PostgreSQL is not installed: no {name}")


@pytest.fixture
def url():
    """A server that listens on a socket in its folder. PostgreSQL refuses to run as root."""
    initdb, postgres = program("initdb"), program("postgres")
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory() as folder:
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(folder, user["user"])
        options = {"cwd": folder, "stdout": subprocess.DEVNULL, **user}
        subprocess.run([initdb, "-D", f"{folder}/data", "-A", "trust", "-U", "me", "-N"], check=True, **options)
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        server = subprocess.Popen([postgres, "-D", f"{folder}/data", *settings], stderr=subprocess.DEVNULL, **options)
        try:
            while not Path(folder, ".s.PGSQL.5432").exists():
                assert server.poll() is None, "the server did not start"
                time.sleep(0.05)
            yield f"postgresql+psycopg://me:secret@/postgres?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients to disconnect
            server.wait(60)


@pytest.mark.slow
def test_two_workers_with_postgresql(url, tmp_path):
    folders = [tmp_path / machine / "search" for machine in ("one", "two")]
    workers = [start_process(folder, 10, "--storage", url) for folder in folders]
    try:
        assert [worker.wait(300) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    one, two = (read_study(folder) for folder in folders)
    assert parameters_of(one) == parameters_of(two)
    assert len(set(parameters_of(one))) == len(numbers(one)) == 10
    done = [{path.parent.name for path in folder.glob("trials/*/result.json")} for folder in folders]
    assert all(done), "both have trained"
    assert not done[0] & done[1]
    assert done[0] | done[1] == {f"{number:05d}" for number in numbers(one)}
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
