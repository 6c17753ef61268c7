"""Aliases: stable names that move atomically from model to model."""

from __future__ import annotations

import re
from typing import Any

from service.errors import Conflict, Invalid, Issue
from service.ports import Json, Page

NAME = re.compile(r"[^@/\x00-\x1f\x7f]{1,200}")
RESERVED = ("mdl_", "ds_", "job_", "std_")  # what ids begin with


class Aliases:
    """Points names at models that are ready."""

    def __init__(self, models: Any, store: Any) -> None:
        self.models = models
        self.store = store

    def put(self, alias: str, key: str, revision: int | None) -> tuple[Json, bool]:
        """Make the alias, or move it, to the model `key`; the alias and whether it is new. Conflict, NotFound, Stale.

        An alias comes before a name, so it cannot take a name that models already have; a model that gets the name of
        an alias later is reached by its id or name@version, and the alias goes on meaning what it meant.
        """
        if not NAME.fullmatch(alias) or alias.startswith(RESERVED):
            raise Invalid(
                f"{alias!r} is no alias: 1 to 200 characters without @ and /, not beginning like an id",
                issues=(Issue("/path/alias", "pattern", "choose another name"),),
            )
        model = self.models.get(key)
        if model["state"] != "ready":
            raise Conflict(f"model {model['id']} is {model['state']}; an alias points at ready models only")
        return self.store.put(alias, model["id"], revision)

    def get(self, alias: str) -> Json:
        """The alias; NotFound."""
        return dict(self.store.get(alias))

    def page(self, *, limit: int, cursor: str | None, model: str | None) -> Page:
        """Aliases by name; those of one model where it is given, by any of its names."""
        wanted = None if model is None else self.models.get(model)["id"]
        return self.store.page(limit=limit, cursor=cursor, model=wanted)

    def remove(self, alias: str, revision: int | None) -> None:
        """Delete the alias; NotFound, Stale."""
        self.store.remove(alias, revision)
