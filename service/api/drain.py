"""Whether this process was asked to end. Whoever only waits for something else then ends its wait."""

from __future__ import annotations


class Drain:
    """Set once by the server, looked at by event streams and held answers."""

    def __init__(self) -> None:
        self.begun = False

    def begin(self) -> None:
        """From now on nothing is waited for."""
        self.begun = True

    def __call__(self) -> bool:
        """Whether it has begun."""
        return self.begun
