"""Fitted models on disk: joblib files, opened only when their digest and signature agree, through an allow-list.

A pickle can run code, so three things stand before it: the file was written by this service (HMAC over digest and
metadata with a key that never leaves the data folder), its bytes are those that were written (SHA-256), and the
unpickler builds only classes of ml_core, NumPy arrays and a few builtins.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Any

import joblib
from joblib import numpy_pickle

import ml_core
from service.disk import full_disk
from service.errors import ArtifactRejected
from service.ports import Json, Objects

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

    def __init__(self, objects: Objects, secret: Path, given: str | None = None) -> None:
        self.objects = objects
        self.secret = secret
        self._given = given

    def save(self, key: str, model: Any) -> Json:
        """Write the model; returns its reference: key, bytes, sha256, versions, signature.

        The key gets the digest of the bytes, `model.joblib` → `model-3f2a….joblib`: a key is written once, and an
        attempt that was handed back runs again under its number.
        """
        path = self.objects.scratch() / f"{secrets.token_hex(8)}.joblib"
        with full_disk():
            joblib.dump(model, path, compress=0)
        path.chmod(0o400)
        digest = _digest(path)
        stem, _, ending = key.rpartition(".")
        ref: Json = {
            "key": f"{stem}-{digest[:16]}.{ending}", "bytes": path.stat().st_size, "sha256": digest,
            "ml_core": ml_core.__version__, "joblib": joblib.__version__,
        }  # fmt: skip
        self.objects.put_file(ref["key"], path)
        return ref | {"signature": self._sign(ref)}

    def load(self, ref: Json) -> Any:
        """The model, mapped from the file where it is large; ArtifactRejected when anything disagrees."""
        path = self.verified(ref)
        mmap = ref["bytes"] > MAPPED_BYTES
        with path.open("rb") as file:
            unpickler = AllowList(str(path), file, ensure_native_byte_order=False, mmap_mode="r" if mmap else None)
            return unpickler.load()

    def verified(self, ref: Json) -> Path:
        """The file of the reference, once size, digest and signature agree."""
        body = {k: v for k, v in ref.items() if k != "signature"}
        if not hmac.compare_digest(self._sign(body), str(ref.get("signature"))):
            raise ArtifactRejected(f"the signature of {ref['key']} does not agree; the record was changed")
        path = self.objects.path(ref["key"])
        if path.stat().st_size != ref["bytes"] or _digest(path) != ref["sha256"]:
            raise ArtifactRejected(f"{ref['key']} is not the file that was written; restore it from a backup or refit")
        return path

    def _sign(self, body: Json) -> str:
        text = json.dumps(body, sort_keys=True).encode()
        return hmac.new(self._key(), text, hashlib.sha256).hexdigest()

    def _key(self) -> bytes:
        """The key that every host was given (hex), else the one of this data folder, made when absent."""
        if self._given is not None:
            return bytes.fromhex(self._given)
        if not self.secret.exists():
            try:
                fd = os.open(self.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                return self.secret.read_bytes()
            with os.fdopen(fd, "wb") as f:
                f.write(secrets.token_bytes(32))
                f.flush()
                os.fsync(f.fileno())
        return self.secret.read_bytes()


def _digest(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
