"""S3Objects on a real server: large objects, copies on the host, and a store that refuses, freezes or is away."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from service.adapters.database import connect
from service.adapters.datasets import SqlDatasets
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.s3_objects import S3Objects
from service.cache import HostCache
from service.errors import EngineLost, NotFound
from service.settings import Settings
from service.usecases.datasets import DatasetService
from tests.servers import free_ports

ROOT = Path(__file__).parent.parent.parent
WRITER = """
import sys
from pathlib import Path
from service.adapters.s3_objects import S3Objects
from service.cache import HostCache
url, folder = sys.argv[1], Path(sys.argv[2])
store = S3Objects(url, HostCache(folder / "cache", 1 << 30), folder / "scratch")
source = folder / "source"
source.write_bytes(bytes(64 << 20))
print("go", flush=True)
store.put_file("big/k", source)
"""


def another_host(s3, folder, limit_bytes=1 << 30, **config):
    return S3Objects(s3.url, HostCache(folder / "cache", limit_bytes), folder / "scratch", **config)


def put(store, key, content):
    source = store.scratch() / "source"
    source.write_bytes(content)
    store.put_file(key, source)


def test_a_large_object_goes_in_parts_and_stays(s3, tmp_path):
    content = os.urandom(24 << 20)
    put(s3, "big", content)
    put(s3, "big", bytes(24 << 20))
    assert another_host(s3, tmp_path / "other").path("big").read_bytes() == content


def test_a_killed_writer_leaves_nothing_or_all(s3, tmp_path):
    command = [sys.executable, "-c", WRITER, s3.url, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"go\n"
        writer.send_signal(signal.SIGKILL)
    if s3.has("big/k"):
        assert s3.path("big/k").stat().st_size == 64 << 20
    else:
        assert list(s3.keys("")) == []


def test_another_host_deletes_while_a_copy_is_mapped(s3, tmp_path):
    other = another_host(s3, tmp_path / "other")
    put(s3, "k", b"bytes")
    with pa.memory_map(str(other.path("k"))) as held:
        s3.delete("k")
        assert not other.has("k"), "the store is asked, not the copy"
        other.delete("k")
        assert held.read() == b"bytes"
    with pytest.raises(NotFound):
        other.path("k")


def test_copies_make_room_the_least_used_first(s3, tmp_path):
    small = another_host(s3, tmp_path / "small", limit_bytes=2500)
    for name in "abc":
        put(s3, name, name.encode() * 1000)
    for name in "ab":
        copy = small.path(name)
        os.utime(copy, (1.0, 1.0) if name == "a" else (2.0, 2.0))
    small.path("a")
    small.path("c")
    assert sorted(p.name for p in small.cache.root.rglob("?")) == ["a", "c"]
    assert small.cache.size_bytes() <= 2500
    assert small.path("b").read_bytes() == b"b" * 1000


def test_a_wrong_secret_is_refused(s3, tmp_path):
    put(s3, "k", b"bytes")
    stranger = another_host(s3, tmp_path / "other", secret_access_key="wrong")
    with pytest.raises(EngineLost, match="refuses the credentials"):
        stranger.path("k")
    with pytest.raises(EngineLost, match="refuses the credentials"):
        put(stranger, "l", b"bytes")
    assert list(s3.keys("")) == ["k"]


def test_a_frozen_store_is_given_up_and_works_when_it_goes_on(s3, store_server):
    put(s3, "k", b"bytes")
    store_server.stop()
    try:
        started = time.monotonic()
        with pytest.raises(EngineLost, match="cannot be used now"):
            s3.path("k")
        assert time.monotonic() - started < 60.0  # 8 s by the client's own limit; a hang would be endless
    finally:
        store_server.resume()
    assert s3.path("k").read_bytes() == b"bytes"


def test_an_absent_store_is_engine_lost(s3, tmp_path):
    (port,) = free_ports(1)
    nobody = another_host(s3, tmp_path / "other", endpoint=f"http://127.0.0.1:{port}")
    with pytest.raises(EngineLost, match="cannot be used now"):
        put(nobody, "k", b"bytes")
    assert (nobody.scratch() / "source").exists(), "what could not be stored is still there"


def test_an_absent_bucket_is_named(s3, tmp_path):
    nowhere = S3Objects("s3://no-such-bucket", HostCache(tmp_path / "c", 1000), tmp_path / "s")
    with pytest.raises(EngineLost, match="no bucket"):
        nowhere.path("k")


def test_a_second_host_maps_tables_from_the_store(s3, tmp_path):
    db = connect(f"sqlite:///{tmp_path / 'service.db'}")
    migrate(db)

    def host(name):
        settings = Settings(data=tmp_path / name)
        return DatasetService(settings, SqlDatasets(db), another_host(s3, tmp_path / name), SqlLedger(db, settings))

    first, second = host("first"), host("second")
    made = first.from_sample("penguins")
    assert second.table(made["id"]).equals(first.table(made["id"]))
    first.delete(made["id"])
    assert not s3.has(f"tables/{made['sha256']}.parquet")
    again = second.from_sample("penguins")
    assert s3.has(f"tables/{again['sha256']}.parquet"), "a copy on this host does not count as stored"
    db.close()
