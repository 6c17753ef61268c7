"""The file of a backup: a tar with one manifest at its end, which says what stands in it and is signed.

`objects/<key>`, `rows/<table>.jsonl`, perhaps `secret.key`, then `manifest.json` (size and SHA-256 of every member)
and `manifest.sig`. A file that ends too early has no manifest; one that was changed has a member that disagrees.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypedDict

import msgspec

from service.adapters.objects import KEY
from service.disk import full_disk, install_once
from service.errors import Conflict, Malformed

FORMAT = 1
MANIFEST, SIGNATURE, SECRET = "manifest.json", "manifest.sig", "secret.key"
MEMBER = re.compile(rf"objects/{KEY.pattern}|rows/[a-z_]+\.jsonl|{re.escape(SECRET)}")
PIECE = 1 << 20
MANIFEST_BYTES = 1 << 30


class Member(TypedDict):
    """A member's size and digest."""

    bytes: int
    sha256: str


class Manifest(TypedDict):
    """What a backup says of itself."""

    format: int
    service: str
    revision: str
    created: str
    signing_key: str
    rows: dict[str, int]
    members: dict[str, Member]


def to_sign(manifest: bytes) -> bytes:
    """The bytes whose HMAC stands beside a manifest: no model's reference can have the same."""
    return b"postfit backup\n" + manifest


class Writer:
    """Takes members one after another."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.members: dict[str, Member] = {}

    def add(self, name: str, source: BinaryIO) -> Member:
        """Append a seekable stream from its beginning to its end."""
        size = source.seek(0, io.SEEK_END)
        source.seek(0)
        digest = _Hashed(source)
        self._tar.addfile(_header(name, size), digest)
        self.members[name] = {"bytes": size, "sha256": digest.sha256.hexdigest()}
        return self.members[name]

    def end(self, manifest: bytes, signature: str) -> None:
        """Append the manifest and its signature."""
        for name, content in ((MANIFEST, manifest), (SIGNATURE, signature.encode())):
            self._tar.addfile(_header(name, len(content)), io.BytesIO(content))


class _Hashed(io.RawIOBase):
    """A stream that hashes what is read from it."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._source.read(size)
        self.sha256.update(piece)
        return piece


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, 0o600, int(time.time())
    return header


@contextmanager
def writing(target: Path) -> Iterator[Writer]:
    """The file appears, whole and durable, when the block ends well; Conflict when there is one. StorageFull."""
    taken = Conflict(f"{target} exists already; choose another name, so that no backup is ever overwritten")
    if target.exists():
        raise taken
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with full_disk():
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with (
                os.fdopen(handle, "wb") as sink,
                tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as tar,
            ):
                yield Writer(tar)
            if not install_once(part, target):
                raise taken
    finally:
        part.unlink(missing_ok=True)


class Reader:
    """A backup whose members all have the sizes and digests of its manifest."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._headers: dict[str, tarfile.TarInfo] = {}
        found: dict[str, Member] = {}
        for header in tar:
            name = _checked(header, self._headers)
            self._headers[name] = header
            if name not in (MANIFEST, SIGNATURE):
                found[name] = self._measured(name)
        if not {MANIFEST, SIGNATURE} <= self._headers.keys():
            raise Malformed("the backup has no manifest: it was cut off, or this is no backup of the service")
        self.manifest_bytes, self.signature = self._small(MANIFEST), self._small(SIGNATURE).decode("ascii", "replace")
        self.manifest = _manifest(self.manifest_bytes)
        for name in sorted(found.keys() | self.manifest["members"].keys()):
            if found.get(name) != self.manifest["members"].get(name):
                raise Malformed(f"{name!r} is not what the manifest says of it: the backup was damaged or changed")

    def names(self, prefix: str) -> list[str]:
        """The members whose names begin so."""
        return [name for name in self._headers if name.startswith(prefix)]

    def small(self, name: str) -> bytes | None:
        """The bytes of a short member; None when there is none."""
        return self._small(name) if name in self._headers else None

    def copy(self, name: str, target: Path) -> None:
        """Write a member to a file, checked once more; Malformed, StorageFull."""
        sha256 = hashlib.sha256()
        with full_disk(), target.open("wb") as sink:
            for piece in self._pieces(name):
                sha256.update(piece)
                sink.write(piece)
        if sha256.hexdigest() != self.manifest["members"][name]["sha256"]:
            raise Malformed(f"{name!r} changed while the backup was read")

    def _measured(self, name: str) -> Member:
        sha256, size = hashlib.sha256(), 0
        for piece in self._pieces(name):
            sha256.update(piece)
            size += len(piece)
        return {"bytes": size, "sha256": sha256.hexdigest()}

    def _pieces(self, name: str) -> Iterator[bytes]:
        stream = self._tar.extractfile(self._headers[name])
        while stream is not None and (piece := stream.read(PIECE)):
            yield piece

    def _small(self, name: str) -> bytes:
        if self._headers[name].size > MANIFEST_BYTES:
            raise Malformed(f"{name!r} has {self._headers[name].size} bytes, which no backup of the service has")
        return b"".join(self._pieces(name))


def _checked(header: tarfile.TarInfo, known: dict[str, tarfile.TarInfo]) -> str:
    """The name of a member that a backup may hold: a plain file below the two folders, once."""
    if not header.isreg() or header.issparse() or header.name in known:
        raise Malformed(
            f"{header.name!r} is a link, a device, sparse or there twice; a backup holds plain files, each once"
        )
    if header.name not in (MANIFEST, SIGNATURE) and not MEMBER.fullmatch(header.name):
        raise Malformed(f"{header.name!r} is no name of a member of a backup")
    return header.name


def _manifest(content: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise Malformed(f"the manifest of the backup cannot be read: {wrong}") from wrong
    if manifest["format"] != FORMAT:
        raise Malformed(
            f"the backup has format {manifest['format']}, and this version reads {FORMAT}; install a newer one"
        )
    return manifest


@contextmanager
def reading(source: Path) -> Iterator[Reader]:
    """The backup, verified before the block begins; Malformed."""
    try:
        with tarfile.open(source, "r:") as tar:
            yield Reader(tar)
    except FileNotFoundError as absent:
        raise Malformed(f"there is no file {source}") from absent
    except (tarfile.TarError, EOFError) as broken:
        raise Malformed(f"{source} cannot be read as a backup: {broken}") from broken
