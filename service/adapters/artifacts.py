"""Fitted models on disk: joblib files, opened only when their digest and signature agree, through an allow-list.

A pickle can run code, so three things stand before it: the file was written by this service (HMAC over digest and
metadata with a key that only its processes have), its bytes are those that were written (SHA-256), and the
unpickler builds only classes of ml_core, NumPy arrays and a few builtins.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import joblib
import numpy as np
import scipy
from joblib import numpy_pickle

import ml_core
from service.adapters.signing import SigningKey
from service.disk import full_disk
from service.errors import ArtifactRejected
from service.ports import Json, Objects

FORMAT = 1
"""Of the manifest and the file; references of the first release have none."""
MAX_VERIFIED = 10_000
READ_BYTES = 1 << 20
NUMPY = {"ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer", "memmap"}
MAPPED_BYTES = 1 << 20
"""Larger models share their pages with other processes; smaller ones answer faster from plain arrays."""
JOBLIB = {"NumpyArrayWrapper"}
BUILTINS = {"set", "frozenset", "slice", "range", "complex", "bytearray"}


class AllowList(numpy_pickle.NumpyUnpickler):  # type: ignore[misc]
    """joblib's unpickler, limited to what a fitted model may hold."""

    def find_class(self, module: str, name: str) -> Any:
        """The class, or ArtifactRejected."""
        root = module.partition(".")[0]
        if root == "ml_core" and "." not in name:  # a dotted name, or a module's own imports, would lead out of ml_core
            found = super().find_class(module, name)
            if str(getattr(found, "__module__", "")).partition(".")[0] == "ml_core":
                return found
        if (root == "numpy" and name in NUMPY) or (root == "joblib" and name in JOBLIB):
            return super().find_class(module, name)
        if (module == "builtins" and name in BUILTINS) or (module, name) == ("collections", "OrderedDict"):
            return super().find_class(module, name)
        if root == "numpy" and module.startswith("numpy.dtypes"):
            return super().find_class(module, name)
        raise ArtifactRejected(f"the artifact asks for {module}.{name}, which no model holds")


class Artifacts:
    """Saves and loads fitted models; `ref` is the JSON that the ledger keeps of one."""

    def __init__(self, objects: Objects, key: SigningKey) -> None:
        self.objects = objects
        self.key = key
        self._verified: set[tuple[object, ...]] = set()

    def save(self, key: str, model: Any, origin: Mapping[str, Any] = MappingProxyType({})) -> Json:
        """Write the model; returns its manifest: key, bytes, sha256, versions, where it came from, signature.

        The key gets the digest of the bytes, `model.joblib` → `model-3f2a….joblib`: a key is written once, and an
        attempt that was handed back runs again under its number.
        """
        path = self.objects.scratch() / f"{secrets.token_hex(8)}.joblib"
        try:
            with full_disk():
                joblib.dump(model, path, compress=0)
                path.chmod(0o400)
            with path.open("rb") as file:
                digest, size = _digest(file), os.fstat(file.fileno()).st_size
            stem, _, ending = key.rpartition(".")
            ref: Json = {**origin, **_written_by(), "key": f"{stem}-{digest[:16]}.{ending}", "bytes": size,
                         "sha256": digest, "signing_key": self.key.fingerprint()}  # fmt: skip
            self.objects.put_file(ref["key"], path)
        finally:
            path.unlink(missing_ok=True)
        return ref | {"signature": self._sign(ref)}

    def load(self, ref: Json) -> Any:
        """The model, mapped from the file where it is large; ArtifactRejected when anything disagrees."""
        with self._opened(ref) as file:
            mode = "r" if ref["bytes"] > MAPPED_BYTES else None
            return AllowList(_same_file(file), file, ensure_native_byte_order=False, mmap_mode=mode).load()

    def verified(self, ref: Json) -> Path:
        """The file of the reference, once size, digest and signature agree."""
        with self._opened(ref):
            return self.objects.path(ref["key"])

    @contextmanager
    def _opened(self, ref: Json) -> Iterator[BinaryIO]:
        """The open file, whose very bytes were found to be those that were signed; ArtifactRejected, NotFound."""
        body = {k: v for k, v in ref.items() if k != "signature"}
        if not hmac.compare_digest(self._sign(body), str(ref.get("signature"))):
            raise ArtifactRejected(f"the signature of {ref['key']} does not agree; the record was changed")
        if ref.get("format", 0) > FORMAT:
            raise ArtifactRejected(
                f"{ref['key']} has format {ref['format']}, this version reads up to {FORMAT}; update"
            )
        with self.objects.open(ref["key"]) as file:
            self._verify(ref, file)
            yield file

    def _verify(self, ref: Json, file: BinaryIO) -> None:
        """Hash a file once per process, and again whenever it is another file or was written to."""
        now = os.fstat(file.fileno())
        mark = (ref["key"], ref["sha256"], now.st_dev, now.st_ino, now.st_mtime_ns, now.st_size)
        if mark in self._verified and now.st_size == ref["bytes"]:
            return
        if now.st_size != ref["bytes"] or _digest(file) != ref["sha256"]:
            raise ArtifactRejected(f"{ref['key']} is not the file that was written; restore it from a backup or refit")
        file.seek(0)
        if len(self._verified) >= MAX_VERIFIED:
            self._verified.clear()
        self._verified.add(mark)

    def _sign(self, body: Json) -> str:
        return self.key.sign(json.dumps(body, sort_keys=True).encode())


def _written_by() -> Json:
    return {
        "format": FORMAT, "ml_core": ml_core.__version__, "numpy": np.__version__, "scipy": scipy.__version__,
        "joblib": joblib.__version__, "python": platform.python_version(), "byte_order": sys.byteorder,
    }  # fmt: skip


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while part := file.read(READ_BYTES):
        digest.update(part)
    return digest.hexdigest()


def _same_file(file: BinaryIO) -> Path:
    """A path that leads to the open file itself, whatever has its name by now; joblib maps files by path."""
    held = Path(f"/proc/self/fd/{file.fileno()}")
    return held if held.exists() else Path(file.name)
