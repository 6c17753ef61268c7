"""One round of the runner at a time, on a ledger in memory and children that are only told of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from service.adapters.memory import MemoryLedger
from service.errors import NotReady
from service.ports import Attempt, Claim
from service.runner import loop, timers
from service.runner.loop import Runner
from service.runner.supervisor import Verdict
from service.settings import Settings
from tests.contract.ledgers import NEW


class Told:
    """A child that has answered."""

    def __init__(self, claim: Claim) -> None:
        self.held = claim
        self.reason: str | None = None
        self.again = False
        self.progress, self.log_tail, self.pid = {"step": 3}, "said", 0

    def verdict(self, end: object) -> Verdict:
        if self.reason is not None:
            return Verdict({"cancelled": "cancelled", "timed_out": "failed"}.get(self.reason))  # type: ignore[arg-type]
        return Verdict("succeeded", result={"r2": 1.0})

    def attempt(self, host: str, end: object) -> Attempt:
        return Attempt(host, 0, 0, 0, 0.0)

    def must_stop(self) -> str | None:
        return None

    def kill(self, reason: str) -> None:
        self.reason = reason


class Pool:
    """Takes every job; what `through` holds has ended."""

    def __init__(self) -> None:
        self.busy: list[Any] = []
        self.through: list[tuple[Any, Any]] = []
        self.spares = [object(), object()]
        self.refreshed, self.stirred, self.full = True, False, False

    def wait(self, seconds: float) -> list[tuple[Any, Any]]:
        ended, self.through = self.through, []
        return ended

    def fault(self) -> str | None:
        return None

    def free(self) -> dict[str, int]:
        return {"instant": 0, "long": 1 - len(self.busy)}

    def start(self, claim: Claim) -> bool:
        if self.full:
            return False
        self.busy.append(Told(claim))
        return True

    def drop(self, child: Any) -> None:
        self.busy.remove(child)


class Flaky(MemoryLedger):
    """A ledger that can be away."""

    away = False

    def version(self) -> int:
        return self._there(super().version())

    def renew(self, *args: Any) -> Any:
        return self._there(None) or super().renew(*args)

    def exchange(self, *args: Any) -> Any:
        return self._there(None) or super().exchange(*args)

    def report(self, *args: Any) -> bool:
        return self._there(None) or super().report(*args)

    def _there(self, value: Any) -> Any:
        if self.away:
            raise NotReady("away")
        return value


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    for module in (loop, timers):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(loop, "kill_tree", lambda pid: None)
    settings = Settings(lease_seconds=30.0)
    ledger, pool = Flaky(settings, clock=lambda: clock.now), Pool()
    runner = Runner(settings, ledger, pool, "A")  # type: ignore[arg-type]
    return SimpleNamespace(clock=clock, ledger=ledger, pool=pool, runner=runner, job=ledger.put(NEW).id)


def step(world: SimpleNamespace, seconds: float = 0.0) -> None:
    world.clock.now += seconds
    world.runner.step(claiming=True)


def test_a_claim_that_no_child_may_take_is_handed_back_uncounted(world: SimpleNamespace) -> None:
    world.pool.full = True
    step(world)
    job = world.ledger.get(world.job)
    assert (job.state, job.attempts, job.worker) == ("queued", 0, None)
    world.pool.full = False
    step(world, 1.0)
    assert world.ledger.get(world.job).attempts == 1


def test_an_answer_waits_for_a_ledger_that_is_away(world: SimpleNamespace) -> None:
    step(world)
    world.pool.through = [(world.pool.busy[0], None)]
    world.ledger.away = True
    step(world, 1.0)
    assert world.ledger.get(world.job).state == "running"
    world.ledger.away = False
    step(world, 2.0)
    job = world.ledger.get(world.job)
    assert (job.state, job.result, job.progress, job.attempts) == ("succeeded", {"r2": 1.0}, {"step": 3}, 1)


def test_jobs_of_a_claim_whose_answer_was_lost_go_back_uncounted(world: SimpleNamespace) -> None:
    claimed = world.ledger.exchange

    def exchange(*given: Any) -> Any:
        claimed(*given)
        raise NotReady("the connection broke after the commit")

    world.ledger.exchange = exchange
    step(world)
    job = world.ledger.get(world.job)
    assert (job.state, job.worker, world.pool.busy) == ("running", "A", [])
    world.ledger.exchange = claimed
    step(world, 2.0)
    step(world, 2.0)
    job = world.ledger.get(world.job)
    assert (job.state, job.attempts, len(world.pool.busy)) == ("running", 1, 1)
    assert world.pool.busy[0].held.attempt == 2, "the fence grows though the count does not"


def test_an_outage_takes_nothing_from_who_works(world: SimpleNamespace) -> None:
    step(world)
    held = world.pool.busy[0].held
    world.ledger.away = True
    step(world, 1.0)
    world.ledger.away = False
    step(world, 2.0)
    assert world.ledger.renew("A", [held]) == [held]


def test_children_are_stopped_before_a_lease_that_cannot_be_renewed_is_over(world: SimpleNamespace) -> None:
    step(world)
    child = world.pool.busy[0]
    world.ledger.away = True
    step(world, 23.0)
    assert child.reason is None
    step(world, 2.0)
    assert child.reason == "lost"


def test_an_answer_older_than_its_lease_is_thrown_away(world: SimpleNamespace) -> None:
    step(world)
    world.pool.through = [(world.pool.busy[0], None)]
    world.ledger.away = True
    step(world)
    step(world, 31.0)
    world.ledger.away = False
    step(world, 2.0)
    job = world.ledger.get(world.job)
    assert (job.state, job.result) == ("queued", None)


def test_after_an_outage_others_may_renew_before_their_jobs_are_taken(world: SimpleNamespace) -> None:
    step(world)
    other = world.ledger.put(NEW).id
    held = world.ledger.claim("B", {"long": 1})
    world.ledger.away = True
    step(world, 29.0)
    world.ledger.away = False
    step(world, 2.0)
    assert world.ledger.get(other).state == "running"
    assert world.ledger.renew("B", held) == held


def test_a_cancelled_job_is_killed_in_the_next_round(world: SimpleNamespace) -> None:
    step(world)
    world.ledger.cancel(world.job)
    step(world, 0.1)
    assert world.pool.busy[0].reason == "cancelled"


def test_a_job_taken_by_others_is_dropped(world: SimpleNamespace) -> None:
    step(world)
    world.ledger.reap(dead="A")
    world.ledger.claim("B", {"long": 1})
    step(world, 11.0)
    assert world.pool.busy[0].reason == "lost"


@pytest.mark.parametrize(
    ("reason", "state"), [("cancelled", "cancelled"), ("timed_out", "failed"), (None, "queued"), ("lost", "running")]
)
def test_what_was_decided_of_a_job_is_written_though_the_runner_ends(
    world: SimpleNamespace, reason: str | None, state: str
) -> None:
    step(world)
    child = world.pool.busy[0]
    if reason == "cancelled":
        world.ledger.cancel(world.job)
    if reason is not None:
        child.kill(reason)
    stop = SimpleNamespace(now=lambda: True, at_once=lambda: True)
    child.kill = lambda why: setattr(child, "reason", child.reason or why)
    world.runner.run(stop, 20.0)
    assert (world.ledger.get(world.job).state, world.pool.busy) == (state, [])
