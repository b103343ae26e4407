"""Members of folders and archives, whole or damaged."""

import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unicornn.errors import CorruptData
from unicornn.lab.data import _archives
from unicornn.lab.data._archives import members, opened

FILES = {"top/train/pos/0_9.txt": b"good " * 300, "top/train/neg/0_1.txt": b"bad", "top/train/urls.txt": b"x"}
FORMS = ["folder", "tar", "tar.gz", "tar.xz", "zip"]


def write(folder, form, files=FILES):
    path = folder / f"top.{form}"
    if form == "folder":
        for name, content in files.items():
            (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
            (path.parent / name).write_bytes(content)
        return folder / "top"
    if form == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[form]) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_by_pattern(tmp_path, form):
    path = write(tmp_path, form)
    assert dict(members(path, "train/*/*.txt")) == {k: v for k, v in FILES.items() if "urls" not in k}
    assert dict(members(path, "urls.txt", "neg/0_1.txt")) == {k: v for k, v in FILES.items() if "pos" not in k}
    assert list(members(path, "*.csv")) == []
    assert list(members(path, "rls.txt")) == []  # a pattern is of whole parts of the name
    assert list(members(path, "train/*.txt")) == [("top/train/urls.txt", b"x")]  # * is no slash


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_nothing_is_written(tmp_path, form):
    """Names that lead out of the folder are only names."""
    inside = tmp_path / "inside"
    inside.mkdir()
    path = write(inside, form, {"../outside.txt": b"a", "/absolute.txt": b"b", "._hidden.txt": b"c"})
    found = sorted(content for _, content in members(path, "*.txt"))
    assert found == [b"a", b"b"]
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]
    assert list(inside.iterdir()) == [path]


def test_links_in_a_folder_are_left_out(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "below").symlink_to(tmp_path)
    os.mkfifo(folder / "b.txt")
    (folder / "c.txt").write_text("c")
    assert list(members(folder, "*.txt")) == [("folder/c.txt", b"c")]


def test_links_in_a_zip_are_left_out(tmp_path):
    path = tmp_path / "links.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("a.txt")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/hostname")
        archive.writestr("b.txt", "b")
    assert list(members(path, "*.txt")) == [("b.txt", b"b")]


@pytest.mark.parametrize("read", [lambda path: list(members(path, "*")), lambda path: opened(path).__enter__()])
def test_pipes_and_devices_are_refused(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(CorruptData, match="expected a file or a folder"):
            read(path)


def sparse_tar(path, size):
    """A member of so many zeros, in a file of some kilobytes (GNU's old form, which tarfile reads)."""
    name, numbers = b"a.txt", b"%011o\0%011o\0" % (size, 0) + b"\0" * 72
    header = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % 0 + b"%011o\0" % 0
    header += b" " * 8 + b"S" + b"\0" * 100 + b"ustar  \0" + b"\0" * 121 + numbers + b"\0" + b"%011o\0" % size
    header = header.ljust(512, b"\0")
    checksum = b"%06o\0 " % sum(header)
    path.write_bytes(header[:148] + checksum + header[156:] + bytes(1024))


def test_a_sparse_member_is_not_filled_in(tmp_path):
    """20 GB in two kilobytes: all of it would be zeros in memory."""
    path = tmp_path / "a.tar"
    sparse_tar(path, 8 * 2**30 - 1)
    with pytest.raises(CorruptData, match=r"a\.tar: expected a\.txt to have at most 1,073,741,824 bytes .*got 8,589"):
        list(members(path, "*.txt"))


@pytest.mark.parametrize("form", FORMS)
def test_a_member_that_unpacks_to_too_much(tmp_path, form, monkeypatch):
    monkeypatch.setattr(_archives, "MOST_AT_ONCE", 1000)
    with pytest.raises(CorruptData, match=r"expected top/train/pos/0_9.txt to have at most 1,000 bytes .*got 1,500"):
        list(members(write(tmp_path, form), "*.txt"))


@pytest.mark.parametrize("form", ["tar.gz", "tar.xz", "zip"])
def test_an_archive_that_unpacks_to_too_much(tmp_path, form, monkeypatch):
    monkeypatch.setattr(_archives, "MOST", 100_000)
    path = write(tmp_path, form, {f"{i}.txt": bytes(1000) for i in range(200)})
    assert path.stat().st_size < 50_000
    with pytest.raises(CorruptData, match="expected at most 100,000 bytes when unpacked, got more"):
        list(members(path, "*.txt"))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_file_that_unpacks_to_too_much(tmp_path, pack, monkeypatch):
    monkeypatch.setattr(_archives, "MOST", 100_000)
    path = tmp_path / "bomb"
    path.write_bytes(pack(bytes(10_000_000)))
    with pytest.raises(CorruptData, match="bomb: expected at most 100,000 bytes"), opened(path) as file:
        file.read()


def test_links_are_left_out(tmp_path):
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    assert list(members(path, "*.txt")) == []


@pytest.mark.parametrize("form", FORMS[1:])
def test_cut_short_anywhere(tmp_path, form):
    path = write(tmp_path, form)
    whole = path.read_bytes()
    sizes = range(0, 3 * 512 + 1024, 100) if form == "tar" else range(0, len(whole), 7)
    for size in sizes:  # of the tar: anywhere before the zeros at its end
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptData, match=path.name.replace(".", r"\.")):
            list(members(path, "*.txt"))


@pytest.mark.parametrize("form", ["tar.gz", "tar.xz"])
@given(st.data())
def test_damage_is_seen(tmp_path_factory, form, data):
    """A changed byte gives CorruptData, or the very same members where it does not matter."""
    path = write(tmp_path_factory.mktemp("a"), form)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        found = dict(members(path, "train/*/*.txt"))
    except CorruptData:
        return
    assert found == {k: v for k, v in FILES.items() if "urls" not in k}


def test_damaged_header_in_the_middle(tmp_path):
    """tarfile alone would stop there without a word."""
    path = write(tmp_path, "tar")
    content = bytearray(path.read_bytes())
    at = content.index(b"top/train/neg")
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptData, match="damaged or cut short"):
        list(members(path, "*.txt"))


def test_damaged_zip_member(tmp_path):
    path = write(tmp_path, "zip")
    content = bytearray(path.read_bytes())
    content[60] ^= 255
    path.write_bytes(content)
    with pytest.raises(CorruptData, match=r"top\.zip"):
        list(members(path, "*.txt"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_opened(tmp_path, pack):
    path = tmp_path / "lines"
    path.write_bytes(pack(b"one\ntwo\n" * 100))
    with opened(path) as file:
        assert list(file) == [b"one\n", b"two\n"] * 100


def test_opened_zip(tmp_path):
    path = write(tmp_path, "zip")
    with opened(path, "neg/*.txt") as file:
        assert file.read() == b"bad"
    with pytest.raises(CorruptData, match=r"expected a member other\.txt, found top/train"), opened(path, "other.txt"):
        pass


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_opened_cut_short(tmp_path, pack):
    path = tmp_path / "lines"
    path.write_bytes(pack(b"one\ntwo\n" * 100)[:-9])
    with pytest.raises(CorruptData, match="lines: damaged or cut short"), opened(path) as file:
        list(file)
