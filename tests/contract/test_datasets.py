"""The Datasets port on SQL, and the use case on top of it with real files."""

import asyncio
import errno
import io
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from service import disk
from service.adapters.database import connect
from service.adapters.datasets import SqlDatasets
from service.adapters.migrations import migrate
from service.adapters.objects import LocalObjects
from service.errors import Conflict, Invalid, NotFound, Stale, StorageFull, TooLarge, Unsupported
from service.ids import new_id
from service.intake.canonical import content_hash
from service.intake.findings import ReadOptions
from service.settings import Settings
from service.usecases.datasets import DatasetService

FORMS = ("csv", "parquet", "arrow", "ndjson")
TEXT = "a,b,c\n1,x,0.5\n2,y,\n3,x,2.5\n"


@pytest.fixture
def store(tmp_path):
    db = connect(f"sqlite:///{tmp_path / 'service.db'}")
    migrate(db)
    yield SqlDatasets(db)
    db.close()


def record(name="t", sha256="00", **more):
    return {"id": new_id("ds"), "name": name, "sha256": sha256, **more}


def test_add_get_replace_remove(store):
    first = record(columns=[{"name": "x", "max": 2**60}], warnings=[])
    store.add(first)
    assert store.get(first["id"]) == first | {"revision": 1}
    changed = store.replace(first["id"], first | {"name": "u"}, 1)
    assert (changed["name"], changed["revision"]) == ("u", 2)
    assert store.replace(first["id"], changed, None)["revision"] == 3
    with pytest.raises(Stale):
        store.replace(first["id"], first, 1)
    with pytest.raises(Stale):
        store.remove(first["id"], 1)
    assert store.get(first["id"])["name"] == "u"
    store.remove(first["id"], 3)
    for call in (store.get, store.remove, lambda i: store.replace(i, first, None)):
        with pytest.raises(NotFound):
            call(first["id"])


def test_pages_newest_first(store):
    made = [record(name="even" if i % 2 == 0 else "odd") for i in range(7)]
    for each in made:
        store.add(each)
    ids, cursor = [], None
    while True:
        page = store.page(limit=3, cursor=cursor)
        ids += [item["id"] for item in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert ids == [each["id"] for each in reversed(made)]
    assert [item["name"] for item in store.page(limit=10, cursor=None, name="odd").items] == ["odd"] * 3
    assert store.page(limit=7, cursor=None).next_cursor is None


def test_uses(store):
    for sha256 in ("aa", "aa", "bb"):
        store.add(record(sha256=sha256))
    assert [store.uses(x) for x in ("aa", "bb", "cc")] == [2, 1, 0]


@pytest.fixture
def needed():
    return set()


@pytest.fixture
def service(store, tmp_path, needed):
    settings = Settings(data=tmp_path, upload_bytes=1 << 20)
    ledger = SimpleNamespace(needed=lambda resource: resource in needed)
    return DatasetService(settings, store, LocalObjects(tmp_path / "objects"), ledger)


def add(service, text=TEXT, **options):
    async def body():
        data = text.encode() if isinstance(text, str) else text
        for start in range(0, len(data), 5):
            yield data[start : start + 5]

    return asyncio.run(service.upload(body(), ReadOptions(**options)))


def leftovers(tmp_path):
    return list((tmp_path / "objects" / ".scratch").iterdir()) + list((tmp_path / "cache").glob("*.part"))


def files(tmp_path):
    return sorted(path.suffix for folder in ("objects/tables", "cache") for path in (tmp_path / folder).glob("*"))


def test_upload_describes_the_table(service, tmp_path):
    got = add(service, name="mine")
    assert got["id"].startswith("ds_")
    assert (got["name"], got["rows"], got["revision"]) == ("mine", 3, 1)
    assert got["created_at"].endswith("Z")
    assert [c["name"] for c in got["columns"]] == ["a", "b", "c"]
    assert [c["type"] for c in got["columns"]] == ["integer", "category", "number"]
    assert got["columns"][2]["missing"] == 1
    assert got["source"]["format"] == "csv"
    json.dumps(got, allow_nan=False)
    assert service.get(got["id"]) == got
    assert service.page().items == [got]
    assert leftovers(tmp_path) == []


def test_table_is_mapped_in_one_chunk(service):
    got = add(service)
    before = pa.total_allocated_bytes()
    table = service.table(got["id"])
    assert pa.total_allocated_bytes() - before < 4096
    assert table.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "x"], "c": [0.5, None, 2.5]}
    assert [column.num_chunks for column in table.columns] == [1, 1, 1]
    assert content_hash(table) == got["sha256"]
    assert table.column("a").chunk(0).to_numpy(zero_copy_only=True).flags.aligned


def test_mapped_file_is_made_again(service, tmp_path):
    got = add(service)
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    assert content_hash(service.table(got["id"])) == got["sha256"]
    assert files(tmp_path) == [".arrow", ".parquet"]
    assert leftovers(tmp_path) == []


def test_refused_upload_stores_nothing(service, tmp_path):
    with pytest.raises(Invalid):
        add(service, "a,b\n1\n")
    with pytest.raises(TooLarge):
        add(service, b"a\n" + b"1\n" * (1 << 20))
    with pytest.raises(Invalid):
        add(service, name="x" * 201)
    assert service.page().items == []
    assert files(tmp_path) == []
    assert leftovers(tmp_path) == []


def test_client_that_goes_away_leaves_nothing(service, tmp_path):
    async def body():
        yield b"a,b\n"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        asyncio.run(service.upload(body(), ReadOptions()))
    assert leftovers(tmp_path) == []


