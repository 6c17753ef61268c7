"""The contract of the ledger, run over every adapter: losses of engines, limits of keys, one job per resource."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from service.adapters import rules
from service.adapters.database import Database
from service.adapters.ledger import SqlLedger
from service.errors import QueueFull
from service.ports import Ledger
from service.settings import Settings
from tests.contract.ledgers import NEW, Make, claim, hurry

LOST = {"code": "engine_lost", "detail": "the scheduler went away"}
CRASHED = {"code": "worker_crashed", "detail": "signal 11"}
ROOT = Path(__file__).parent.parent.parent
CLAIMER = """
import sys
from service.adapters.database import connect
from service.adapters.ledger import SqlLedger
from service.settings import Settings
ledger = SqlLedger(connect(sys.argv[1]), Settings())
print("ready", flush=True)
sys.stdin.readline()
while ledger.page(limit=1, cursor=None, state="queued").items:
    for held in ledger.claim(sys.argv[2], {"long": 3}):
        if ledger.finish(held, "succeeded", result={"owner": sys.argv[2]}):
            print(held.job.id, held.attempt, flush=True)
"""


def lose(ledger: Ledger, error: dict[str, str] = LOST) -> None:
    """One attempt that ends so."""
    hurry(ledger)
    held = claim(ledger)
    assert ledger.finish(held, "queued", error=error)


def test_losses_of_the_engine_have_their_own_limit(make: Make) -> None:
    ledger = make(max_attempts=1, max_engine_losses=3)
    job = ledger.put(NEW)
    for losses in (1, 2):
        lose(ledger)
        waiting = ledger.get(job.id)
        assert (waiting.state, waiting.attempts, waiting.engine_losses) == ("queued", 0, losses)
    lose(ledger)
    done = ledger.get(job.id)
    assert (done.state, done.attempts, done.engine_losses, done.error) == ("failed", 0, 3, LOST)


def test_losses_and_crashes_do_not_count_for_each_other(make: Make) -> None:
    ledger = make(max_attempts=2, max_engine_losses=2)
    job = ledger.put(NEW)
    lose(ledger)
    lose(ledger, CRASHED)
    hurry(ledger)
    held = claim(ledger)
    assert (held.attempt, held.job.attempts, held.job.engine_losses) == (3, 2, 1)
    assert ledger.release([held]) == 1
    waiting = ledger.get(job.id)
    assert (waiting.state, waiting.attempts, waiting.engine_losses) == ("queued", 1, 1)
    lose(ledger, CRASHED)
    done = ledger.get(job.id)
    assert (done.state, done.attempts, done.engine_losses, done.error) == ("failed", 2, 1, CRASHED)


def test_a_lost_engine_is_given_time(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    lose(ledger)
    assert ledger.claim("A", {"long": 1}) == []
    assert [rules.patience(n) for n in (1, 2, 3, 4, 5, 10**6)] == [1.0, 3.0, 9.0, 27.0, 60.0, 60.0]


def test_an_engine_that_fails_a_job_for_good_is_no_loss(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    held = claim(ledger)
    assert ledger.finish(held, "failed", error=LOST)
    assert (ledger.get(held.job.id).engine_losses, ledger.get(held.job.id).attempts) == (0, 1)


def test_a_cancelled_job_is_not_run_again_when_its_engine_is_lost(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)
    held = claim(ledger)
    ledger.cancel(job.id)
    assert ledger.finish(held, "queued", error=LOST)
    assert ledger.get(job.id).state == "cancelled"


def test_one_key_cannot_fill_the_queue(make: Make) -> None:
    ledger = make(max_queued=4, max_queued_per_key=2)
    mine, other = replace(NEW, tenant="key_1"), replace(NEW, tenant="key_2")
    ledger.put(mine)
    held = claim(ledger)
    ledger.put(mine)
    ledger.put(mine)
    with pytest.raises(QueueFull, match="2 jobs of this API key are queued and the limit of one key is 2") as full:
        ledger.put(mine)
    assert full.value.retry_after_seconds == 60
    ledger.put(other)
    ledger.put(NEW)
    with pytest.raises(QueueFull, match="4 jobs are queued and the limit is 4"):
        ledger.put(other)
    assert held.job.tenant == "key_1"


def test_many_keys_do_not_pass_the_limit_of_all(make: Make) -> None:
    ledger, refused = make(max_queued=64), 0
    for n in range(200):
        try:
            ledger.put(replace(NEW, tenant=f"key_{n % 40}"))
        except QueueFull:
            refused += 1
    assert refused == 200 - 64


def test_jobs_without_a_key_know_only_the_limit_of_all(make: Make) -> None:
    ledger = make(max_queued=3, max_queued_per_key=1)
    for _ in range(3):
        ledger.put(NEW)
    with pytest.raises(QueueFull, match="the limit is 3"):
        ledger.put(NEW)


def test_a_resource_that_has_its_job_gets_no_second_one(make: Make) -> None:
    ledger = make(max_queued=1)
    first = ledger.put(NEW, once=True)
    assert ledger.put(replace(NEW, priority=9), once=True) == ledger.get(first.id)
    ledger.finish(claim(ledger), "succeeded", result={"x": 1})
    assert ledger.put(NEW, once=True).id == first.id
    assert ledger.put(replace(NEW, resource="mdl_2"), once=True).id != first.id
    assert len(ledger.page(limit=9, cursor=None).items) == 2


def test_simultaneous_repetitions_make_one_job(make: Make) -> None:
    ledger = make()
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: ledger.put(NEW, once=True).id, range(24)))
    assert len(made) == 1 == len(ledger.page(limit=9, cursor=None).items)


def test_a_listing_tells_places_and_leaves_out_what_is_long(make: Make) -> None:
    ledger = make()
    done = ledger.put(NEW)
    ledger.finish(claim(ledger), "succeeded", result={"long": "x" * 100}, log_tail="log")
    ids = [ledger.put(replace(NEW, priority=p)).id for p in (0, 5, 1)]
    quick = ledger.put(replace(NEW, lane="instant"))
    shown = {job.id: job for job in ledger.page(limit=9, cursor=None).items}
    assert [shown[i].queue_position for i in (*ids, quick.id, done.id)] == [3, 1, 2, 1, None]
    assert (shown[done.id].spec, shown[done.id].result, shown[done.id].log_tail) == ({}, None, "")
    for job in shown.values():
        whole = ledger.get(job.id)
        assert replace(whole, spec={}, result=None, log_tail="") == job


def test_processes_share_the_queue_without_running_anything_twice(db: Database) -> None:
    ledger = SqlLedger(db, Settings())
    ids = {ledger.put(NEW).id for _ in range(60)}
    url = db.engine.url.render_as_string(hide_password=False)
    workers = [
        subprocess.Popen([sys.executable, "-c", CLAIMER, url, name], cwd=ROOT, text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in "ABC"
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    found = [line.split() for out in _told(workers) for line in out.splitlines()]
    assert sorted((job, int(attempt)) for job, attempt in found) == sorted((i, 1) for i in ids)
    assert all(worker.returncode == 0 for worker in workers)


def _told(workers: list[subprocess.Popen[str]]) -> list[str]:
    """Start all, then read what each printed."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [worker.communicate(timeout=60)[0] for worker in workers]
