"""Housekeeping: what the stores hold and nothing needs any more goes, slowly and safely.

An object is written before the record that names it, so only objects of some age are looked at, and each is looked up
again, with writers of records held off, at the moment it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from service.ports import Job, Json, Objects, Report, Upkeep
from service.settings import Settings

PREFIXES = ("tables/", "models/", "spread/")
BATCH = 200


class Housekeeping:
    """The job of kind `sweep`; running it twice, or twice at once, does no harm."""

    def __init__(self, settings: Settings, objects: Objects, upkeep: Upkeep) -> None:
        self._seconds = settings.orphan_hours * 3600.0
        self._objects = objects
        self._upkeep = upkeep

    def run(self, job: Job, report: Report) -> Json:
        """Remove and forget; the result counts what went."""
        removed = sum(self._sweep(prefix, report) for prefix in PREFIXES)
        return {
            "objects": removed, "jobs": self._upkeep.forget_jobs(), "answers": self._upkeep.forget_answers(),
            "runners": self._upkeep.forget_runners(),
        }  # fmt: skip

    def _sweep(self, prefix: str, report: Report) -> int:
        removed = seen = 0
        for keys in _batches(self._objects.stale(prefix, self._seconds)):
            seen += len(keys)
            removed += sum(self._upkeep.remove(key, self._objects.delete) for key in self._upkeep.unnamed(keys))
            message = f"{removed} of {seen} objects below {prefix} removed"
            report.progress({"step": seen, "total": None, "unit": "objects", "message": message})
        return removed


def _batches(keys: Iterable[str]) -> Iterator[list[str]]:
    """Lists of up to BATCH keys."""
    rest = iter(keys)
    while batch := list(islice(rest, BATCH)):
        yield batch
