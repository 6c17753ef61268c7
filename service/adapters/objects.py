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

from service.disk import full_disk, install, sync
from service.errors import NotFound

KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*")
SCRATCH = ".scratch"
SWEEP_SECONDS = 24 * 3600.0


class LocalObjects:
    """Immutable bytes under keys, each a file below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._scratch = root / SCRATCH
        self._scratch.mkdir(exist_ok=True)
        self._sweep()

    def _sweep(self) -> None:
        """Remove half-made files older than a day; younger ones may belong to another live process."""
        oldest = time.time() - SWEEP_SECONDS
        for path in self._scratch.iterdir():
            try:
                if path.stat().st_mtime > oldest:
                    continue
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            except FileNotFoundError:
                continue

    def _file(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no object key")
        return self.root / key

    def put_file(self, key: str, source: Path) -> None:
        """Store the file's bytes under the key, whole or not at all; the source is gone afterwards. StorageFull."""
        target = self._file(key)
        with full_disk():
            self._make_folders(target.parent)
            try:
                install(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._copy(source, target)

    def _copy(self, source: Path, target: Path) -> None:
        here = self._scratch / secrets.token_hex(8)
        try:
            shutil.copyfile(source, here)
            install(here, target)
        finally:
            here.unlink(missing_ok=True)
        source.unlink()

    def _make_folders(self, folder: Path) -> None:
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync(path.parent)

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
        found = []
        for folder, _, names in os.walk(self.root):
            if Path(folder).is_relative_to(self._scratch):
                continue
            found += [(Path(folder) / name).relative_to(self.root).as_posix() for name in names]
        return iter(sorted(key for key in found if key.startswith(prefix)))

    def scratch(self) -> Path:
        """A folder on the same disk for half-made files; swept at start."""
        return self._scratch
