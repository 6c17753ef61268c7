"""Objects in an S3-compatible store, with a copy on this host of what was read.

Small objects are written by one conditional PUT (If-None-Match: *), so of many writers of a key exactly one wins. A
large object is uploaded in parts after a look whether the key is there; two writers that pass the look together both
complete, each with a whole object, and since keys are made of content digests both write the same content.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from service.adapters.objects import checked
from service.cache import HostCache
from service.disk import full_disk, swept
from service.errors import EngineLost, NotFound, StorageFull

SINGLE_PUT_BYTES = 8 << 20
PART_BYTES = 5 << 20
PARTS_AT_ONCE = 4
CONNECT_SECONDS, SILENCE_SECONDS, RETRY_SECONDS = 3, 8, 6
"""A silent server is given up after 8 s, an absent one after 6 s of retries: every call ends within 15 s of either."""
FULL = ("No space left", "InsufficientStorage", "StorageFull", "QuotaExceeded", "no free volumes", "507 ")
TRIES = 5


class S3Objects:
    """Immutable bytes under keys below `s3://bucket/prefix`; endpoint and credentials come from AWS_… variables."""

    def __init__(self, url: str, cache: HostCache, scratch: Path, **config: Any) -> None:
        self.url = url
        self.cache = cache
        self._scratch = swept(scratch)
        place = urlsplit(url)
        self.store = S3Store(
            place.netloc, prefix=place.path.strip("/") or None,
            client_options={"connect_timeout": timedelta(seconds=CONNECT_SECONDS), "timeout": timedelta(hours=1),
                            "read_timeout": timedelta(seconds=SILENCE_SECONDS),
                            "allow_http": True},  # the scheme of AWS_ENDPOINT_URL decides; without one it is https
            retry_config={"max_retries": 10, "retry_timeout": timedelta(seconds=RETRY_SECONDS),
                          "backoff": {"init_backoff": timedelta(milliseconds=100), "base": 2,
                                      "max_backoff": timedelta(seconds=2)}},
            **config,
        )  # fmt: skip

    def put_file(self, key: str, source: Path) -> None:
        """Store the file's bytes, whole or not at all, unless the key has some; the source is gone.

        StorageFull, EngineLost.
        """
        large = source.stat().st_size > SINGLE_PUT_BYTES
        with self._meaning(checked(key)):
            if not large:
                with _whoever_was_first():
                    obstore.put(self.store, key, source.read_bytes(), mode="create", use_multipart=False)
            elif not self.has(key):
                obstore.put(
                    self.store, key, source, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
                )
        source.unlink()

    def has(self, key: str) -> bool:
        """Whether the store itself holds the key, whatever this host has a copy of; EngineLost."""
        try:
            with self._meaning(checked(key)):
                obstore.head(self.store, key)
        except NotFound:
            return False
        return True

    def path(self, key: str) -> Path:
        """This host's copy, fetched when missing; NotFound, StorageFull, EngineLost."""
        name = _copy_of(checked(key))
        return self.cache.get(name) or self._fetch(key, name)

    def _fetch(self, key: str, name: str) -> Path:
        with self._meaning(key), self.cache.making(name) as part:
            answer = obstore.get(self.store, key)
            with part.open("wb") as sink:
                for chunk in answer.stream(min_chunk_size=PART_BYTES):
                    sink.write(chunk)
            size, expected = part.stat().st_size, answer.meta["size"]
            if size != expected:
                raise EngineLost(f"{self.url} sent {size} of the {expected} bytes of {key!r} and ended")
            part.chmod(0o400)
        return self.cache.root / name

    def open(self, key: str) -> BinaryIO:
        """The bytes as a stream of this host's copy; NotFound, StorageFull, EngineLost."""
        for _ in range(TRIES):
            try:
                return self.path(key).open("rb")
            except FileNotFoundError:
                continue  # another process made room between the two steps
        raise StorageFull(f"copies of {self.url} are removed as fast as they are made: raise POSTFIT_CACHE_BYTES")

    def delete(self, key: str) -> None:
        """Remove; nothing happens when absent. Copies on other hosts go when they make room. EngineLost."""
        try:
            with self._meaning(checked(key)):
                obstore.delete(self.store, key)
        except NotFound:
            pass  # some stores answer 404 where S3 answers 204
        self.cache.drop(_copy_of(key))

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys with the prefix, sorted; EngineLost."""
        return iter(sorted(meta["path"] for meta in self._listed(prefix)))

    def stale(self, prefix: str, older_than_seconds: float) -> Iterator[str]:
        """Keys with the prefix that were written longer ago than this, sorted; EngineLost."""
        oldest = time.time() - older_than_seconds
        old = [meta["path"] for meta in self._listed(prefix) if meta["last_modified"].timestamp() < oldest]
        return iter(sorted(old))

    def _listed(self, prefix: str) -> list[Any]:
        """What the store tells of each key; it lists whole folders only."""
        with self._meaning(prefix), full_disk():
            pages = obstore.list(self.store, prefix.rpartition("/")[0] or None)
            return [meta for page in pages for meta in page if meta["path"].startswith(prefix)]

    def scratch(self) -> Path:
        """A folder for half-made files; swept at start."""
        return self._scratch

    @contextmanager
    def _meaning(self, key: str) -> Iterator[None]:
        """Say in the service's own words what the store answered."""
        try:
            yield
        except FileNotFoundError as absent:
            if "NoSuchBucket" in str(absent):
                raise EngineLost(f"there is no bucket for {self.url}; make it, or correct POSTFIT_OBJECTS") from absent
            raise NotFound(f"There is no object {key!r}.") from absent
        except (PermissionDeniedError, UnauthenticatedError) as refused:
            raise EngineLost(
                f"{self.url} refuses the credentials for {key!r}; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
                f"the bucket's policy: {_brief(refused)}"
            ) from refused
        except BaseError as failed:
            if any(word in str(failed) for word in FULL):
                raise StorageFull(f"{self.url} cannot take {key!r}: {_brief(failed)}") from failed
            raise EngineLost(f"{self.url} cannot be used now ({key!r}): {_brief(failed)}") from failed


@contextmanager
def _whoever_was_first() -> Iterator[None]:
    """A key that is there already stays: the same content, or our own write whose answer was lost."""
    try:
        yield
    except AlreadyExistsError:
        return


def _copy_of(key: str) -> str:
    return f"objects/{key}"


def _brief(error: BaseException) -> str:
    """The first line of an error, without the debug text that follows it."""
    return str(error).partition("\n")[0][:300]
