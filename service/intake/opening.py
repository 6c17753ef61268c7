"""Where a table begins: comments, other text before it, and whether its first row holds names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from service.intake.cutting import DELIMITERS, NUMBER, fields, width
from service.intake.findings import NULLS, WHITESPACE, refuse

COMMENTS = ("#", "%")
MAX_PREAMBLE = 20
ONLY_COMMENTS = "Every line begins with {!r}, which marks comments: there are no rows. Set delimiter if they are rows."
VALUE = re.compile(
    "^\\s*[$€£¥]?[+-]?\\d[\\d.,'\u00a0\u2009\u202f /:+TZ-]*([eE][+-]?\\d+)?[%€]?\\s*$"
    "|^\\s*[+-]?[.,]\\d+([eE][+-]?\\d+)?\\s*$"
    "|^\\s*(true|false)\\s*$",
    re.IGNORECASE,
)


def comments_before(lines: Sequence[str], delimiter: str | None) -> tuple[int, str]:
    """How many lines before the table are blank or comments, and the mark of the comments ("" without any).

    Lines that are cut like the line below them are no comments (`#id,x` above `1,2`), unless that line holds names.
    """
    skip, marks = 0, set()
    while skip < len(lines) and (not lines[skip].strip() or lines[skip].startswith(COMMENTS)):
        marks.add(lines[skip][:1])
        skip += 1
    mark = next(iter(marks & set(COMMENTS)), "")
    if not mark:
        return skip, ""
    if not any(line.strip() for line in lines[skip:]):
        if not delimiter and not any(_cut_alike(lines, cut) for cut in DELIMITERS):
            raise refuse("/file", "only_comments", ONLY_COMMENTS.format(mark))
        return next((i for i, line in enumerate(lines) if line.strip()), 0), ""
    for cut in (delimiter,) if delimiter and delimiter != WHITESPACE else DELIMITERS:
        rows = fields("\n".join(lines[skip : skip + 50]), cut, True)
        back = skip
        while back and lines[back - 1].startswith(mark) and 0 < lines[back - 1].count(cut) == lines[skip].count(cut):
            back -= 1
        if back < skip and not names_over_values(rows):
            return back, ""
    return skip, mark


def _cut_alike(lines: Sequence[str], cut: str) -> bool:
    """Whether a delimiter stands equally often in each line that is not blank, and at least once."""
    counts = {line.count(cut) for line in lines if line.strip()}
    return len(counts) == 1 and counts != {0}


def text_before(lines: Sequence[str], delimiter: str, rows: Sequence[Sequence[str]]) -> int:
    """How many lines of other text (a title, a date) stand above names that stand over values; 0 when in doubt."""
    most, count, blank = width(rows), 0, False
    if len(rows) < 3 or len(rows[0]) >= most:
        return 0
    for line in lines[: MAX_PREAMBLE + 1]:
        cut = fields(line, delimiter, True)
        if line.count('"') % 2 or (cut and len(cut[0]) > most):
            return 0
        if cut and len(cut[0]) == most:
            break
        count += 1
        blank = not cut
    above = [line for line in lines[:count] if line.strip()]
    rest = [list(row) for row in rows[len(above) :]]
    one_short = len(above) == 1 and len(rows[0]) == most - 1 and not blank
    sure = all(len(row) == most for row in rest) and names_over_values(rest)
    return count if sure and not one_short and count <= MAX_PREAMBLE else 0


def names_over_values(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a word stands over a column of numbers, dates or booleans."""
    return len(rows) > 1 and any(not VALUE.match(word) for word in _over_values(rows)[0])


def names_rows(rows: Sequence[Sequence[str]]) -> bool:
    """Whether each row begins with its name, for which the header has no field (as R writes tables)."""
    body = rows[1:]
    if not body or len(rows[0]) < 2 or any(len(row) != len(rows[0]) + 1 for row in body):
        return False
    if any(a.startswith("'") and not a.endswith("'") and b.endswith("'") for row in body for a, b in pairwise(row)):
        return False  # 'x, y': one field in quotes of another kind, cut in two
    first = [row[0] for row in body]
    counted = len(first) > 2 and first == [str(i + 1) for i in range(len(first))]
    return counted or (len(set(first)) == len(first) and not any(map(NUMBER.match, first)))


def ends_empty(rows: Sequence[Sequence[str]], header: bool) -> bool:
    """Whether every row ends with a delimiter, and the header too or it is one field shorter."""
    body = rows[1:] if header else rows
    most = width(body)
    if most < 2 or not all(not row[-1].strip() for row in body if len(row) == most):
        return False
    return not header or len(rows[0]) == most - 1 or (len(rows[0]) == most and not rows[0][-1].strip())


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """By contrast of kind: a word above values is a name, a value above values is not.

    Without values the first row is a header unless it has empty, repeated or recurring cells. Rising whole
    numbers above decimals (years, column indices) are names too.
    """
    if len(rows) < 2:
        return not (rows and all(NUMBER.match(cell) for cell in rows[0]))
    first, columns = rows[0], _columns(rows)
    if not columns:
        return True
    words, numeric, bodies = _over_values(rows)
    if any(not VALUE.match(word) for word in words):
        return True
    if not numeric:
        recurs = any(cell in body for cell, body in zip(first, bodies, strict=True))
        named = [c.strip() for c in first[: len(first) - ends_empty(rows, True)]]
        return len(set(named)) == len(named) and all(named) and not recurs
    if len(words) < len(numeric) or len(words) < 3 or not all(word.isdigit() for word in words):
        return False
    decimals = any("." in cell or "," in cell for i in numeric for cell in bodies[i])
    return decimals and all(int(a) < int(b) for a, b in pairwise(words))


def _columns(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip(*(row for row in rows[1:] if len(row) == len(rows[0])), strict=True))


def _over_values(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[int], list[list[str]]]:
    """The words of the first row over columns of values, which columns those are, and the cells of every column."""
    bodies = [[cell for cell in column if cell.strip() not in NULLS] for column in _columns(rows)]
    numeric = [i for i, body in enumerate(bodies) if body and all(map(VALUE.match, body))]
    return [rows[0][i].strip() for i in numeric if rows[0][i].strip() not in NULLS], numeric, bodies
