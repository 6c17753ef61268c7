"""The port of the records of datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from service.ports import Json, Page


class Datasets(Protocol):
    """Records of datasets: JSON documents by id, with a revision that grows at each change."""

    def add(self, record: Json) -> None:
        """Store a new record (has `id`)."""

    def add_made(self, record: Json, job_id: str, attempt: int) -> bool:
        """Store the record that an attempt of a job made, unless it is no longer held or is to be cancelled."""

    def get(self, dataset_id: str) -> Json:
        """The record with `revision`; NotFound."""

    def replace(self, dataset_id: str, record: Json, revision: int | None) -> Json:
        """Change it; Stale when the revision differs (None: any)."""

    def remove(self, dataset_id: str, revision: int | None = None) -> None:
        """Delete the record; NotFound, Stale."""

    def page(self, *, limit: int, cursor: str | None, name: str | None = None) -> Page:
        """Records, newest first."""

    def uses(self, sha256: str) -> int:
        """How many records share the table with this content hash."""

    def unless_used(self, sha256: str, remove: Callable[[], None]) -> bool:
        """Call `remove` while no record can come to name the table; False, and no call, where one does."""
