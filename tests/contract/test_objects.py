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


@pytest.fixture(params=["local", "s3"])
def objects(request, tmp_path):
    """Each store, empty."""
    if request.param == "local":
        return LocalObjects(tmp_path / "objects")
    return request.getfixturevalue("s3")


@pytest.fixture
def local(tmp_path):
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


def test_a_key_is_written_once(objects):
    objects.put_file("k", half_made(objects, b"one"))
    again = half_made(objects, b"two")
    objects.put_file("k", again)
    assert objects.path("k").read_bytes() == b"one"
    assert not again.exists()


def test_of_many_writers_one_wins_and_all_see_its_bytes(objects):
    together, seen = threading.Barrier(20), []

    def race(i):
        source = half_made(objects, bytes([i]) * 10_000, f"racer-{i}")
        together.wait()
        objects.put_file("race/k", source)
        seen.append(objects.path("race/k").read_bytes())

    racers = [threading.Thread(target=race, args=(i,)) for i in range(20)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(seen) == 20
    assert len(set(seen)) == 1
    assert seen[0] in {bytes([i]) * 10_000 for i in range(20)}


def test_old_keys_are_stale(objects):
    objects.put_file("models/a/1", half_made(objects, b"x"))
    assert list(objects.stale("models/", 3600.0)) == []
    assert list(objects.stale("models/", -3600.0)) == ["models/a/1"]
    assert list(objects.stale("tables/", -3600.0)) == []


def test_absent(objects):
    with pytest.raises(NotFound):
        objects.path("tables/x")
    with pytest.raises(NotFound):
        objects.open("tables/x")
    assert not objects.has("tables/x")
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


def test_everything_is_forced_to_disk_in_order(local, monkeypatch):
    calls = []
    fsync, link = os.fsync, os.link
    monkeypatch.setattr(disk.os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(disk.os, "link", lambda a, b: (calls.append("link"), link(a, b)))
    local.put_file("k", half_made(local, b"x"))
    assert calls == ["fsync", "link", "fsync"]


def test_a_disk_without_hard_links_renames(local, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(disk.os, "link", refuse)
    for content in (b"one", b"two"):
        local.put_file("k", half_made(local, content))
    assert local.path("k").read_bytes() == b"one"
    assert list(local.scratch().iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_leaves_nothing(local, monkeypatch, code):
    def full(*_):
        raise OSError(code, os.strerror(code))

    source = half_made(local, b"x")
    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(StorageFull):
        local.put_file("tables/k", source)
    assert list(local.keys("")) == []


def other_disk(far):
    """os.link as it is for a source on another disk."""
    link = os.link

    def refuse(source, target):
        if source == far:
            raise OSError(errno.EXDEV, "cross-device")
        link(source, target)

    return refuse


def test_source_on_another_disk_is_copied(local, tmp_path, monkeypatch):
    source = tmp_path / "elsewhere"
    source.write_bytes(b"far")
    monkeypatch.setattr(disk.os, "link", other_disk(source))
    local.put_file("a/k", source)
    assert local.path("a/k").read_bytes() == b"far"
    assert not source.exists()
    assert list(local.scratch().iterdir()) == []


def test_failed_copy_leaves_nothing(local, tmp_path, monkeypatch):
    def full(source, target):
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    source = tmp_path / "elsewhere"
    source.write_bytes(b"far")
    monkeypatch.setattr(disk.os, "link", other_disk(source))
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StorageFull):
        local.put_file("k", source)
    assert list(local.scratch().iterdir()) == []
    assert source.read_bytes() == b"far"
