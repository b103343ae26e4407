"""Members of folders and archives, intact or damaged."""

import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile

import pytest

from unicornn.errors import CorruptData
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


def flip_byte(path, at, bits=255):
    content = bytearray(path.read_bytes())
    content[at] ^= bits
    path.write_bytes(content)


@pytest.mark.parametrize("form", FORMS)
def test_members_by_pattern(tmp_path, form):
    path = write(tmp_path, form)
    assert dict(members(path, "train/*/*.txt")) == {k: v for k, v in FILES.items() if "urls" not in k}
    assert dict(members(path, "urls.txt", "neg/0_1.txt")) == {k: v for k, v in FILES.items() if "pos" not in k}
    assert list(members(path, "*.csv")) == []
    assert list(members(path, "rls.txt")) == []  # patterns match whole parts of the name
    assert list(members(path, "train/*.txt")) == [("top/train/urls.txt", b"x")]  # * does not match a slash


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_nothing_is_written(tmp_path, form):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = write(inside, form, {"../outside.txt": b"a", "/absolute.txt": b"b", "._hidden.txt": b"c"})
    assert sorted(content for _, content in members(path, "*.txt")) == [b"a", b"b"]
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]
    assert list(inside.iterdir()) == [path]


def links_in_folder(path):
    path.mkdir()
    (path.parent / "secret.txt").write_text("secret")
    (path / "a.txt").symlink_to(path.parent / "secret.txt")
    (path / "below").symlink_to(path.parent)
    os.mkfifo(path / "b.txt")
    (path / "c.txt").write_text("c")


def links_in_tar(path):
    with tarfile.open(path, "w") as archive:
        link, file = tarfile.TarInfo("links/a.txt"), tarfile.TarInfo("links/c.txt")
        link.type, link.linkname, file.size = tarfile.SYMTYPE, "/etc/hostname", 1
        archive.addfile(link)
        archive.addfile(file, io.BytesIO(b"c"))


def links_in_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("links/a.txt")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/hostname")
        archive.writestr("links/c.txt", "c")


@pytest.mark.parametrize("make", [links_in_folder, links_in_tar, links_in_zip])
def test_links_are_skipped(tmp_path, make):
    make(tmp_path / "links")
    assert list(members(tmp_path / "links", "*.txt")) == [("links/c.txt", b"c")]


@pytest.mark.parametrize("form", ["tar.gz", "tar.xz", "zip"])
def test_an_archive_cut_short_anywhere(tmp_path, form):
    path = write(tmp_path, form)
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(CorruptData, match=path.name.replace(".", r"\.")):
            list(members(path, "*.txt"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_opened_files_are_unpacked(tmp_path, pack):
    path = tmp_path / "lines"
    path.write_bytes(pack(b"one\ntwo\n" * 100))
    with opened(path) as file:
        assert list(file) == [b"one\n", b"two\n"] * 100
    if pack is bytes:
        return
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptData, match="lines: damaged or cut short"), opened(path) as file:
        list(file)


def test_a_member_of_a_zip_is_opened_by_pattern(tmp_path):
    path = write(tmp_path, "zip")
    with opened(path, "neg/*.txt") as file:
        assert file.read() == b"bad"
    with pytest.raises(CorruptData, match=r"expected a member other\.txt"), opened(path, "other.txt"):
        pass
