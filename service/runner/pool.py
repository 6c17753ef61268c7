"""The children of one runner: spares that wait for work, those at work, and the fork server they come from."""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass

from service.ports import Claim, Lane
from service.runner.forkserver import Exit, ForkServer
from service.runner.pulse import Pulse
from service.runner.supervisor import Child
from service.settings import Settings

log = logging.getLogger("postfit.runner")
SPARES = 2
USED_SECONDS = 5.0  # a process that did a job waits so long for the next one
PULSE_SECONDS = 1.0
STIR = "stir"
RETRY_SECONDS = (0.2, 30.0)
EXIT_SECONDS = {True: 2.0, False: 30.0}  # a fork server that is frozen does not tell how a child ended: stopped by us?
Through = dict[int, tuple[Child, Exit | None]]  # by process id


@dataclass(frozen=True)
class Program:
    """What the children run: dotted paths of the work and of the function that warms the fork server."""

    work: str
    warm: str | None


class Backoff:
    """Pauses that double with every failure in a row."""

    def __init__(self) -> None:
        self._next, self._until = RETRY_SECONDS[0], 0.0
        self.failures = 0

    def over(self) -> bool:
        """Whether it may be tried (again)."""
        return time.monotonic() >= self._until

    def failed(self) -> float:
        """Note a failure; the seconds until the next try."""
        pause, self._next = self._next, min(2 * self._next, RETRY_SECONDS[1])
        self._until = time.monotonic() + pause
        self.failures += 1
        return pause

    def reset(self) -> None:
        """Note a success."""
        self._next = RETRY_SECONDS[0]
        self.failures = 0


