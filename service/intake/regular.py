"""Regular delimited text, read by compiled loops on all cores: plain numbers as numbers at once, the rest as text.

Regular is what every reader takes alike: quotes enclose whole cells, records have equally many cells and end with a
line feed. A column is read as numbers when its first cells are written in the strictest way, and once more, as text,
when a later cell is not. What is not regular is left to Arrow's reader; what is comes out as its text would be typed.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from service.disk import full_disk
from service.intake.cutting import fields
from service.intake.findings import ReadOptions
from service.intake.kernels import INTEGER, LF, MISSING, NUMBER, SKIP, TEXT, Bytes, scan
from service.intake.laid import Laid, room_for
from service.intake.numerals import COMMA, POINT, may_part
from service.intake.places import boundary, census, gather
from service.intake.sniff import HEAD, Dialect
from service.intake.store import Store

LEAST_BYTES = 1 << 22
BLOCK = 4 << 20
SAMPLE_ROWS = 1000
MARKS = frozenset(map(chr, range(1, 128))) - frozenset('0123456789+-.eE"\r\n')
BOM = b"\xef\xbb\xbf"
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
DECIMAL = {
    mark: re.compile(rf"-?(0|[1-9][0-9]*)(\{mark}[0-9]+)?([eE][+-]?[0-9]{{1,3}})?") for mark in (POINT, COMMA)
}
ARROW = {INTEGER: pa.int64(), NUMBER: pa.float64()}
T = TypeVar("T")
R = TypeVar("R")


class _Irregular(Exception):
    """A record that is not regular."""


@dataclass(frozen=True)
class Plan:
    """The bytes of a file, and how its cells are read: `kinds` (d,) of the columns, words for missing ones."""

    data: Bytes
    delimiter: int
    decimal: int
    words: tuple[bytes, ...]
    kinds: Any

    def having(self, kinds: Any) -> Plan:
        """The same for other kinds."""
        return replace(self, kinds=kinds)


class Regular(NamedTuple):
    """What was read, and the file in which its numbers lie, if there are any."""

    table: pa.Table
    laid: Laid | None


class Part(NamedTuple):
    """The columns of one block: numbers (k × n) with marks (d × n), text columns, and which columns are odd."""

    rows: int
    numbers: Any
    marks: Any
    texts: list[pa.Array]
    odd: Any


def read_regular(
    path: Path, how: Dialect, options: ReadOptions, folder: Path, *, doubtful: bool = False
) -> Regular | None:
    """The table with columns "0", "1", …, mapped from files in `folder`; None when the text is not regular.

    Columns are int64, float64 or string, of which only the last are still to be typed. `doubtful`: decimal marks may
    part thousands.
    """
    mark = how.delimiter
    if path.stat().st_size < LEAST_BYTES or len(how.names) < 2 or how.trailing or mark not in MARKS:
        return None
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    begin = _body(bytes(data[:HEAD]), how)
    if begin is None or begin >= data.size:
        return None
    kinds = _kinds(bytes(data[begin : begin + HEAD]), how, options, doubtful)
    if kinds is None:
        return None
    words = tuple(word.encode() for word in options.nulls)
    plan = Plan(data[begin:], ord(mark), ord(how.decimal), words, kinds)
    try:
        spans, bound = _spans(plan.data)
        with full_disk(), ThreadPoolExecutor(_cores()) as pool:
            return _read(plan, spans, bound, folder, pool, room_for(how.names))
    except _Irregular:
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _read(
    plan: Plan, spans: list[tuple[int, int]], bound: int, folder: Path, pool: ThreadPoolExecutor, room: int
) -> Regular:
    """All columns; those that turn out odd in a second pass as text."""
    columns, odd, laid = _columns(plan, spans, Store(folder / "first.numbers", room, bound), pool)
    if odd.any():
        again = plan.having(np.where(odd, TEXT, SKIP).astype(np.int8))
        columns |= _columns(again, spans, Store(folder / "second.numbers", 0, bound), pool)[0]
    return Regular(pa.table({str(j): columns[j] for j in range(plan.kinds.size)}), laid)


def _body(head: bytes, how: Dialect) -> int | None:
    """Where the first row begins; None when that cannot be told from the head."""
    at = len(BOM) if head.startswith(BOM) else 0
    for _ in range(how.skip):
        at = head.find(b"\n", at) + 1
        if not at:
            return None
    if not how.header:
        return at
    while head[at : at + 1] in {b"\n", b"\r"}:
        at += 1
    end = at + boundary(np.frombuffer(head, np.uint8)[at:], 0)
    rows = fields(head[at:end].decode(errors="ignore"), how.delimiter, complete=True)
    if [len(row) for row in rows] != [len(how.names) - how.row_names] or re.search(rb"\r(?!\n)", head[:end]):
        return None
    return end if head[end - 1 : end] == b"\n" else None


def _kinds(head: bytes, how: Dialect, options: ReadOptions, doubtful: bool) -> Any | None:
    """The kind of each column by its first cells; None when these are not regular.

    All are text where types are stated or a word for a missing value is a number, and so are decimals whose mark may
    part thousands: they need a second look.
    """
    rows = fields(head.decode(errors="ignore"), how.delimiter, complete=False)[:SAMPLE_ROWS]
    if not rows or {len(row) for row in rows} != {len(how.names)}:
        return None
    kinds, nulls, decimal = np.full(len(how.names), TEXT, np.int8), options.nulls, DECIMAL[how.decimal]
    if options.types or how.decimal == how.delimiter or any(map(decimal.fullmatch, nulls)):
        return kinds
    for j, column in enumerate(zip(*rows, strict=True)):
        cells = [cell for cell in column if cell not in nulls]
        marked = [cell for cell in cells if how.decimal in cell]
        if cells and all(map(WHOLE.fullmatch, cells)):
            kinds[j] = INTEGER
        elif marked and all(map(decimal.fullmatch, cells)) and not (doubtful and may_part(marked, how.decimal)):
            kinds[j] = NUMBER
    return kinds


def _spans(data: Bytes) -> tuple[list[tuple[int, int]], int]:
    """Blocks that begin with a record, and at most how many records there are; _Irregular for a record beyond BLOCK."""
    starts, lines, inside, at = [0], 1, 0, 0
    while at + BLOCK < data.size:
        feeds, quotes, _ = census(data[at : at + BLOCK])
        lines, inside = lines + feeds, (inside + quotes) & 1
        at += BLOCK
        start = at + boundary(data[at : at + BLOCK], inside)
        if start == min(at + BLOCK, data.size) and start < data.size:
            raise _Irregular
        if starts[-1] < start < data.size:
            starts.append(start)
    lines += census(data[at:])[0]
    return list(zip(starts, [*starts[1:], data.size], strict=True)), lines


def _columns(
    plan: Plan, spans: Iterable[tuple[int, int]], store: Store, pool: ThreadPoolExecutor
) -> tuple[dict[int, pa.Array | pa.ChunkedArray], Any, Laid | None]:
    """The columns that are not skipped, by number, without the odd ones; a mask of these; where numbers lie."""
    numeric = [j for j, kind in enumerate(plan.kinds) if kind in ARROW]
    texts = [j for j, kind in enumerate(plan.kinds) if kind == TEXT]
    odd, schema = np.zeros(plan.kinds.size, bool), pa.schema([(str(j), pa.string()) for j in texts])
    cells = str(store.path.with_suffix(".arrow"))
    with store.of(len(numeric)), pa.OSFile(cells, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for part in _ahead(pool, lambda span: _part(plan, *span), spans):
            store.add(part.numbers, part.marks[numeric], part.rows)
            if texts:
                writer.write_batch(pa.record_batch(part.texts, schema=schema))
            odd |= part.odd.astype(bool)
        columns: dict[int, pa.Array | pa.ChunkedArray] = {
            j: store.column(k, ARROW[plan.kinds[j]]) for k, j in enumerate(numeric) if not odd[j]
        }
    table = pa.ipc.open_file(pa.memory_map(cells)).read_all()
    return columns | {j: table.column(k) for k, j in enumerate(texts)}, odd, store.laid() if numeric else None


def _ahead(pool: ThreadPoolExecutor, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in order, a few of them made ahead."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(call, item))
        if len(waiting) > 2 * _cores():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _part(plan: Plan, start: int, stop: int) -> Part:
    """The records of one block; _Irregular."""
    data = plan.data[start:stop]
    if data[-1] != LF:
        data = np.append(data, np.uint8(LF))
    data.flags.writeable = False
    d, most = plan.kinds.size, census(data)[0]
    numeric, text = np.isin(plan.kinds, (INTEGER, NUMBER)), plan.kinds == TEXT
    slots = np.zeros(d, np.int32)
    slots[numeric], slots[text] = np.arange(numeric.sum()), np.arange(text.sum())
    numbers, marks = np.empty((numeric.sum(), most), np.int64), np.empty((d, most), np.uint8)
    places, odd = np.empty((text.sum(), most, 2), np.int32), np.zeros(d, np.uint8)
    words = np.frombuffer(b"".join(plan.words) or b" ", np.uint8)
    ends = np.cumsum([len(word) for word in plan.words], dtype=np.int64)
    rows, end = scan(
        data, plan.kinds, slots, plan.delimiter, plan.decimal, words, ends, numbers, marks, places, odd
    )
    if rows < 0 or end != data.size:
        raise _Irregular
    texts = [_text(data, places[k, :rows], marks[j, :rows]) for k, j in enumerate(np.flatnonzero(text))]
    return Part(rows, numbers, marks, texts, odd)


def _text(data: Bytes, places: Any, marks: Any) -> pa.Array:
    """A string array of the cells at these places."""
    valid = marks != MISSING
    offsets = np.zeros(marks.size + 1, np.int32)
    out = np.empty(int((places[:, 1] - places[:, 0]).sum(where=valid)), np.uint8)
    gather(data, places, marks, offsets, out)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(marks.size, pa.py_buffer(offsets), pa.py_buffer(out), bits)
