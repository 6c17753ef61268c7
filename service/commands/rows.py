"""Rows of all tables as JSON lines: one form for both databases, so that either restores what the other wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from sqlalchemy import JSON, Connection, MetaData, Table, insert, select

from service.adapters.database import Database, translated
from service.adapters.postgres import patient
from service.errors import Malformed
from service.ports import Json

OF_THE_MOMENT = frozenset({"runners", "facts", "alembic_version"})
"""What processes tell each other and tell again when they start."""
BATCH = 500
SUFFIX = ".jsonl"


@dataclass(frozen=True)
class Named:
    """An object that a record names: by whom, and the digest of its bytes where the record tells it."""

    by: str
    sha256: str | None = None


@dataclass
class Snapshot:
    """What one transaction saw: how many rows of each table, and the objects that they name by their keys."""

    rows: dict[str, int] = field(default_factory=dict)
    objects: dict[str, Named] = field(default_factory=dict)


@contextmanager
def one_view(db: Database) -> Iterator[Connection]:
    """A read transaction that sees one moment, however long it takes and whoever writes meanwhile."""
    with translated(), db.engine.connect() as connection:
        if db.dialect == "postgresql":  # SQLite sees one moment anyway
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin(), patient(connection):
            yield connection


def tables(connection: Connection) -> list[Table]:
    """The tables as the database has them, whatever its revision; those that others refer to first."""
    found = MetaData()
    found.reflect(connection)
    kept = [table for table in found.sorted_tables if table.name not in OF_THE_MOMENT]
    for column in (column for table in kept for column in table.columns):
        if isinstance(column.type, JSON):
            column.type = JSON(none_as_null=True)
    return kept


def dump(connection: Connection, folder: Path) -> Snapshot:
    """Write `<table>.jsonl` for every table."""
    seen, fitted, models = Snapshot(), dict[str, Json | None](), set[str]()
    for table in tables(connection):
        found = connection.execute(
            select(table).order_by(*table.primary_key.columns).execution_options(yield_per=BATCH)
        ).mappings()
        with (folder / f"{table.name}{SUFFIX}").open("wb") as sink:
            count = 0
            for count, row in enumerate(found, 1):  # noqa: B007 - the last value is the number of rows
                sink.write(msgspec.json.encode(dict(row)) + b"\n")
                if table.name == "datasets":
                    seen.objects[f"tables/{row['sha256']}.parquet"] = Named(f"dataset {row['id']}")
                elif table.name == "models":
                    models.add(row["id"])
                elif table.name == "jobs":  # by id, so the newest job of a model comes last
                    fitted[row["resource"]] = (row["result"] or {}).get("artifact")
        seen.rows[table.name] = count
    for model in sorted(models & fitted.keys()):
        if ref := fitted[model]:
            seen.objects[ref["key"]] = Named(f"model {model}", ref["sha256"])
    return seen


def load(connection: Connection, folder: Path) -> None:
    """Insert what the files of the folder hold into the database's tables; Malformed when they do not fit them."""
    known = tables(connection)
    strange = {path.stem for path in folder.iterdir()} - {table.name for table in known}
    if strange:
        raise Malformed(f"the backup holds rows of {', '.join(sorted(strange))}, which is no table of its revision")
    for table in known:
        path = folder / f"{table.name}{SUFFIX}"
        if not path.exists():
            raise Malformed(f"the backup lacks the rows of table {table.name}")
        with path.open("rb") as source:
            for batch in _batches(source, table):
                connection.execute(insert(table), batch)


def _batches(source: BinaryIO, table: Table) -> Iterator[list[Json]]:
    batch: list[Json] = []
    names = {column.name for column in table.columns}
    for number, line in enumerate(source, 1):
        row = _row(line)
        if not isinstance(row, dict) or row.keys() != names:
            raise Malformed(f"line {number} of the rows of {table.name} is no row of that table")
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _row(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
