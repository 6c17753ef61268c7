"""The base of request bodies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A request body: unknown fields and loose types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", protected_namespaces=())
