"""How the runner is, for the health route to read: a small file, written again every second."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

log = logging.getLogger("postfit.runner")
BEAT_SECONDS = 1.0
SILENT_SECONDS = 10.0
WELL = "well"


class Pulse:
    """`<data>/runner.state`: `well`, or why no job can be worked on now. Its age tells whether the runner moves."""

    def __init__(self, data: Path) -> None:
        self._path = data / "runner.state"
        self._written: tuple[str, float] = ("", 0.0)

    def beat(self, fault: str | None) -> None:
        """Write the state when it is new or a second old."""
        state, now = fault or WELL, time.monotonic()
        before, then = self._written
        if state == before and now - then < BEAT_SECONDS:
            return
        self._written = state, now
        half = self._path.with_suffix(f".{os.getpid()}")
        try:
            half.write_text(state)
            half.replace(self._path)
        except OSError as full:  # the file grows old, which the health route reports
            log.warning("the runner's state cannot be written: %s", full)

    def forget(self) -> None:
        """Remove what an earlier runner wrote."""
        self._path.unlink(missing_ok=True)

    def fault(self) -> str | None:
        """Why no job can be worked on now; None when all is well."""
        try:
            state, age = self._path.read_text(), time.time() - self._path.stat().st_mtime
        except FileNotFoundError:
            return "the worker process is starting"
        if age > SILENT_SECONDS:
            return f"the worker process has been silent for {age:.0f} s"
        return None if state == WELL else state
