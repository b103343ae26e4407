"""Downloads from a server in this process: verified, complete or discarded, never repeated."""

import dataclasses
import functools
import hashlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from tests.lab.tasks import helpers
from unicornn.errors import CorruptData, MissingData
from unicornn.lab import cli, tasks
from unicornn.lab.data import File, Source


class Quiet(SimpleHTTPRequestHandler):
    requested: ClassVar[list[str]] = []

    def log_message(self, *_):
        self.requested.append(self.path)


@pytest.fixture
def server(tmp_path):
    """A folder and the address of the server of its files."""
    folder = tmp_path / "served"
    folder.mkdir()
    Quiet.requested.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()


def sha256(path):
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_downloaded_once_and_verified_or_discarded(server, tmp_path):
    folder, address = server
    (folder / "a.bin").write_bytes(b"data")
    source = Source(tmp_path / "data", tmp_path / "cache")
    file = File("some/a.bin", url=f"{address}/a.bin", hash=sha256(folder / "a.bin"))
    for _ in range(2):
        assert source.fetch(file).read_bytes() == b"data"
    assert len(Quiet.requested) == 1
    assert source.find(file) == [tmp_path / "data/some/a.bin"]
    assert source.verified(file)
    wrong, other = dataclasses.replace(file, hash="md5:" + "0" * 32), Source(tmp_path / "other")
    with pytest.raises(CorruptData, match=r"/a\.bin: "):
        other.fetch(wrong)
    assert not [p for p in (tmp_path / "other").rglob("*") if p.is_file()]


def test_an_existing_file_with_the_wrong_hash_is_rejected(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"other data")
    file = File("a.bin", url="http://127.0.0.1:9/a.bin", hash="sha256:" + hashlib.sha256(b"data").hexdigest())
    for check in (Source(tmp_path).verified, Source(tmp_path).fetch):
        with pytest.raises(CorruptData, match=r"a\.bin: expected the published hash sha256:[0-9a-f]{64}, got sha256:"):
            check(file)
    (tmp_path / "a.bin").rename(tmp_path / "a.tar")
    other = dataclasses.replace(file, also=("a.tar",))
    assert not Source(tmp_path).verified(other), "another form has no published hash"
    assert Source(tmp_path).fetch(other) == tmp_path / "a.tar"


def test_without_a_network_the_error_tells_what_to_put_where(tmp_path):
    file = File("mnist/a.gz", url="http://127.0.0.1:9/a.gz", hash="md5:" + "0" * 32)
    with pytest.raises(MissingData) as error:
        Source(tmp_path / "data").fetch(file)
    for part in ("mnist/a.gz", str(tmp_path / "data"), "http://127.0.0.1:9/a.gz", "--data", "UNICORNN_DATA"):
        assert part in str(error.value)
    with pytest.raises(MissingData, match="ask the archive"):
        Source(tmp_path).fetch(File("a.ts", about="ask the archive"))
    with pytest.raises(ValueError, match=r"^hash: "):
        File("a", url="http://nowhere")


def test_the_command_downloads_and_reads(server, tmp_path, monkeypatch):
    folder, address = server
    (tmp_path / "made").mkdir()
    helpers.mnist(tmp_path / "made")
    for path in (tmp_path / "made/mnist").iterdir():
        path.rename(folder / path.name)
    task = tasks.find("psmnist")
    files = []
    for file in task.files:
        name = file.path.split("/")[-1]
        files.append(dataclasses.replace(file, url=f"{address}/{name}", hash=sha256(folder / name)))
    monkeypatch.setattr("unicornn.lab.tasks.psmnist.FILES", files)
    task = dataclasses.replace(task, files=files)
    monkeypatch.setattr(tasks._registry, "_built_in", lambda: {"psmnist": task})
    monkeypatch.setenv("UNICORNN_CACHE", str(tmp_path / "cache"))
    outcome = CliRunner().invoke(cli.app, ["data", "psmnist", "--data", str(tmp_path / "data")])
    assert outcome.exit_code == 0, outcome.exception
    assert "verified" in outcome.output
    assert "train 57, valid 3, test 10 sequences" in outcome.output
