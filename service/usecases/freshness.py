"""When what a process keeps in memory may be out of date, because some process changed what it is a copy of."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Freshness:
    """Compares a cheap number that every write changes; only when it moved, asks once for the epoch of the catalogue.

    A request that finds `current()` true, or that called `refresh()`, sees everything that was committed before it
    came: the number is read before the epoch, and both before the request is answered.
    """

    def __init__(self, version: Callable[[], int], epoch: Callable[[], str | None]) -> None:
        self._version = version
        self._epoch = epoch
        self._seen: int | None = None
        self._known: str | None = None
        self._forget: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def listen(self, forget: Callable[[], None]) -> None:
        """Have `forget` called when the epoch has changed, before any request that came later is answered."""
        self._forget.append(forget)

    def current(self) -> bool:
        """Whether nothing was written since the last look: microseconds; NotReady while the database is away."""
        return self._version() == self._seen

    def refresh(self) -> None:
        """Look; whoever holds copies drops them if they may be wrong."""
        with self._lock:
            version = self._version()
            if version == self._seen:
                return
            epoch = self._epoch()
            if epoch != self._known:
                for forget in self._forget:
                    forget()
            self._known, self._seen = epoch, version
