"""migrate, backup, restore: what comes back is what was there, on either database; what is wrong is refused whole."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from service.__main__ import main
from service.adapters.database import connect
from service.adapters.job_tables import job_attempts, job_needs
from service.adapters.migrations import current, migrate, revisions
from service.adapters.signing import SigningKey
from service.adapters.upgrade import begin_at
from service.commands import archive
from service.commands import restore as module
from service.commands.archive import MANIFEST, reading
from service.commands.backup import backup
from service.commands.restore import restore
from service.commands.rows import dump, load, one_view
from service.container import Services, build
from service.errors import ArtifactRejected, Conflict, Malformed, NotFound, NotReady, WrongKey
from service.settings import Settings
from tests.conftest import ThreadRunner
from tests.contract.ledgers import eventually, postgres_schema, without_postgres
from tests.servers import seaweed

SECRET = "5e" * 32
REQUEST = {
    "estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "dataset": "iris",
    "target": "petal_width", "features": ["sepal_length", "petal_length"],
}  # fmt: skip
ROWS = {"rows": [{"sepal_length": 5.1, "petal_length": 1.4}, {"sepal_length": 7.7, "petal_length": 6.1}]}


@contextmanager
def opened(settings: Settings) -> Iterator[Services]:
    services = build(settings)
    try:
        yield services
    finally:
        services.db.close()


@contextmanager
def working(services: Services) -> Iterator[None]:
    worker = ThreadRunner(services)
    worker.thread.start()
    try:
        yield
    finally:
        worker.stopping.set()
        worker.thread.join()


def fit(services: Services, model: str, **more: object) -> None:
    """Queue a fit; whoever works does it."""
    services.training.submit(model, REQUEST | {"name": model} | more)


def ready(services: Services, *models: str) -> None:
    eventually(lambda: all(services.ledger.of_resource(m).state == "succeeded" for m in models), 60.0)


def fill(services: Services) -> None:
    """Two models of two tables, an alias, a key, a queued job and one that a runner works on."""
    with working(services):
        fit(services, "mdl_a")
        fit(services, "mdl_b", dataset="penguins", target="body_mass_g", features=["bill_length_mm", "bill_depth_mm"],
            encoding={"missing": "drop_rows"})  # fmt: skip
        ready(services, "mdl_a", "mdl_b")
    services.aliases.put("prod", "mdl_a", None)
    services.keys.create("me")
    fit(services, "mdl_c")
    (held,) = services.ledger.claim("a runner of old", {"instant": 1, "long": 1})
    assert held.job.resource == "mdl_c"
    fit(services, "mdl_d")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A service with something in it, which no test changes."""
    settings = Settings(data=tmp_path_factory.mktemp("source") / "data")
    with opened(settings) as services:
        fill(services)
    return settings


@pytest.fixture(scope="module")
def saved(source: Settings) -> Path:
    """A backup of it, with its key."""
    path = source.data.parent / "saved.tar"
    assert backup(source, path, with_secret=True).rows["models"] == 4
    return path


def told(services: Services) -> dict[str, Any]:
    """Everything one can see of a service, but for what a restore changes by its nature."""
    found = services.ledger.page(limit=99, cursor=None).items
    shown = [replace(job, queue_position=None) for job in found if job.resource != "mdl_c"]
    with services.db.read() as c:
        needs = sorted(map(tuple, c.execute(select(job_needs))))
        attempts = sorted(map(tuple, c.execute(select(job_attempts))), key=repr)
    return {
        "jobs": shown, "needs": needs, "attempts": attempts, "datasets": services.datasets.page().items,
        "models": [m for m in services.models.page(limit=99, cursor=None).items if m["id"] != "mdl_c"],
        "aliases": services.aliases.page(limit=99, cursor=None, model=None).items, "keys": services.keys.page(),
        "tables": [services.datasets.table(d["id"]).to_pydict() for d in services.datasets.page().items],
        "answers": [services.inference.posterior(key, ROWS | {"level": 0.9}) for key in ("mdl_a", "prod")],
    }  # fmt: skip


def the_same(source: Settings, target: Settings) -> None:
    with opened(source) as old, opened(target) as new:
        assert told(new) == told(old)
        again = new.ledger.of_resource("mdl_c")
        assert (again.state, again.worker, again.attempts) == ("queued", None, 0)
        with working(new):
            ready(new, "mdl_c", "mdl_d")


