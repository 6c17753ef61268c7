"""Regular delimited text, read by compiled loops on all cores: plain numbers as numbers at once, the rest as text.

Regular is what every reader takes alike: quotes enclose whole cells, records have equally many cells and end with a
line feed. A column is read as numbers when its first cells are written in the strictest way, and once more, as text,
when a later cell is not. What is not regular is left to Arrow's reader; what is comes out as its text would be typed.
The text may still be arriving: what is there is read.
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
from service.intake.arrival import Arrival
from service.intake.cutting import fields
from service.intake.decoding import is_utf8
from service.intake.findings import ReadOptions
from service.intake.kernels import INTEGER, LF, NUMBER, SKIP, TEXT, Bytes, scan
from service.intake.laid import Laid, room_for
from service.intake.numerals import COMMA, POINT, may_part
from service.intake.places import boundary, census, texts_at
from service.intake.sniff import HEAD, Dialect
from service.intake.store import Store

LEAST_BYTES = 1 << 22
BLOCK = 4 << 20
SAMPLE_ROWS = 1000
SPARE, UNKNOWN = 1.125, 64 << 20
MARKS = frozenset(map(chr, range(1, 128))) - frozenset('0123456789+-.eE"\r\n')
BOM = b"\xef\xbb\xbf"
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
DECIMAL = {mark: re.compile(rf"-?(0|[1-9][0-9]*)(\{mark}[0-9]+)?([eE][+-]?[0-9]{{1,3}})?") for mark in (POINT, COMMA)}
ARROW = {INTEGER: pa.int64(), NUMBER: pa.float64()}
T = TypeVar("T")
R = TypeVar("R")


class _Irregular(Exception):
    """A record that is not regular."""


@dataclass(frozen=True)
class Plan:
    """Where the rows of a file begin, and how cells are read: `kinds` (d,) of the columns, words for missing ones."""

    text: Arrival
    begin: int
    delimiter: int
    decimal: int
    words: tuple[bytes, ...]
    kinds: Any

    def having(self, kinds: Any) -> Plan:
        """The same for other kinds."""
        return replace(self, kinds=kinds)

    def part(self, start: int, stop: int) -> Bytes:
        """Bytes of the rows."""
        return self.text.part(self.begin + start, self.begin + stop)


class Regular(NamedTuple):
    """What was read, the file in which its numbers lie, if there are any, and the double quotes of the text.

    These are None where it is no UTF-8, or has NUL bytes.
    """

    table: pa.Table
    laid: Laid | None
    quotes: int | None


class Part(NamedTuple):
    """The columns of one block: numbers (k × n) with marks (d × n), text columns, odd columns; if all is UTF-8."""

    rows: int
    numbers: Any
    marks: Any
    texts: list[pa.Array]
    odd: Any
    utf8: bool


class Span(NamedTuple):
    """Where a block begins and ends, and how many line feeds and bytes beyond ASCII (or NUL) it has."""

    start: int
    stop: int
    feeds: int
    high: int


class Columns(NamedTuple):
    """Columns by number, without the odd ones; a mask of these; if all text is UTF-8; where numbers lie."""

    columns: dict[int, pa.Array | pa.ChunkedArray]
    odd: Any
    utf8: bool
    laid: Laid | None


def read_regular(
    text: Arrival, how: Dialect, options: ReadOptions, folder: Path, *, doubtful: bool = False
) -> Regular | None:
    """The table with columns "0", "1", …, mapped from files in `folder`; None when the text is not regular.

    Columns are int64, float64 or string, of which only the last are still to be typed. `doubtful`: decimal marks may
    part thousands. What has not arrived is waited for.
    """
    mark, size = how.delimiter, text.upto(max(LEAST_BYTES, 2 * HEAD))
    if size < LEAST_BYTES or len(how.names) < 2 or how.trailing or mark not in MARKS:
        return None
    head = bytes(text.part(0, min(HEAD, size)))
    begin = _body(head, how)
    if begin is None or begin >= size:
        return None
    kinds = _kinds(bytes(text.part(begin, min(begin + HEAD, size))), how, options, doubtful)
    if kinds is None:
        return None
    words = tuple(word.encode() for word in options.nulls)
    plan = Plan(text, begin, ord(mark), ord(how.decimal), words, kinds)
    try:
        with full_disk(), ThreadPoolExecutor(_cores()) as pool:
            return _read(plan, head[:begin], folder, pool, room_for(how.names))
    except _Irregular:
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _read(plan: Plan, head: bytes, folder: Path, pool: ThreadPoolExecutor, room: int) -> Regular:
    """All columns; those that turn out odd in a second pass as text."""
    bound, spans = _bound(plan), Spans(plan)
    first = _columns(plan, spans, Store(folder / "first.numbers", room, bound), pool)
    columns = first.columns
    if first.odd.any():
        again = plan.having(np.where(first.odd, TEXT, SKIP).astype(np.int8))
        columns |= _columns(again, spans.found, Store(folder / "second.numbers", 0, bound), pool).columns
    utf8 = first.utf8 and is_utf8(np.frombuffer(head, np.uint8))
    table = pa.table({str(j): columns[j] for j in range(plan.kinds.size)})
    return Regular(table, first.laid, spans.quotes + head.count(b'"') if utf8 else None)


def _bound(plan: Plan) -> int:
    """About how many records there will be, by the first of them, and some more."""
    seen = plan.text.upto(plan.begin + BLOCK) - plan.begin
    feeds, wanted = census(plan.part(0, min(seen, BLOCK)))[0], plan.text.expected or UNKNOWN
    return int((1 + feeds) * max(1.0, wanted / min(seen, BLOCK)) * SPARE) + 1


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


class Spans:
    """Blocks that begin with a record, as they arrive, with what their bytes are; _Irregular for one beyond BLOCK."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.found: list[Span] = []
        self.quotes = 0
        self._counted = self._feeds = self._high = 0

    def __iter__(self) -> Iterator[Span]:
        """Each in turn."""
        begun, at = 0, 0
        while at + BLOCK < self._size(at + 2 * BLOCK + 1):
            at += BLOCK
            self._count(at)
            size = self._size(at + BLOCK + 1)
            stop = min(at + BLOCK, size)
            start = at + boundary(self._plan.part(at, stop), self.quotes & 1)
            if start == stop and start < size:
                raise _Irregular
            if begun < start < size:
                yield self._next(begun, start)
                begun = start
        yield self._next(begun, self._size(at + BLOCK))

    def _size(self, enough: int) -> int:
        return self._plan.text.upto(self._plan.begin + enough) - self._plan.begin

    def _count(self, stop: int) -> None:
        feeds, quotes, high = census(self._plan.part(self._counted, stop))
        self._feeds, self.quotes, self._high = self._feeds + feeds, self.quotes + quotes, self._high + high
        self._counted = stop

    def _next(self, start: int, stop: int) -> Span:
        self._count(stop)
        self.found.append(Span(start, stop, self._feeds, self._high))
        self._feeds = self._high = 0
        return self.found[-1]


