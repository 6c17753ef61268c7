"""The rows of a request in whatever form they came: encoded all at once or some of them, or as typed columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ml_core.errors import every_issue
from ml_core.preprocessing.records import encode, finer, typed
from ml_core.preprocessing.table import Table
from service.intake.types import Rules
from service.usecases.answers import cut, encoded, ignored
from service.usecases.conform import Fit, words_in
from service.usecases.loaded import Loaded

Columns = tuple[Table, Counter[str]]


class Given(Protocol):
    """So many rows, and what was noticed while they were read."""

    @property
    def rows(self) -> int:
        """How many."""

    @property
    def notes(self) -> list[str]:
        """Warnings: columns that the model does not use, and what the reader noticed."""

    def matrix(self) -> tuple[np.ndarray, list[str]]:
        """All rows encoded, and the notes; InvalidData and Invalid point at columns and cells."""

    def encode(self, places: np.ndarray) -> np.ndarray:
        """The rows at those places encoded; issues count the rows among these."""

    def columns(self) -> Columns:
        """The model's input columns, and how many cells of each are absent or ill-typed, and so empty."""


@dataclass(frozen=True)
class Records:
    """Rows as JSON objects."""

    model: Loaded
    records: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.records)

    @cached_property
    def notes(self) -> list[str]:
        """Columns that the model does not use."""
        wanted = set(self.model.fitted.encoder.inputs)
        return [*ignored(list(dict.fromkeys(k for r in self.records for k in r if k not in wanted))), *self._cut()]

    def matrix(self) -> tuple[np.ndarray, list[str]]:
        """All rows encoded, and the notes."""
        X, extra = encode(self.model.fitted.encoder, self.records)
        return X, [*ignored(extra), *self._cut()]

    def _cut(self) -> list[str]:
        return cut(finer(self.model.fitted.encoder, self.records))

    def encode(self, places: np.ndarray) -> np.ndarray:
        """The rows at those places encoded."""
        return encode(self.model.fitted.encoder, [self.records[i] for i in places.tolist()])[0]

    def columns(self) -> Columns:
        """The model's input columns, and how many cells of each are absent or ill-typed."""
        table, issues = typed(self.model.fitted.encoder, self.records)
        return table, _by_column(issues)


@dataclass(frozen=True)
class Cells:
    """Rows of a table; `rules` where its cells are text; `extra` names columns that the model does not use."""

    model: Loaded
    table: pa.Table
    notes: list[str]
    rules: Rules | None = None
    extra: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.table.num_rows)

    def matrix(self) -> tuple[np.ndarray, list[str]]:
        """All rows encoded, and the notes."""
        return encoded(self.model, self.table, self.rules, extra=self.extra), self.notes

    def encode(self, places: np.ndarray) -> np.ndarray:
        """The rows at those places encoded."""
        part = self.table if len(places) == self.rows else self.table.take(pa.array(places))
        return encoded(self.model, part, self.rules, extra=self.extra)

    def columns(self) -> Columns:
        """The model's input columns, and how many cells of each are ill-typed."""
        features = self.model.fitted.encoder.features
        fit = Fit(self.rules, 0, words_in(features))
        with every_issue():
            table = {f.name: fit.column(f, self.table[f.name]) for f in features}
        return table, _by_column(fit.issues)


def _by_column(issues: Sequence[Any]) -> Counter[str]:
    """How many issues point into each column: `/rows/17/age`."""
    names = (i.pointer.split("/", 3)[3] for i in issues)
    return Counter(name.replace("~1", "/").replace("~0", "~") for name in names)
