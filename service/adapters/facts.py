"""Facts that every process of one service must agree on, as JSON under a name."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Double, String, Table

from service.adapters.database import metadata

facts = Table(
    "facts",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("value", JSON, nullable=False),
    Column("updated", Double, nullable=False),
)
