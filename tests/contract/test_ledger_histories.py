"""Random histories: SQLite agrees with memory, ageing with its formula."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from service.adapters.database import connect
from service.adapters.job_tables import jobs
from service.adapters.ledger import SqlLedger
from service.adapters.memory import MemoryLedger
from service.adapters.migrations import migrate
from service.ports import TERMINAL, Claim, Ledger
from service.settings import Settings
from tests.contract.ledgers import NEW, eventually


@given(waits=st.lists(st.floats(0, 1e6), min_size=2, max_size=6), priorities=st.lists(st.integers(-10, 10), min_size=6, max_size=6))  # noqa: E501
@settings(max_examples=50, deadline=None)
def test_the_stored_rank_orders_as_ageing_does(waits: list[float], priorities: list[int]) -> None:
    now = 2e9
    ledger = MemoryLedger(Settings(), clock=lambda: now)
    aged: dict[str, float] = {}
    for wait, priority in zip(waits, priorities, strict=False):
        ledger._clock = lambda wait=wait: now - wait  # type: ignore[misc]
        aged[ledger.put(replace(NEW, priority=priority)).id] = priority + wait / 600
    ledger._clock = lambda: now
    scores = [aged[c.job.id] for c in ledger.claim("A", {"long": 9})]
    assert all(a >= b - 1e-6 for a, b in pairwise(scores))


class Histories(RuleBasedStateMachine):
    """Any history of calls: SQLite agrees with memory, and what ended stays as it ended."""

    def __init__(self, sql: Ledger) -> None:
        super().__init__()
        self.pair = (MemoryLedger(Settings(max_attempts=2)), sql)
        self.ids: list[tuple[str, str]] = []
        self.claims: list[tuple[Claim, Claim]] = []
        self.ended: dict[str, object] = {}

    @rule(lane=st.sampled_from(["long", "instant"]), priority=st.integers(-1, 1))
    def put(self, lane: str, priority: int) -> None:
        new = replace(NEW, lane=lane, priority=priority)  # type: ignore[arg-type]
        self.ids.append((self.pair[0].put(new).id, self.pair[1].put(new).id))

    @rule(owner=st.sampled_from("AB"), lane=st.sampled_from(["long", "instant"]))
    def claim(self, owner: str, lane: str) -> None:
        name = dict(self.ids)
        waiting = [m for m, _ in self.ids if self.pair[0].get(m).state == "queued" and self.pair[0].get(m).lane == lane]
        if not waiting:
            return
        both = [eventually(lambda led=led: led.claim(owner, {lane: 1}))[0] for led in self.pair]  # type: ignore
        if name[both[0].job.id] != both[1].job.id:  # back-offs ended at different instants: undo, nothing to compare
            both = [c for c, led in zip(both, self.pair, strict=True) if led.release([c])]
            return
        self.claims.append((both[0], both[1]))

    @rule(i=st.integers(0, 9), state=st.sampled_from(["succeeded", "failed", "queued"]))
    def finish(self, i: int, state: str) -> None:
        if self.claims:
            a, b = self.claims[i % len(self.claims)]
            got = [led.finish(c, state, result={"i": i}) for led, c in zip(self.pair, (a, b), strict=True)]  # type: ignore
            assert got[0] == got[1]

    @rule(i=st.integers(0, 9))
    def cancel(self, i: int) -> None:
        if self.ids:
            for led, job_id in zip(self.pair, self.ids[i % len(self.ids)], strict=True):
                if led.get(job_id).state not in ("succeeded", "failed"):
                    led.cancel(job_id)

    @rule(owner=st.sampled_from("AB"))
    def lose(self, owner: str) -> None:
        assert self.pair[0].reap(owner) == self.pair[1].reap(owner)

    @invariant()
    def agree(self) -> None:
        for m, s in self.ids:
            a, b = self.pair[0].get(m), self.pair[1].get(s)
            assert (a.state, a.attempts, a.result, a.error, a.worker, a.cancel_requested) == (
                b.state, b.attempts, b.result, b.error, b.worker, b.cancel_requested)  # fmt: skip
            if b.state in TERMINAL:
                assert self.ended.setdefault(s, b) == b


def test_any_history_ends_the_same_in_memory_and_in_sqlite(tmp_path: Path) -> None:
    opened = connect(f"sqlite:///{tmp_path / 'service.db'}")
    migrate(opened)

    def fresh() -> Histories:
        with opened.write() as connection:
            connection.execute(sqlalchemy.delete(jobs))
        return Histories(SqlLedger(opened, Settings(max_attempts=2)))

    quick = settings(max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
    assert run_state_machine_as_test(fresh, settings=quick) is None  # type: ignore[func-returns-value]
    opened.close()