class Pool:
    """Keeps children ready and hears of everything that happens to them.

    `spares` are fresh; `used` did a short job and take another one of the same tenant, so that what is left of a job in
    the memory of its process is never near the data of somebody else.
    """

    def __init__(self, settings: Settings, program: Program, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._program = program
        self._environ = environ
        self._selector = selectors.DefaultSelector()
        self._pulse = Pulse(settings.data) if settings.parent is not None else None
        self._server: ForkServer | None = None
        self._new_server, self._new_child = Backoff(), Backoff()
        self._known: dict[int, Child] = {}
        self._starting: list[Child] = []
        self.spares: list[Child] = []
        self.used: list[Child] = []
        self.busy: list[Child] = []
        self.refreshed = self.stirred = False
        self._woken, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def hear(self, descriptor: int) -> None:
        """Wake up, and say `stirred`, when this descriptor is readable; whoever asks for the news resets it."""
        self._selector.register(descriptor, selectors.EVENT_READ, STIR)

    def free(self) -> dict[Lane, int]:
        """Places per lane: one is kept for instant jobs, which may also use the long ones that nobody wants."""
        long = sum(child.held.job.lane == "long" for child in self.busy)
        instant = len(self.busy) - long
        places, ready = self._settings.slots - long - max(0, instant - 1), len(self.spares) + len(self.used)
        kept = min(ready, int(instant == 0))
        return {"instant": kept, "long": min(ready - kept, max(0, places))}

    def wait(self, seconds: float) -> list[tuple[Child, Exit | None]]:
        """Pass time until something happens; returns the children that are through, with their exit where known."""
        self._refill()
        if self._pulse is not None:
            self._pulse.beat(self.fault())
        through: Through = {}
        self.refreshed = self.stirred = False
        for key, _ in self._selector.select(min(seconds, self._patience())):
            if isinstance(key.data, Child):
                self._hear(key.data, through)
            elif key.data is STIR:
                self.stirred = True
            elif key.fileobj is self._woken:
                os.read(self._woken, 512)
            elif self._server is not None:
                self._listen(self._server, through)
        self._despair(through)
        return list(through.values())

    def _despair(self, through: Through) -> None:
        """Judge the children whose end is known by their silence alone."""
        for child in self.busy:
            if child.gone and time.monotonic() - child.gone_since > EXIT_SECONDS[child.reason is not None]:
                through.setdefault(child.pid, (child, None))

    def _patience(self) -> float:
        """Seconds until something must be tried again."""
        return PULSE_SECONDS if self._new_server.over() and self._new_child.over() else RETRY_SECONDS[0]

    def _listen(self, server: ForkServer, through: Through) -> None:
        was_warm, exits = server.warm, server.exits()
        for end in exits or ():
            self._ended(end, through)
        if exits is None:
            self._lost(server, through)
        elif server.warm and not was_warm:
            self._forget(cold=True)

    def start(self, claim: Claim) -> bool:
        """Give the job to a child that worked for the same tenant, or to a fresh one; False when there is neither.

        Then one that worked for another tenant is ended, so that a fresh one takes its place.
        """
        child = next((c for c in self.used if c.tenant == claim.job.tenant), None) or next(iter(self.spares), None)
        if child is None:
            if self.used:
                self._close(self.used.pop(0))
            return False
        (self.used if child in self.used else self.spares).remove(child)
        child.assign(claim)
        self.busy.append(child)
        return True

    def keep(self, child: Child) -> None:
        """The attempt is over and its process may work on another job."""
        self.busy.remove(child)
        child.rest()
        if child.warm == (self._server is not None and self._server.warm):
            self.used.append(child)
        else:
            self._close(child)

    def drop(self, child: Child) -> None:
        """The attempt is over: end the process, whatever it still does."""
        if child in self.busy:
            self.busy.remove(child)
        self._close(child)

    def close(self) -> None:
        """End every process."""
        for child in [*self.busy, *self.used, *self.spares, *self._starting]:
            if child.pid:
                child.kill("lost")
            self._close(child)
        if self._server is not None:
            self._end(self._server)
        self._selector.close()
        os.close(self._woken)
        os.close(self.wake)

    def fault(self) -> str | None:
        """Why no job can be worked on now."""
        if self.busy or self.spares:
            return None
        for failures, what in ((self._new_server.failures, "fork server"), (self._new_child.failures, "workers")):
            if failures:
                return f"the worker process lost its {what} {failures} times in a row and tries again: see its log"
        ready = self._server is not None and self._server.ready
        return None if ready else "the worker process is starting"

    def _refill(self) -> None:
        if self._server is None and self._new_server.over():
            self._server = ForkServer(self._settings, self._program.work, self._program.warm, self._environ)
            self._selector.register(self._server.control, selectors.EVENT_READ)
        server = self._server
        if server is None or not server.ready:
            return
        if server.warm:
            self._new_server.reset()
        for child in [c for c in self.used if time.monotonic() - c.idle_since > USED_SECONDS]:
            self.used.remove(child)
            self._close(child)
        wanted = min(SPARES, self._settings.slots + 1)
        while self._new_child.over() and len(self.spares) + len(self._starting) < wanted:
            try:
                child = Child(*server.spawn(), warm=server.warm)
            except OSError as failed:
                log.warning("no worker can be started now: %s", failed)
                self._new_child.failed()
                return
            self._starting.append(child)
            self._selector.register(child.pipe, selectors.EVENT_READ, child)
            self._selector.register(child.log, selectors.EVENT_READ, child)

    def _forget(self, cold: bool = False) -> None:
        """Close the children that have no work: all, or those made before the kernels were there."""
        for waiting in (self._starting, self.spares, self.used):
            for child in [child for child in waiting if not (cold and child.warm)]:
                waiting.remove(child)
                self._close(child)

    def _hear(self, child: Child, through: Through) -> None:
        if child.pipe.fileno() < 0:
            return
        child.listen()
        if child.log_ended and child.log in self._selector.get_map():
            self._selector.unregister(child.log)
        if child in self._starting and child.ready:
            self._starting.remove(child)
            self._known[child.pid] = child
            self.spares.append(child)
            self.refreshed = True
            self._new_child.reset()
        elif child.gone:
            self._silent(child)
        elif child.final is not None and child in self.busy:
            through[child.pid] = (child, None)

    def _silent(self, child: Child) -> None:
        """Its socket is closed: a child at work is judged when its exit is known, any other is replaced."""
        if child in self.busy:
            if child.pipe.fileno() in self._selector.get_map():
                self._selector.unregister(child.pipe)
                child.gone_since = time.monotonic()
            return
        if child in self._starting:
            self._starting.remove(child)
            self._new_child.failed()
        for waiting in (self.spares, self.used):
            if child in waiting:
                waiting.remove(child)
        self._close(child)

    def _ended(self, end: Exit, through: Through) -> None:
        child = self._known.pop(end.pid, None)
        if child is None or child.pipe.fileno() < 0:
            return
        child.listen()
        if child in self.busy:
            through[child.pid] = (child, end)
        else:
            child.gone = True
            self._silent(child)

    def _lost(self, server: ForkServer, through: Through) -> None:
        """The fork server ended; its children end with it."""
        self._end(server)
        self._forget()
        pause = self._new_server.failed()
        log.error("the fork server ended and is started again in %.1f s", pause)
        for child in self.busy:
            child.listen()
            through.setdefault(child.pid, (child, None))

    def _end(self, server: ForkServer) -> None:
        self._selector.unregister(server.control)
        self._server = None
        server.close()

    def _unregister(self, child: Child) -> None:
        registered = self._selector.get_map()
        for descriptor in (child.pipe.fileno(), child.log):
            if descriptor in registered:
                self._selector.unregister(descriptor)

    def _close(self, child: Child) -> None:
        self._known.pop(child.pid, None)
        if child.pipe.fileno() >= 0:
            self._unregister(child)
            child.close()
