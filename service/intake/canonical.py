"""One form for every table: canonical Arrow types from any Arrow type, and the hash of the content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core.errors import pointer
from service.intake.dates import microseconds, real
from service.intake.findings import Typed, one_chunk, refuse, warning
from service.intake.types import big_integers, text_type

BLOCK = 1 << 16


def canonical(name: str, cells: pa.ChunkedArray | pa.Array) -> Typed:
    """A column of any flat Arrow type in our types; Invalid for nested ones. NaN is missing. O(n)."""
    array = one_chunk(cells)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        inner = canonical(name, array.dictionary_decode())
        return Typed(inner.array, "category", explicit=True) if inner.type == "text" else inner
    if array.null_count == len(array) and not pa.types.is_nested(array.type):
        return Typed(pa.nulls(len(array), pa.float64()), "number")
    check_type(name, array.type)
    read = next(read for test, read in _READERS if test(array.type))
    try:
        return read(array)
    except Unfit as error:
        raise refuse(pointer("file", "column", name), error.code, f"Column {name!r} {error}") from error


class Unfit(ValueError):
    """Values that have no canonical form: a code, and why."""

    def __init__(self, code: str, why: str) -> None:
        self.code = code
        super().__init__(why)


def check_type(name: str, kind: pa.DataType) -> None:
    """Invalid for an Arrow type that is not read; structs count by their fields."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind):
        for field in kind:
            check_type(f"{name}.{field.name}", field.type)
    elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        check_type(name, kind.value_type)
    elif not pa.types.is_null(kind) and not any(test(kind) for test, _ in _READERS):
        detail = f"Column {name!r} is of Arrow type {kind}; flatten or cast it to numbers, text, dates or booleans."
        raise refuse(pointer("file", "column", name), "unread_type", detail)


def _boolean(array: pa.Array) -> Typed:
    return Typed(array, "boolean")


def _integer(array: pa.Array) -> Typed:
    try:
        values = pc.cast(array, pa.int64())
    except pa.ArrowInvalid:
        note = warning("huge_integers", "has integers beyond 64 bits and is text, so that no digit is lost.")
        text = pc.cast(array, pa.string())
        return Typed(text, text_type(text), (note,))
    return Typed(values, "integer", big_integers(values))


def _number(array: pa.Array) -> Typed:
    values = pc.cast(array, pa.float64())
    gaps = pc.is_nan(values)
    if pc.any(gaps).as_py():
        values = pc.if_else(gaps, pa.scalar(None, pa.float64()), values)
    infinite = pc.any(pc.is_inf(values)).as_py()
    notes = (warning("infinite", "has infinite values.", "Most algorithms refuse them."),) if infinite else ()
    return Typed(values, "number", notes)


def _decimal(array: pa.Array) -> Typed:
    """Nearest doubles, through the decimal text, since the direct cast rounds twice."""
    if array.type.scale <= 0:
        return _integer(pc.cast(array, pa.decimal256(76, 0)))
    values = pc.cast(pc.cast(array, pa.string()), pa.float64())
    digits = pc.utf8_length(pc.replace_substring_regex(pc.cast(array, pa.string()), r"[eE].*$|^-?0*\.?0*|[.-]", ""))
    exact = pc.max(digits).as_py() <= 15
    notes = (
        ()
        if exact
        else (warning("inexact_decimals", "has decimals of more than 15 digits; nearest doubles are stored."),)
    )
    return Typed(values, "number", notes)


def _text(array: pa.Array) -> Typed:
    try:
        text = pc.cast(array, pa.large_string() if array.nbytes >= 2**31 - 1 else pa.string())
    except pa.ArrowInvalid as error:
        raise Unfit("binary_column", f"is binary and no UTF-8 text: {error}.") from error
    return Typed(text, text_type(text))


def _date(array: pa.Array) -> Typed:
    return Typed(_known(pc.cast(array, pa.date32())), "date")


def _datetime(array: pa.Array) -> Typed:
    try:
        values, cut = microseconds(array)
    except pa.ArrowInvalid as error:
        raise Unfit("out_of_range", f"has times beyond the years that microseconds reach: {error}.") from error
    note = warning("rounded_times", "has times finer than microseconds, which were cut off (towards the earlier).")
    values = _known(pc.cast(values, pa.timestamp("us", "UTC" if array.type.tz else None)))
    return Typed(values, "datetime", (note,) if cut else ())


def _known(moments: pa.Array) -> pa.Array:
    """The dates or times; Unfit beyond the years 1 to 9999."""
    if real(moments) is None:
        raise Unfit("out_of_range", "has dates beyond the years 1 to 9999; make those that mean nothing null.")
    return moments


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Typed]], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _number),
    (pa.types.is_decimal, _decimal),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), _text),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t), _text),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _datetime),
)


def content_hash(table: pa.Table) -> str:
    """SHA-256 of names, types, missing marks and values, column by column in blocks of rows. O(bytes).

    Missing slots count as zero or empty, −0.0 as 0.0; category and text are the same here.
    """
    kinds = [
        [name, str(kind).removeprefix("large_")]
        for name, kind in zip(table.column_names, table.schema.types, strict=True)
    ]
    digest = hashlib.sha256(json.dumps(["table-1", table.num_rows, kinds], ensure_ascii=True).encode())
    for column in table.columns:
        for start in range(0, table.num_rows, BLOCK):
            _update(digest, one_chunk(column.slice(start, BLOCK)))
    return digest.hexdigest()


def _update(digest: hashlib._Hash, block: pa.Array) -> None:
    """One block of a column: a bit per row, then the values."""
    digest.update(_valid_bits(block).data)
    kind = block.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        lengths, text = _spelt(block)
        digest.update(lengths.astype("<i8", copy=False).data)
        digest.update(text)
    elif pa.types.is_boolean(kind):
        digest.update(np.packbits(pc.fill_null(block, False).to_numpy(zero_copy_only=False)).data)
    elif pa.types.is_floating(kind):
        digest.update((_filled(block, 0.0) + 0.0).astype("<f8", copy=False).data)
    else:
        whole = block.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(kind) else block.cast(pa.int64())
        digest.update(np.ascontiguousarray(_filled(whole, 0)).astype("<i8", copy=False).data)


def _valid_bits(block: pa.Array) -> np.ndarray[Any, Any]:
    if not block.null_count:
        return np.packbits(np.ones(len(block), bool))
    return np.packbits(pc.is_valid(block).to_numpy(zero_copy_only=False))


def _filled(block: pa.Array, value: float) -> np.ndarray[Any, Any]:
    return (pc.fill_null(block, value) if block.null_count else block).to_numpy()


def _spelt(block: pa.Array) -> tuple[np.ndarray[Any, Any], Any]:
    """Bytes of each text, 0 where it is missing, and all texts one after the other."""
    text = pc.fill_null(block, "") if block.null_count else block
    _, places, data = text.buffers()
    kind = np.int64 if pa.types.is_large_string(text.type) else np.int32
    ends = np.frombuffer(places, kind)[text.offset : text.offset + len(text) + 1] if len(text) else np.zeros(1, kind)
    joined = memoryview(data)[int(ends[0]) : int(ends[-1])] if data is not None else b""
    return np.diff(ends).astype(np.int64), joined
