"""`backup`: one moment of the database and the objects that it names, while the service goes on.

Objects never change, so they may be copied after the moment. One that was deleted meanwhile is no longer named by a
later moment, so the rows are read again; what was copied already stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import ml_core
from service.adapters.database import Database, address, connect
from service.adapters.migrations import current, revisions
from service.adapters.signing import SigningKey
from service.commands.archive import FORMAT, SECRET, Manifest, Writer, to_sign, writing
from service.commands.rows import Named, Snapshot, dump, one_view
from service.container import open_objects
from service.errors import ArtifactRejected, NotFound, NotReady
from service.ports import Objects
from service.settings import Settings

TRIES = 12


@dataclass(frozen=True)
class Summary:
    """What a backup holds, or what was restored from it."""

    rows: dict[str, int]
    objects: int
    bytes: int
    secret: bool

    def __str__(self) -> str:
        counts = ", ".join(f"{self.rows.get(table, 0)} {table}" for table in ("datasets", "models", "jobs"))
        return f"{counts}, {self.objects} objects ({self.bytes / 1e6:,.1f} MB)"


def backup(settings: Settings, target: Path, *, with_secret: bool = False) -> Summary:
    """Write the backup; Conflict when the file exists, NotFound when an object is missing, NotReady, StorageFull."""
    revision, db = opened(settings)
    try:
        objects, key = open_objects(settings), SigningKey.of(settings)
        if revision == revisions()[-1]:
            key.agree(db)
        with writing(target) as archive, TemporaryDirectory(dir=objects.scratch()) as folder:
            seen = _copied(db, objects, archive, Path(folder))
            for table in seen.rows:
                with (Path(folder) / f"{table}.jsonl").open("rb") as rows:
                    archive.add(f"rows/{table}.jsonl", rows)
            if with_secret:
                archive.add(
                    SECRET, BytesIO(bytes.fromhex(settings.secret) if settings.secret else key.file.read_bytes())
                )
            manifest = msgspec.json.encode(Manifest(
                format=FORMAT, service=ml_core.__version__, revision=revision,
                created=datetime.now(UTC).isoformat(), signing_key=key.fingerprint(), rows=seen.rows,
                members=archive.members,
            ))  # fmt: skip
            archive.end(manifest, key.sign(to_sign(manifest)))
    finally:
        db.close()
    size = sum(member["bytes"] for member in archive.members.values())
    return Summary(seen.rows, len(seen.objects), size, with_secret)


def opened(settings: Settings) -> tuple[str, Database]:
    """The revision of the service's database, and the database; NotFound when there is none, NotReady."""
    url = address(settings.database_url)
    absent = f"there is no database of the service at {url.render_as_string()}; is POSTFIT_DATA right?"
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        raise NotFound(absent)
    db = connect(settings.database_url)
    try:
        revision = current(db)
        if not revision:
            raise NotFound(absent)
        if revision not in revisions():
            raise NotReady(
                f"the database is at revision {revision}, which a newer version of the service wrote: use that"
            )
    except BaseException:
        db.close()
        raise
    return revision, db


def _copied(db: Database, objects: Objects, archive: Writer, folder: Path) -> Snapshot:
    """The rows of a moment, all of whose objects are in the archive; NotFound when some are missing at every look."""
    for _ in range(TRIES):
        with one_view(db) as connection:
            seen = dump(connection, folder)
        missing = {key: named.by for key, named in seen.objects.items() if not _copy(objects, archive, key, named)}
        if not missing:
            return seen
    told = "; ".join(f"{by} names {key}" for key, by in sorted(missing.items())[:10])
    raise NotFound(
        f"{len(missing)} objects are missing from the store: {told}. Delete what names them, or put them back, and "
        "back up again; no backup was written"
    )


def _copy(objects: Objects, archive: Writer, key: str, named: Named) -> bool:
    """Append the object unless it is there; False when the store has none, ArtifactRejected when it is damaged."""
    name = f"objects/{key}"
    if name not in archive.members:
        try:
            stream = objects.open(key)
        except NotFound:
            return False
        with stream:
            archive.add(name, stream)
    if named.sha256 not in (None, archive.members[name]["sha256"]):
        raise ArtifactRejected(
            f"{key} is not the file that {named.by} was stored as; delete or refit that model, then back up again"
        )
    return True
