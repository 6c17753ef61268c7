"""The checks of `doctor`, each the answer to one question; an exception is an answer too."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numba
from sqlalchemy import func, select, text

import ml_core
from ml_core.numerics import jit
from ml_core.registry import algorithms
from service.adapters.artifacts import Artifacts
from service.adapters.dask_spread import ANSWER_SECONDS, CONNECT_SECONDS
from service.adapters.database import Database, Now
from service.adapters.figures import SqlFigures
from service.adapters.job_tables import jobs
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import revisions
from service.adapters.models import SqlModels
from service.adapters.runners import SqlRunners
from service.adapters.signing import SigningKey, signed_with
from service.adapters.spread_payload import compare, facts
from service.adapters.upkeep import Upkeep
from service.commands.doctor import Found
from service.container import open_objects
from service.errors import EngineMismatch, ServiceError
from service.settings import Settings
from service.usecases.housekeeping import BATCH, PREFIXES

GB = 1e9
FULL_BYTES, TIGHT_BYTES = 256 << 20, 2 << 30
SKEW_SECONDS, WRONG_CLOCK_SECONDS = 2.0, 300.0  # S3 refuses requests that are signed a quarter of an hour off
LONG_WAIT_SECONDS = 600.0
NEWEST = 5


class Host:
    """What does not need the database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def folder(self) -> Found:
        """The data folder can be written and has room."""
        folder = self._settings.data.absolute()
        if not folder.exists():
            return "warn", f"{folder} is not there", "the first start makes it; is POSTFIT_DATA right?"
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
        disk = shutil.disk_usage(folder)
        room = f"{folder} is writable, {disk.free / GB:.1f} of {disk.total / GB:.1f} GB are free"
        if disk.free < TIGHT_BYTES:
            return "FAIL" if disk.free < FULL_BYTES else "warn", room, "make room, or lower POSTFIT_CACHE_BYTES"
        return "ok", room

    def kernels(self) -> Found:
        """Compiled code is kept between processes."""
        algorithms()
        folder, entries = Path(numba.config.CACHE_DIR), [fast.py_func for fast, _ in jit._warm]
        if jit._FOLDER is None:
            return "warn", "no folder for compiled code is writable", (
                "every process compiles for a minute; set NUMBA_CACHE_DIR to a folder that can be written")  # fmt: skip
        kept = {path.name.partition("-")[0] for path in folder.rglob("*.nbi")}
        missing = [f for f in entries if f"{f.__module__.rpartition('.')[2]}.{f.__qualname__}" not in kept]
        told = f"{len(entries) - len(missing)} of {len(entries)} are compiled in {folder}"
        return ("warn", told, "the next runner compiles the rest when it starts") if missing else ("ok", told)

    def objects(self) -> Found:
        """The store takes an object, gives it back and forgets it."""
        if self._settings.objects is None and not self._settings.data.exists():
            return "warn", "there is no data folder yet", "the first start makes it"
        store, content = open_objects(self._settings), secrets.token_bytes(64)
        key, source, started = (
            f"doctor/{secrets.token_hex(16)}",
            store.scratch() / secrets.token_hex(8),
            time.monotonic(),
        )
        try:
            source.write_bytes(content)
            store.put_file(key, source)
            with store.open(key) as stream:
                back = stream.read()
        finally:
            source.unlink(missing_ok=True)
            store.delete(key)
        where = self._settings.objects or str(self._settings.data.absolute() / "objects")
        if back != content or store.has(key):
            return "FAIL", f"{where} gives back other bytes, or keeps what is deleted", "use another store"
        return "ok", f"{where} wrote, read and deleted a probe in {1000 * (time.monotonic() - started):.0f} ms"

    def dask(self) -> Found:
        """The scheduler answers, has workers, and all run this version."""
        from distributed import Client  # noqa: PLC0415 - an optional engine

        address = str(self._settings.dask)
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            with Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client:
                compare(facts(), client.run_on_scheduler(facts), f"the scheduler at {address}")
                threads = client.nthreads(callback_timeout=ANSWER_SECONDS)
                for worker, has in client.run(facts, workers=list(threads)).items():
                    compare(facts(), has, f"the worker {worker}")
        except (OSError, TimeoutError) as away:
            return "FAIL", f"no Dask scheduler answers at {address}: {away}", (
                "start it, or unset POSTFIT_DASK: spread fits then run on one host")  # fmt: skip
        except EngineMismatch as apart:
            return "FAIL", apart.detail, "install the same version everywhere"
        if not threads:
            return "warn", f"the scheduler at {address} has no worker", "start workers; spread fits wait, then run here"
        return "ok", f"{len(threads)} workers with {sum(threads.values())} threads at {address}, all of this version"


