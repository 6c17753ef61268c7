"""A stored table as chunks of encoded rows, for fits that would not fit in memory.

A chunk is a reference: the content hash of the table, the columns that matter and how they are encoded. Who reads it
maps the host's own Arrow file and copies out the rows of that chunk alone; the mapping ends with the reading, so that
pages of the table never pile up in the reader. How many rows a chunk has follows from the request alone, therefore the
answer has the same bits on any number of threads and machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core import parallel, progress
from ml_core.base import Estimator
from ml_core.preprocessing.policies import LEVELLED, UNFILLED, Encoding
from ml_core.preprocessing.table import Column, TableEncoder
from ml_core.preprocessing.table_fit import (
    MAX_ORDINALS,
    Facts,
    encoder_of,
    facts_of,
    scaled,
    too_many_levels,
)
from ml_core.sums import total
from service.errors import NotReady
from service.ports import Json
from service.usecases import tabular
from service.usecases.conditions import Negated
from service.usecases.preparation import PARTS, no_rows, refuse_gaps, target_of, weights_of
from service.usecases.selection import Choice, choice_of, held_out

CHUNK_BYTES = 32 << 20
COUNTED_LEVELS = 10 * MAX_ORDINALS
Tables = Callable[[str], pa.Table]


class Host:
    """Where this process finds tables by content hash; `container.py` says it once."""

    tables: Tables | None = None


def chunk_rows(width: int) -> int:
    """Rows of a chunk of matrix columns: 32 MiB of numbers."""
    return max(1, CHUNK_BYTES // (8 * max(1, width)))


@dataclass(frozen=True)
class Source:
    """A stored table by its content hash and which of its columns play which part; pieces of `size` rows.

    `gaps` are the columns in which an empty cell drops its row; `choice` says which rows are asked for, `selected` how
    many they are. Pickled, it finds the table on the host that unpickles.
    """

    sha256: str
    rows: int
    size: int
    kinds: dict[str, str]
    features: tuple[str, ...]
    target: Any
    weights: str | None
    classes: bool
    gaps: tuple[str, ...] = ()
    choice: Choice = field(default_factory=Choice)
    selected: int = 0
    tables: Tables | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> Json:
        return {**vars(self), "tables": None}

    def __len__(self) -> int:
        return (self.rows + self.size - 1) // self.size

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns."""
        return tuple(self.target) if isinstance(self.target, list) else (self.target,) if self.target else ()

    def table(self) -> pa.Table:
        """The whole table, mapped from disk; NotReady where this process was told of no store."""
        tables = self.tables or Host.tables
        if tables is None:
            raise NotReady("this process has no store of tables; build the services before chunks are read")
        return tables(self.sha256)

    def asked(self, choice: Choice) -> Source:
        """The same with other rows asked for; one pass over the columns that the choice reads."""
        return replace(self, choice=choice, selected=choice.count(self.table()))

    def cells(self, name: str) -> pa.ChunkedArray:
        """A whole column of the rows that are asked for."""
        return self.choice.take(self.table(), 0, (name,))[name]

    def piece(self, i: int, columns: tuple[str, ...]) -> pa.Table:
        """Those columns of piece i, without the rows that are not asked for or are dropped."""
        part = self.table().slice(i * self.size, self.size)
        part = self.choice.take(part, i * self.size, tuple(dict.fromkeys((*columns, *self.gaps))))
        keep = None
        for name in self.gaps:
            valid = part[name].is_valid()
            keep = valid if keep is None else pc.and_(keep, valid)
        part = part.select(list(columns))
        return part if keep is None else part.filter(keep)


@dataclass(frozen=True)
class DatasetChunks:
    """The chunks of a source under an encoder: `ml_core.sums.Chunks`."""

    source: Source
    encoder: TableEncoder

    def __len__(self) -> int:
        return len(self.source)

    def read(self, i: int) -> tuple[Any, Any, Any]:
        """X (m, d), y and weights of chunk i; InvalidData and Invalid name cells and columns."""
        at = self.source
        weights = (at.weights,) if at.weights else ()
        table = at.piece(i, tuple(dict.fromkeys((*at.features, *at.targets, *weights))))
        X, _ = self.encoder.matrix({f: tabular.column(table[f], at.kinds[f]) for f in at.features})
        return X, self._target(table), weights_of(table, at.kinds, at.weights)

    def _target(self, table: pa.Table) -> np.ndarray | None:
        cells = tabular.classes if self.source.classes else tabular.numeric_target
        found = [cells(table[name], self.source.kinds[name]) for name in self.source.targets]
        if isinstance(self.source.target, list):
            return np.column_stack(found)
        return found[0] if found else None


