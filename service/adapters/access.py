"""API keys (only their hashes are stored) and idempotency keys."""

from __future__ import annotations

import hashlib
import secrets

from sqlalchemy import JSON, Column, Double, String, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.adapters.database import Database, Now, metadata
from service.adapters.facts import catalogue_write
from service.errors import Conflict, Invalid, Issue, NotFound
from service.ids import new_id
from service.ports import Json

keys = Table(
    "api_keys",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("created", Double, nullable=False),
)
answers = Table(
    "idempotency",
    metadata,
    Column("key", String(300), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("resource", String(40), nullable=False),
    Column("answer", JSON(none_as_null=True), nullable=True),
    Column("created", Double, nullable=False),
)
TAKE_OVER_SECONDS = 60.0


class Keys:
    """API keys: made and revoked by a command, compared by hash. 256 random bits need no slow hash."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def create(self, name: str) -> tuple[str, str]:
        """A new key: its id and the secret, which is shown this once."""
        key_id, secret = new_id("key"), "pf_" + secrets.token_urlsafe(32)
        with self.db.write() as c:
            c.execute(insert(keys).values(id=key_id, name=name, digest=_digest(secret.encode()), created=Now()))
        return key_id, secret

    def revoke(self, key_id: str) -> None:
        """Forget a key, in every process at once; NotFound."""
        with catalogue_write(self.db) as c:
            if not c.execute(delete(keys).where(keys.c.id == key_id)).rowcount:
                raise NotFound(f"there is no key {key_id}")

    def page(self) -> list[Json]:
        """Id, name and creation of every key."""
        with self.db.read() as c:
            return [dict(r) for r in c.execute(select(keys.c.id, keys.c.name, keys.c.created)).mappings()]

    def owner(self, secret: str) -> str | None:
        """The id of a caller's key; None when it is not one of ours."""
        with self.db.read() as c:
            return c.execute(select(keys.c.id).where(keys.c.digest == _digest(secret.encode()))).scalar_one_or_none()


class Idempotency:
    """The first answer to a key, kept with a digest of the body it answered.

    The id of the resource is reserved with the key, so that a request that died half-way is completed by its repetition
    under the same id instead of being done twice.
    """

    def __init__(self, db: Database) -> None:
        self.db = db

    def begin(self, key: str, body: bytes, prefix: str) -> tuple[str, Json | None]:
        """Reserve or find: (resource id, stored answer or None). Invalid for another body, Conflict while under way."""
        digest = _digest(body)
        fresh = {"key": key, "digest": digest, "resource": new_id(prefix), "answer": None, "created": Now()}
        while True:
            try:
                with self.db.write() as c:
                    c.execute(insert(answers).values(fresh))
                return str(fresh["resource"]), None
            except IntegrityError:
                found = self._repeat(key, digest)
            if found is not None:  # else the first request was refused just now, and its key is free again
                return found

    def _repeat(self, key: str, digest: str) -> tuple[str, Json | None] | None:
        with self.db.write() as c:
            aged = select(answers, (Now() - answers.c.created).label("age")).where(answers.c.key == key)
            row = c.execute(aged).one_or_none()
            if row is None:
                return None
            if row.digest != digest:
                raise Invalid(
                    "this Idempotency-Key was used with another body",
                    issues=(Issue("/headers/Idempotency-Key", "reused", "use a new key for a new request"),),
                )
            if row.answer is None and row.age < TAKE_OVER_SECONDS:
                raise Conflict("a request with this Idempotency-Key is still being answered; try again shortly")
            if row.answer is None:
                c.execute(update(answers).where(answers.c.key == key).values(created=Now()))
        return row.resource, row.answer

    def complete(self, key: str, answer: Json) -> None:
        """Keep the answer."""
        with self.db.write() as c:
            c.execute(update(answers).where(answers.c.key == key).values(answer=answer))

    def release(self, key: str) -> None:
        """Forget a key whose request was refused, so that a corrected one may use it again."""
        with self.db.write() as c:
            c.execute(delete(answers).where(answers.c.key == key, answers.c.answer.is_(None)))

    def leave(self, key: str) -> None:
        """Let the next request with this key take over at once: this one broke off, with an effect or without."""
        with self.db.write() as c:
            open_now = update(answers).where(answers.c.key == key, answers.c.answer.is_(None))
            c.execute(open_now.values(created=Now() - TAKE_OVER_SECONDS))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
