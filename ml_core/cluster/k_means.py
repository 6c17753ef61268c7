"""K-means clustering."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Clusterer, Cost, Transformer
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.numerics.column_sums import ColumnPart, ColumnSums
from ml_core.params import MaxIter, RealMatrix, Seed
from ml_core.registry import algorithm
from ml_core.solvers import k_means_search
from ml_core.solvers.centres import nearest, squared_distances
from ml_core.solvers.k_means_sums import Settle, Settled, lloyd_by_sums
from ml_core.solvers.lloyd import Lloyd, lloyd
from ml_core.solvers.sample import Draw, Sample, room
from ml_core.solvers.spectrum import weighted_mean
from ml_core.sums import Census, Passes
from ml_core.validation import check_query, check_weights

EPS = float(np.finfo(float).eps)
MOST_EXHAUSTIVE = 12


@algorithm("k_means")
class KMeans(Weighted, Clusterer, Transformer):
    """Groups around means.

    min over centres c and labels z of J = Σᵢ sᵢ ‖xᵢ - c_{zᵢ}‖². Means and nearest means alternate (Lloyd): J never
    rises and the end is a local optimum, so the best of `n_init` starts is kept and every J is returned. A tied row
    stays; an empty cluster receives the row farthest from its centre. Clusters are numbered in the lexicographic order
    of their centres (given centres keep their order). J is least, 0, at k = n, so it cannot choose k by itself.
    O(n k d) an iteration. Same optimum as hard EM of a mixture with unit covariances and equal weights.

    From chunks: starts are drawn and first improved on at most 65,536 rows (chosen by a hash of their cells, so chunks
    do not matter; all rows when they are no more), then all starts alternate together over all rows until no sum
    changes. From given centres the partition is that of `fit`, centres and J to 12 digits; a tied row goes to the lower
    number, and `labels_` is empty.

    References
    ----------
    Lloyd (1982), Least squares quantization in PCM, IEEE Transactions on Information Theory 28(2).
    Arthur, Vassilvitskii (2007), k-means++: the advantages of careful seeding, SODA.
    Hamerly (2010), Making k-means even faster, SDM.
    """

    task = "clustering"  # type: ignore[assignment]
    complexity = "O(n k d) per iteration and start"
    tags = ("parametric", "direct", "high_capacity", "unsupervised")
    largest = SQUARES

    cluster_centers_: Annotated[Matrix, "(k, d) means of the clusters"]
    inertia_: Annotated[float, "J, squared units of the columns times weight"]
    n_iter_: Annotated[int, "iterations of the best start"]
    inertias_: Annotated[Vector, "(n_init,) J of every start"]
    iterations_: Annotated[Codes, "(n_init,) iterations of every start"]
    objective_trace_: Annotated[Vector, "J after each iteration of the best start, from its initial centres on"]
    relocated_: Annotated[int, "rows moved into empty clusters in the best start"]
    inertia_curve_: Annotated[Vector, "(curve,) best J with 1, 2, … clusters; empty unless asked for"]

    def __init__(
        self,
        *,
        n_clusters: Annotated[int, Field(ge=1, description="Number of clusters k.")] = 8,
        init: Annotated[
            Literal["kmeans++", "forgy", "random_partition"] | RealMatrix,
            Field(description="D²-weighted draws, k distinct rows, means of random parts, or k given centres."),
        ] = "kmeans++",
        n_init: Annotated[int, Field(ge=1, description="Starts; given centres and exhaustive search use one.")] = 10,
        max_iter: MaxIter = 300,
        tol: Annotated[
            float, Field(ge=0, description="Stop when Σ‖Δc‖² ≤ tol · mean column variance; 0: when no row moves.")
        ] = 0.0,
        algorithm: Annotated[
            Literal["lloyd", "exhaustive"], Field(description="Local search, or every partition of at most 12 rows.")
        ] = "lloyd",
        curve: Annotated[int, Field(ge=0, description="Also report the best J of 1 … curve clusters; 0: none.")] = 0,
        random_state: Seed = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.algorithm = algorithm
        self.curve = curve
        self.random_state = random_state

    def _fit(self, X: Matrix, s: Vector) -> None:
        k = self._effective(X, len(X))
        mean = weighted_mean(X, s)
        A = X - mean
        best = self._store(self._runs(A, s, k, mean), mean)
        self.labels_ = np.argsort(self._order(best))[best.labels]
        self.inertia_curve_ = self._curve(A, s)

    def _passes(self, census: Census) -> Passes:
        columns: ColumnSums = yield ColumnPart()
        size, mean = room(census.width), columns.mean
        sample: Sample = yield Draw(size, self.random_state, whole=census.rows <= size)
        k = self._effective(sample.X, census.rows)
        A = sample.X - mean
        if isinstance(self.init, str) or self.algorithm == "exhaustive":
            starts = [r.centres for r in self._runs(A, sample.s, k, mean)]
        else:
            starts = [self._given(A, k, mean)]
        allowed = self.tol * float(np.mean(columns.sd**2))
        self._store((yield from lloyd_by_sums(starts, mean, max_iter=self.max_iter, allowed=allowed)), mean)
        self.labels_ = np.empty(0, dtype=np.int64)
        self.inertia_curve_ = self._curve(A, sample.s) * (columns.total / float(sample.s.sum()))
        if self.curve and not sample.whole:
            self._note("curve_of_sample", f"the curve over k is that of {len(A)} of {census.rows} rows, times their "
                       "share of the weight", "fit a table that fits in memory for the curve of all rows")  # fmt: skip

    def _store(self, runs: list[Lloyd], mean: Vector) -> Lloyd:
        """Everything but labels and curve; returns the best run."""
        best = min(runs, key=lambda r: r.inertia)
        self.cluster_centers_ = best.centres[self._order(best)] + mean
        self.n_features_out_ = len(best.centres)
        self.inertia_, self.n_iter_, self.relocated_ = best.inertia, best.n_iter, best.relocated
        self.inertias_ = np.array([r.inertia for r in runs])
        self.iterations_ = np.array([r.n_iter for r in runs])
        self.objective_trace_ = np.array(best.trace)
        self._remarks(best)
        return best

    def _order(self, best: Lloyd) -> Codes:
        """The centres in the order in which clusters are numbered."""
        given = not isinstance(self.init, str) and self.algorithm == "lloyd"
        return np.arange(len(best.centres)) if given else np.lexsort(best.centres.T[::-1])

    def _curve(self, A: Matrix, s: Vector) -> Vector:
        most = min(self.curve, len(A))
        return np.array(k_means_search.curve(
            A, s, most, n_init=self.n_init, seed=self.random_state, max_iter=self.max_iter))  # fmt: skip

    def _effective(self, X: Matrix, n: int) -> int:
        """The number of clusters, lowered to the number of distinct rows; X holds as many of these as there are."""
        k = self.n_clusters
        if k > n:
            text = f"n_clusters={k} needs at least as many rows, got n_samples={n}"
            raise InvalidParameter(text, [Issue("/params/n_clusters", "too_many", text)])
        if self.algorithm == "exhaustive" and n > MOST_EXHAUSTIVE:
            raise InvalidData(f"exhaustive search takes at most {MOST_EXHAUSTIVE} rows, got {n}; use lloyd")
        if not isinstance(self.init, str) and np.shape(self.init) != (k, X.shape[1]):
            text = f"init must hold n_clusters={k} centres of {X.shape[1]} columns, got shape {np.shape(self.init)}"
            raise InvalidParameter(text, [Issue("/params/init", "shape", text)])
        distinct = len(k_means_search.distinct_rows(X, np.arange(len(X)), k))
        if distinct < k:
            self._note("fewer_distinct_rows", f"only {distinct} distinct rows for {k} clusters: {distinct} are used",
                       f"set n_clusters to at most {distinct}")  # fmt: skip
        return distinct

    def _runs(self, A: Matrix, s: Vector, k: int, mean: Vector) -> list[Lloyd]:
        if self.algorithm == "exhaustive":
            return [k_means_search.exhaustive(A, s, k)]
        if isinstance(self.init, str):
            return k_means_search.restarts(
                A, s, k, self.init,
                n_init=self.n_init, seed=self.random_state, max_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
        return [lloyd(A, s, self._given(A, k, mean), max_iter=self.max_iter, tol=self.tol)]

    def _given(self, A: Matrix, k: int, mean: Vector) -> Matrix:
        """The caller's centres less `mean`, thinned to k and moved to rows where these are fewer."""
        centres = np.asarray(self.init, dtype=np.float64)
        if k < len(centres):
            centres = centres[np.sort(np.unique(nearest(A, centres - mean)[0]))][:k]
            missing = k_means_search.distinct_rows(A + mean, np.arange(len(A)), k)[: k - len(centres)]
            centres = np.vstack([centres, (A + mean)[missing]])
        return centres - mean

    def _remarks(self, best: Lloyd) -> None:
        if not best.converged:
            self._note_short(f"rows still moved after {best.n_iter} iterations",
                             "raise max_iter; the centres are not yet the means of their rows")  # fmt: skip
        if best.relocated:
            self._note("empty_cluster", f"{best.relocated} times the farthest row was moved into an empty cluster",
                       "fewer clusters or other starting centres may fit the data better")  # fmt: skip

    def _finish(self, X: Any) -> None:
        own, self.labels_ = self.labels_, self.predict(X)
        if len(own) == len(self.labels_):
            self.labels_ = self._settled(np.asarray(X, dtype=np.float64), own, self.labels_)

    def _settled(self, X: Matrix, own: Codes, labels: Codes) -> Codes:
        """The fitted label of each row that is tied, up to rounding, between it and the nearest; else the nearest."""
        moved = np.flatnonzero(own != labels)
        if not len(moved):
            return labels
        D = np.sqrt(squared_distances(np.ascontiguousarray(X[moved]), self.cluster_centers_))
        rows = np.arange(len(moved))
        rounding = 8 * EPS * (np.abs(X[moved]).max(axis=1) + np.abs(self.cluster_centers_).max()) * np.sqrt(X.shape[1])
        tied = D[rows, own[moved]] - D[rows, labels[moved]] <= rounding
        out = labels.copy()
        out[moved[tied]] = own[moved[tied]]
        return out

    def _decide(self, X: Matrix) -> Codes:
        return nearest(X, self.cluster_centers_)[0]

    def _transform(self, X: Matrix) -> Matrix:
        return np.sqrt(squared_distances(X, self.cluster_centers_))

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"cluster{i}" for i in range(self.n_features_out_)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """-J of the rows of X (larger is better)."""
        near = nearest(check_query(self, X), self.cluster_centers_)[1]
        return -float(check_weights(sample_weight, len(near)) @ near)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Of 30 iterations a start and the draws of the start."""
        work = 3.0 * n * d * self.n_clusters * self.n_init
        return Cost(flops=work * (30 + np.log(self.n_clusters + 1)), memory_bytes=8.0 * n * (d + 8))

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        labels = nearest(X, self.cluster_centers_)[0]
        if len(labels) == len(self.labels_):
            labels = self._settled(X, self.labels_, labels)
        return self._report(Settled.of(X, s, self.cluster_centers_, labels))

    def _audit(self, census: Census) -> Passes:
        return self._report((yield Settle(self.cluster_centers_)))

    def _report(self, found: Settled) -> Diagnostics:
        C, k, weight = self.cluster_centers_, len(self.cluster_centers_), found.weight
        full, total = weight > 0, found.total_inertia(self.cluster_centers_)
        per = np.where(full, weight, 1.0)
        J, size = float(found.square.sum()), float(64 * EPS * 2 * found.top * np.sqrt(C.shape[1]))
        fall = float(np.diff(self.objective_trace_, prepend=self.objective_trace_[0]).max())
        slack = float(weight.sum() * size**2 + 2 * np.sqrt(J * weight.sum()) * size)
        out = Diagnostics(summary={
            "inertia": J, "clusters": k, "iterations": self.n_iter_, "relocated": self.relocated_,
            "total_inertia": total, "explained_ratio": 1 - J / total if total > 0 else None,
        })  # fmt: skip
        off = np.abs(found.offset).max(axis=1) / per
        out.certificates = [
            Certificate("nearest_centre", found.late, size, "no row is nearer to another centre than to its own"),
            Certificate("centre_is_mean", float(off[full].max()), size + float((found.loose / per)[full].max()),
                "each centre is the mean of its rows, in units of the columns"),
            Certificate("inertia_gap", abs(J - self.inertia_), 1e-9 * J + slack,
                "J is the sum of the squared distances to the centres, recomputed"),
            Certificate("largest_rise", fall, 1e-12 * total, "J never rose from one iteration to the next"),
        ]  # fmt: skip
        figures = (found.members, weight, found.square, np.sqrt(found.square / per))
        rows = zip(range(k), *(v.tolist() for v in figures), strict=True)
        out.tables["clusters"] = Table(
            ("cluster", "rows", "weight", "inertia", "root_mean_square_distance"), [list(r) for r in rows])  # fmt: skip
        starts = zip(self.inertias_.tolist(), self.iterations_.tolist(), strict=True)
        out.tables["starts"] = Table(("start", "inertia", "iterations"), [[i, *r] for i, r in enumerate(starts)])
        out.traces["objective"] = self.objective_trace_
        out.matrices["centres"] = self.cluster_centers_
        if len(self.inertia_curve_):
            x = np.arange(1, len(self.inertia_curve_) + 1)
            out.curves["inertia_over_k"] = {"x": x, "y": self.inertia_curve_}
        return out
