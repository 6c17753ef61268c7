"""The contract of the ledger, run over every adapter: order, limits, listings and many at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from service.adapters.database import Database, connect
from service.adapters.job_tables import job_attempts, jobs
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.errors import NotReady, QueueFull, ServiceError
from service.ports import Attempt
from service.settings import Settings
from tests.contract.ledgers import NEW, Make, claim, eventually


def test_lanes_are_separate_and_limits_are_kept(make: Make) -> None:
    ledger = make()
    for _ in range(4):
        ledger.put(NEW)
    assert len(ledger.claim("A", {"instant": 1, "long": 1})) == 1
    quick = ledger.put(replace(NEW, lane="instant"))
    assert ledger.get(quick.id).queue_position == 1
    assert [c.job.id for c in ledger.claim("A", {"instant": 5})] == [quick.id]
    assert len(ledger.claim("A", {"long": 2, "instant": 1})) == 2
    assert ledger.claim("A", {"long": 0}) == [] == ledger.claim("A", {})


def test_order_is_priority_then_age(make: Make) -> None:
    ledger = make()
    ids = [ledger.put(replace(NEW, priority=p)).id for p in (0, 5, 0, -3, 5)]
    expected = [ids[i] for i in (1, 4, 0, 2, 3)]
    assert [ledger.get(i).queue_position for i in expected] == [1, 2, 3, 4, 5]
    assert [c.job.id for c in ledger.claim("A", {"long": 9})] == expected


def test_a_full_queue_says_when_to_come_back(make: Make) -> None:
    ledger = make(max_queued=2)
    ledger.put(NEW)
    ledger.put(NEW)
    with pytest.raises(QueueFull, match="2 jobs are queued and the limit is 2") as full:
        ledger.put(NEW)
    assert full.value.retry_after_seconds == 60
    ledger.finish(claim(ledger), "succeeded", result={})
    ledger.put(NEW)
    with pytest.raises(QueueFull) as full:
        ledger.put(NEW)
    assert 1 <= full.value.retry_after_seconds <= 60


def test_a_resource_is_needed_until_its_users_end(make: Make) -> None:
    ledger = make()
    job = ledger.put(replace(NEW, needs=("ds_1",)))
    assert ledger.needed("ds_1")
    assert not ledger.needed("ds_2")
    assert not ledger.needed("ds_")
    held = claim(ledger)
    assert ledger.needed("ds_1")
    ledger.finish(held, "succeeded", result={})
    assert not ledger.needed("ds_1")
    assert ledger.get(job.id).state == "succeeded"


def test_pages_are_complete_and_newest_first(make: Make) -> None:
    ledger = make()
    ids = [ledger.put(replace(NEW, kind=k, resource="mdl_x")).id for k in "abababa"]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = ledger.page(limit=3, cursor=cursor)
        seen += [job.id for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert [j.id for j in ledger.page(limit=9, cursor=None, kind="b").items] == ids[1::2][::-1]
    ledger.cancel(ids[2])
    assert [j.id for j in ledger.page(limit=9, cursor=None, state="cancelled", kind="a").items] == [ids[2]]
    assert ledger.page(limit=7, cursor=None).next_cursor is None
    assert ledger.of_resource("mdl_x").id == ids[-1]


def test_the_version_tells_of_what_others_wrote(make: Make) -> None:
    ledger = make()
    before = ledger.version()
    job = ledger.put(NEW)
    between = eventually(lambda: (v := ledger.version()) != before and v)
    ledger.cancel(job.id)
    assert eventually(lambda: ledger.version() != between)


def test_many_runners_run_every_job_once(make: Make) -> None:
    ledger = make()
    ids = {ledger.put(NEW).id for _ in range(60)}
    done: list[tuple[str, int]] = []

    def work(owner: str) -> None:
        while found := ledger.claim(owner, {"long": 2}):
            for held in found:
                assert ledger.finish(held, "succeeded", result={"owner": owner})
                done.append((held.job.id, held.attempt))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "ABCD"))
    while found := ledger.claim("E", {"long": 5}):  # a skipped locked row leaves a runner early
        done += [(c.job.id, c.attempt) for c in found if ledger.finish(c, "succeeded", result={})]
    assert sorted(done) == sorted((i, 1) for i in ids)


def test_writers_wait_for_each_other(make: Make) -> None:
    ledger = make()
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: ledger.put(NEW).id, range(90)))
    assert len(set(made)) == 90 == len(ledger.page(limit=500, cursor=None).items)


@pytest.mark.parametrize(("waited", "first"), [(1799.0, "new"), (1801.0, "old")])
def test_waiting_ten_minutes_is_worth_one_step_of_priority(db: Database, waited: float, first: str) -> None:
    ledger = SqlLedger(db, Settings())
    old, new = ledger.put(NEW), ledger.put(replace(NEW, priority=3))
    with db.write() as connection:
        aged = {"rank": jobs.c.rank - waited, "submitted": jobs.c.submitted - waited}
        connection.execute(update(jobs).where(jobs.c.id == old.id).values(aged))
    assert ledger.claim("A", {"long": 1})[0].job.id == {"old": old.id, "new": new.id}[first]


def test_every_attempt_leaves_its_figures(db: Database) -> None:
    ledger = SqlLedger(db, Settings(max_attempts=2))
    ledger.put(NEW)
    ledger.finish(claim(ledger), "queued", error={"code": "worker_crashed"}, attempt=Attempt("h", 7, -11, 5, 0.5))
    claim(ledger, "B")
    ledger.reap(dead="B")
    with db.read() as connection:
        rows = connection.execute(select(job_attempts).order_by(job_attempts.c.attempt)).all()
    assert [(r.attempt, r.owner, r.pid, r.exit_code, r.error["code"]) for r in rows] == [
        (1, "A", 7, -11, "worker_crashed"),
        (2, "B", 0, None, "worker_lost"),
    ]


def test_tables_can_be_made_by_many_at_once(tmp_path: Path) -> None:
    gate = threading.Barrier(8)

    def start(_: int) -> str:
        opened = connect(f"sqlite:///{tmp_path / 'service.db'}")
        gate.wait()
        migrate(opened)
        migrate(opened)
        put = SqlLedger(opened, Settings()).put(NEW).id
        opened.close()
        return put

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 8


def test_sqlite_is_set_up_as_measured(tmp_path: Path) -> None:
    opened = connect(f"sqlite:///{tmp_path / 'service.db'}")
    with opened.read() as connection:
        read = {p: connection.exec_driver_sql(f"PRAGMA {p}").scalar() for p in
                ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")}  # fmt: skip
    assert read == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 10_000, "foreign_keys": 1}
    opened.close()


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(ServiceError, match="must be a file"):
        connect("sqlite://")


def test_a_database_that_is_away_is_not_ready(tmp_path: Path) -> None:
    opened = connect(f"sqlite:///{tmp_path / 'service.db'}")
    with pytest.raises(NotReady), opened.write() as connection:
        connection.execute(insert(jobs).values(id="x"))
    opened.close()
