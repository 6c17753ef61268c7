"""A compiled loop over delimited text: its cells as numbers, or as places of text.

It reads only the strictest writing of each type; any other cell marks its column, any other record ends the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.numerics.jit import compiled, inner, read_only, uncounted
from service.intake.digits import WORD, ZERO, equals, few_digits, low_zeros, many_digits, word

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int = Any  # of Python or of NumPy

SKIP, INTEGER, NUMBER, TEXT = 0, 1, 2, 3
MISSING, PLAIN, DOUBLED = 0, 1, 2  # of a cell: null, as it stands, with doubled quotes inside
LF, CR, QUOTE, MINUS, PLUS, E_SMALL, E_BIG = 10, 13, 34, 45, 43, 101, 69
MOST_DIGITS, EXACT_DIGITS = 18, 15
LEAST_POWER, MOST_POWER = -342, 308
BAD = 1 << 30
EXACT_POWERS = np.array([float(10**k) for k in range(23)])


def _powers() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """128 bits of each power of ten, high word first: cut off for whole powers, rounded up for negative ones."""
    rows = []
    for k in range(LEAST_POWER, MOST_POWER + 1):
        size = (5 ** abs(k)).bit_length()
        bits = 5**k << max(0, 128 - size) if k >= 0 else (1 << (2 * size + 128)) // 5**-k + 1
        if k < -27 or k >= 0:
            bits >>= bits.bit_length() - 128
        else:
            bits = (1 << (size + 127)) // 5**-k + 1
        rows.append((bits >> 64, bits & ((1 << 64) - 1)))
    return np.array(rows, np.uint64)


POWERS = _powers()


@uncounted
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The 128 bits of a·b as high and low word."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    mid = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (mid & low)
    return a1 * b1 + (mid >> half) + (other >> half), a * b


@inner
def nearest(mantissa: Int, power: Int) -> Int:  # noqa: C901 - one loop's worth of exact cases
    """The bits of the double next to mantissa·10^power, ties to even; −1 where that is 0 or not finite.

    0 < mantissa < 2^63. Mushtak and Lemire, Fast number parsing without fallback (2023).
    """
    if power < LEAST_POWER or power > MOST_POWER:
        return -1
    one, m, lead = np.uint64(1), np.uint64(mantissa), 0
    for step in (32, 16, 8, 4, 2, 1):
        if not m >> np.uint64(64 - step):
            m, lead = m << np.uint64(step), lead + step
    high, low = _product(m, POWERS[power - LEAST_POWER, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(m, POWERS[power - LEAST_POWER, 1])
        low += more
        if more > low:
            high += one
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    result = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + 1023 + np.int64(top) - lead
    if exponent <= 0:
        if exponent < -62:
            return -1
        result >>= np.uint64(1 - exponent)
        result = (result + (result & one)) >> one
        return np.int64(result) if result else -1
    if low <= one and -4 <= power <= 23 and result & np.uint64(3) == one and result << shift == high:
        result -= one
    result = (result + (result & one)) >> one
    if result >> np.uint64(53):
        result, exponent = result >> one, exponent + 1
    if exponent >= 0x7FF:
        return -1
    return (exponent << 52) | np.int64(result & np.uint64((1 << 52) - 1))


@inner
def _hard(data: Bytes, begin: Int, point: Int, end: Int) -> tuple[Int, Int]:
    """A number with many digits or an exponent: its digits are data[begin:end], its point at `point` or beyond.

    Where it ends and the bits of its value; (−1, 0) where it is not written in the strictest way, or not told exactly.
    """
    power, stop = 0, end
    if data[end] in (E_SMALL, E_BIG):
        first = end + 1 if data[end + 1] not in (MINUS, PLUS) else end + 2
        stop, power = few_digits(data, first, 0)
        if not 1 <= stop - first <= 3:
            return -1, 0
        power = -power if data[end + 1] == MINUS else power
    mantissa: Int = np.int64(0)
    digits: Int = 0
    for i in range(begin, end):
        if i != point:
            mantissa = mantissa * 10 + (np.int64(data[i]) - ZERO)
            digits += mantissa > 0
            if digits > MOST_DIGITS:
                return -1, 0
    if stop == point and digits > EXACT_DIGITS:
        return -1, 0
    bits = nearest(mantissa, power - max(0, end - point - 1)) if mantissa else 0
    return (stop, bits) if bits >= 0 else (-1, 0)


@uncounted
def _number(data: Bytes, at: Int, decimal: Int) -> tuple[Int, Int]:
    """The decimal number that begins here: where it ends, and the bits of its value; (−1, 0) as in `_hard`.

    The sign goes into the bits without a branch, which no processor would foresee.
    """
    minus = np.int64(data[np.uintp(at)] == MINUS)
    begin = at + minus
    point, mantissa = few_digits(data, begin, 0)
    whole, end = point - begin, point
    bits: Int = np.int64(0)
    if whole == 0 or (whole > 1 and data[np.uintp(begin)] == ZERO):
        return -1, bits
    if data[np.uintp(point)] == decimal:
        end, mantissa = many_digits(data, point + 1, mantissa)
        if end == point + 1:
            return -1, bits
    fraction = max(0, end - point - 1)
    simple = data[np.uintp(end)] != E_SMALL and data[np.uintp(end)] != E_BIG
    if simple and whole + fraction <= EXACT_DIGITS:
        bits = np.float64(np.float64(mantissa) / EXACT_POWERS[np.uintp(fraction)]).view(np.int64)
    elif simple and mantissa and fraction and whole + fraction <= MOST_DIGITS + (data[np.uintp(begin)] == ZERO):
        bits = nearest(mantissa, -fraction)
        end = end if bits >= 0 else -1
    else:
        end, bits = _hard(data, begin, point, end)
    return end, bits ^ (minus << 63)


@uncounted
def _integer(data: Bytes, at: Int) -> tuple[Int, Int]:
    """The whole number of at most 18 digits that begins here and where it ends; (−1, 0) for another writing."""
    minus = data[at] == MINUS
    begin = at + 1 if minus else at
    end, value = many_digits(data, begin, 0)
    if not 1 <= end - begin <= MOST_DIGITS or (end - begin > 1 and data[begin] == ZERO):
        return -1, 0
    return end, -value if minus else value


@uncounted
def _is_word(data: Bytes, begin: Int, end: Int, words: Bytes, ends: Any) -> bool:
    """Whether the cell is one of the words, which stand one after the other and end at `ends`."""
    start = 0
    for stop in ends:
        if stop - start == end - begin:
            same = True
            for i in range(end - begin):
                if data[begin + i] != words[start + i]:
                    same = False
                    break
            if same:
                return True
        start = stop
    return False


@uncounted
def _stop(data: Bytes, at: Int, delimiter: Int) -> Int:
    """Where the first delimiter, quote or end of a line is, at or behind `at`; eight bytes at once."""
    while at + WORD <= data.size:
        w = word(data, np.uintp(at))
        found = equals(w, delimiter) | equals(w, LF) | equals(w, CR) | equals(w, QUOTE)
        if found != np.uint64(0):
            return at + np.int64(low_zeros(found) >> np.uint64(3))
        at += WORD
    while data[at] != delimiter and data[at] != LF and data[at] != CR and data[at] != QUOTE:
        at += 1
    return at


@uncounted
def _quote(data: Bytes, at: Int) -> Int:
    """Where the first quote is, at or behind `at`, or the size; eight bytes at once."""
    while at + WORD <= data.size:
        found = equals(word(data, np.uintp(at)), QUOTE)
        if found != np.uint64(0):
            return at + np.int64(low_zeros(found) >> np.uint64(3))
        at += WORD
    while at < data.size and data[at] != QUOTE:
        at += 1
    return at


@uncounted
def _cell(data: Bytes, at: Int, delimiter: Int) -> tuple[Int, Int, Int, Int]:
    """Any cell: where it begins and ends without its quotes, its mark, and where the separator stands.

    The mark is BAD for a quote that does not enclose the whole cell, and for a carriage return alone.
    """
    if data[at] != QUOTE:
        end = _stop(data, at, delimiter)
        return at, end, PLAIN if data[end] != QUOTE else BAD, end
    end, mark = _quote(data, at + 1), PLAIN
    while end < data.size - 1:
        if data[end + 1] != QUOTE:
            return at + 1, end, mark, end + 1
        end, mark = _quote(data, end + 2), DOUBLED
    return at, end, BAD, end


def _arguments() -> tuple[Any, ...]:
    text = b'1,2.5,"a"\n,1.2345678901234567,NA\n'
    rows = 4
    whole = np.zeros((2, rows), np.int64)
    return (
        *read_only(np.frombuffer(text, np.uint8)), np.array([1, 2, 3], np.int8), np.array([0, 1, 0], np.int32), 44, 46,
        *read_only(np.frombuffer(b"NA", np.uint8)), np.array([0, 2], np.int64), whole,
        np.zeros((3, rows), np.uint8), np.zeros((1, rows, 2), np.int32), np.zeros(3, np.uint8),
    )  # fmt: skip


@compiled(_arguments, early=True, allocates=False)
def scan(  # noqa: C901, PLR0912 - compiled loop
    data: Bytes, kinds: Any, slots: Any, delimiter: Int, decimal: Int, words: Bytes, ends: Any,
    whole: Any, marks: Any, places: Any, odd: Any,
) -> tuple[Int, Int]:  # fmt: skip
    """Read the records of a block, whose last byte is a line feed; how many there were and where the last one ended.

    `kinds` (d,) of the columns, `slots` (d,) their rows in `whole` (k × n, the bits of decimals) or `places`
    (t × n × 2). `marks` (d × n) tells missing cells; a column with a cell that is not plainly of its kind is `odd`.
    It ends early when n rows are full; with −1 rows at a record that is not regular.
    """
    at: Int = 0
    row: Int = 0
    stop: Int
    while at < data.size and row < marks.shape[1]:
        if data[at] == LF or (data[at] == CR and data[at + 1] == LF):
            at += 1 if data[at] == LF else 2
            continue
        for j in range(kinds.size):
            kind, stop = kinds[j], np.int64(-1)
            if kind in (INTEGER, NUMBER):
                quoted = np.int64(data[np.uintp(at)] == QUOTE)
                if kind == INTEGER:
                    stop, count = _integer(data, at + quoted)
                    whole[np.uintp(slots[j]), np.uintp(row)] = count
                else:
                    stop, bits = _number(data, at + quoted, decimal)
                    whole[np.uintp(slots[j]), np.uintp(row)] = bits
                marks[np.uintp(j), np.uintp(row)] = PLAIN
                if stop >= 0:
                    closed = np.int64(data[np.uintp(stop)] == QUOTE)
                    after = data[np.uintp(stop + closed)]
                    ends_here = after in (delimiter, LF, CR)
                    stop = stop + closed if closed == quoted and ends_here else np.int64(-1)
            if stop < 0:
                begin, end, mark, stop = _cell(data, at, delimiter)
                if mark == BAD:
                    return -1, at
                if begin == at and _is_word(data, begin, end, words, ends):
                    mark = MISSING
                    if kind not in (TEXT, SKIP):
                        whole[slots[j], row] = 0
                elif kind != TEXT:
                    odd[j] |= kind != SKIP
                if kind == TEXT:
                    places[slots[j], row, 0], places[slots[j], row, 1] = begin, end
                marks[j, row] = mark
            if j < kinds.size - 1:
                if data[stop] != delimiter:
                    return -1, at
                at = stop + 1
            else:
                at = stop
        if data[at] == CR and data[at + 1] == LF:
            at += 1
        if data[at] != LF:
            return -1, at
        at += 1
        row += 1
    return row, at
