"""The first schema: datasets, models, jobs, keys and answers. Tables that exist already are left as they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
QUEUED, RUNNING = sa.text("state = 'queued'"), sa.text("state = 'running'")


def upgrade() -> None:
    """Make the tables; they may be there from before revisions were counted."""
    _records()
    _keys()
    _jobs()
    _index("ix_jobs_queue", "jobs", ["lane", "rank", "id"], QUEUED)
    _index("ix_jobs_leases", "jobs", ["lease_until"], RUNNING)
    _index("ix_jobs_resource", "jobs", ["resource", "id"])
    _index("ix_jobs_state", "jobs", ["state", "id"])
    _index("ix_jobs_finished", "jobs", ["finished"])
    _parts_of_jobs()


def _index(name: str, table: str, columns: list[str], where: sa.TextClause | None = None) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where, if_not_exists=True)


def _records() -> None:
    _table(
        "datasets",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
    )
    _table(
        "models",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("algorithm", sa.String(100), nullable=False),
        sa.Column("dataset", sa.String(40), nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.UniqueConstraint("name", "version", name="uq_models_name_version"),
    )
    for table, column in (("datasets", "name"), ("datasets", "sha256"), ("models", "name"), ("models", "algorithm"),
                          ("models", "dataset")):  # fmt: skip
        _index(f"ix_{table}_{column}", table, [column])


def _keys() -> None:
    _table(
        "api_keys",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
    _table(
        "idempotency",
        sa.Column("key", sa.String(300), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("resource", sa.String(40), nullable=False),
        sa.Column("answer", sa.JSON),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency"),
    )


def _jobs() -> None:
    _table(
        "jobs",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(60), nullable=False),
        sa.Column("resource", sa.String(80), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("lane", sa.String(10), nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("rank", sa.Double, nullable=False),
        sa.Column("run_after", sa.Double, nullable=False),
        sa.Column("wall_seconds", sa.Double, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("cores", sa.Integer, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("spared", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(120)),
        sa.Column("lease_until", sa.Double),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("progress", sa.JSON),
        sa.Column("result", sa.JSON),
        sa.Column("error", sa.JSON),
        sa.Column("log_tail", sa.Text, nullable=False),
        sa.Column("submitted", sa.Double, nullable=False),
        sa.Column("started", sa.Double),
        sa.Column("finished", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )


def _parts_of_jobs() -> None:
    _table(
        "job_needs",
        sa.Column("resource", sa.String(80), nullable=False),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("resource", "job_id", name="pk_job_needs"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], "fk_job_needs_job_id_jobs", ondelete="CASCADE"),
    )
    _table(
        "job_attempts",
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(120), nullable=False),
        sa.Column("host", sa.String(120), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("peak_rss_bytes", sa.BigInteger, nullable=False),
        sa.Column("cpu_seconds", sa.Double, nullable=False),
        sa.Column("error", sa.JSON),
        sa.Column("finished", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_job_attempts"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], "fk_job_attempts_job_id_jobs", ondelete="CASCADE"),
    )


def _table(name: str, *parts: sa.schema.SchemaItem) -> None:
    op.create_table(name, *parts, if_not_exists=True)
