"""How much of the time that a job may take is its fits': the rest is for certificates, scores and saving."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ml_core import progress

REST = 0.1
LEAST_REST = 10.0


@dataclass(frozen=True)
class Pace:
    """Fits of one job, the last of which is asked to end at `until` on the monotonic clock."""

    until: float

    @classmethod
    def of(cls, wall_seconds: float) -> Pace:
        """From now on: a tenth of the time is kept back, at least 10 s, but no more than half."""
        rest = max(REST * wall_seconds, min(LEAST_REST, 0.5 * wall_seconds))
        return cls(time.monotonic() + wall_seconds - rest)

    @contextmanager
    def fits(self, still: int = 1) -> Iterator[Sequence[progress.Tick | None]]:
        """Around a fit, or several of `still` that are left; its loops that time ended."""
        seconds = max(0.0, self.until - time.monotonic())
        with progress.deadline(seconds / still), progress.cut_short() as cut:
            yield cut
