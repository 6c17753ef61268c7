"""Being asked to end."""

from __future__ import annotations

import os


class Stop:
    """SIGTERM and SIGINT ask for a graceful end; a second one, or the death of the parent, for a quick one."""

    def __init__(self, parent: int | None) -> None:
        self._parent = parent
        self._asked = 0

    def on_signal(self, number: int, frame: object) -> None:
        """The signal handler."""
        self._asked += 1

    def orphaned(self) -> bool:
        """Whether the process that this one belongs to is gone."""
        return self._parent is not None and os.getppid() != self._parent

    def now(self) -> bool:
        """Whether to take no more work."""
        return self._asked > 0 or self.orphaned()

    def at_once(self) -> bool:
        """Whether to wait for nothing."""
        return self._asked > 1 or self.orphaned()
