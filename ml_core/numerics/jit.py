"""The one way to compile: no GIL, cached on disk when a folder is writable, and warm-up calls listed in one place."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
_warm: list[tuple[Any, Callable[[], tuple[Any, ...]]]] = []


def _source_digest() -> str:
    """Hash of the package's sources: a callee changed in another file must not leave its callers' cache valid."""
    h = hashlib.sha256()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _cache_folder() -> Path | None:
    """NUMBA_CACHE_DIR, the user's cache, or the temporary folder: the first that can be written."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    bases = [Path(given)] if given else [Path(home) / "postfit", Path(tempfile.gettempdir()) / f"postfit-{os.getuid()}"]
    return next((p for p in (base / f"numba-{_source_digest()}" for base in bases) if _writable(p)), None)


_FOLDER = _cache_folder()
if _FOLDER is not None:
    numba.config.CACHE_DIR = str(_FOLDER)


def compiled(*warm: Callable[[], tuple[Any, ...]], early: bool = False, allocates: bool = True) -> Callable[[F], F]:
    """Compile a function of arrays and scalars with numba.

    Each `warm()` gives small arguments of types used in earnest (give both writable and read-only arrays where models
    are memory-mapped); `warm_up` calls the function with them so that a worker or an image starts hot, those first
    that somebody may wait for `early`, soon after the start. A loop that makes no array, with helpers that are
    `uncounted`, says `allocates=False`: it is spared two locked additions per array and call of a helper, which count
    references, and for which threads that share an argument wait.
    """

    def decorate(function: F) -> F:
        fast = numba.njit(cache=_FOLDER is not None, nogil=True, _nrt=allocates)(function)
        place = 0 if early else len(_warm)
        _warm[place:place] = [(fast, arguments) for arguments in warm]
        return fast

    return decorate


def inner(function: F) -> F:
    """Compile a helper that only other compiled functions call; it is warmed through them."""
    return numba.njit(cache=_FOLDER is not None, nogil=True)(function)


def divided(function: F) -> F:
    """`inner` whose loops divide in vector lanes: by zero gives inf or nan, not an exception."""
    return numba.njit(cache=_FOLDER is not None, nogil=True, error_model="numpy")(function)


def fused(function: F) -> F:
    """`inner` whose products and sums may be one rounding each, where the processor has that."""
    return numba.njit(cache=_FOLDER is not None, nogil=True, fastmath={"contract"})(function)


def regrouped(function: F) -> F:
    """`inner` for sums whose terms may be regrouped into vector lanes: equal bits on every run."""
    return numba.njit(cache=_FOLDER is not None, nogil=True, fastmath={"reassoc", "contract"})(function)


def merged(function: F) -> F:
    """Like `inner`, but copied into its callers: for helpers so short that passing arguments is the work."""
    return numba.njit(cache=_FOLDER is not None, nogil=True, forceinline=True)(function)


def uncounted(function: F) -> F:
    """Like `merged`, for the helpers of a loop that does not allocate: they make no array either."""
    return numba.njit(cache=_FOLDER is not None, nogil=True, forceinline=True, _nrt=False)(function)


def read_only(*arrays: Any) -> tuple[Any, ...]:
    """The arguments with arrays made read-only, as a memory-mapped model's are."""
    copies = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arrays)
    for a in copies:
        if isinstance(a, np.ndarray):
            a.flags.writeable = False
    return copies


def read_only_views(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Read-only views, so that one compiled version serves arrays of both kinds."""
    views = tuple(np.ascontiguousarray(a).view() for a in arrays)
    for v in views:
        v.flags.writeable = False
    return views


def warm_up() -> int:
    """Import every algorithm and call each compiled entry point once; returns how many."""
    from ml_core.registry import algorithms  # noqa: PLC0415 - the registry imports the families, which import this file

    algorithms()
    for function, arguments in _warm:
        function(*arguments())
    return len(_warm)
