"""The runner: claims jobs, lets children work on them, keeps the leases, and says how each attempt ended.

One thread, which sleeps until a child speaks, the database changes or a timer is due. Every write to the ledger is
fenced, so a runner that was away for longer than its lease can do no harm; one that cannot renew stops its children
before the lease is over.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex

import ml_core
from service.adapters.database import connect
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.rules import backoff
from service.adapters.runners import SqlRunners
from service.adapters.signing import SigningKey
from service.adapters.upkeep import Upkeep
from service.errors import NotReady, StorageFull
from service.ports import Claim, Leases, Outcome, RunnerFacts, Runners
from service.runner.forkserver import Exit
from service.runner.lock import only_runner
from service.runner.pool import Pool, Program
from service.runner.process import die_with_parent, kill_tree
from service.runner.stop import Stop
from service.runner.supervisor import Child, Reason
from service.runner.timers import Every
from service.settings import Settings

log = logging.getLogger("postfit.runner")
LOOK_SECONDS = 1.0  # back-offs and leases end without a write, so look again even when nothing changed
WATCH_SECONDS = 0.1
STORE_SECONDS = 0.2
AWAY_SECONDS = 1.0
DOUBT_SECONDS = 0.02  # on SQLite every commit may be a request to cancel
UPKEEP_SECONDS = 60.0
DEAF_SECONDS = 0.01  # where commits cannot be heard of, they are looked for so often
ECHOES = (0.001, 0.002, 0.004, 0.008, 0.016)  # SQLite's log is written a moment before the commit can be seen


class Runner:
    """The loop over one pool of children and one ledger."""

    def __init__(
        self, settings: Settings, ledger: Leases, pool: Pool, owner: str, *, runners: Runners | None = None,
        upkeep: Callable[[], object] = lambda: None, deaf: bool = False,
    ) -> None:  # fmt: skip
        self._settings, self._ledger, self._pool, self._owner = settings, ledger, pool, owner
        self._runners, self._upkeep, self._deaf = runners, upkeep, deaf
        self._renewed = time.monotonic()
        self._unwritten: list[tuple[float, Outcome]] = []
        self._version = self._cancels = -1
        self._echoes: list[float] = []
        self._more, self._lost_answer = True, False
        self._away_until = self._quiet_until = 0.0
        self._look, self._watch, self._store = Every(LOOK_SECONDS), Every(WATCH_SECONDS), Every(STORE_SECONDS)
        self._lease, self._beat = Every(settings.lease_seconds / 3), Every(settings.lease_seconds / 3)
        self._doubt, self._doubtful = Every(DOUBT_SECONDS), False  # whether somebody asked to cancel
        self._clean = Every(UPKEEP_SECONDS, first=UPKEEP_SECONDS)
        self._told: str | None = None

    def run(self, stop: Stop, grace_seconds: float) -> None:
        """Work until asked to stop; then let children end for the grace period and hand the rest back."""
        while not stop.now():
            self.step(claiming=True)
        deadline = time.monotonic() + grace_seconds
        while self._pool.busy and time.monotonic() < deadline and not stop.at_once():
            self.step(claiming=False)
        self._hand_back()

    def step(self, claiming: bool) -> None:
        """One round."""
        for child, end in self._pool.wait(self._pause()):
            self._through(child, end)
        if self._watch.due():
            self._supervise()
        began = time.monotonic()
        if began < self._away_until:
            return
        try:
            self._converse(claiming)
        except (NotReady, StorageFull) as away:
            log.warning("the ledger does not answer: %s", away)
            self._away_until = (now := time.monotonic()) + AWAY_SECONDS
            self._quiet_until = now + self._settings.lease_seconds  # others were away too: let them renew first
            self._version = self._cancels = -1
            self._lost_answer = True
            self._lease.soon(0.0)
            # The lease of an ended attempt is not renewed: once it is over, somebody else has the job.
            self._unwritten = [(until, outcome) for until, outcome in self._unwritten if until > now]
        if time.monotonic() - began > self._settings.lease_seconds / 3:  # it answered, but after a long sleep
            self._quiet_until = time.monotonic() + self._settings.lease_seconds

    def _pause(self) -> float:
        """Seconds until something is due by itself."""
        away = self._away_until - time.monotonic()
        watch = self._watch.left() if self._pool.busy else LOOK_SECONDS
        if away > 0:
            return min(away, watch)
        if self._unwritten or self._more:
            return 0.0
        doubt = self._doubt.left() if self._doubtful else LOOK_SECONDS
        pause = min(watch, doubt, self._look.left(), self._lease.left(), self._beat.left(), self._clean.left())
        if any(child.progress is not None for child in self._pool.busy):
            pause = min(pause, self._store.left())
        return min([pause, *self._echoes[:1], *([DEAF_SECONDS] if self._deaf else [])])

    def _converse(self, claiming: bool) -> None:
        """Everything that touches the ledger; may raise NotReady at any point and is then repeated."""
        if self._lost_answer:  # what was claimed in a transaction whose end was not heard of
            self._ledger.disown(self._owner, self._written_to())
            self._lost_answer = False
        if self._lease.due():
            self._renew()
        self._tell()
        version = self._ledger.version()
        changed = version != self._version
        self._echoes = [] if changed else list(ECHOES) if self._pool.stirred else self._echoes[1:]
        if changed:
            seen, self._version, self._cancels = self._cancels, version, self._ledger.cancels()
            self._doubtful |= seen != self._cancels
        if self._doubtful and self._doubt.due():
            self._doubtful = False
            for claim in self._ledger.cancelled(self._claims()):
                self._kill(claim, "cancelled")
        if self._store.due():
            self._report()
        look = self._look.due()
        self._exchange(claiming and (changed or look or self._more or self._pool.refreshed))
        if claiming and self._clean.due():
            self._upkeep()

    def _exchange(self, claiming: bool) -> None:
        """Write how attempts ended and fill the free places, in one transaction."""
        free = self._pool.free() if claiming else {}
        self._more = False
        if not self._unwritten and not any(free.values()):
            return
        taken = self._ledger.exchange(self._owner, [outcome for _, outcome in self._unwritten], free)
        for _, outcome in self._unwritten:
            if outcome.state == "queued":  # its back-off began with this transaction
                self._look.soon(backoff(outcome.claim.job.attempts) + DEAF_SECONDS)
        self._unwritten = []
        unfit = [claim for claim in taken if not self._pool.start(claim)]
        if unfit:
            self._ledger.release(unfit)

    def _through(self, child: Child, end: Exit | None) -> None:
        """A child answered or ended: note what to write, free the place."""
        verdict, claim = child.verdict(end), child.held
        attempt, tail, progress = child.attempt(socket.gethostname(), end), child.log_tail, child.progress
        if end is None and verdict.state == "succeeded" and child.again:
            self._pool.keep(child)
        else:
            if end is None:
                kill_tree(child.pid)
            self._pool.drop(child)
        self._more = True
        if verdict.state is None:
            return
        outcome = Outcome(claim, verdict.state, verdict.result, verdict.error, attempt, tail,
                          progress if verdict.state == "succeeded" else None)  # fmt: skip
        self._unwritten.append((time.monotonic() + self._settings.lease_seconds, outcome))

    def _supervise(self) -> None:
        """Kill what is over its limits, and everything when the leases can no longer be ours."""
        fenced = time.monotonic() - self._renewed > 0.8 * self._settings.lease_seconds
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

    def _tell(self) -> None:
        """Say in the table of runners that this one is here, and how it is."""
        fault = self._pool.fault()
        if self._runners is None or not (self._beat.due() or fault != self._told):
            return
        host, pid, *_ = self._owner.split(":")
        facts = RunnerFacts(self._owner, host, int(pid), ml_core.__version__, self._settings.slots,
                            len(self._pool.busy), fault or "well")  # fmt: skip
        self._runners.beat(facts)
        self._told = fault

    def _report(self) -> None:
        for child in self._pool.busy:
            if child.progress is not None and child.reason is None:
                progress, child.progress = child.progress, None
                if not self._ledger.report(child.held, progress, child.log_tail):
                    child.kill("lost")

    def _claims(self) -> list[Claim]:
        return [child.held for child in self._pool.busy if child.reason is None]

    def _written_to(self) -> list[Claim]:
        """The claims that this runner works on or still has the outcome of."""
        return [*(c.held for c in self._pool.busy if c.reason != "lost"), *(o.claim for _, o in self._unwritten)]

    def _kill(self, claim: Claim, reason: Reason) -> None:
        for child in self._pool.busy:
            if (child.held.job.id, child.held.attempt) == (claim.job.id, claim.attempt):
                child.kill(reason)

    def _hand_back(self) -> None:
        claims = self._claims()
        for child in list(self._pool.busy):
            child.kill("released")
            self._through(child, None)  # one that was stopped before, for a cause of its own, has that end
        try:
            self._ledger.exchange(self._owner, [outcome for _, outcome in self._unwritten], {})
            self._ledger.release(claims)
            if self._runners is not None:
                self._runners.leave(self._owner)
        except (NotReady, StorageFull) as away:
            log.warning("%d jobs are left to their leases, because the ledger does not answer: %s", len(claims), away)


def main(
    settings: Settings,
    work: str = "service.work:Worker",
    warm: str | None = "ml_core.numerics.jit:warm_up",
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run until SIGTERM, SIGINT or the death of the parent."""
    stop = Stop(settings.parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop.on_signal)
    if settings.parent is not None:
        die_with_parent(settings.parent, signal.SIGTERM)
    owner = f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}"
    with _place(settings, owner, stop) as previous:
        if previous == "":
            return
        db = connect(settings.database_url, work=True)
        _until_ready(lambda: migrate(db), stop)
        _until_ready(lambda: SigningKey.of(settings).agree(db), stop)
        ledger = SqlLedger(db, settings)
        pool = Pool(settings, Program(work, warm), environ)
        signal.set_wakeup_fd(pool.wake, warn_on_full_buffer=False)
        try:
            if previous is not None:
                _until_ready(lambda: ledger.reap(dead=previous), stop)
            deaf = db.fileno() < 0
            if not deaf:
                pool.hear(db.fileno())
            upkeep = Upkeep(db, ledger, settings)
            runner = Runner(settings, ledger, pool, owner, runners=SqlRunners(db, settings), upkeep=upkeep.ask,
                            deaf=deaf)  # fmt: skip
            runner.run(stop, settings.grace_seconds)
        finally:
            signal.set_wakeup_fd(-1)
            pool.close()
            db.close()


@contextmanager
def _place(settings: Settings, owner: str, stop: Stop) -> Iterator[str | None]:
    """Wait for the data folder where only one runner may have it: embedded ones and all on SQLite."""
    if settings.parent is None and not settings.database_url.startswith("sqlite"):
        yield None
        return
    with only_runner(settings.data, owner, lambda: _pause(stop)) as previous:
        yield previous


def _pause(stop: Stop) -> bool:
    time.sleep(DEAF_SECONDS * 5)
    return not stop.now()


def _until_ready(action: Callable[[], object], stop: Stop) -> None:
    """Repeat while the database is away."""
    while not stop.now():
        try:
            action()
            return
        except NotReady as away:
            log.warning("the database does not answer yet: %s", away)
            time.sleep(AWAY_SECONDS)
