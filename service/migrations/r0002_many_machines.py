"""Several machines: engine losses, tenants, runners, aliases, shared facts; indexes for listings of large ledgers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
QUEUED = sa.text("state = 'queued'")


def upgrade() -> None:
    """Add columns to the jobs, and the tables."""
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("lost", sa.Integer, nullable=False, server_default="0"))
        jobs.add_column(sa.Column("spread", sa.Boolean, nullable=False, server_default=sa.false()))
        jobs.add_column(sa.Column("tenant", sa.String(40), nullable=False, server_default=sa.text("''")))
    op.create_index("ix_jobs_kind", "jobs", ["kind", "id"])
    op.create_index("ix_jobs_kind_state", "jobs", ["kind", "state", "id"])
    op.create_index("ix_jobs_state_resource", "jobs", ["state", "resource"])
    op.create_index("ix_jobs_tenant", "jobs", ["tenant"], sqlite_where=QUEUED, postgresql_where=QUEUED)
    op.create_index("ix_job_needs_job_id", "job_needs", ["job_id"])
    _tables()


def _tables() -> None:
    op.create_table(
        "runners",
        sa.Column("owner", sa.String(120), nullable=False),
        sa.Column("host", sa.String(120), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("busy", sa.Integer, nullable=False),
        sa.Column("state", sa.String(300), nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("beat", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_runners"),
    )
    op.create_index("ix_runners_beat", "runners", ["beat"])
    op.create_table(
        "aliases",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("model", sa.String(40), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_aliases"),
    )
    op.create_index("ix_aliases_model", "aliases", ["model"])
    op.create_table(
        "facts",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("value", sa.JSON, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_facts"),
    )
