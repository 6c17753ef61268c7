"""The contract of the ledger, run over every adapter: how jobs live and end."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from service.errors import Conflict, NotFound
from service.ports import Attempt
from tests.contract.ledgers import LIMITS, NEW, Make, claim, claim_of, eventually


def test_what_is_put_is_got(make: Make) -> None:
    ledger = make()
    job = ledger.put(replace(NEW, priority=3, needs=("ds_1", "ds_1", "ds_2")))
    assert (job.state, job.attempts, job.queue_position, job.priority) == ("queued", 0, None, 3)
    assert (job.spec, job.limits, job.lane, job.kind) == (NEW.spec, LIMITS, "long", "fit")
    assert abs(job.submitted_at.timestamp() - time.time()) < 60
    assert ledger.get(job.id) == replace(job, queue_position=1) == ledger.of_resource("mdl_1")
    assert job.worker is job.started_at is job.finished_at is job.result is job.error is job.progress is None


def test_unknown_names_are_not_found(make: Make) -> None:
    ledger = make()
    for call in (ledger.get, ledger.of_resource, ledger.cancel):
        with pytest.raises(NotFound):
            call("job_none")


def test_a_succeeded_job_keeps_its_result(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)
    held = claim(ledger)
    assert (held.job.id, held.attempt, held.job.state, held.job.worker) == (job.id, 1, "running", "A")
    assert ledger.report(held, {"fraction": 0.5}, "line\0")
    assert (ledger.get(job.id).progress, ledger.get(job.id).log_tail) == ({"fraction": 0.5}, "line")
    attempt = Attempt("host", 17, 0, 1 << 40, 1.5)
    assert ledger.finish(held, "succeeded", result={"r2": 0.9}, attempt=attempt, log_tail="end")
    done = ledger.get(job.id)
    assert (done.state, done.result, done.error, done.log_tail) == ("succeeded", {"r2": 0.9}, None, "end")
    assert done.started_at is not None
    assert done.finished_at is not None
    assert done.submitted_at <= done.started_at <= done.finished_at
    assert ledger.claim("A", {"long": 9}) == []


def test_a_terminal_state_never_changes(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    held = claim(ledger)
    error = {"code": "user_error", "detail": "no"}
    assert ledger.finish(held, "failed", error=error)
    assert not ledger.finish(held, "succeeded", result={})
    assert not ledger.report(held, {})
    assert ledger.renew("A", [held]) == [] == ledger.cancelled([held])
    assert ledger.release([held]) == 0 == ledger.reap("A")
    done = ledger.get(held.job.id)
    assert (done.state, done.error) == ("failed", error)
    with pytest.raises(Conflict):
        ledger.cancel(held.job.id)


def test_a_crashing_job_runs_again_and_fails_with_its_cause(make: Make) -> None:
    ledger = make(max_attempts=3)
    job = ledger.put(NEW)
    for attempt in (1, 2, 3):
        held = claim(ledger)
        assert held.attempt == held.job.attempts == attempt
        assert ledger.finish(held, "queued", error={"code": "worker_crashed", "detail": f"signal {attempt}"})
        if attempt < 3:
            waiting = ledger.get(job.id)
            assert (waiting.state, waiting.attempts, waiting.worker, waiting.error) == ("queued", attempt, None, None)
    done = ledger.get(job.id)
    assert (done.state, done.attempts) == ("failed", 3)
    assert done.error == {"code": "worker_crashed", "detail": "signal 3"}


def test_a_crashed_job_is_not_claimed_before_its_back_off(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    ledger.finish(claim(ledger), "queued", error={"code": "worker_crashed", "detail": ""})
    assert ledger.claim("A", {"long": 1}) == []


def test_released_jobs_do_not_lose_an_attempt_but_change_the_fence(make: Make) -> None:
    ledger = make(max_attempts=1)
    job = ledger.put(NEW)
    first = claim(ledger)
    assert ledger.release([first]) == 1
    assert (ledger.get(job.id).state, ledger.get(job.id).attempts) == ("queued", 0)
    second = claim(ledger, "A")
    assert second.attempt == 2
    assert second.job.attempts == 1
    assert not ledger.finish(first, "succeeded", result={"stale": True})
    assert ledger.finish(second, "queued", error={"code": "worker_crashed", "detail": ""})
    assert ledger.get(job.id).state == "failed"


def test_a_stale_owner_writes_nothing(make: Make) -> None:
    ledger = make(lease_seconds=1e-9)
    job = ledger.put(NEW)
    stale = claim(ledger, "A")
    assert eventually(ledger.reap) == 1
    fresh = claim(ledger, "B")
    assert fresh.attempt == 2
    assert not ledger.finish(stale, "succeeded", result={"from": "A"})
    assert not ledger.report(stale, {"fraction": 1.0})
    assert ledger.renew("A", [stale]) == []
    assert ledger.finish(fresh, "succeeded", result={"from": "B"})
    assert ledger.get(job.id).result == {"from": "B"}


def test_the_fence_holds_for_each_part(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    held = claim(ledger)
    for wrong in (replace(held, attempt=2), replace(held, owner="B"), replace(held, job=replace(held.job, id="job_x"))):
        assert not ledger.finish(wrong, "succeeded", result={})
        assert not ledger.report(wrong, {})
        assert ledger.release([wrong]) == 0
    assert ledger.get(held.job.id).state == "running"


def test_expired_leases_fail_after_the_last_attempt(make: Make) -> None:
    ledger = make(lease_seconds=1e-9, max_attempts=1)
    job = ledger.put(NEW)
    claim(ledger)
    assert eventually(ledger.reap) == 1
    done = ledger.get(job.id)
    assert done.state == "failed"
    assert done.error is not None
    assert done.error["code"] == "worker_lost"


def test_live_leases_are_left_alone_and_a_dead_owner_is_reaped_at_once(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    ledger.put(NEW)
    mine, other = claim(ledger, "A"), claim(ledger, "B")
    assert ledger.reap() == 0
    assert ledger.reap(dead="A") == 1
    assert ledger.get(mine.job.id).state == "queued"
    assert ledger.get(other.job.id).state == "running"


def test_renewed_leases_are_the_ones_still_held(make: Make) -> None:
    ledger = make()
    ledger.put(NEW)
    ledger.put(NEW)
    one, two = ledger.claim("A", {"long": 2})
    assert ledger.renew("A", [one, two]) == [one, two]
    assert ledger.renew("B", [one, two]) == []
    ledger.cancel(two.job.id)
    assert ledger.renew("A", [one, two]) == [one]
    assert ledger.cancelled([one, two]) == [two]
    assert ledger.renew("A", []) == [] == ledger.cancelled([])


def test_cancel_of_a_queued_job_is_immediate_and_idempotent(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)
    assert ledger.cancel(job.id).state == "cancelled"
    assert ledger.cancel(job.id).state == "cancelled"
    assert ledger.get(job.id).finished_at is not None
    assert ledger.claim("A", {"long": 1}) == []


@pytest.mark.parametrize("state", ["succeeded", "failed", "queued", "cancelled"])
def test_an_accepted_cancellation_wins_over_every_ending(make: Make, state: str) -> None:
    ledger = make()
    held = claim_of(ledger)
    assert ledger.cancel(held.job.id).state == "running"
    assert ledger.cancel(held.job.id).cancel_requested
    assert ledger.finish(held, state, result={"x": 1}, error={"code": "c", "detail": ""})  # type: ignore[arg-type]
    done = ledger.cancel(held.job.id)
    assert (done.state, done.result, done.error) == ("cancelled", None, None)


def test_a_cancelled_job_of_a_lost_runner_ends_cancelled(make: Make) -> None:
    ledger = make()
    held = claim_of(ledger)
    ledger.cancel(held.job.id)
    assert ledger.reap(dead="A") == 1
    assert ledger.get(held.job.id).state == "cancelled"
