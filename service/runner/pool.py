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


class Pool:
    """Keeps warm children ready and hears of everything that happens to them."""

    def __init__(self, settings: Settings, program: Program, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._program = program
        self._environ = environ
        self._selector = selectors.DefaultSelector()
        self._server: ForkServer | None = None
        self._pause = RETRY_SECONDS[0]
        self._not_before = 0.0
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
        through: dict[int, tuple[Child, Exit | None]] = {}
        self.refreshed = False
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Child):
                self._hear(key.data, through)
            elif key.fileobj is self._woken:
                os.read(self._woken, 512)
        if self._server is not None:
            exits = self._server.exits()
            for end in exits or ():
                self._ended(end, through)
            if exits is None:
                self._lost(through)
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
        self._end_server()
        self._selector.close()
        os.close(self._woken)
        os.close(self.wake)

    def _refill(self) -> None:
        if time.monotonic() < self._not_before:
            return
        if self._server is None:
            self._server = ForkServer(self._settings, self._program.work, self._program.warm, self._environ)
            self._selector.register(self._server.control, selectors.EVENT_READ)
        wanted = min(SPARES, self._settings.slots + 1)
        while self._server.ready and len(self.spares) + len(self._starting) < wanted:
            try:
                child = Child(*self._server.spawn())
            except OSError as failed:
                log.warning("no worker can be started now: %s", failed)
                self._hold_on()
                return
            self._starting.append(child)
            self._selector.register(child.pipe, selectors.EVENT_READ, child)
            self._selector.register(child.log, selectors.EVENT_READ, child)

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
            self._pause = RETRY_SECONDS[0]
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
            self._hold_on()
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

    def _lost(self, through: Through) -> None:
        """The fork server ended; its children end with it."""
        log.error("the fork server ended and is started again in %.1f s", self._pause)
        self._end_server()
        self._known.clear()
        self._hold_on()
        for child in self.busy:
            child.listen()
            through.setdefault(child.pid, (child, None))
        for child in [*self._starting, *self.spares]:
            self._close(child)
        self._starting.clear()
        self.spares.clear()

    def _end_server(self) -> None:
        if self._server is not None:
            self._selector.unregister(self._server.control)
            self._server.close()
            self._server = None

    def _hold_on(self) -> None:
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, RETRY_SECONDS[1])

    def _unregister(self, child: Child) -> None:
        registered = self._selector.get_map()
        for descriptor in (child.pipe.fileno(), child.log):
            if descriptor in registered:
                self._selector.unregister(descriptor)

    def _close(self, child: Child) -> None:
        if child.pipe.fileno() >= 0:
            self._unregister(child)
            child.close()
