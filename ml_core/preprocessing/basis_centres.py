"""Where the functions of a basis sit and how wide they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Diagnostics, Table
from ml_core.errors import InvalidParameter, Issue
from ml_core.naming import listed
from ml_core.numerics.column_sums import ColumnPart, ColumnSums
from ml_core.numerics.order_statistics import order_statistics, ranked
from ml_core.params import RealMatrix
from ml_core.preprocessing.fixed_map import check_width
from ml_core.solvers import k_means_search
from ml_core.solvers.base import answered
from ml_core.solvers.centres import nearest
from ml_core.solvers.sample import Draw, Sample, room
from ml_core.solvers.spectrum import weighted_mean
from ml_core.sums import Census, Passes

STARTS, STEPS = 10, 300
Centres = Annotated[
    Literal["quantiles", "grid", "k_means"] | RealMatrix,
    Field(description="Spread by rank, evenly between least and largest, by k-means, or given: (m, d), column j holds "
          "the centres of feature j."),
]  # fmt: skip
Count = Annotated[int, Field(ge=1, le=10_000, description="Centres per feature, m; given centres bring their own.")]
Width = Annotated[
    float | None,
    Field(ge=1e-90, le=1e90, description="Width sigma, units of the columns; null: the median spacing of the centres."),
]  # fmt: skip


class Centred:
    """Mixin of bases with m centres of each feature: `centers_` (m, d) and `widths_` (d,)."""

    centers: Any
    n_centers: int
    width: float | None
    random_state: int
    n_features_out_: int
    centers_: Matrix
    widths_: Vector

    def _width(self, d: int) -> int:
        return d * (self.n_centers if isinstance(self.centers, str) else len(np.asarray(self.centers)))

    def _fit(self, X: Matrix, s: Vector) -> None:
        self._place(X, s, (X, s))

    def _passes(self, census: Census) -> Passes:
        """Centres from rows that place them as all do (of k-means from a sample), widths of one centre from moments."""
        X, s = yield from self._stand_in(census)
        c: ColumnSums = yield ColumnPart()
        self._place(X, s, (np.stack([c.mean - c.sd, c.mean + c.sd]), np.ones(2)))

    def _stand_in(self, census: Census) -> Passes:
        d = census.width
        check_width(self._width(d), d, "n_centers", self.n_centers, "take fewer centres")
        if not isinstance(self.centers, str):
            return np.zeros((1, d)), np.ones(1)
        if self.centers == "k_means":
            sample: Sample = yield Draw(room(d), self.random_state, whole=census.rows <= room(d))
            if not sample.whole:
                self._note("centres_of_sample", f"k-means saw {len(sample.X)} of {census.rows} rows",  # type: ignore[attr-defined]
                           "fit a table that fits in memory, or place centres by quantiles")  # fmt: skip
            return sample.X, sample.s
        if self.centers == "grid":
            ends: Ends = yield EndsPart()
            return np.stack([ends.low, ends.high]), np.ones(2)
        return (yield from order_statistics(ranks_of(self.n_centers), d)), np.ones(self.n_centers)

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        return answered(self._audit(Census(len(X), X.shape[1])), lambda part: part(X, s))  # type: ignore[attr-defined]

    def _place(self, X: Matrix, s: Vector, spread: tuple[Matrix, Vector]) -> None:
        """Centres of each feature, and widths: of a single centre by the rows and weights `spread`."""
        d = X.shape[1]
        self.n_features_out_ = check_width(self._width(d), d, "n_centers", self.n_centers, "take fewer centres")
        self.centers_ = centres_of(self.centers, X, s, self.n_centers, self.random_state)
        found = [spacing(c, x, spread[1]) for c, x in zip(self.centers_.T, spread[0].T, strict=True)]
        self.widths_ = np.array(found) if self.width is None else np.full(d, float(self.width))
        flat = np.flatnonzero(self.widths_ == 0)
        self.widths_[flat] = 1.0
        repeated = [j for j, c in enumerate(self.centers_.T) if len(np.unique(c)) < len(c)]
        note = self._note  # type: ignore[attr-defined]
        if len(flat):
            note("constant_column", f"columns {listed(flat)} have one centre and no spread; their width is 1",
                 "drop them, they carry no information")  # fmt: skip
        elif repeated:
            note("repeated_centres", f"columns {listed(repeated)} have less than {len(self.centers_)} distinct centres",
                 "take fewer centres, or a grid: functions with one centre are one column twice")  # fmt: skip

    def _offsets(self, X: Matrix) -> np.ndarray:
        """(n, d, m) (x - centre) / width."""
        with np.errstate(over="ignore"):
            out = X[:, :, None] - self.centers_.T
            out /= self.widths_[:, None]
        return np.asarray(out)

    def _labelled(self, what: str, inputs: list[str]) -> list[str]:
        return [f"{what}{k}({name})" for name in inputs for k in range(len(self.centers_))]

    def _outline(self, rows: int) -> Diagnostics:
        return Diagnostics(summary={
            "rows": rows, "columns_in": self.centers_.shape[1], "columns_out": self.n_features_out_,
        })  # fmt: skip

    def _listed(self) -> Table:
        """The centres of each feature."""
        rows = [[j, k, float(c), float(self.widths_[j])]
                for j, column in enumerate(self.centers_.T) for k, c in enumerate(column)]  # fmt: skip
        return Table(("feature", "number", "centre", "width"), rows)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Centres, and one function value for each cell of the output."""
        width = float(self._width(d))
        clustering = isinstance(self.centers, str) and self.centers == "k_means"
        search = 3.0 * STARTS * 20 * n * width if clustering else 50.0 * n * d
        return Cost(flops=search + 40.0 * n * width, memory_bytes=16.0 * n * width)


