"""Members of folders and archives, intact or damaged."""

import gzip
import io
import lzma
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


@pytest.mark.parametrize("form", FORMS)
def test_members_by_pattern(tmp_path, form):
    path = write(tmp_path, form)
    assert dict(members(path, "train/*/*.txt")) == {k: v for k, v in FILES.items() if "urls" not in k}
    assert dict(members(path, "urls.txt", "neg/0_1.txt")) == {k: v for k, v in FILES.items() if "pos" not in k}
    assert list(members(path, "*.csv")) == []
    assert list(members(path, "rls.txt")) == []  # patterns match whole parts of the name
    assert list(members(path, "train/*.txt")) == [("top/train/urls.txt", b"x")]  # * does not match a slash


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
