"""Every earlier database becomes today's, on both databases and without drift; a newer one is left alone."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from service.adapters import upgrade
from service.adapters.database import Database, connect, metadata
from service.adapters.job_tables import job_attempts, jobs
from service.adapters.migrations import current, migrate, revisions
from service.errors import NotReady, ServiceError
from tests.contract.ledgers import postgres_schema, without_postgres

NEWEST = revisions()[-1]
OLD = Path(__file__).parent.parent / "data" / "data_folder_0001.tar.gz"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        opened = connect(f"sqlite:///{tmp_path / 'service.db'}")
        yield opened
        opened.close()
        return
    if reason := without_postgres():
        pytest.skip(reason)
    with postgres_schema() as url:
        opened = connect(url)
        yield opened
        opened.close()


def drift(db: Database) -> list[object]:
    with db.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))


def to_first(db: Database) -> None:
    """The database as the first release left it: the tables of 0001 and no revision."""
    with db.write() as connection:
        scripts = upgrade.ScriptDirectory(upgrade.SCRIPTS, version_locations=[str(upgrade.SCRIPTS)])
        steps = upgrade.EnvironmentContext(
            upgrade.Config(), scripts, fn=lambda at, _: scripts._upgrade_revs("0001", at)
        )  # fmt: skip
        with steps:
            steps.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
            steps.run_migrations()
        connection.execute(text("DROP TABLE alembic_version"))


def test_an_empty_database_becomes_todays_without_drift(empty: Database) -> None:
    assert current(empty) == ""
    assert migrate(empty) == ("", NEWEST)
    assert migrate(empty) == (NEWEST, NEWEST)
    assert current(empty) == NEWEST
    assert drift(empty) == []


def test_every_constraint_has_its_name(empty: Database) -> None:
    migrate(empty)
    with empty.read() as connection:
        here = inspect(connection)
        for table in metadata.tables:
            assert here.get_pk_constraint(table)["name"] == f"pk_{table}"
            found = [*here.get_foreign_keys(table), *here.get_unique_constraints(table)]
            assert all(str(constraint["name"]).startswith(("fk_", "uq_")) for constraint in found)


def test_an_uncounted_database_is_that_of_the_first_release(empty: Database) -> None:
    to_first(empty)
    with empty.write() as connection:
        connection.execute(text("DROP TABLE models"))  # a runner that started first made the tables of jobs only
        connection.execute(text(
            "INSERT INTO jobs (id, kind, resource, spec, lane, priority, rank, run_after, wall_seconds, memory_bytes,"
            " cores, state, attempt, spared, cancel_requested, log_tail, submitted) VALUES ('job_1', 'fit', 'mdl_1',"
            " '{}', 'long', 0, 1, 1, 60, 1, 1, 'queued', 1, 0, false, '', 1)"
        ))  # fmt: skip
        connection.execute(text("INSERT INTO job_attempts VALUES ('job_1', 1, 'A', 'h', 1, 0, 1, 1, NULL, 1)"))
    assert migrate(empty) == ("0001", NEWEST)
    assert drift(empty) == []
    with empty.read() as connection:
        row = connection.execute(jobs.select()).one()
        assert (row.id, row.lost, row.spread, row.tenant) == ("job_1", 0, False, "")
        assert connection.execute(job_attempts.select()).one().owner == "A"


def test_references_are_checked_after_an_upgrade(empty: Database) -> None:
    migrate(empty)
    if empty.dialect == "sqlite":
        for _ in range(3):
            with empty.read() as connection:
                assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_newer_database_is_refused_and_unchanged(empty: Database) -> None:
    migrate(empty)
    with empty.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NotReady, match="revision 9999, which a newer version of the service wrote"):
        migrate(empty)
    assert current(empty) == "9999"


def test_a_database_of_no_release_is_refused(empty: Database) -> None:
    migrate(empty)
    with empty.write() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    with pytest.raises(ServiceError, match="unreleased version"):
        migrate(empty)


def test_a_failing_step_leaves_everything_as_it_was(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    to_first(empty)

    def broken(connection: object) -> None:
        connection.execute(text("ALTER TABLE jobs ADD COLUMN half INTEGER"))  # type: ignore[attr-defined]
        raise RuntimeError("half-way")

    monkeypatch.setattr(upgrade, "_run", broken)
    with pytest.raises(RuntimeError, match="half-way"):
        migrate(empty)
    with empty.read() as connection:
        assert "half" not in {column["name"] for column in inspect(connection).get_columns("jobs")}
    monkeypatch.undo()
    assert migrate(empty) == ("0001", NEWEST)


def test_many_may_start_at_once(empty: Database) -> None:
    others = [connect(empty.engine.url.render_as_string(hide_password=False)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(migrate, others))
    assert {after for _, after in found} == {NEWEST}
    assert sum(before == "" for before, _ in found) >= 1
    assert drift(empty) == []
    for other in others:
        other.close()


def test_the_first_release_wrote_what_0001_makes(tmp_path: Path) -> None:
    """Oracle: the schema in a data folder that the first release itself wrote."""
    with tarfile.open(OLD) as archive:
        archive.extract("./service.db", tmp_path, filter="data")
    old, new = connect(f"sqlite:///{tmp_path / 'service.db'}"), connect(f"sqlite:///{tmp_path / 'new.db'}")
    to_first(new)
    assert _schema(old) == _schema(new)
    old.close()
    new.close()


def _schema(db: Database) -> dict[str, object]:
    with db.read() as connection:
        here = inspect(connection)
        return {
            table: (
                [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in here.get_columns(table)],
                here.get_pk_constraint(table), here.get_foreign_keys(table), here.get_unique_constraints(table),
                sorted((i["name"], i["column_names"], _where(i)) for i in here.get_indexes(table)),
            )
            for table in here.get_table_names()
        }  # fmt: skip


def _where(index: Mapping[str, Any]) -> str:
    return str(index.get("dialect_options", {}).get("sqlite_where"))
