"""NumPy files: an array (npy), or several of one length (npz), as named columns. Pickled objects are refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from tokenize import TokenError

import numpy as np
import pyarrow as pa

from service.disk import full_disk
from service.errors import TooLarge
from service.intake.canonical import canonical
from service.intake.findings import MAX_COLUMNS, Shelf, Typed, refuse
from service.intake.unpack import Metered, damage

KINDS = "biufUSM"
DOUBLE = 8
UNITS = {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"}


def read_npy(path: Path, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    """Columns `x0`, `x1` … of an array (n,) or (n, d), or the fields of a structured one."""
    return _columns({"x": _mapped(path, "the file")}, shelf, cap)


def read_npz(path: Path, shelf: Shelf, cap: int, scratch: Path) -> tuple[list[str], list[Typed]]:
    """Columns of every array of the archive, which must have one length: `name`, or `name0`, `name1` … ."""
    arrays, room = {}, cap
    with damage("damaged_file", "The npz file is damaged or cut off"), zipfile.ZipFile(path) as archive:
        for i, member in enumerate(archive.infolist()):
            target = scratch / f"array-{i}.npy"
            with full_disk(), Metered(archive.open(member), room) as source, target.open("wb") as sink:
                while block := source.read(1 << 20):
                    sink.write(block)
            room -= target.stat().st_size
            arrays[member.filename.removesuffix(".npy")] = _mapped(target, member.filename)
    lengths = {name: len(a) for name, a in arrays.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {n}" for name, n in list(lengths.items())[:10])
        raise refuse("/file", "ragged_arrays", f"The arrays of the npz have different numbers of rows: {shown}.")
    return _columns(arrays, shelf, cap)


def _mapped(path: Path, what: str) -> np.ndarray:
    """The array, mapped; a header that lies about the size costs nothing."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, TypeError, EOFError, OSError, OverflowError, SyntaxError, TokenError, MemoryError) as error:
        raise refuse("/file", "damaged_file", f"{what} is no array that can be read: {error}") from error
    if path.stat().st_size > array.offset + array.nbytes:
        detail = f"{what} goes on behind its array, with a second one perhaps; save one array, or several as npz."
        raise refuse("/file", "trailing_data", detail)
    if array.ndim not in (1, 2) or min(array.shape) < 0:
        raise refuse("/file", "wrong_shape", f"{what} has shape {array.shape}; a table has one or two dimensions.")
    return np.asarray(array)


def _columns(arrays: dict[str, np.ndarray], shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    named: list[tuple[str, np.ndarray]] = []
    for name, array in arrays.items():
        if array.dtype.names:
            named += [(field, array[field]) for field in array.dtype.names]
        elif array.ndim == 1:
            named.append((name, array))
        else:
            named += [(f"{name}{j}", array[:, j]) for j in range(array.shape[1])]
        if len(named) > MAX_COLUMNS:
            raise TooLarge(f"The file has more than {MAX_COLUMNS} columns.")
    if sum(a.nbytes for _, a in named) > cap:
        raise TooLarge(f"The arrays have more than {cap} bytes, which is the limit.")
    return [name for name, _ in named], [_typed(name, column, shelf) for name, column in named]


def _typed(name: str, column: np.ndarray, shelf: Shelf) -> Typed:
    kind = column.dtype
    unit = np.datetime_data(kind)[0] if kind.kind == "M" else "s"
    wide = kind.kind == "f" and kind.itemsize > DOUBLE
    if column.ndim != 1 or kind.kind not in KINDS or unit not in UNITS or wide:
        known = "numbers of up to 64 bits, booleans, fixed-width text and dates are read"
        detail = f"Column {name!r} is of type {kind}; {known}."
        raise refuse("/file", "unread_type", detail)
    values = np.ascontiguousarray(column)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if unit in {"Y", "M", "W", "h", "m"}:
        values = _seconds(name, values)
    try:
        typed = canonical(name, pa.array(values))
    except (UnicodeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise refuse("/file", "unread_text", f"Column {name!r} holds text that is no Unicode: {error}.") from error
    return Typed(shelf.keep(typed.array), typed.type, typed.warnings, typed.explicit)


def _seconds(name: str, values: np.ndarray) -> np.ndarray:
    """Times in seconds; Invalid when they are beyond the years that seconds reach."""
    fine = values.astype("datetime64[s]")
    if not np.array_equal(fine.astype(values.dtype), values, equal_nan=True):
        raise refuse("/file", "out_of_range", f"Column {name!r} has times too far from 1970.")
    return fine
