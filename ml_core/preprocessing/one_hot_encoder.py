"""Categories as columns of zeros and ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, Transformer
from ml_core.bundle import portable
from ml_core.capabilities import Inverts, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidData, Issue, most_issues
from ml_core.naming import listed, name
from ml_core.numerics.totals import Total
from ml_core.preprocessing.fixed_map import MOST_COLUMNS
from ml_core.registry import algorithm
from ml_core.statistics import SLACK, UNSEEN, left_over
from ml_core.sums import Additive, Census, Passes


@portable
@dataclass(frozen=True)
class LevelSums:
    """Σ s, rows, and of each column its distinct values, numbers or text, ascending, and the weight of each."""

    total: float
    rows: int
    levels: tuple[np.ndarray, ...]
    weights: tuple[Vector, ...]

    @classmethod
    def of(cls, X: Matrix, s: Vector) -> LevelSums:
        """Of the rows of X (n, d), weights s (n,); O(n d log n)."""
        found = [np.unique(_column(x), return_inverse=True) for x in X.T]
        weights = tuple(np.bincount(code, weights=s, minlength=len(v)).astype(np.float64) for v, code in found)
        levels = tuple(v + 0.0 if v.dtype.kind == "f" else v for v, _ in found)
        return cls(float(s.sum()), len(X), levels, weights)

    def merge(self, other: LevelSums) -> LevelSums:
        """Of both sets of rows."""
        return self._with(other, 1.0, self.total + other.total, self.rows + other.rows)

    def subtract(self, other: LevelSums) -> LevelSums:
        """Without the rows of `other`; a level whose weight is used up is gone, InvalidData where there was less."""
        total, rows = left_over(self, other)
        out = self._with(other, -1.0, total, rows)
        slack = 10 * SLACK * self.total
        if any((w < -slack).any() for w in out.weights):
            raise InvalidData(UNSEEN.replace("a variance", "the weight of a level"))
        kept = [w > slack for w in out.weights]
        return LevelSums(total, rows, tuple(v[k] for v, k in zip(out.levels, kept, strict=True)),
                         tuple(w[k] for w, k in zip(out.weights, kept, strict=True)))  # fmt: skip

    def _with(self, other: LevelSums, sign: float, total: float, rows: int) -> LevelSums:
        for j, (a, b) in enumerate(zip(self.levels, other.levels, strict=True)):
            if a.dtype.kind != b.dtype.kind:
                raise InvalidData(f"column {name(j)!r} is text in some of the rows and numbers in the others")
        levels = tuple(np.union1d(a, b) for a, b in zip(self.levels, other.levels, strict=True))
        weights = []
        for j, v in enumerate(levels):
            w = np.zeros(len(v))
            w[np.searchsorted(v, self.levels[j])] += self.weights[j]
            w[np.searchsorted(v, other.levels[j])] += sign * other.weights[j]
            weights.append(w)
        return LevelSums(total, rows, levels, tuple(weights))


@algorithm("one_hot_encoder")
class OneHotEncoder(Additive, Weighted, Inverts, Transformer):
    """A column of zeros and ones for each level of each column.

    Of K levels, the distinct values seen in fitting in ascending order, column k is 1 where x is level k and 0
    elsewhere; a column of two levels becomes one column, 1 at the larger, unless `binary` says otherwise. O(n d log n)
    to fit, O(n d log K) to transform. Levels are numbers (codes, counts, 0/1) or, where the table is of objects, text,
    column by column; over HTTP the request's `encoding` encodes columns of text before any algorithm sees them.

    A level that was never seen is an error that names row and column, or with `unknown: ignore` zeros in all columns of
    its block (in a single 0/1 column that is the smaller level, which a notice says). `inverse_transform` takes the
    largest column of each block; a block without a positive entry has no level and is an error. `update`, `forget` and
    chunks count levels, so that new ones appear and those used up go, with the columns that a fit to the rows has.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 2.2.
    """

    complexity = "O(n d log n)"
    tags = ("parametric", "direct", "high_capacity", "encoding")
    accepts = "levels"

    sums_: Annotated[LevelSums, "levels of the rows seen, and their weights"]
    sizes_: Annotated[np.ndarray, "(d,) output columns of each column"]

    def __init__(
        self,
        *,
        unknown: Annotated[
            Literal["error", "ignore"], Field(description="A level never seen: refuse the row, or all zeros.")
        ] = "error",
        binary: Annotated[
            Literal["one_column", "two_columns"], Field(description="What a column of two levels becomes.")
        ] = "one_column",
        max_levels: Annotated[
            int, Field(ge=1, le=MOST_COLUMNS, description="Most levels of one column; more are refused.")
        ] = 1000,
    ) -> None:
        self.unknown = unknown
        self.binary = binary
        self.max_levels = max_levels

    def _sums(self, X: Matrix, s: Vector) -> LevelSums:
        sums = LevelSums.of(X, s)
        self._refuse(sums)
        return sums

    def _refuse(self, sums: LevelSums) -> None:
        """InvalidData where a column has too many levels, or all together make too many columns."""
        for j, v in enumerate(sums.levels):
            if len(v) > self.max_levels:
                text = f"column {name(j)!r} has {len(v):,} levels, at most {self.max_levels:,} are encoded"
                raise InvalidData(f"{text}; drop or bin it, or raise max_levels",
                                  [Issue(f"/columns/{name(j)}", "too_many_levels", text)])  # fmt: skip
        width = sum(map(len, sums.levels))
        if width > MOST_COLUMNS:
            raise InvalidData(f"{width:,} levels make as many columns; at most {MOST_COLUMNS:,} are made")

    def _solve(self, sums: LevelSums) -> None:
        self._refuse(sums)
        self.sums_ = sums
        counts = np.array([len(v) for v in sums.levels], dtype=np.int64)
        two = np.flatnonzero(counts == 2)
        self.sizes_ = np.where((counts == 2) & (self.binary == "one_column"), 1, counts)
        self.n_features_out_ = int(self.sizes_.sum())
        if self.unknown == "ignore" and self.binary == "one_column" and len(two):
            self._note("unknown_looks_like_a_level", f"a level never seen in columns {listed(two)} is encoded as the "
                       "smaller of their two levels", "set binary to two_columns to tell them apart")  # fmt: skip
        if (counts == 1).any():
            self._note("constant_column", f"columns {listed(np.flatnonzero(counts == 1))} have one level",
                       "drop them, they carry no information")  # fmt: skip

    def _codes(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """(n, d) numbers of the levels, and whether the level is known."""
        codes, known = np.empty(X.shape, dtype=np.int64), np.empty(X.shape, dtype=bool)
        for j, v in enumerate(self.sums_.levels):
            x = _column(X[:, j])
            if x.dtype.kind != v.dtype.kind:
                codes[:, j], known[:, j] = 0, False
                continue
            codes[:, j] = np.minimum(np.searchsorted(v, x), len(v) - 1)
            known[:, j] = v[codes[:, j]] == x
        return codes, known

    def _transform(self, X: Matrix) -> Matrix:
        codes, known = self._codes(X)
        strange = np.argwhere(~known)
        if len(strange) and self.unknown == "error":
            issues = [Issue(f"/rows/{i}/{name(j)}", "unknown_level", f"{_plain(X[i, j])} was not seen in fitting")
                      for i, j in strange[: most_issues()].tolist()]  # fmt: skip
            i, j = strange[0]
            raise InvalidData(f"row {i}, column {name(j)!r} holds the level {_plain(X[i, j])}, never seen in fitting "
                              f"({len(strange)} such); set unknown to ignore for zeros", issues)  # fmt: skip
        out, rows = np.zeros((len(X), self.n_features_out_)), np.arange(len(X))
        for j, start in enumerate(self._starts()):
            if self._single(j):
                out[:, start] = (codes[:, j] == 1) & known[:, j]
            else:
                out[rows, start + codes[:, j]] = known[:, j]
        return out

    def _inverse_transform(self, X: Matrix) -> Matrix:
        worded = any(v.dtype.kind == "U" for v in self.sums_.levels)
        out = np.empty((len(X), len(self.sizes_)), dtype=object if worded else np.float64)
        for j, start in enumerate(self._starts()):
            v, block = self.sums_.levels[j], X[:, start : start + self.sizes_[j]]
            if self._single(j):
                out[:, j] = v[(block[:, 0] >= 0.5).astype(np.int64)]
                continue
            none = np.flatnonzero(block.max(axis=1) <= 0)
            if len(none):
                text = f"row {none[0]} has no positive entry among the columns of feature {j}, so no level"
                raise InvalidData(text, [Issue(f"/values/{none[0]}", "no_level", text)])
            out[:, j] = v[block.argmax(axis=1)]
        return out

    def _single(self, j: int) -> bool:
        """Whether column j, of two levels, is one column."""
        return len(self.sums_.levels[j]) == 2 and bool(self.sizes_[j] == 1)

    def _starts(self) -> list[int]:
        return (np.cumsum(self.sizes_) - self.sizes_).tolist()

    def _names(self, inputs: list[str]) -> list[str]:
        out = []
        for j, v in enumerate(self.sums_.levels):
            out += [f"{inputs[j]}={_plain(x)}" for x in (v[1:] if self._single(j) else v).tolist()]
        return out

    def _audit(self, census: Census) -> Passes:
        seen: Trip = yield RoundTrip(self)
        out = Diagnostics(summary={
            "rows": seen.rows, "columns_in": census.width, "columns_out": self.n_features_out_,
            "rows_with_unknown_levels": seen.strange,
        })  # fmt: skip
        text = "rows of known levels whose inverse_transform(transform(x)) is not x"
        out.certificates = [Certificate("round_trip_errors", float(seen.wrong), 0.0, text)]
        rows = [[j, x, float(w), float(w / self.sums_.total)]
                for j, (v, share) in enumerate(zip(self.sums_.levels, self.sums_.weights, strict=True))
                for x, w in zip(v.tolist(), share, strict=True)]  # fmt: skip
        out.tables["levels"] = Table(("column", "level", "weight", "share"), rows)
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """A sort of each column; the width depends on the levels and is taken as ten for each."""
        return Cost(flops=20.0 * n * d * np.log2(max(n, 2)), memory_bytes=24.0 * n * d + 80.0 * n * d)


@dataclass(frozen=True)
class Trip(Total):
    """Rows, those with a level never seen, and those that did not come back."""

    rows: int
    strange: int
    wrong: int


@dataclass(frozen=True)
class RoundTrip:
    """The part whose total is `Trip`."""

    model: OneHotEncoder

    def __call__(self, X: Matrix, s: Vector) -> Trip:
        """Of the rows of X."""
        known = self.model._codes(X)[1].all(axis=1)
        A = X[known]
        wrong = (self.model._inverse_transform(self.model._transform(A)) != A).any(axis=1) if len(A) else np.zeros(0)
        return Trip(len(X), int((~known).sum()), int(wrong.sum()))


def _column(x: np.ndarray) -> np.ndarray:
    """A column as numbers or as text, of a table of objects."""
    return x if x.dtype.kind == "f" else x.astype(np.str_ if isinstance(x[0], str) else np.float64)


def _plain(x: float | str) -> str:
    """A level for a name: text as it is, whole numbers without a point."""
    if isinstance(x, str):
        return x
    return str(int(x)) if x == int(x) and abs(x) < 1e15 else repr(x)
