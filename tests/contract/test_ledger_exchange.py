"""Endings and claims in one transaction, on every ledger."""

from __future__ import annotations

from dataclasses import replace

from service.ports import Outcome
from tests.contract.ledgers import NEW, Make, claim

INSTANT = replace(NEW, lane="instant")


def test_endings_and_claims_are_one_step(make: Make) -> None:
    ledger = make()
    first, second = ledger.put(NEW).id, ledger.put(NEW).id
    (held,) = ledger.exchange("A", [], {"long": 1})
    assert held.job.id == first
    (following,) = ledger.exchange("A", [Outcome(held, "succeeded", {"r2": 1.0}, progress={"step": 3})], {"long": 1})
    job = ledger.get(first)
    assert (job.state, job.result, job.progress) == ("succeeded", {"r2": 1.0}, {"step": 3})
    assert (following.job.id, ledger.get(second).state) == (second, "running")


def test_an_ending_no_longer_held_writes_nothing_and_spoils_nothing(make: Make) -> None:
    ledger = make()
    lost, kept = ledger.put(NEW).id, ledger.put(NEW).id
    stale, held = ledger.exchange("A", [], {"long": 2})
    ledger.cancel(lost)
    ledger.finish(stale, "cancelled")
    assert ledger.exchange("A", [Outcome(stale, "succeeded", {}), Outcome(held, "succeeded", {})], {}) == []
    assert (ledger.get(lost).state, ledger.get(kept).state) == ("cancelled", "succeeded")
    assert ledger.get(lost).result is None


def test_long_places_serve_instant_jobs_only_when_no_long_job_waits(make: Make) -> None:
    ledger = make()
    for new in (INSTANT, INSTANT, INSTANT, NEW):
        ledger.put(new)
    taken = [claim.job.lane for claim in ledger.exchange("A", [], {"instant": 1, "long": 2})]
    assert sorted(taken) == ["instant", "instant", "long"]
    assert [claim.job.lane for claim in ledger.exchange("A", [], {"long": 1})] == ["instant"]
    assert ledger.exchange("A", [], {"instant": 1, "long": 1}) == []


def test_claims_whose_answer_was_lost_go_back_uncounted(make: Make) -> None:
    ledger = make()
    known, lost, doomed = (ledger.put(NEW).id for _ in range(3))
    held, _, _ = ledger.exchange("A", [], {"long": 3})
    theirs = ledger.put(NEW).id
    ledger.exchange("B", [], {"long": 1})
    ledger.cancel(doomed)
    assert ledger.disown("A", [held]) == 2
    assert [ledger.get(j).state for j in (known, lost, doomed, theirs)] == ["running", "queued", "cancelled", "running"]
    again = claim(ledger, "C")
    assert (again.job.id, again.job.attempts, again.attempt) == (lost, 1, 2)
    assert ledger.disown("A", [held]) == 0
    assert ledger.finish(held, "succeeded", result={})
