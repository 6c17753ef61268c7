"""What travels between a job and the workers of its engine, and what a worker does with it.

Large arrays are written once as `.npy` under their content hash and travel as references; a worker maps them read-only
from its host's copy. The rest is a small pickle. A task tells which versions its sender runs, and a worker that differs
refuses it, so that one that joins late cannot change a bit of the answer.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import ml_core
import service
from ml_core import naming, parallel, progress
from ml_core.numerics.memory import grant
from service.errors import ArtifactRejected, EngineMismatch, NotFound
from service.ports import Objects

ARRAY_BYTES = 1 << 14
"""Arrays from this size travel as references."""
INLINE_BYTES = 1 << 15
"""Packets up to this size travel in the message of every task."""
SAME = ("numpy", "scipy", "numba", "joblib", "distributed")


@dataclass(frozen=True)
class Reference:
    """Stored bytes: the key and the SHA-256 that they must have."""

    key: str
    sha256: str


Packet = bytes | Reference


@cache
def facts() -> dict[str, str]:
    """Versions that must agree between a job and the workers, and a digest of our own code."""
    digest = hashlib.sha256()
    for package in (ml_core, service):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    ours = {"python": python, "ml_core": ml_core.__version__, "code": digest.hexdigest()[:16]}
    return ours | {name: version(name) for name in SAME}


def compare(job: dict[str, str], other: dict[str, str], who: str) -> None:
    """EngineMismatch when a member of the engine runs other versions than the job; it tells which host has what."""
    apart = [f"{k} {other.get(k)} on {who} but {v} with the job" for k, v in job.items() if other.get(k) != v]
    if apart:
        raise EngineMismatch(f"the engine would not give the same bits: {'; '.join(apart)}; "
                             "install the same version of the service on all hosts")  # fmt: skip


class Shelf:
    """The arrays and packets that one attempt of a job has stored for the workers."""

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix
        self._kept: dict[str, Reference] = {}

    def pack(self, function: Callable[..., Any], shared: tuple[Any, ...]) -> Packet:
        """The call without its items; TypeError for a function that other processes cannot import."""
        if getattr(function, "__module__", "__main__") == "__main__" or "<" in getattr(function, "__qualname__", ""):
            raise TypeError(f"{function!r} cannot be imported by workers; define it at the top of a module")
        buffer = io.BytesIO()
        _Pickler(buffer, self).dump((function, shared, naming.in_force()))
        packet = buffer.getvalue()
        if len(packet) <= INLINE_BYTES:
            return packet
        return self._store(".pickle", lambda path: path.write_bytes(packet))

    def array(self, a: np.ndarray) -> Reference:
        """Store an array."""
        return self._store(".npy", lambda path: _save(path, a))

    def _store(self, suffix: str, write: Callable[[Path], Any]) -> Reference:
        path = self._objects.scratch() / f"spread-{secrets.token_hex(8)}"
        try:
            write(path)
            digest = _digest(path)
            if digest not in self._kept:
                key = f"{self._prefix}/{digest}{suffix}"
                self._objects.put_file(key, path)
                self._kept[digest] = Reference(key, digest)
        finally:
            path.unlink(missing_ok=True)
        return self._kept[digest]

    def clear(self) -> None:
        """Remove everything stored; what is mapped stays valid."""
        for reference in self._kept.values():
            self._objects.delete(reference.key)
        self._kept.clear()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, shelf: Shelf) -> None:
        super().__init__(file, protocol=5)
        self._shelf = shelf

    def persistent_id(self, value: Any) -> Reference | None:
        """A reference in place of a large array, however deep it stands."""
        if type(value) in (np.ndarray, np.memmap) and value.nbytes >= ARRAY_BYTES and not value.dtype.hasobject:
            return self._shelf.array(value)
        return None


class Bench:
    """What this worker process works with; `service.dask_worker` says it once."""

    objects: Objects | None = None
    verified: frozenset[Reference] = frozenset()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, reference: Any) -> np.ndarray:
        """The array, mapped read-only."""
        return np.load(_file(reference), mmap_mode="r", allow_pickle=False).view(np.ndarray)


def work(
    packet: Packet, items: Sequence[Any], job: dict[str, str], host: str, left: float | None = None,
    until: float = float("inf"), memory: float = float("inf"),
) -> tuple[float, list[Any], list[progress.Tick | None]]:  # fmt: skip
    """Seconds, answers of some items, and loops that time ended: one task, on one thread.

    Time is over `left` seconds after the start, and at `until` on the clock; items have equal parts of it. `memory` are
    the bytes that the job may use, so that what depends on them is decided as there.
    """
    compare(job, facts(), f"the worker on {socket.gethostname()} (the job runs on {host})")
    started = time.perf_counter()
    data = packet if isinstance(packet, bytes) else _file(packet).read_bytes()
    # The bytes came over the engine's own network, or agree with the digest that did.
    function, shared, names = _Unpickler(io.BytesIO(data)).load()
    seconds = None if left is None else max(0.0, min(left, until - time.time()))
    try:
        with (naming.use(names), parallel.use_threads(1), parallel.use_mapper(None), grant(memory),
              progress.deadline(seconds), progress.cut_short() as cut):  # fmt: skip
            answers = []
            for k, item in enumerate(items):
                with progress.share(len(items) - k):
                    answers.append(function(item, *shared))
    except MemoryError as hunger:
        raise MemoryError(f"a worker on {socket.gethostname()} ran out: {hunger}") from hunger
    return time.perf_counter() - started, answers, cut


def _file(reference: Reference) -> Path:
    if Bench.objects is None:
        raise EngineMismatch(f"a Dask worker on {socket.gethostname()} has no stores: start it with "
                             "--preload service.dask_worker")  # fmt: skip
    try:
        path = Bench.objects.path(reference.key)
    except NotFound as absent:
        raise EngineMismatch(f"a Dask worker on {socket.gethostname()} does not find {reference.key}: give it the same "
                             "POSTFIT_DATA or POSTFIT_OBJECTS as the runners") from absent  # fmt: skip
    if reference not in Bench.verified:
        if _digest(path) != reference.sha256:
            raise ArtifactRejected(f"{reference.key} is not what the job stored")
        Bench.verified |= {reference}
    return path


def _save(path: Path, a: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, a, allow_pickle=False)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
