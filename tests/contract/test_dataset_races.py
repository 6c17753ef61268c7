"""Uploads, deletions and first uses of samples at the same moment, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from service.adapters.database import Database, connect
from service.adapters.datasets import SqlDatasets
from service.adapters.objects import LocalObjects
from service.errors import EngineLost
from service.ids import fixed_id, new_id
from service.settings import Settings
from service.usecases.datasets import DatasetService

IDLE = SimpleNamespace(needed=lambda resource: False)


def service_on(db: Database, data: Path) -> DatasetService:
    """A process's service on the shared database and data folder."""
    ledger: Any = IDLE
    return DatasetService(Settings(data=data), SqlDatasets(db), LocalObjects(data / "objects"), ledger)


@pytest.fixture
def url(db: Database) -> str:
    return db.engine.url.render_as_string(hide_password=False)


@pytest.fixture
def use(db: Database, tmp_path: Path) -> DatasetService:
    return service_on(db, tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    return path


@pytest.fixture
def rival(url: str, tmp_path: Path, source: Path) -> Iterator[Callable[[], Any]]:
    """Uploads the same content through connections of its own."""
    db = connect(url)
    yield lambda: service_on(db, tmp_path).add_file(source)
    db.close()


def stored(use: DatasetService, sha256: str) -> bool:
    """Whether the canonical table is there and whole."""
    if not use._objects.has(f"tables/{sha256}.parquet"):
        return False
    return bool(pq.read_table(use._objects.path(f"tables/{sha256}.parquet")).num_rows == 2)


def test_fixed_ids_follow_from_content_and_sort_before_all_others() -> None:
    ids = {fixed_id("ds", *content) for content in (("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"))}
    assert len(ids) == 4
    assert fixed_id("ds", "a", "b") in ids
    assert max(ids) < new_id("ds")
    assert {len(made) for made in ids} == {len(new_id("ds"))}


def test_first_uses_at_once_make_one_dataset(use: DatasetService, url: str, tmp_path: Path) -> None:
    """Each through connections of its own, as processes do."""
    gate = threading.Barrier(8)

    def first(_: int) -> str:
        with closing(connect(url)) as db:
            gate.wait(60)
            return service_on(db, tmp_path).resolve("iris")

    with ThreadPoolExecutor(8) as pool:
        (made,) = set(pool.map(first, range(8)))
    assert [record["id"] for record in use.page(name="iris").items] == [made]
    assert use.table(made).num_rows == 150


def test_all_who_found_no_sample_yet_still_agree(use: DatasetService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look comes before the making, so both may find nothing, whatever the clock says."""
    with monkeypatch.context() as patch:
        patch.setattr(use, "page", lambda **_: SimpleNamespace(items=[], next_cursor=None))
        assert use.resolve("iris") == use.resolve("iris")
    assert len(use.page(name="iris").items) == 1


def test_a_sample_that_was_renamed_corrected_or_deleted_is_made_again(use: DatasetService) -> None:
    first = use.resolve("iris")
    use.patch(first, {"name": "flowers"})
    second = use.resolve("iris")
    assert first != second == use.resolve("iris")
    assert use.get(first)["name"] == "flowers"
    use.delete(second)
    assert use.resolve("iris") == second
    assert use.table(second).num_rows == 150


def test_asked_for_by_hand_a_sample_is_a_new_dataset_each_time(use: DatasetService) -> None:
    made = [use.from_sample("iris")["id"] for _ in range(2)]
    first = use.resolve("iris")
    assert first == made[1] != made[0], "the newest of that name"


def test_an_upload_between_the_look_and_the_removal_keeps_its_table(
    use: DatasetService, source: Path, rival: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = use.add_file(source)
    uses, made = use._datasets.uses, []

    def then_somebody_uploads(sha256: str) -> int:
        found = uses(sha256)
        made.append(rival())
        return found

    monkeypatch.setattr(use._datasets, "uses", then_somebody_uploads)
    use.delete(first["id"])
    assert stored(use, made[0]["sha256"])
    assert use.table(made[0]["id"]).num_rows == 2


def test_an_upload_that_finds_the_table_just_before_it_goes_stores_it_again(
    use: DatasetService, source: Path, rival: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found the table there; its record cannot be added before the removal is over, and then it looks again."""
    first = use.add_file(source)
    remove, adding, made = use._objects.delete, threading.Event(), []
    add = SqlDatasets.add

    def announced(self: SqlDatasets, record: Any) -> None:
        adding.set()
        add(self, record)

    uploader = threading.Thread(target=lambda: made.append(rival()))

    def meanwhile(key: str) -> None:
        uploader.start()
        assert adding.wait(60)
        remove(key)
        assert not made

    monkeypatch.setattr(SqlDatasets, "add", announced)
    monkeypatch.setattr(use._objects, "delete", meanwhile)
    use.delete(first["id"])
    uploader.join(60)
    assert stored(use, made[0]["sha256"])
    assert use.table(made[0]["id"]).num_rows == 2


def test_uploads_and_deletions_of_one_content_never_lose_a_table(use: DatasetService, source: Path) -> None:
    def upload_and_delete(_: int) -> None:
        for _ in range(5):
            use.delete(use.add_file(source)["id"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upload_and_delete, range(4)))
    assert not use.page().items
    kept = use.add_file(source)
    assert stored(use, kept["sha256"])
    use.delete(kept["id"])
    assert list(use._objects.keys("tables/")) == []


def test_a_store_that_is_away_leaves_the_table_to_the_sweep(
    use: DatasetService, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(key: str) -> None:
        raise EngineLost("away")

    made = use.add_file(source)
    monkeypatch.setattr(use._objects, "delete", away)
    use.delete(made["id"])
    assert "left to the sweep" in caplog.text
    assert not use.page().items
