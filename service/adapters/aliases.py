"""Aliases: stable names that move from model to model."""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from service.adapters.database import Database, Now
from service.adapters.facts import catalogue_write
from service.adapters.model_tables import aliases, models
from service.errors import Conflict, NotFound, Stale
from service.ports import Json, Page

ABSENT = 0  # the revision of an alias that there is not


class SqlAliases:
    """Aliases by name; each change is one transaction, and no two happen at once."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def put(self, name: str, model_id: str, revision: int | None = None) -> tuple[Json, bool]:
        """Point the alias at the model; the alias, and whether it is new.

        NotFound without that model; Conflict where a model has the name; Stale when it is not at `revision`.
        """
        with catalogue_write(self.db) as c:
            known = c.execute(select(aliases.c.revision).where(aliases.c.name == name)).scalar_one_or_none()
            if revision not in (None, known or ABSENT):
                raise Stale(f"alias {name!r} has changed since that version")
            if c.execute(select(models.c.id).where(models.c.id == model_id)).first() is None:
                raise NotFound(f"there is no model {model_id!r}")
            if known is None:
                if c.execute(select(models.c.id).where(models.c.name == name).limit(1)).first() is not None:
                    raise Conflict(f"models are named {name!r}, and an alias may not hide them; choose another alias")
                c.execute(insert(aliases).values(name=name, model=model_id, revision=1, updated=Now()))
            else:
                moved = {"model": model_id, "revision": known + 1, "updated": Now()}
                c.execute(update(aliases).where(aliases.c.name == name, aliases.c.model != model_id).values(moved))
            row = c.execute(select(aliases).where(aliases.c.name == name)).mappings().one()
            return dict(row), known is None

    def get(self, name: str) -> Json:
        """The alias; NotFound."""
        with self.db.read() as c:
            row = c.execute(select(aliases).where(aliases.c.name == name)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no alias {name!r}")
        return dict(row)

    def page(self, *, limit: int, cursor: str | None, model: str | None = None) -> Page:
        """Aliases by name; those of one model where it is given."""
        query = select(aliases).order_by(aliases.c.name).limit(limit + 1)
        query = query if model is None else query.where(aliases.c.model == model)
        query = query if cursor is None else query.where(aliases.c.name > cursor)
        with self.db.read() as c:
            found = [dict(row) for row in c.execute(query).mappings()]
        return Page(found[:limit], found[limit - 1]["name"] if len(found) > limit else None)

    def remove(self, name: str, revision: int | None = None) -> None:
        """Delete the alias; its model stays. NotFound, Stale."""
        with catalogue_write(self.db) as c:
            known = c.execute(select(aliases.c.revision).where(aliases.c.name == name)).scalar_one_or_none()
            if known is None:
                raise NotFound(f"there is no alias {name!r}")
            if revision not in (None, known):
                raise Stale(f"alias {name!r} has changed since that version")
            c.execute(delete(aliases).where(aliases.c.name == name))
