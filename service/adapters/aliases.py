"""Aliases: stable names that move from model to model."""

from __future__ import annotations

from sqlalchemy import Column, Double, Integer, String, Table

from service.adapters.database import metadata

aliases = Table(
    "aliases",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("model", String(40), nullable=False, index=True),
    Column("revision", Integer, nullable=False),
    Column("updated", Double, nullable=False),
)
