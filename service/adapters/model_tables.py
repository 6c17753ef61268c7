"""Tables of models and of the aliases that point at them."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Double, Integer, String, Table, UniqueConstraint

from service.adapters.database import metadata

models = Table(
    "models",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("algorithm", String(100), nullable=False, index=True),
    Column("dataset", String(40), nullable=False, index=True),
    Column("labels", JSON, nullable=False),
    Column("record", JSON, nullable=False),
    Column("created", Double, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name", "version"),
)
aliases = Table(
    "aliases",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("model", String(40), nullable=False, index=True),
    Column("revision", Integer, nullable=False),
    Column("updated", Double, nullable=False),
)
