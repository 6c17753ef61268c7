"""Objects in a local folder: written under a temporary name, forced to disk, renamed, and the folder forced too."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from service.disk import full_disk, install_once, swept, sync
from service.errors import NotFound

KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*")
SCRATCH = ".scratch"


def checked(key: str) -> str:
    """The key itself; ValueError when it is none, so that no key leads out of the store."""
    if not KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no object key")
    return key


class LocalObjects:
    """Immutable bytes under keys, each a file below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._scratch = swept(root / SCRATCH)

    def _file(self, key: str) -> Path:
        return self.root / checked(key)

    def put_file(self, key: str, source: Path) -> None:
        """Store the file's bytes, whole or not at all, unless the key has some; the source is gone. StorageFull."""
        target = self._file(key)
        with full_disk():
            self._make_folders(target.parent)
            try:
                install_once(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._copy(source, target)

    def _copy(self, source: Path, target: Path) -> None:
        here = self._scratch / secrets.token_hex(8)
        try:
            shutil.copyfile(source, here)
            install_once(here, target)
        finally:
            here.unlink(missing_ok=True)
        source.unlink()

    def _make_folders(self, folder: Path) -> None:
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync(path.parent)

    def has(self, key: str) -> bool:
        """Whether the store holds the key."""
        return self._file(key).is_file()

    def path(self, key: str) -> Path:
        """A local, readable file with these bytes; NotFound."""
        target = self._file(key)
        if not target.is_file():
            raise NotFound(f"There is no object {key!r}.")
        return target

    def open(self, key: str) -> BinaryIO:
        """The bytes as a stream; NotFound."""
        try:
            return self._file(key).open("rb")
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NotFound(f"There is no object {key!r}.") from error

    def delete(self, key: str) -> None:
        """Remove; nothing happens when absent."""
        target = self._file(key)
        if target.is_file():
            target.unlink(missing_ok=True)
            sync(target.parent)

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys with the prefix, sorted."""
        return iter(sorted(key for key, _ in self._found(prefix)))

    def stale(self, prefix: str, older_than_seconds: float) -> Iterator[str]:
        """Keys with the prefix that were written longer ago than this, sorted."""
        oldest = time.time() - older_than_seconds
        return iter(sorted(key for key, path in self._found(prefix) if _written(path) < oldest))

    def _found(self, prefix: str) -> Iterator[tuple[str, Path]]:
        for folder, _, names in os.walk(self.root / prefix.rpartition("/")[0]):
            if Path(folder).is_relative_to(self._scratch):
                continue
            for name in names:
                path = Path(folder) / name
                key = path.relative_to(self.root).as_posix()
                if key.startswith(prefix):
                    yield key, path

    def scratch(self) -> Path:
        """A folder on the same disk for half-made files; swept at start."""
        return self._scratch


def _written(path: Path) -> float:
    """When the file was written; never for one that somebody removes meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
