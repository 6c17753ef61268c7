"""What a parsed table leaves out: comment lines between its rows, and an empty last column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import Json, warning
from service.intake.scan import ragged, rejects
from service.intake.sniff import Dialect

SHOWN = 80


def without_comments(table: pa.Table, how: Dialect, left_out: list[str], path: Path) -> tuple[pa.Table, list[Json]]:
    """The table without comments that look like rows, and the warning that counts all; `left_out` were no rows.

    A file without comments above its table has rows such as `#3,x`: then lines that are no rows are refused. O(n).
    """
    first = table.column(0)
    if how.comment and pa.types.is_string(first.type):
        hit = pc.fill_null(pc.starts_with(first, how.comment), False)
        left_out = left_out + pc.filter(first, hit).to_pylist()
        table = table.filter(pc.invert(hit)) if pc.any(hit).as_py() else table
    elif left_out and pc.any(pc.starts_with(first, "#")).as_py():
        raise ragged(rejects(path, how, comments=True))
    if not left_out:
        return table, []
    text = f"{len(left_out)} lines between the rows were left out as comments; first: {left_out[0][:SHOWN]!r}."
    return table, [warning("comment_lines", text) | {"count": len(left_out)}]


def without_trailing(table: pa.Table, how: Dialect, path: Path) -> tuple[pa.Table, list[Json]]:
    """The table without its nameless last column where that is empty; Invalid when rows have more fields than names."""
    last = table.column(table.num_columns - 1)
    if pc.all(pc.or_kleene(pc.is_null(last), pc.equal(pc.utf8_trim_whitespace(last), ""))).as_py():
        text = "Every row ends with a delimiter; the empty column behind it was left out."
        return table.remove_column(table.num_columns - 1), [warning("trailing_delimiter", text)]
    found = rejects(path, how, width=len(how.names) - 1)
    if how.header and how.short:
        raise ragged(found)
    return table, []
