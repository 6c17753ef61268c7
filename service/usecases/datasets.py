"""Datasets: take a table in, describe it, hand it out, correct it, delete it.

The canonical table is a Parquet object named by its content hash, so equal tables are stored once. Beside it lies
an Arrow file of one record batch, made once per host, which every process maps into memory instead of reading.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from service.cache import HostCache
from service.dataset_port import Datasets
from service.disk import full_disk, sync
from service.errors import Conflict, EngineLost, Invalid, Issue, NotFound, NotReady, Stale, StorageFull
from service.ids import new_id
from service.intake.canonical import content_hash
from service.intake.delimited import Draft
from service.intake.findings import Reading, ReadOptions, Shelf, one_chunk
from service.intake.laid import Laid
from service.intake.profile import column_profile, threads
from service.intake.read import read
from service.ports import Json, Ledger, Objects, Page
from service.settings import Settings
from service.usecases import samples
from service.usecases.corrections import corrected, fields
from service.usecases.export import stream
from service.usecases.spooling import Spool, Upload
from service.usecases.tablefiles import write_mapped, write_parquet

log = logging.getLogger("postfit.datasets")
TRIES = 5


class DatasetService:
    """Everything one can do with a dataset."""

    def __init__(self, settings: Settings, datasets: Datasets, objects: Objects, ledger: Ledger) -> None:
        self._cap = settings.upload_bytes
        self._datasets = datasets
        self._objects = objects
        self._ledger = ledger
        self._cache = HostCache(settings.data / "cache", settings.cache_bytes)
        self.spool = Spool(objects.scratch(), settings.upload_bytes)

    async def upload(self, body: AsyncIterator[bytes], options: ReadOptions, **fields: Any) -> Json:
        """Store the table in a stream of bytes, which goes to disk as it comes; Invalid, TooLarge, StorageFull."""
        options.check()
        async with self.spool.receive(body, options) as sent:
            return await asyncio.to_thread(self.add_upload, sent, options, **fields)

    def add_upload(self, sent: Upload, options: ReadOptions, **fields: Any) -> Json:
        """`add_file` for a body that was spooled with these options."""
        return self.add_file(sent.path, options, ahead=sent.draft(), **fields)

    def add_file(
        self, path: Path, options: ReadOptions | None = None, *, description: str = "",
        labels: Mapping[str, str] | None = None, roles: Mapping[str, str] | None = None, dataset_id: str | None = None,
        ahead: Draft | None = None,
    ) -> Json:  # fmt: skip
        """Store the table of a file, which stays, under a new id or the given one; Invalid, TooLarge, StorageFull."""
        options = options or ReadOptions()
        about: Json = {"name": options.name or "dataset", "description": description, "labels": dict(labels or {})}
        fields(about)
        about = {"id": dataset_id or new_id("ds")} | about
        with full_disk(), self.scratch() as work:
            reading = read(path, options, Path(work), self._cap, ahead)
            self.keep(reading, about, roles or {}, Path(work), self._datasets.add)
        return self.get(about["id"])

    def keep(
        self, reading: Reading, about: Json, roles: Mapping[str, str], work: Path, add: Callable[[Json], None]
    ) -> None:
        """Store a table that is read, profiled meanwhile, and through `add` its record; what fails leaves nothing.

        The cores take the Parquet file, which the disk then needs time for, before the hash that will name it.
        """
        table = reading.table
        with ThreadPoolExecutor(threads()) as pool:
            parquet = pool.submit(_durable, table, work)
            hashed = pool.submit(content_hash, table)
            profiled = pool.map(column_profile, table.column_names, table.columns, reading.types, repeat(work))
            sha256 = hashed.result()
            try:
                self._store(table, sha256, work, reading.laid, parquet)
                columns = [column | {"role": roles.get(column["name"])} for column in profiled]
                add(about | _described(reading) | {"sha256": sha256, "columns": columns})
            except BaseException:
                self._forget(sha256)
                raise
        # Somebody may have deleted the last other dataset with this content between the two lines above.
        self._store(table, sha256, work)

    def scratch(self) -> TemporaryDirectory[str]:
        """A folder for half-made files, to be used in a `with`."""
        return TemporaryDirectory(dir=self._objects.scratch())

    def _store(
        self, table: pa.Table, sha256: str, work: Path, laid: Laid | None = None, parquet: Future[Path] | None = None
    ) -> None:  # fmt: skip
        """Put the canonical Parquet and the mapped Arrow file where they are missing."""
        with ThreadPoolExecutor(1) as pool:
            mapping = None
            if self._cache.get(_mapped(sha256)) is None:
                mapping = pool.submit(self._map, table, sha256, laid)
            if not self._objects.has(_key(sha256)):
                self._objects.put_file(_key(sha256), parquet.result() if parquet else _durable(table, work))
            if mapping is not None:
                mapping.result()

    def _map(self, table: pa.Table, sha256: str, laid: Laid | None = None) -> None:
        """Write the table as one record batch; whole or absent, whoever else does the same."""
        with self._cache.making(_mapped(sha256)) as part:
            write_mapped(table, part, laid)

    def samples(self) -> list[Json]:
        """The bundled tables: name, title, description, licence, source, task, target, features."""
        return [{key: value for key, value in entry.items() if key != "file"} for entry in samples.entries()]

    def resolve(self, reference: str) -> str:
        """The id meant by an id, a name (the newest dataset of that name) or a sample's name (made when first used)."""
        if reference.startswith("ds_"):
            return str(self.get(reference)["id"])
        named = self.page(limit=1, name=reference).items
        return str(named[0]["id"] if named else self._first_use(reference)["id"])

    def _first_use(self, name: str) -> Json:
        """The dataset of a sample: one for all who use it first, and a new one where that one was renamed."""
        made = (self.from_sample(name, samples.dataset_id(name, number)) for number in count())
        return next(record for record in made if record["name"] == name)

    def from_sample(self, name: str, dataset_id: str | None = None) -> Json:
        """A new dataset from a bundled table; NotFound."""
        entry = samples.entry(name)
        text = f"{entry['title']}: {entry['description']} Source: {entry['source']}. Licence: {entry['licence']}."
        roles = {entry["target"]: "target"}
        return self.add_file(
            samples.FOLDER / entry["file"], ReadOptions(name=name), description=text, roles=roles, dataset_id=dataset_id
        )

    def get(self, dataset_id: str) -> Json:
        """The record with its profile and `revision`, by id or by name (the newest of that name); NotFound."""
        try:
            return self._datasets.get(dataset_id)
        except NotFound:
            named = self.page(limit=1, name=dataset_id).items
            if not named:
                raise
            return dict(named[0])

    def page(self, *, limit: int = 50, cursor: str | None = None, name: str | None = None) -> Page:
        """Records, newest first."""
        return self._datasets.page(limit=limit, cursor=cursor, name=name)

    def table(self, dataset_id: str) -> pa.Table:
        """The table, mapped from disk: one chunk per column, pages shared by all processes of the host. O(1)."""
        return self.table_of(self.get(dataset_id)["sha256"])

    def table_of(self, sha256: str) -> pa.Table:
        """The table of this content hash, mapped as by `table`."""
        for _ in range(TRIES):
            if self._cache.get(_mapped(sha256)) is None:
                self._remap(sha256)
            try:
                return pa.ipc.open_file(pa.memory_map(str(self._cache.root / _mapped(sha256)))).read_all()
            except FileNotFoundError:
                continue  # another process made room between the two steps
        raise StorageFull("mapped tables are removed as fast as they are made: raise POSTFIT_CACHE_BYTES")

    def _remap(self, sha256: str) -> None:
        """Make the mapped file again from the Parquet object, a column at a time."""
        with (
            full_disk(),
            self.scratch() as work,
            self._objects.open(_key(sha256)) as stored,
            pq.ParquetFile(stored) as file,
        ):
            shelf = Shelf(Path(work))
            names = file.schema_arrow.names
            columns = [shelf.keep(one_chunk(file.read(columns=[name]).column(name))) for name in names]
            self._map(pa.table(columns, names=names), sha256)

    def rows(
        self, dataset_id: str, *, offset: int = 0, limit: int = 50, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Some rows, of all or of the named columns in that order; Invalid."""
        table = self.table(dataset_id)
        if offset < 0 or limit < 0:
            raise Invalid("offset and limit are at least 0.")
        unknown = [name for name in columns or () if name not in table.column_names]
        if unknown:
            issues = tuple(Issue("/columns", "unknown_column", f"There is no column {name!r}.") for name in unknown)
            raise Invalid(issues[0].detail, issues=issues)
        return (table if columns is None else table.select(list(columns))).slice(offset, limit)

    def content(self, dataset_id: str, form: str, texts: Collection[str] = ()) -> Iterator[bytes]:
        """The whole table as `export.stream` writes it, in chunks; NotFound, Unsupported."""
        return stream(self.table(dataset_id), form, texts)

    def patch(self, dataset_id: str, changes: Json, revision: int | None = None) -> Json:
        """Change name, description, labels, or the role, type and level order of columns; Invalid, Stale, Conflict."""
        for _ in range(TRIES):
            record = self.get(dataset_id)
            try:
                return self._patched(record, changes, record["revision"] if revision is None else revision)
            except Stale:
                if revision is not None:
                    raise
        raise Stale(f"Dataset {dataset_id} is being changed by others all the time; try again.")

    def _patched(self, record: Json, changes: Json, revision: int) -> Json:
        if revision != record["revision"]:
            raise Stale(f"Dataset {record['id']} is at revision {record['revision']}, not {revision}.")
        fresh, table = corrected(record, changes, lambda: self.table_of(record["sha256"]))
        if table is None:
            return self._datasets.replace(record["id"], fresh, revision)
        self._not_needed(record["id"], "change the types of")
        fresh["sha256"] = content_hash(table)
        with full_disk(), self.scratch() as work:
            try:
                self._store(table, fresh["sha256"], Path(work))
                done = self._datasets.replace(record["id"], fresh, revision)
            except BaseException:
                self._forget(fresh["sha256"])
                raise
            self._store(table, fresh["sha256"], Path(work))
        self._forget(record["sha256"])
        return done

    def delete(self, dataset_id: str, revision: int | None = None) -> None:
        """Remove the dataset, and its table unless another dataset shares it; NotFound, Stale, Conflict."""
        record = self.get(dataset_id)
        self._not_needed(record["id"], "delete")
        self._datasets.remove(record["id"], revision)
        self._forget(record["sha256"])

    def _not_needed(self, dataset_id: str, what: str) -> None:
        if self._ledger.needed(dataset_id):
            raise Conflict(
                f"A queued or running job needs dataset {dataset_id}; cancel it or wait, then {what} the dataset."
            )

    def _forget(self, sha256: str) -> None:
        """Remove a table that no dataset shares. Mappings that are open stay valid.

        Who adds a record meanwhile waits for the removal, then finds the table gone and stores it again.
        """
        if self._datasets.uses(sha256):  # which need not hold up those who add records
            return
        try:
            if self._datasets.unless_used(sha256, lambda: self._objects.delete(_key(sha256))):
                self._cache.drop(_mapped(sha256))
        except (EngineLost, NotReady, StorageFull) as away:
            log.warning("table %s is left to the sweep: %s", sha256, away)


def _durable(table: pa.Table, work: Path) -> Path:
    """The canonical Parquet file, on the disk already."""
    path = work / "table.parquet"
    write_parquet(table, path)
    sync(path)
    return path


def _mapped(sha256: str) -> str:
    return f"{sha256}.arrow"


def _key(sha256: str) -> str:
    return f"tables/{sha256}.parquet"


def _described(reading: Reading) -> Json:
    return {
        "rows": reading.table.num_rows, "bytes": reading.table.nbytes,
        "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "source": reading.source, "warnings": list(reading.warnings),
    }  # fmt: skip
