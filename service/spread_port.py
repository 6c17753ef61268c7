"""The port of an engine of several machines; apart from the others because only jobs need it, and ml_core with it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ml_core.certificates import Notice
from ml_core.parallel import Mapper
from service.ports import Job, Report


@dataclass(frozen=True)
class Engine:
    """What a job works with: a mapper for `spread_map`, or none, and a notice where it asked for more than it got."""

    mapper: Mapper | None = None
    notice: Notice | None = None


class Spread(Protocol):
    """An engine of several machines for the inside of a job."""

    def session(self, job: Job, report: Report) -> AbstractContextManager[Engine]:
        """The engine for the block; EngineMismatch at once, EngineLost when it goes away within."""
