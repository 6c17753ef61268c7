"""The runner: claims jobs, lets children work on them, keeps the leases, and says how each attempt ended.

One thread; it sleeps at most `TICK_SECONDS`. Every write to the ledger is fenced, so a runner that was away for longer
than its lease can do no harm; one that cannot renew stops its children before the lease is over.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

from service.adapters.database import connect
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.rules import backoff
from service.errors import NotReady, StorageFull
from service.ports import Claim, Leases
from service.runner.forkserver import Exit
from service.runner.lock import only_runner
from service.runner.pool import Pool, Program
from service.runner.process import die_with_parent, kill_tree
from service.runner.supervisor import Child, Reason
from service.settings import Settings

log = logging.getLogger("postfit.runner")
TICK_SECONDS = 0.01
LOOK_SECONDS = 0.5  # back-offs and leases end without a write, so look again even when nothing changed
WATCH_SECONDS = 0.1
STORE_SECONDS = 0.2
GRACE_SECONDS = 10.0
AWAY_SECONDS = 1.0
Write = Callable[[], object]


class Stop:
    """Whether to go on: SIGTERM and SIGINT ask for a graceful end, the death of the parent for a quick one."""

    def __init__(self, parent: int | None) -> None:
        self._parent = parent
        self.asked = False

    def orphaned(self) -> bool:
        """Whether the process that this one belongs to is gone."""
        return self._parent is not None and os.getppid() != self._parent

    def on_signal(self, number: int, frame: object) -> None:
        """The signal handler."""
        self.asked = True

    def now(self) -> bool:
        """Whether to stop."""
        return self.asked or self.orphaned()


class Every:
    """True at most once in the given time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self) -> bool:
        """Whether it is time again."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._seconds
        return True

    def soon(self, seconds: float) -> None:
        """Be due no later than in so many seconds."""
        self._next = min(self._next, time.monotonic() + seconds)


class Runner:
    """The loop over one pool of children and one ledger."""

    def __init__(self, settings: Settings, ledger: Leases, pool: Pool, owner: str) -> None:
        self._ledger = ledger
        self._pool = pool
        self._owner = owner
        self._fence_seconds = settings.lease_seconds * 0.8
        self._renewed = time.monotonic()
        self._unwritten: list[tuple[float, Write]] = []
        self._version: int | None = None
        self._away_until = 0.0
        self._look, self._watch, self._store = Every(LOOK_SECONDS), Every(WATCH_SECONDS), Every(STORE_SECONDS)
        self._lease = Every(settings.lease_seconds / 3)
        self._quiet_until = 0.0
        self._lease_seconds = settings.lease_seconds

    def run(self, stop: Stop, grace_seconds: float) -> None:
        """Work until asked to stop; then let children end for the grace period and hand the rest back."""
        while not stop.now():
            self.step(claiming=True)
        deadline = time.monotonic() + (0.0 if stop.orphaned() else grace_seconds)
        while self._pool.busy and time.monotonic() < deadline and not stop.orphaned():
            self.step(claiming=False)
        self._hand_back()

    def step(self, claiming: bool) -> None:
        """One round."""
        for child, end in self._pool.wait(TICK_SECONDS):
            self._through(child, end)
        if self._watch.due():
            self._supervise()
        if time.monotonic() < self._away_until:
            return
        try:
            self._converse(claiming)
        except (NotReady, StorageFull) as away:
            log.warning("the ledger does not answer: %s", away)
            now = time.monotonic()
            self._away_until = now + AWAY_SECONDS
            self._quiet_until = now + self._lease_seconds  # others were away too: let them renew first
            self._version = None
            self._lease.soon(0.0)
            # The lease of an ended attempt is not renewed: once it is over, somebody else has the job.
            self._unwritten = [(until, write) for until, write in self._unwritten if until > now]

    def _converse(self, claiming: bool) -> None:
        """Everything that touches the ledger; may raise NotReady at any point and is then repeated."""
        if self._lease.due():
            self._renew()
        while self._unwritten:
            self._unwritten[0][1]()
            self._unwritten.pop(0)
        version = self._ledger.version()
        changed = version != self._version
        if changed:
            self._version = version
            for claim in self._ledger.cancelled(self._claims()):
                self._kill(claim, "cancelled")
        if self._store.due():
            self._report()
        if claiming and (changed or self._pool.refreshed or self._look.due()):
            self._claim()

    def _claim(self) -> None:
        """Fill the free places: first each lane its own, then what is left of the long ones for instant jobs."""
        free = self._pool.free()
        free["long"] = max(0, min(free["long"], len(self._pool.spares) - free["instant"]))
        taken = self._ledger.claim(self._owner, free) if any(free.values()) else []
        instant = sum(claim.job.lane == "instant" for claim in taken)
        left = free["long"] - (len(taken) - instant)
        if left > 0 and instant == free["instant"]:
            taken += self._ledger.claim(self._owner, {"instant": left})
        for claim in taken:
            self._pool.start(claim)
        if taken:
            self._version = None  # there may be more: look again as soon as a child is free

    def _through(self, child: Child, end: Exit | None) -> None:
        """A child answered or ended: note what to write, free the place."""
        verdict, claim = child.verdict(end), child.held
        attempt, tail, progress = child.attempt(socket.gethostname(), end), child.log_tail, child.progress
        if end is None:
            kill_tree(child.pid)
        self._pool.drop(child)
        self._version = None
        if verdict.state is None:
            return
        if verdict.state == "queued":
            self._look.soon(backoff(claim.job.attempts) + TICK_SECONDS)
        until = time.monotonic() + self._lease_seconds
        if progress is not None and verdict.state == "succeeded":
            self._unwritten.append((until, lambda: self._ledger.report(claim, progress)))
        state = verdict.state
        facts: dict[str, Any] = {"result": verdict.result, "error": verdict.error, "attempt": attempt, "log_tail": tail}
        self._unwritten.append((until, lambda: self._ledger.finish(claim, state, **facts)))

    def _supervise(self) -> None:
        """Kill what is over its limits, and everything when the leases can no longer be ours."""
        fenced = time.monotonic() - self._renewed > self._fence_seconds
        for child in self._pool.busy:
            reason = "lost" if fenced else child.must_stop()
            if reason is not None and child.reason is None:
                child.kill(reason)

    def _renew(self) -> None:
        claims = self._claims()
        began = time.monotonic()
        held = {(c.job.id, c.attempt) for c in self._ledger.renew(self._owner, claims)}
        self._renewed = began
        missing = [c for c in claims if (c.job.id, c.attempt) not in held]
        asked = self._ledger.cancelled(missing)
        for claim in missing:
            self._kill(claim, "cancelled" if claim in asked else "lost")
        if time.monotonic() >= self._quiet_until:
            reaped = self._ledger.reap()
            if reaped:
                log.warning("%d attempts of silent runners were ended", reaped)

    def _report(self) -> None:
        for child in self._pool.busy:
            if child.progress is not None and child.reason is None:
                progress, child.progress = child.progress, None
                if not self._ledger.report(child.held, progress, child.log_tail):
                    child.kill("lost")

    def _claims(self) -> list[Claim]:
        return [child.held for child in self._pool.busy if child.reason is None]

    def _kill(self, claim: Claim, reason: Reason) -> None:
        for child in self._pool.busy:
            if (child.held.job.id, child.held.attempt) == (claim.job.id, claim.attempt):
                child.kill(reason)

    def _hand_back(self) -> None:
        claims = self._claims()
        for child in list(self._pool.busy):
            child.kill("released")
            self._pool.drop(child)
        for _, write in self._unwritten:
            write()
        self._ledger.release(claims)


def main(
    settings: Settings,
    work: str = "service.work:run",
    warm: str | None = "ml_core.numerics.jit:warm_up",
    grace_seconds: float = GRACE_SECONDS,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run until SIGTERM, SIGINT or the death of the parent; wait first while another runner has this data folder."""
    stop = Stop(settings.parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop.on_signal)
    if settings.parent is not None:
        die_with_parent(settings.parent, signal.SIGTERM)
    owner = f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}"
    with only_runner(settings.data, owner, lambda: _pause(stop)) as previous:
        if previous == "":
            return
        db = connect(settings.database_url)
        _until_ready(lambda: migrate(db), stop)
        ledger = SqlLedger(db, settings)
        pool = Pool(settings, Program(work, warm), environ)
        signal.set_wakeup_fd(pool.wake, warn_on_full_buffer=False)
        try:
            if previous is not None:
                _until_ready(lambda: ledger.reap(dead=previous), stop)
            Runner(settings, ledger, pool, owner).run(stop, grace_seconds)
        finally:
            signal.set_wakeup_fd(-1)
            pool.close()
            db.close()


def _pause(stop: Stop) -> bool:
    time.sleep(TICK_SECONDS * 5)
    return not stop.now()


def _until_ready(action: Write, stop: Stop) -> None:
    """Repeat while the database is away."""
    while not stop.now():
        try:
            action()
            return
        except NotReady as away:
            log.warning("the database does not answer yet: %s", away)
            time.sleep(1.0)