def _columns(plan: Plan, spans: Iterable[Span], store: Store, pool: ThreadPoolExecutor) -> Columns:
    """The columns that are not skipped."""
    numeric = [j for j, kind in enumerate(plan.kinds) if kind in ARROW]
    texts = [j for j, kind in enumerate(plan.kinds) if kind == TEXT]
    odd, utf8, schema = np.zeros(plan.kinds.size, bool), True, pa.schema([(str(j), pa.string()) for j in texts])
    cells = str(store.path.with_suffix(".arrow"))
    with store.of(len(numeric)), pa.OSFile(cells, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for part in _ahead(pool, lambda span: _part(plan, span), spans):
            store.add(part.numbers, part.marks[numeric], part.rows)
            if texts:
                writer.write_batch(pa.record_batch(part.texts, schema=schema))
            odd |= part.odd.astype(bool)
            utf8 &= part.utf8
        columns: dict[int, pa.Array | pa.ChunkedArray] = {
            j: store.column(k, ARROW[plan.kinds[j]]) for k, j in enumerate(numeric) if not odd[j]
        }
    table = pa.ipc.open_file(pa.memory_map(cells)).read_all()
    columns |= {j: table.column(k) for k, j in enumerate(texts)}
    return Columns(columns, odd, utf8, store.laid() if numeric else None)


def _ahead(pool: ThreadPoolExecutor, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in order, a few of them made ahead."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(call, item))
        if len(waiting) > 2 * _cores():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _part(plan: Plan, span: Span) -> Part:
    """The records of one block; _Irregular."""
    data, most, d = plan.part(span.start, span.stop), span.feeds, plan.kinds.size
    if data[-1] != LF:
        data, most = np.append(data, np.uint8(LF)), most + 1
    data.flags.writeable = False
    numeric, text = np.isin(plan.kinds, (INTEGER, NUMBER)), plan.kinds == TEXT
    slots = np.zeros(d, np.int32)
    slots[numeric], slots[text] = np.arange(numeric.sum()), np.arange(text.sum())
    numbers, marks = np.empty((numeric.sum(), most), np.int64), np.empty((d, most), np.uint8)
    places, odd = np.empty((text.sum(), most, 2), np.int32), np.zeros(d, np.uint8)
    words = np.frombuffer(b"".join(plan.words) or b" ", np.uint8)
    ends = np.cumsum([len(word) for word in plan.words], dtype=np.int64)
    rows, end = scan(data, plan.kinds, slots, plan.delimiter, plan.decimal, words, ends, numbers, marks, places, odd)
    if rows < 0 or end != data.size:
        raise _Irregular
    texts = [texts_at(data, places[k, :rows], marks[j, :rows]) for k, j in enumerate(np.flatnonzero(text))]
    return Part(rows, numbers, marks, texts, odd, not span.high or is_utf8(data))
