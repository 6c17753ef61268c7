"""`restore`: an empty service becomes what a backup holds, on either database and either store.

Everything is checked first: every digest, the signature, and that the rows enter a database of their own revision and
become today's there. Then come the objects, which nothing names yet, and last the rows in one transaction.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, StatementError

from service.adapters.database import Database, connect
from service.adapters.datasets import datasets
from service.adapters.facts import CATALOGUE, tell
from service.adapters.job_tables import job_of, jobs
from service.adapters.migrations import current, migrate, revisions
from service.adapters.model_tables import models
from service.adapters.postgres import patient
from service.adapters.signing import SigningKey
from service.adapters.upgrade import begin_at
from service.commands.archive import SECRET, Reader, reading, to_sign
from service.commands.backup import Summary
from service.commands.rows import Snapshot, dump, load, one_view
from service.container import Services, build
from service.disk import sync
from service.errors import Conflict, Malformed, NotReady, WrongKey
from service.ids import new_id
from service.ports import Claim
from service.settings import Settings

HELD = (jobs, models, datasets)


def restore(settings: Settings, source: Path) -> Summary:
    """Fill an empty service; Malformed, WrongKey, NotReady (a newer backup), Conflict (not empty), StorageFull."""
    with reading(source) as archive, TemporaryDirectory(prefix="postfit-restore-") as folder:
        _of_known_revision(archive)
        secret = archive.small(SECRET)
        _signed(settings, archive, secret)
        staged = Path(folder) / "today"
        seen = _staged(archive, Path(folder), staged)
        _empty(settings)
        if secret is not None and not SigningKey.of(settings).exists():
            _install(settings.data / SECRET, secret)
        services = build(settings)
        try:
            for key in seen.objects:
                _put(services, archive, key)
            _insert(services.db, staged)
            _requeue(services)
        finally:
            services.db.close()
        size = sum(member["bytes"] for member in archive.manifest["members"].values())
    return Summary(seen.rows, len(seen.objects), size, secret is not None)


def _of_known_revision(archive: Reader) -> None:
    revision, known = archive.manifest["revision"], revisions()
    if revision not in known:
        raise NotReady(
            f"the backup is of revision {revision}, by version {archive.manifest['service']} of the service; this one "
            f"knows {known[0]} to {known[-1]}. Install that version or a newer one"
        )


def _signed(settings: Settings, archive: Reader, secret: bytes | None) -> None:
    """Go on only with the key that signed the backup, which is the one its models are signed with; WrongKey."""
    here, theirs = SigningKey.of(settings), archive.manifest["signing_key"]
    if not here.exists():
        if secret is None:
            raise WrongKey(
                f"the backup's models are signed with key {theirs}, and there is none here. Set POSTFIT_SECRET to it, "
                f"or copy the old data folder's {SECRET} to {here.file} (`backup --with-secret` puts it into the file)"
            )
        here = SigningKey(here.file, secret.hex())
    if here.fingerprint() != theirs:
        raise WrongKey(
            f"the backup's models are signed with key {theirs}, and this service has key {here.fingerprint()}; set "
            "POSTFIT_SECRET to the key of the service that was backed up, or restore into a new data folder"
        )
    if not hmac.compare_digest(here.sign(to_sign(archive.manifest_bytes)), archive.signature):
        raise Malformed("the signature of the backup's manifest does not agree: it was changed after it was written")


def _staged(archive: Reader, folder: Path, today: Path) -> Snapshot:
    """The rows as today's revision has them, by way of a database of theirs; Malformed."""
    theirs, db = folder / "theirs", connect(f"sqlite:///{folder / 'rows.db'}")
    theirs.mkdir()
    today.mkdir()
    try:
        for name in archive.names("rows/"):
            archive.copy(name, theirs / Path(name).name)
        begin_at(db, archive.manifest["revision"])
        with db.write() as connection, _fitting():
            load(connection, theirs)
        migrate(db)
        with one_view(db) as connection:
            seen = dump(connection, today)
    finally:
        db.close()
    held = {name.removeprefix("objects/") for name in archive.names("objects/")}
    for key in sorted(seen.objects.keys() - held):
        raise Malformed(f"{seen.objects[key].by} names {key}, which the backup does not hold")
    return seen


@contextmanager
def _fitting() -> Iterator[None]:
    """Say in the service's own words that rows do not fit their tables."""
    try:
        yield
    except OperationalError:
        raise  # the database cannot be used now, whatever the rows
    except (StatementError, OverflowError) as misfit:
        cause = misfit.orig if isinstance(misfit, DBAPIError) else misfit
        raise Malformed(f"rows of the backup do not fit their table: {str(cause)[:300]}") from misfit


def _empty(settings: Settings) -> None:
    """Conflict unless the target has no job, model or dataset."""
    if settings.database is None and not (settings.data / "service.db").exists():
        return
    db = connect(settings.database_url)
    try:
        revision = current(db)
        if revision == revisions()[-1]:
            with db.read() as connection:
                _nothing_in(connection)
        elif revision:
            raise Conflict(
                f"the target is at revision {revision}; run `python -m service migrate`, or restore elsewhere"
            )
    finally:
        db.close()


def _nothing_in(connection: Connection) -> None:
    for table in HELD:
        if count := connection.execute(select(func.count()).select_from(table)).scalar_one():
            raise Conflict(f"the target has {count} {table.name}; restore into a new data folder and an empty database")


def _install(file: Path, secret: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:
        sink.write(secret)
    sync(file)
    sync(file.parent)


def _put(services: Services, archive: Reader, key: str) -> None:
    part = services.objects.scratch() / new_id("restore")
    try:
        archive.copy(f"objects/{key}", part)
        part.chmod(0o400)
        services.objects.put_file(key, part)
    finally:
        part.unlink(missing_ok=True)


def _insert(db: Database, folder: Path) -> None:
    """All rows or none; servers that run already hear of them."""
    try:
        with db.write() as connection, patient(connection), _fitting():
            _nothing_in(connection)
            load(connection, folder)
            tell(connection, CATALOGUE, new_id("chg"))
    except Malformed as refused:
        if isinstance(refused.__cause__, IntegrityError):
            raise Conflict(f"somebody else writes to the target: {refused}") from refused
        raise


def _requeue(services: Services) -> None:
    """What ran when the backup was made is queued again; that attempt does not count."""
    with services.db.read() as connection:
        rows = connection.execute(select(jobs).where(jobs.c.state == "running")).all()
    services.ledger.release([Claim(job_of(row), row.attempt, row.owner) for row in rows])