class Stored:
    """What stands in the database, and in the store by its records."""

    def __init__(self, settings: Settings, db: Database, revision: str) -> None:
        self._settings = settings
        self._db = db
        self._revision = revision

    def database(self) -> Found:
        """Which database answers, and how fast."""
        query = "SELECT sqlite_version()" if self._db.dialect == "sqlite" else "SHOW server_version"
        with self._db.read() as connection:
            version = connection.execute(text(query)).scalar_one()
            started = time.monotonic()
            connection.execute(text("SELECT 1"))
        return "ok", f"{self._db.dialect} {version} answers in {1000 * (time.monotonic() - started):.1f} ms"

    def schema(self) -> Found:
        """The tables are this version's."""
        newest = revisions()[-1]
        if self._revision != newest:
            return "warn", f"revision {self._revision}, this version has {newest}", (
                "run `python -m service migrate` after a backup, or start the service: it migrates")  # fmt: skip
        return "ok", f"revision {newest}"

    def clock(self) -> Found:
        """This host's clock against the database's."""
        with self._db.read() as connection:
            before = time.time()
            theirs = float(connection.execute(select(Now())).scalar_one())
            after = time.time()
        apart = max(0.0, before - theirs, theirs - after)
        told = f"this host and the database are {apart:.3f} s apart"
        if apart < SKEW_SECONDS:
            return "ok", told
        return "FAIL" if apart > WRONG_CLOCK_SECONDS else "warn", told, "let both follow NTP"

    def signing_key(self) -> Found:
        """This process has the key with which the models are signed."""
        key, known = SigningKey.of(self._settings), signed_with(self._db)
        mine = key.fingerprint() if key.exists() else None
        if known is None:
            return "ok", "no process has told its key yet; the first one's becomes the service's"
        if mine == known:
            return "ok", f"key {known}"
        return "FAIL", f"models are signed with key {known}, and this host has {mine or 'none'}", (
            "set POSTFIT_SECRET to the service's key, or bring its secret.key back into the data folder")  # fmt: skip

    def runners(self) -> Found:
        """Somebody works on jobs, well, and with this version."""
        alive = SqlRunners(self._db, self._settings).alive()
        if not alive:
            return "warn", "no runner is alive", "start `python -m service serve` or `runner`; jobs wait until then"
        ill = [f"{r.owner}: {r.state}" for r in alive if r.state != "well"]
        if ill:
            return "FAIL", "; ".join(ill), "mend what the runner tells"
        told = f"{len(alive)} alive, {sum(r.busy for r in alive)} of {sum(r.slots for r in alive)} slots busy"
        other = sorted({r.version for r in alive} - {ml_core.__version__})
        if other:
            return "warn", f"{told}; versions {', '.join(other)} beside {ml_core.__version__}", (
                "end the upgrade: stop the runners of other versions")  # fmt: skip
        return "ok", told

    def queue(self) -> Found:
        """Jobs do not pile up."""
        rows = [row for row in SqlFigures(self._db).unfinished() if row["state"] == "queued"]
        depth = sum(row["jobs"] for row in rows)
        oldest = max((float(row["oldest_seconds"]) for row in rows), default=0.0)
        told = f"{depth} queued" + (f", the oldest for {oldest:.0f} s" if depth else "")
        if depth >= self._settings.max_queued:
            return "FAIL", f"{told}: submissions are answered 429", "start more runners, or raise POSTFIT_MAX_QUEUED"
        if oldest > LONG_WAIT_SECONDS:
            return "warn", told, "start more runners, or look at what the busy ones do (GET /v1/jobs?state=running)"
        return "ok", told

    def leases(self) -> Found:
        """No job is held by a runner that fell silent."""
        held = select(func.count()).select_from(jobs).where(jobs.c.state == "running", jobs.c.lease_until < Now())
        with self._db.read() as connection:
            count = connection.execute(held).scalar_one()
        if count:
            return "warn", f"{count} running jobs have an expired lease", "a runner that lives takes them up in seconds"
        return "ok", "none has expired"

    def models(self) -> Found:
        """The newest models are what was written."""
        ready = SqlModels(self._db).page(limit=NEWEST, cursor=None, state="ready").items
        artifacts, bad = Artifacts(open_objects(self._settings), SigningKey.of(self._settings)), []
        for model in ready:
            try:
                artifacts.verified(model["result"]["artifact"])
            except ServiceError as refused:
                bad.append(f"{model['id']}: {refused.detail}")
        if bad:
            return "FAIL", "; ".join(bad), "restore a backup, or fit these models again"
        return "ok", f"the newest {len(ready)} verify"

    def orphans(self) -> Found:
        """What the store holds and no record names."""
        store = open_objects(self._settings)
        upkeep = Upkeep(self._db, SqlLedger(self._db, self._settings), self._settings)

        def unnamed(keys: Any) -> int:
            return sum(len(upkeep.unnamed(batch)) for batch in iter(lambda: list(islice(keys, BATCH)), []))

        total = sum(unnamed(store.keys(prefix)) for prefix in PREFIXES)
        overdue = sum(unnamed(store.stale(prefix, 3600 * self._settings.orphan_hours)) for prefix in PREFIXES)
        told = f"{total} objects that nothing names, {overdue} of them older than {self._settings.orphan_hours:g} h"
        if overdue:
            return "warn", told, "the sweep that runners ask for every hour removes them; let one run"
        return "ok", told