def test_a_restored_service_is_the_one_that_was_backed_up(source: Settings, saved: Path, tmp_path: Path) -> None:
    target = Settings(data=tmp_path / "new")
    restore(target, saved)
    assert (target.data / "secret.key").stat().st_mode & 0o777 == 0o600
    assert saved.stat().st_mode & 0o777 == 0o600
    the_same(source, target)
    with pytest.raises(Conflict, match="the target has 4 jobs"):
        restore(target, saved)


def test_from_sqlite_and_files_to_postgresql_and_s3_and_back(
    source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := without_postgres():
        pytest.skip(reason)
    key = (source.data / "secret.key").read_bytes().hex()
    there, back = tmp_path / "there.tar", tmp_path / "back.tar"
    backup(source, there)
    with seaweed(tmp_path) as store, postgres_schema() as url:
        for name, value in store.env.items():
            monkeypatch.setenv(name, value)
        middle = Settings(data=tmp_path / "host", database=url, objects=store.url, secret=key)
        restore(middle, there)
        with opened(source) as old, opened(middle) as new:
            assert told(new) == told(old)
            assert list(new.objects.keys("")) == list(old.objects.keys(""))
        backup(Settings(data=tmp_path / "other", **middle.model_dump(include={"database", "objects", "secret"})), back)
    target = Settings(data=tmp_path / "new", secret=key)
    restore(target, back)
    with opened(target) as services:  # it was queued again on the way
        assert services.ledger.of_resource("mdl_c").state == "queued"
    the_same(source, target)


def test_the_backup_of_an_earlier_version_becomes_todays(source: Settings, saved: Path, tmp_path: Path) -> None:
    """Oracle: the rows of today without what 0001 did not know, in tables that 0001 made."""
    old = Settings(data=tmp_path / "old", secret=(source.data / "secret.key").read_bytes().hex())
    rows = tmp_path / "rows"
    rows.mkdir()
    now = connect(source.database_url)
    with one_view(now) as connection:
        dump(connection, rows)
    now.close()
    (rows / "aliases.jsonl").unlink()
    lines = [json.loads(line) for line in (rows / "jobs.jsonl").read_text().splitlines()]
    new = {"lost", "spread", "tenant"}
    (rows / "jobs.jsonl").write_text("".join(json.dumps({k: r[k] for k in r if k not in new}) + "\n" for r in lines))
    first = connect(old.database_url)
    begin_at(first, "0001")
    with first.write() as connection:
        load(connection, rows)
    first.close()
    with tarfile.open(saved) as archive:
        for member in archive.getmembers():
            if member.name.startswith("objects/"):
                archive.extract(member, old.data, filter="data")
    backup(old, tmp_path / "old.tar")
    target = Settings(data=tmp_path / "new", secret=old.secret)
    restore(target, tmp_path / "old.tar")
    with opened(source) as before, opened(target) as after:
        assert current(after.db) == revisions()[-1]
        assert after.ledger.of_resource("mdl_a") == before.ledger.of_resource("mdl_a")
        body = ROWS | {"level": 0.9}
        assert after.inference.posterior("mdl_a", body) == before.inference.posterior("mdl_a", body)


def test_a_restore_that_was_cut_off_is_run_again(
    source: Settings, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(db: object, folder: Path) -> None:
        raise KeyboardInterrupt

    target = Settings(data=tmp_path / "new")
    with monkeypatch.context() as broken:
        broken.setattr(module, "_insert", cut)
        with pytest.raises(KeyboardInterrupt):
            restore(target, saved)
    with opened(target) as half:
        assert half.datasets.page().items == []
        assert half.keys.page() == []
    restore(target, saved)
    with opened(source) as old, opened(target) as new:
        assert told(new) == told(old)


def test_a_newer_backup_is_refused(saved: Path, tmp_path: Path) -> None:
    def newer(manifest: dict[str, Any]) -> None:
        manifest["revision"] = "9999"

    check_refused(NotReady, "revision 9999", altered(saved, tmp_path, manifest=newer), tmp_path)


def test_the_key_must_be_the_services(source: Settings, saved: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.tar"
    backup(source, bare)
    check_refused(WrongKey, "there is none here", bare, tmp_path)
    check_refused(WrongKey, "this service has key", bare, tmp_path, secret=SECRET)
    check_refused(WrongKey, "this service has key", saved, tmp_path, secret=SECRET)
    with pytest.raises(WrongKey):
        backup(source.model_copy(update={"secret": SECRET}), tmp_path / "never.tar")
    assert not list(tmp_path.glob("*never*"))


def check_refused(kind: type[Exception], why: str, archive: Path, folder: Path, **settings: Any) -> None:
    """Nothing is written, not even a folder."""
    target = folder / "target"
    with pytest.raises(kind, match=why):
        restore(Settings(data=target, **settings), archive)
    assert not target.exists()


def altered(
    source: Path, folder: Path, *, member: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None]
    = lambda header, content: (header, content), manifest: Callable[[dict[str, Any]], None] = lambda m: None,
    honest: bool = False, extra: tuple[tarfile.TarInfo, bytes] | None = None,
) -> Path:  # fmt: skip
    """A copy with changed members; `honest`: the manifest tells the digests of the changed ones."""
    target = folder / "altered.tar"
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        digests: dict[str, dict[str, Any]] = {}
        if extra:
            new.addfile(extra[0], io.BytesIO(extra[1]))
            digests[extra[0].name] = {"bytes": len(extra[1]), "sha256": hashlib.sha256(extra[1]).hexdigest()}
        for header in old.getmembers():
            content = old.extractfile(header).read()  # type: ignore[union-attr]
            if header.name == MANIFEST:
                document = json.loads(content)
                manifest(document)
                if honest:
                    document["members"] = digests
                content = json.dumps(document).encode()
                header.size = len(content)
            elif (changed := member(header, content)) is None:
                continue
            else:
                header, content = changed  # noqa: PLW2901
                header.size = len(content)
                digests[header.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            new.addfile(header, io.BytesIO(content))
    return target


def flipped(header: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    return header, content.replace(b"mdl_a", b"mdl_x") if header.name == "rows/models.jsonl" else content


@pytest.mark.parametrize("honest", [False, True])
def test_a_changed_member_is_refused(saved: Path, tmp_path: Path, honest: bool) -> None:
    why = "was changed after it was written" if honest else "damaged or changed"
    check_refused(Malformed, why, altered(saved, tmp_path, member=flipped, honest=honest), tmp_path)


@pytest.mark.parametrize("name", ["rows/jobs.jsonl", "objects/", "manifest.sig", "secret.key"])
def test_a_missing_member_is_refused(saved: Path, tmp_path: Path, name: str) -> None:
    lost = altered(saved, tmp_path, member=lambda h, c: None if h.name.startswith(name) else (h, c))
    check_refused(Malformed, "backup", lost, tmp_path)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved: Path, tmp_path: Path, part: float) -> None:
    content = saved.read_bytes().rstrip(b"\0")
    cut = tmp_path / "cut.tar"
    cut.write_bytes(content[: int(part * len(content))])
    check_refused(Malformed, "no manifest|cannot be read|damaged", cut, tmp_path)


def hostile() -> Iterator[tuple[str, tarfile.TarInfo]]:
    for name in ("../evil", "/tmp/evil", "objects/../../evil", "objects//evil", "objects/a/../../../evil", "rows/../x",
                 "objects/.scratch/x", "rows/a.jsonl/b", "objects/a\n", "evil"):  # fmt: skip
        yield name, tarfile.TarInfo(name)
    kinds = {"symlink": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "device": tarfile.CHRTYPE,
             "pipe": tarfile.FIFOTYPE, "folder": tarfile.DIRTYPE}  # fmt: skip
    for kind, code in kinds.items():
        header = tarfile.TarInfo("objects/models/evil")
        header.type, header.linkname = code, "/etc/passwd"
        yield kind, header
    yield "twice", tarfile.TarInfo("rows/jobs.jsonl")


@pytest.mark.parametrize("header", [pytest.param(h, id=repr(n)) for n, h in hostile()])
def test_a_hostile_member_is_refused(saved: Path, tmp_path: Path, header: tarfile.TarInfo) -> None:
    content = b"" if header.type != tarfile.REGTYPE else b"x"
    header.size = len(content)
    evil = altered(saved, tmp_path, extra=(header, content), honest=True)
    check_refused(Malformed, "a link, a device|no name of a member", evil, tmp_path)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("line", [
    b"nonsense", b"[1]", b"{}", b"[" * 100_000, b'{"name":"n","model":"m","revision":1,"updated":1,"more":1}',
    b'{"name":"n","model":{"a":1},"revision":1,"updated":1}', b'{"name":null,"model":"m","revision":1,"updated":1}',
    b'{"name":"n","model":"m","revision":1e999,"updated":1}',
    b'{"name":"n","model":"m","revision":99999999999999999999999,"updated":1}',
])  # fmt: skip
def test_rows_that_fit_no_table_are_refused(saved: Path, tmp_path: Path, line: bytes) -> None:
    """As one who has the key could sign them."""
    with tarfile.open(saved) as tar:
        key = bytes(tar.extractfile("secret.key").read()).hex()  # type: ignore[union-attr]
    with reading(saved) as old, archive.writing(tmp_path / "bad.tar") as new:
        for name in old.names(""):
            if name in old.manifest["members"]:
                content = line + b"\n" if name == "rows/aliases.jsonl" else old.small(name)
                new.add(name, io.BytesIO(content))  # type: ignore[arg-type]
        manifest = json.dumps(old.manifest | {"members": new.members}).encode()
        new.end(manifest, SigningKey(tmp_path / "none", key).sign(archive.to_sign(manifest)))
    check_refused(Malformed, "no row of that table|do not fit", tmp_path / "bad.tar", tmp_path)


def test_not_a_backup(tmp_path: Path) -> None:
    check_refused(Malformed, "no file", tmp_path / "absent.tar", tmp_path)
    (tmp_path / "text.tar").write_text("hello")
    check_refused(Malformed, "cannot be read", tmp_path / "text.tar", tmp_path)
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    check_refused(Malformed, "no manifest", tmp_path / "empty.tar", tmp_path)


def test_a_file_that_exists_is_not_overwritten(source: Settings, tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_text("precious")
    with pytest.raises(Conflict, match="exists already"):
        backup(source, tmp_path / "b.tar")
    assert [p.name for p in tmp_path.iterdir()] == ["b.tar"]


def test_a_lost_or_damaged_object_fails_the_backup_and_is_named(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    with opened(settings) as services, working(services):
        fit(services, "mdl_1")
        ready(services, "mdl_1")
        key = services.models.get("mdl_1")["result"]["artifact"]["key"]
        path = services.objects.path(key)
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(NotFound, match=f"model mdl_1 names {key}"):
            backup(settings, tmp_path / "b.tar")
        path.write_bytes(content[::-1])
        with pytest.raises(ArtifactRejected, match="mdl_1"):
            backup(settings, tmp_path / "b.tar")
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_backup_while_models_come_and_go_is_whole(kind: str, tmp_path: Path) -> None:
    if kind == "postgresql" and (reason := without_postgres()):
        pytest.skip(reason)
    with postgres_schema() if kind == "postgresql" else none() as url:
        settings, stop = Settings(data=tmp_path / "data", database=url), threading.Event()

        def churn(services: Services) -> None:
            for n in range(10_000):
                if stop.is_set():
                    return
                fit(services, f"mdl_{n}")
                if n > 5:
                    gone = f"mdl_{n - 5}"
                    ready(services, gone)
                    key = services.models.get(gone)["result"]["artifact"]["key"]
                    services.models.remove(gone)
                    services.objects.delete(key)

        with opened(settings) as services, working(services):
            writer = threading.Thread(target=churn, args=(services,))
            writer.start()
            try:
                eventually(lambda: services.models.page(limit=9, cursor=None, state="ready").items, 60.0)
                for n in range(2):
                    backup(settings, tmp_path / f"{n}.tar", with_secret=True)
            finally:
                stop.set()
                writer.join()
    for n in range(2):
        target = Settings(data=tmp_path / f"new{n}")
        restore(target, tmp_path / f"{n}.tar")
        with opened(target) as services:
            found = services.models.page(limit=9999, cursor=None, state="ready").items
            assert found
            assert {m["id"] for m in found} <= {m["id"] for m in services.models.page(limit=9999, cursor=None).items}
            for model in found:
                services.artifacts.verified(model["result"]["artifact"])
            assert len(services.inference.predict(found[0]["id"], ROWS)["predictions"]) == 2


@contextmanager
def none() -> Iterator[None]:
    yield None


def test_migrate_tells_from_and_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(tmp_path / "data")]
    assert main([*data, "migrate"]) == 0
    assert capsys.readouterr().out == f"an empty database → {revisions()[-1]}\n"
    db = connect(Settings(data=tmp_path / "data").database_url)
    assert migrate(db) == (revisions()[-1], revisions()[-1])
    with db.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    db.close()
    assert main([*data, "migrate"]) == 2
    assert "newer version" in capsys.readouterr().err


def test_the_commands_say_what_they_did(source: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "b.tar")
    assert main(["--data", str(source.data), "backup", file]) == 0
    assert "3 datasets" not in (said := capsys.readouterr().out)
    assert "2 datasets, 4 models, 4 jobs, 4 objects" in said
    assert "POSTFIT_SECRET" in said
    assert main(["--data", str(tmp_path / "new"), "restore", file]) == 2
    assert "POSTFIT_SECRET" in capsys.readouterr().err
    assert main(["--data", str(tmp_path / "nothing"), "backup", str(tmp_path / "c.tar")]) == 2
    assert not (tmp_path / "nothing").exists()