def test_full_disk_stores_nothing(service, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, name in ((pq, "write_table"), (pa, "OSFile"), (disk.os, "fsync")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(StorageFull):
                add(service)
        assert service.page().items == files(tmp_path) == leftovers(tmp_path) == []
    assert add(service)["rows"] == 3


def test_equal_tables_share_one_file(service, tmp_path):
    sink = io.BytesIO()
    pq.write_table(service.table(add(service)["id"]), sink)
    first, second = service.page().items[0], add(service, sink.getvalue())
    assert first["sha256"] == second["sha256"]
    assert files(tmp_path) == [".arrow", ".parquet"]
    service.delete(first["id"])
    assert service.table(second["id"]).num_rows == 3
    service.delete(second["id"])
    assert files(tmp_path) == []
    with pytest.raises(NotFound):
        service.delete(second["id"])


def test_delete_waits_for_jobs_and_versions(service, needed):
    got = add(service)
    needed.add(got["id"])
    with pytest.raises(Conflict):
        service.delete(got["id"])
    needed.clear()
    with pytest.raises(Stale):
        service.delete(got["id"], 7)
    table = service.table(got["id"])
    service.delete(got["id"], 1)
    assert table.column("a").to_pylist() == [1, 2, 3]
    with pytest.raises(NotFound):
        service.get(got["id"])


def test_rows(service):
    got = add(service)
    assert service.rows(got["id"], offset=1, limit=1, columns=["c", "a"]).to_pylist() == [{"c": None, "a": 2}]
    assert service.rows(got["id"], offset=99).num_rows == 0
    with pytest.raises(Invalid) as caught:
        service.rows(got["id"], columns=["a", "zz"])
    assert caught.value.issues[0].code == "unknown_column"


def test_content_in_every_form(service):
    got = add(service)
    want = service.table(got["id"])
    for form in FORMS:
        again = add(service, b"".join(service.content(got["id"], form)))
        assert again["sha256"] == got["sha256"]
    assert pacsv.read_csv(io.BytesIO(b"".join(service.content(got["id"], "csv")))).column("a").to_pylist() == [1, 2, 3]
    assert pa.ipc.open_stream(b"".join(service.content(got["id"], "arrow"))).read_all().equals(want)
    with pytest.raises(Unsupported):
        service.content(got["id"], "xlsx")


def test_patch_of_words_and_roles(service):
    got = add(service)
    changes = {
        "name": "n",
        "description": "d",
        "labels": {"k": "v"},
        "columns": {"b": {"role": "target", "levels": ["y", "x"]}},
    }
    done = service.patch(got["id"], changes, 1)
    assert (done["name"], done["description"], done["labels"], done["revision"]) == ("n", "d", {"k": "v"}, 2)
    assert done["columns"][1]["role"] == "target"
    assert [level["value"] for level in done["columns"][1]["levels"]] == ["y", "x"]
    assert done["sha256"] == got["sha256"]
    with pytest.raises(Stale):
        service.patch(got["id"], {"name": "m"}, 1)
    assert service.patch(got["id"], {"name": "m"})["revision"] == 3


def test_patch_of_types_rewrites_the_table(service, tmp_path, needed):
    got = add(service)
    needed.add(got["id"])
    with pytest.raises(Conflict):
        service.patch(got["id"], {"columns": {"a": {"type": "category"}}})
    needed.clear()
    done = service.patch(got["id"], {"columns": {"a": {"type": "category"}, "b": {"type": "text"}}})
    assert [c["type"] for c in done["columns"]] == ["category", "text", "number"]
    assert done["columns"][0]["levels"][0] == {"value": "1", "count": 1}
    assert service.table(got["id"]).column("a").to_pylist() == ["1", "2", "3"]
    assert done["sha256"] == content_hash(service.table(got["id"])) != got["sha256"]
    assert files(tmp_path) == [".arrow", ".parquet"]
    back = service.patch(got["id"], {"columns": {"a": {"type": "integer"}, "b": {"type": "category"}}})
    assert back["sha256"] == got["sha256"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"columns": {"b": {"type": "integer"}}}, "/rows/0/b"),
        ({"columns": {"zz": {"role": "target"}}}, "/columns/zz"),
        ({"columns": {"a": {"role": "king"}}}, "/columns/a/role"),
        ({"columns": {"a": {"type": "float"}}}, "/columns/a/type"),
        ({"columns": {"b": {"levels": ["x"]}}}, "/columns/b/levels"),
        ({"columns": {"a": {"q": 1}}}, "/columns/a"),
        ({"columns": []}, "/columns"), ({"name": ""}, "/name"), ({"labels": {"a": 1}}, "/labels"),
        ({"rows": 3}, "/rows"),
        ({"description": None}, "/description"),
    ],
)  # fmt: skip
def test_patch_refuses(service, changes, pointer):
    got = add(service)
    with pytest.raises(Invalid) as caught:
        service.patch(got["id"], changes)
    assert caught.value.issues[0].pointer == pointer
    assert service.get(got["id"]) == got


def test_samples(service):
    listed = service.samples()
    assert {"penguins", "iris", "votes", "stackloss"} <= {entry["name"] for entry in listed}
    for entry in listed:
        got = service.from_sample(entry["name"])
        columns = {column["name"]: column for column in got["columns"]}
        assert columns[entry["target"]]["role"] == "target"
        assert set(entry["features"]) <= set(columns)
        assert entry["licence"] in got["description"]
        assert entry["licence"] in {"CC0-1.0", "CC-BY-4.0", "BSD-3-Clause", "public domain"}
    with pytest.raises(NotFound):
        service.from_sample("nothing")
    votes = next(
        column for item in service.page(name="votes").items for column in item["columns"] if column["name"] == "vote"
    )
    assert (votes["min"], votes["max"], votes["distinct"]) == (0, 1, 2)
