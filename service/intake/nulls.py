"""Which words for a missing value a file has, and how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from service.intake.findings import Typed
from service.intake.sniff import Dialect

COUNTED = 16 << 20


def null_counts(
    path: Path, how: Dialect, table: pa.Table, nulls: tuple[str, ...], columns: list[Typed]
) -> dict[str, int]:
    """Cells per word that were read as missing, from the text again; the file has at most COUNTED bytes. O(bytes)."""
    found: Counter[str] = Counter()
    words = pa.array(nulls, pa.string())
    keys = [key for key, column in zip(table.column_names, table.columns, strict=True) if column.null_count]
    for key, column in zip(keys, _text(path, how, keys).columns if keys else (), strict=True):
        found.update(_counted(column, words))
        if pa.types.is_string(table.schema.field(key).type):
            found.subtract(_counted(table.column(key), words))  # those in quotes stand for themselves
    for column, typed in zip(table.columns, columns, strict=True):
        if typed.type in {"text", "category"} and "" in nulls:
            found[""] += pc.sum(pc.equal(column, "")).as_py() or 0
        found.update(dict(typed.odd_nulls))
    return {word: count for word, count in sorted(found.items()) if count > 0}


def _counted(column: pa.ChunkedArray, words: pa.Array) -> dict[str, int]:
    if not pa.types.is_string(column.type):  # numbers already
        return {}
    counted = pc.value_counts(column.filter(pc.is_in(column, words, skip_nulls=True)))
    return dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))


def _text(path: Path, how: Dialect, keys: list[str]) -> pa.Table:
    """Some columns with every cell as it stands."""
    names = [str(i) for i in range(len(how.names))]
    return pacsv.read_csv(
        str(path),
        read_options=pacsv.ReadOptions(column_names=names, skip_rows=how.skip, skip_rows_after_names=int(how.header)),
        parse_options=pacsv.ParseOptions(
            delimiter=how.delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1,
            invalid_row_handler=lambda row: "skip",
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.string()), include_columns=keys, strings_can_be_null=False,
        ),
    )  # fmt: skip