def open_chunks(
    datasets: Any, request: Json, estimator: Estimator, size: int, *, lenient: bool = False
) -> tuple[DatasetChunks, int]:
    """The chunks of a fit request, their encoder fitted, and how many rows were dropped; Invalid, InvalidData.

    A lenient encoder ignores or fills what only rows held out have. At most one numeric column is in memory at a time,
    and of levels one chunk.
    """
    record = datasets.get(request["dataset"])
    encoding = Encoding.of(request.get("encoding"))
    encoding = encoding.held_out() if lenient else encoding
    kinds = {c["name"]: c["type"] for c in record["columns"]}
    source = Source(record["sha256"], record["rows"], size, kinds, tuple(request["features"]), request.get("target"),
                    request.get("weights"), estimator.task == "classification", tables=datasets.table_of)  # fmt: skip
    held, choice = held_out(request, kinds), choice_of(source.table(), request, kinds)
    source = source.asked(choice if held is None else choice.only(Negated(held)))
    source = replace(source, gaps=_gaps(source, request, encoding))
    weights_of(source.table().slice(0, 0), kinds, source.weights)
    target_of(source.table().slice(0, 0), kinds, source.target, estimator)
    kept, counts = _levels(source, encoding)
    if not kept:
        raise no_rows()
    facts = {f: _facts(source, f, kept, counts, encoding.column(f)) for f in source.features}
    encoder = scaled(encoder_of(facts, encoding), lambda e, part: total(part, DatasetChunks(source, e)))
    return DatasetChunks(source, encoder), source.selected - kept


def held_chunks(datasets: Any, request: Json, estimator: Estimator, chunks: DatasetChunks) -> DatasetChunks | None:
    """The rows that a split column holds out of those chunks, None where it holds out none.

    Their encoding is learned from the chunks; what only the rows held out have is ignored or filled.
    """
    source = chunks.source
    held = held_out(request, source.kinds)
    if held is None:
        return None
    choice = choice_of(source.table(), request, source.kinds).only(held)
    lenient, _ = open_chunks(datasets, request, estimator, source.size, lenient=True)
    return replace(lenient, source=source.asked(choice))


def _gaps(source: Source, request: Json, encoding: Encoding) -> tuple[str, ...]:
    """Columns in which an empty cell drops the row; Invalid where one may not."""
    table, split = source.table(), (request.get("validation") or {}).get("column")
    roles = (("target", source.targets), ("weights", (source.weights,)), ("groups", (request.get("groups"),)),
             (PARTS, (split,)))  # fmt: skip
    used = encoding.drops(source.features)
    for role, names in ((role, [n for n in names if n]) for role, names in roles):
        if encoding.drops_all(names):
            used += names
        else:
            empty = [np.asarray(source.cells(n).is_null()) for n in names if table[n].null_count]
            refuse_gaps(role, int(np.logical_or.reduce(empty).sum()) if empty else 0)
    return tuple(dict.fromkeys(n for n in used if table[n].null_count))


def _levels(source: Source, encoding: Encoding) -> tuple[int, dict[str, Counter[str]]]:
    """How many rows are kept, and how often each level occurs in them, column by column."""
    names = tuple(f for f in source.features if source.kinds[f] in LEVELLED)
    if not names and not source.gaps:
        return source.selected, {}
    kept, counts = 0, {name: Counter[str]() for name in names}
    found = parallel.spread_map(_count, range(len(source)), (source, names))
    for done, (rows, parts) in enumerate(found, start=1):
        kept += rows
        progress.tick(done, total=len(source), unit="chunks")
        for name, part in parts.items():
            counts[name].update(part)
            if len(counts[name]) > COUNTED_LEVELS:
                raise too_many_levels(name, f"more than {COUNTED_LEVELS}", encoding.column(name))
    return kept, counts


def _count(i: int, source: Source, names: tuple[str, ...]) -> tuple[int, dict[str, dict[str, int]]]:
    """Rows kept of piece i, and how often each level occurs in them."""
    part = source.piece(i, tuple(dict.fromkeys((*names, *source.gaps[:1]))))
    return part.num_rows, {
        name: {str(e["values"]): e["counts"] for e in pc.value_counts(part[name].drop_null()).to_pylist()}
        for name in names
    }


def _facts(source: Source, name: str, kept: int, counts: dict[str, Counter[str]], policy: Encoding) -> Facts:
    """The facts of a column over the rows that are kept."""
    kind: Any = source.kinds[name]
    if kind in LEVELLED:
        return Facts(kind, kept, kept - counts[name].total(), counts[name])
    if name in source.gaps or (policy.missing in UNFILLED and not source.table()[name].null_count):
        return Facts(kind, kept, 0)
    whole = not source.gaps and source.choice.all
    parts = [source.table()[name]] if whole else [source.piece(i, (name,))[name] for i in range(len(source))]
    values = np.concatenate([tabular.column(part, kind).values for part in parts])
    return facts_of(Column(kind, values), policy)
