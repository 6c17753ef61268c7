"""The Objects port: whole or absent, durable, never outside its folder."""

import errno
import os
import shutil
import threading
import time

import pytest

from service import disk
from service.adapters.objects import LocalObjects
from service.errors import NotFound, StorageFull


@pytest.fixture
def objects(tmp_path):
    return LocalObjects(tmp_path / "objects")


def half_made(objects, content, name="part"):
    path = objects.scratch() / name
    path.write_bytes(content)
    return path


def test_put_then_read_back(objects):
    source = half_made(objects, b"bytes")
    objects.put_file("tables/ab.parquet", source)
    assert objects.path("tables/ab.parquet").read_bytes() == b"bytes"
    with objects.open("tables/ab.parquet") as stream:
        assert stream.read() == b"bytes"
    assert not source.exists()


def test_put_again_replaces_whole(objects):
    objects.put_file("k", half_made(objects, b"one"))
    with objects.open("k") as before:
        objects.put_file("k", half_made(objects, b"two"))
        assert before.read() == b"one"
    assert objects.path("k").read_bytes() == b"two"


def test_absent(objects):
    with pytest.raises(NotFound):
        objects.path("tables/x")
    with pytest.raises(NotFound):
        objects.open("tables/x")
    objects.delete("tables/x")
    assert list(objects.keys("")) == []


def test_delete_and_list(objects):
    for key in ("models/b/1", "models/a/1", "tables/t"):
        objects.put_file(key, half_made(objects, b"x"))
    half_made(objects, b"never finished", "left")
    assert list(objects.keys("")) == ["models/a/1", "models/b/1", "tables/t"]
    assert list(objects.keys("models/")) == ["models/a/1", "models/b/1"]
    objects.delete("models/a/1")
    assert list(objects.keys("models/")) == ["models/b/1"]


@pytest.mark.parametrize(
    "key", ["../x", "a/../../x", "/etc/passwd", "", "a//b", ".scratch/x", "a\\b", "a/", "a\nb", "a/.hidden"]
)
def test_keys_stay_inside(objects, key):
    with pytest.raises(ValueError, match="no object key"):
        objects.path(key)
    with pytest.raises(ValueError, match="no object key"):
        objects.put_file(key, half_made(objects, b"x"))


def test_sweep_takes_old_scratch_only(tmp_path):
    objects = LocalObjects(tmp_path)
    old, fresh = half_made(objects, b"x", "old"), half_made(objects, b"x", "fresh")
    folder = objects.scratch() / "folder"
    (folder / "inner").mkdir(parents=True)
    long_ago = time.time() - 2 * 86400
    for path in (old, folder):
        os.utime(path, (long_ago, long_ago))
    LocalObjects(tmp_path)
    assert not old.exists()
    assert not folder.exists()
    assert fresh.exists()


def test_everything_is_forced_to_disk_in_order(objects, monkeypatch):
    calls = []
    fsync, replace = os.fsync, type(objects.root).replace
    monkeypatch.setattr(disk.os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(type(objects.root), "replace", lambda a, b: (calls.append("rename"), replace(a, b))[1])
    objects.put_file("k", half_made(objects, b"x"))
    assert calls == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_leaves_nothing(objects, monkeypatch, code):
    def full(*_):
        raise OSError(code, os.strerror(code))

    source = half_made(objects, b"x")
    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(StorageFull):
        objects.put_file("tables/k", source)
    assert list(objects.keys("")) == []


def test_source_on_another_disk_is_copied(objects, tmp_path, monkeypatch):
    source = tmp_path / "elsewhere"
    source.write_bytes(b"far")
    path_type = type(source)
    replace = path_type.replace

    def other_disk(self, target):
        if self == source:
            raise OSError(errno.EXDEV, "cross-device")
        return replace(self, target)

    monkeypatch.setattr(path_type, "replace", other_disk)
    objects.put_file("a/k", source)
    assert objects.path("a/k").read_bytes() == b"far"
    assert not source.exists()
    assert list(objects.scratch().iterdir()) == []


def test_failed_copy_leaves_nothing(objects, tmp_path, monkeypatch):
    def full(source, target):
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    source = tmp_path / "elsewhere"
    source.write_bytes(b"far")
    monkeypatch.setattr(type(source), "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "cross-device")))
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StorageFull):
        objects.put_file("k", source)
    assert list(objects.scratch().iterdir()) == []
    assert source.read_bytes() == b"far"


def test_readers_see_old_or_new_never_half(objects):
    contents = {bytes([i]) * 100_000 for i in range(5)}
    objects.put_file("k", half_made(objects, b"\x00" * 100_000))
    stop, seen = threading.Event(), set()

    def look():
        while not stop.is_set():
            seen.add(objects.path("k").read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for content in sorted(contents) * 10:
        objects.put_file("k", half_made(objects, content))
    stop.set()
    reader.join()
    assert seen <= contents