@dataclass(frozen=True)
class Ends:
    """(d,) least and largest of each column."""

    low: Vector
    high: Vector

    def merge(self, other: Ends) -> Ends:
        """Of both sets of rows."""
        return Ends(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True)
class EndsPart:
    """The part whose total is `Ends`."""

    def __call__(self, X: Matrix, s: Vector) -> Ends:
        """Of rows."""
        return Ends(X.min(axis=0), X.max(axis=0))


def ranks_of(m: int) -> Vector:
    """(m,) shares of the weight below the middles of m equal parts of the rows."""
    return np.asarray((np.arange(m) + 0.5) / m)


def centres_of(how: Any, X: Matrix, s: Vector, m: int, seed: int) -> Matrix:
    """(m, d) centres of each feature by itself, ascending unless given; weights (n,) count for ranks and k-means."""
    if not isinstance(how, str):
        return given_centres(how, X.shape[1])
    if how == "grid":
        return np.linspace(X.min(axis=0), X.max(axis=0), m) if m > 1 else 0.5 * (X.min(axis=0) + X.max(axis=0))[None]
    if how == "quantiles":
        return ranked(X, s, ranks_of(m))
    return np.column_stack([np.sort(clustered(x[:, None], s, m, seed)[:, 0]) for x in X.T])


def given_centres(given: Any, d: int) -> Matrix:
    """The centres of the request, or InvalidParameter where they have another width than the table."""
    C = np.array(given, dtype=np.float64)
    if C.ndim != 2 or C.shape[1] != d or not len(C):
        text = f"centers must be (m, {d}), a centre of each column per row; got {C.shape}"
        raise InvalidParameter(text, [Issue("/params/centers", "shape", text)])
    return C


def clustered(X: Matrix, s: Vector, m: int, seed: int) -> Matrix:
    """(m, d) centres by k-means, in lexicographic order."""
    mean = weighted_mean(X, s)
    runs = k_means_search.restarts(X - mean, s, min(m, len(X)), "kmeans++", n_init=STARTS, seed=seed, max_iter=STEPS,
                                   tol=0.0)  # fmt: skip
    found = min(runs, key=lambda r: r.inertia).centres + mean
    found = found[np.lexsort(found.T[::-1])]
    return np.concatenate([found, np.repeat(found[-1:], m - len(found), axis=0)])


def spacing(centres: Vector, x: Vector, s: Vector) -> float:
    """The median distance of neighbouring distinct centres; of a single one the standard deviation of the column."""
    apart = np.diff(np.unique(centres))
    if len(apart):
        return float(np.median(apart))
    return 0.0 if np.ptp(x) == 0 else float(np.sqrt(np.average((x - centres[0]) ** 2, weights=s)))


def joint_spacing(centres: Matrix, X: Matrix, s: Vector) -> float:
    """The median distance of distinct centres to their nearest; of one the root mean square distance of the rows."""
    C = np.unique(centres, axis=0)
    if len(C) > 1:
        rest = [nearest(C[k : k + 1], np.delete(C, k, axis=0))[1][0] for k in range(len(C))]
        return float(np.sqrt(np.median(rest)))
    return float(np.sqrt(np.average(((X - C[0]) ** 2).sum(axis=1), weights=s)))
