"""Which rows of a table a request is about: those that fulfil its conditions, and of these a seeded sample.

The rows are found block by block on the mapped table, so that nothing grows with it but a bit per row. A sample goes by
keys of row numbers (`ml_core.selection.sampling`): whoever reads a piece of the table, on whatever machine, knows which
of its rows belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core.selection.sampling import SmallestKeys, row_keys
from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases.condition_reading import conditions, membership
from service.usecases.conditions import Among, Condition, Joined, physical

BLOCK = 1 << 20


@dataclass(frozen=True)
class Choice:
    """The rows where `where` holds and whose key is not beyond `limit`; None asks for all."""

    where: Condition | None = None
    seed: int = 0
    limit: int | None = None

    @property
    def all(self) -> bool:
        """Whether every row is chosen, whatever is in it."""
        return self.where is None and self.limit is None

    def mask(self, table: pa.Table, start: int = 0) -> pa.BooleanArray:
        """(n,) whether each row of the piece that begins at row `start` is chosen; never null."""
        return pa.concat_arrays(list(self._blocks(table, start)))

    def _blocks(self, table: pa.Table, start: int) -> Iterator[pa.BooleanArray]:
        for at in range(0, max(table.num_rows, 1), BLOCK):
            block = table.slice(at, BLOCK)
            found = _holds(self.where, block)
            if self.limit is not None:
                keys = row_keys(self.seed, start + at, start + at + block.num_rows)
                found &= keys <= np.uint64(self.limit)
            yield pa.array(found)

    def take(self, table: pa.Table, start: int = 0, columns: Sequence[str] | None = None) -> pa.Table:
        """The chosen rows, of all or of the named columns; the table itself where all are chosen."""
        kept = table if columns is None else table.select(list(columns))
        return kept if self.all else kept.filter(self.mask(table, start))

    def count(self, table: pa.Table) -> int:
        """How many rows of a table are chosen."""
        if self.all:
            return int(table.num_rows)
        return sum(b.true_count for b in self._blocks(table, 0))

    def only(self, part: Condition) -> Choice:
        """Those of the chosen rows where one more condition holds."""
        return replace(self, where=part if self.where is None else Joined((self.where, part)))


def _holds(where: Condition | None, block: pa.Table) -> np.ndarray:
    """(n,) whether a condition is true, rather than false or unknown."""
    if where is None:
        return np.ones(block.num_rows, dtype=bool)
    return np.asarray(pc.fill_null(where.mask(block), False)).astype(bool)


def choice_of(table: pa.Table, request: Json, kinds: Json) -> Choice:
    """The rows that a request asks for; Invalid where none fulfil the conditions, or too few for the sample."""
    rows = request.get("rows") or {}
    choice = Choice(conditions(rows.get("where") or (), kinds), request.get("seed", 0))
    size = rows.get("sample")
    if size is None and choice.where is None:
        return choice
    found, smallest = 0, SmallestKeys(size or 1)
    for at in range(0, table.num_rows, BLOCK):
        block = _holds(choice.where, table.slice(at, BLOCK))
        found += int(block.sum())
        if size is not None:
            smallest.add(row_keys(choice.seed, at, at + len(block))[block])
    if not found and choice.where is not None:
        raise _none_hold("/rows/where", table.num_rows)
    if size is None:
        return choice
    if size > found:
        of = "" if choice.where is None else f" that the conditions select of {table.num_rows}"
        raise Invalid(f"a sample of {size} rows cannot be drawn without replacement from the {found} rows{of}",
                      issues=(Issue("/rows/sample", "too_few_rows", f"choose at most {found}"),))  # fmt: skip
    return replace(choice, limit=smallest.limit)


@dataclass(frozen=True)
class ChosenRows:
    """Datasets as if each had only the rows where some conditions hold; at `place` the request has these."""

    datasets: Any
    where: Sequence[Json]
    place: str = "/where"

    def get(self, dataset_id: str) -> Json:
        """The record, which counts those rows; Invalid as of `table`."""
        record = dict(self.datasets.get(dataset_id))
        return record | {"rows": len(self.table(dataset_id))}

    def table(self, dataset_id: str) -> pa.Table:
        """Those rows; Invalid where conditions misfit the columns or hold for no row."""
        record, table = self.datasets.get(dataset_id), self.datasets.table(dataset_id)
        kinds = {c["name"]: c["type"] for c in record["columns"]}
        found = Choice(conditions(self.where, kinds, self.place)).take(table)
        if not len(found):
            raise _none_hold(self.place, len(table))
        return found


def _none_hold(place: str, rows: int) -> Invalid:
    return Invalid(f"no row is selected: the conditions hold for 0 of the {rows} rows",
                   issues=(Issue(place, "no_rows", "relax a condition"),))  # fmt: skip


def described(record: Json, table: pa.Table, choice: Choice) -> Json:
    """The dataset's record as that of a table of the chosen rows: their number (and that `in_table`), empty cells.

    `distinct` is exact where every value of a text column might be different, else that of the whole table. One column
    is in memory at a time.
    """
    if choice.all:
        return record | {"in_table": record["rows"]}
    mask = choice.mask(table)
    rows = int(pc.sum(mask).as_py() or 0)
    columns = [_column(c, table[c["name"]], mask, rows) for c in record["columns"]]
    return record | {"rows": rows, "in_table": record["rows"], "columns": columns}


def _column(profile: Json, cells: Any, mask: Any, rows: int) -> Json:
    missing = empty(cells, mask)
    distinct = min(profile["distinct"], rows - missing)
    if profile["type"] in ("text", "category") and distinct == rows - missing:
        distinct = pc.count_distinct(cells.filter(mask), mode="only_valid").as_py()
    return profile | {"missing": missing, "distinct": distinct}


def empty(cells: Any, mask: Any) -> int:
    """How many of the chosen cells are empty; `mask` None chooses all."""
    if mask is None or not cells.null_count:
        return int(cells.null_count)
    return int(pc.sum(pc.and_(cells.is_null(), mask)).as_py() or 0)


def used_columns(request: Json) -> list[str]:
    """The columns that a fit reads: features, target, weights, groups and the one that holds rows out."""
    target, column = request.get("target"), (request.get("validation") or {}).get("column")
    targets = [target] if isinstance(target, str) else target or []
    named = [*request["features"], *targets, request.get("weights"), request.get("groups"), column]
    return list(dict.fromkeys(n for n in named if n))


def held_out(request: Json, kinds: Json) -> Among | None:
    """What is true of the rows that a split column holds out; None where none does, Invalid for misfitting values."""
    plan = request.get("validation") or {}
    if plan.get("method") != "split_column":
        return None
    return membership(plan["column"], plan["validation"], kinds, ("/validation/column", "/validation/validation"))


def parts_of(table: pa.Table, request: Json, kinds: Json) -> np.ndarray | None:
    """(n,) the fold of each row by a given column, or whether a split column holds it out; None where it is empty."""
    held, name = held_out(request, kinds), (request.get("validation") or {}).get("column")
    if not name:
        return None
    out = np.empty(len(table), dtype=object)
    out[:] = (table[name] if held is None else held.mask(table)).to_pylist()
    return out


def check_split(table: pa.Table, choice: Choice, request: Json, kinds: Json) -> None:
    """Invalid where a value that a split column is to hold out is in no chosen row."""
    held = held_out(request, kinds)
    if held is None:
        return
    found: set[Any] = set()
    for at in range(0, table.num_rows, BLOCK):
        cells = choice.take(table.slice(at, BLOCK), at, (held.column,))[held.column]
        found |= set(physical(cells.unique(), held.kind).to_pylist())
    asked = request["validation"]["validation"]
    issues = tuple(Issue(f"/validation/validation/{i}", "no_rows", f"no selected row has {held.column} = {asked[i]!r}")
                   for i, value in enumerate(held.values) if value not in found)  # fmt: skip
    if not issues and not found - {*held.values, None}:
        issues = (Issue("/validation/validation", "no_rows", "the column leaves no row to learn from"),)
    if issues:
        there = ", ".join(map(str, sorted((v for v in found if v is not None), key=str)[:10]))
        raise Invalid(f"{issues[0].detail}; there are {there}", issues=issues)
