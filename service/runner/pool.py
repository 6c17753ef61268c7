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
RETRY_SECONDS = (0.2, 30.0)
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

    A first fork server answers as soon as its imports are done, while a second one compiles what is not in the cache
    yet; when that one is warm it takes over and the first ends with its last child.
    """

    def __init__(self, settings: Settings, program: Program, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._program = program
        self._environ = environ
        self._selector = selectors.DefaultSelector()
        self._pulse = Pulse(settings.data)
        self._servers: list[ForkServer] = []
        self._new_server, self._new_child = Backoff(), Backoff()
        self._known: dict[int, Child] = {}
        self._starting: list[Child] = []
        self.spares: list[Child] = []
        self.busy: list[Child] = []
        self.refreshed = False
        self._woken, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def free(self) -> dict[Lane, int]:
        """Places per lane: one is kept for instant jobs, which may also use the long ones that nobody wants."""
        long = sum(child.held.job.lane == "long" for child in self.busy)
        instant = len(self.busy) - long
        places = self._settings.slots - long - max(0, instant - 1)
        return {"instant": min(len(self.spares), int(instant == 0)), "long": min(len(self.spares), max(0, places))}

    def wait(self, seconds: float) -> list[tuple[Child, Exit | None]]:
        """Pass time until something happens; returns the children that are through, with their exit where known."""
        self._refill()
        self._pulse.beat(self._fault())
        through: dict[int, tuple[Child, Exit | None]] = {}
        self.refreshed = False
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Child):
                self._hear(key.data, through)
            elif key.fileobj is self._woken:
                os.read(self._woken, 512)
        for server in list(self._servers):
            exits = server.exits()
            for end in exits or ():
                self._ended(end, through)
            if exits is None:
                self._lost(server, through)
        return list(through.values())

    def start(self, claim: Claim) -> None:
        """Give the job to a spare child."""
        child = self.spares.pop(0)
        child.assign(claim)
        self.busy.append(child)

    def drop(self, child: Child) -> None:
        """The attempt is over: end the process, whatever it still does."""
        if child in self.busy:
            self.busy.remove(child)
        self._close(child)

    def close(self) -> None:
        """End every process."""
        for child in [*self.busy, *self.spares, *self._starting]:
            if child.pid:
                child.kill("lost")
            self._close(child)
        for server in list(self._servers):
            self._end(server)
        self._selector.close()
        os.close(self._woken)
        os.close(self.wake)

    def _fault(self) -> str | None:
        """Why no job can be worked on now."""
        if self.busy or self.spares:
            return None
        for failures, what in ((self._new_server.failures, "fork server"), (self._new_child.failures, "workers")):
            if failures:
                return f"the worker process lost its {what} {failures} times in a row and tries again: see its log"
        return None if any(server.ready for server in self._servers) else "the worker process is starting"

    def _refill(self) -> None:
        if self._new_server.over():
            self._start_servers()
        current = next((s for s in reversed(self._servers) if s.ready), None)
        if current is None:
            return
        self._retire(current)
        if current.warm or not self._program.warm:
            self._new_server.reset()
        wanted = min(SPARES, self._settings.slots + 1)
        while self._new_child.over() and len(self.spares) + len(self._starting) < wanted:
            try:
                child = Child(*current.spawn(), server=current)
            except OSError as failed:
                log.warning("no worker can be started now: %s", failed)
                self._new_child.failed()
                return
            self._starting.append(child)
            self._selector.register(child.pipe, selectors.EVENT_READ, child)
            self._selector.register(child.log, selectors.EVENT_READ, child)

    def _start_servers(self) -> None:
        warm = self._program.warm
        if not self._servers:
            self._begin(None)
        elif warm and self._servers[0].ready and not any(server.warm for server in self._servers):
            self._begin(warm)

    def _begin(self, warm: str | None) -> None:
        server = ForkServer(self._settings, self._program.work, warm, self._environ)
        self._selector.register(server.control, selectors.EVENT_READ)
        self._servers.append(server)

    def _retire(self, current: ForkServer) -> None:
        """Let go of the servers before this one, each as soon as nobody works there."""
        for server in self._servers[: self._servers.index(current)]:
            self._forget(server)
            if all(child.server is not server for child in self.busy):
                self._end(server)

    def _forget(self, server: ForkServer) -> None:
        """Close the children of a server that have no work."""
        for waiting in (self._starting, self.spares):
            for child in [child for child in waiting if child.server is server]:
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
            return
        if child in self._starting:
            self._starting.remove(child)
            self._new_child.failed()
        if child in self.spares:
            self.spares.remove(child)
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
        """A fork server ended; its children end with it."""
        self._end(server)
        self._forget(server)
        pause = self._new_server.failed()
        log.error("a fork server ended and is started again in %.1f s", pause)
        for child in self.busy:
            if child.server is server:
                child.listen()
                through.setdefault(child.pid, (child, None))

    def _end(self, server: ForkServer) -> None:
        self._selector.unregister(server.control)
        self._servers.remove(server)
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
