"""When something is due again."""

from __future__ import annotations

import time


class Every:
    """True at most once in the given time."""

    def __init__(self, seconds: float, first: float = 0.0) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + first if first else 0.0

    def due(self) -> bool:
        """Whether it is time again."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._seconds
        return True

    def left(self) -> float:
        """Seconds until it is due."""
        return max(0.0, self._next - time.monotonic())

    def soon(self, seconds: float) -> None:
        """Be due no later than in so many seconds."""
        self._next = min(self._next, time.monotonic() + seconds)
