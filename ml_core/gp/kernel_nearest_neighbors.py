"""Nearest neighbours by the distance in the feature space of a kernel."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost, Regressor
from ml_core.capabilities import HasProba, MultiOutput
from ml_core.certificates import Certificate, Diagnostics
from ml_core.errors import InvalidParameter, Issue
from ml_core.gp.expansion import chosen
from ml_core.gp.options import Similarity
from ml_core.kernels import Kernel
from ml_core.registry import algorithm
from ml_core.validation import check_query

BLOCK_CELLS = 1 << 21
CHECKED_ROWS = 200
TIE = 1e-12
Count = Annotated[int, Field(ge=1, description="Neighbours that vote.")]
Votes = Annotated[
    Literal["uniform", "distance"], Field(description="All neighbours alike, or each by 1/distance (0: those alone).")
]


def nearest(kernel: Kernel, X: Matrix, rows: Matrix, count: int) -> tuple[np.ndarray, Matrix]:
    """(n, count) numbers and squared distances of the nearest rows; equal ranks in order of the rows. O(n r d)."""
    step = max(1, BLOCK_CELLS // len(rows))
    at, far = [], []
    for i in range(0, len(X), step):
        R = kernel.ranks(X[i : i + step], rows)
        order = np.argsort(R, axis=1, kind="stable")[:, :count] if count > len(rows) // 4 else _few(R, count)
        at.append(order)
        far.append(kernel.distances_of(np.take_along_axis(R, order, axis=1)))
    return np.concatenate(at), np.concatenate(far)


def _few(R: Matrix, count: int) -> np.ndarray:
    """The `count` smallest of each row of R, in order; equal ones by number."""
    limit = np.partition(R, count - 1, axis=1)[:, count - 1 : count]
    out = np.empty((len(R), count), dtype=np.int64)
    for i, row in enumerate(R):
        within = np.flatnonzero(row <= limit[i])
        out[i] = within[np.argsort(row[within], kind="stable")[:count]]
    return out


def _shares(far: Matrix, weights: str) -> Matrix:
    """(n, count) weights of the neighbours, rows sum to 1; by distance, those at distance 0 have all."""
    if weights == "uniform":
        return np.full(far.shape, 1.0 / far.shape[1])
    apart = np.sqrt(far / np.maximum(far[:, -1:], np.finfo(float).tiny))
    here = (far == 0).any(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        w = np.where(here, far == 0, 1.0 / np.where(here, 1.0, apart))
    return np.asarray(w / w.sum(axis=1, keepdims=True))


class _Neighbors:
    """What both kinds share: the rows are the model."""

    largest: ClassVar[float] = SQUARES
    complexity: ClassVar[str] = "O(n r d) per n queries among r rows"
    kernel: Any
    n_neighbors: int
    weights: str
    kernel_: Annotated[Kernel, "kernel in use"]
    rows_: Annotated[Matrix, "(r, d) training rows"]

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The rows are kept; diagnostics ask for the neighbours of some."""
        return Cost(flops=30.0 * n * d * CHECKED_ROWS, memory_bytes=16.0 * n * d + 32.0 * BLOCK_CELLS)

    def _keep(self, X: Matrix) -> None:
        if self.n_neighbors > len(X):
            text = f"n_neighbors is {self.n_neighbors}, more than n_samples = {len(X)}"
            raise InvalidParameter(text, [Issue("/params/n_neighbors", "value_error", text)])
        self.kernel_, self.rows_ = chosen(self.kernel, X), X

    def _nearest(self, X: Matrix) -> tuple[np.ndarray, Matrix]:
        return nearest(self.kernel_, X, self.rows_, self.n_neighbors)

    def neighbors(self, X: Any) -> tuple[np.ndarray, Matrix]:
        """(n, n_neighbors) numbers of the nearest training rows, and their distances in feature space."""
        at, far = self._nearest(check_query(self, X))
        return at, np.sqrt(far)

    def _report(self, X: Matrix) -> Diagnostics:
        """Neighbours of some rows against the definition, k(x,x) - 2 k(x,z) + k(z,z), all pairs sorted."""
        some = X[np.linspace(0, len(X) - 1, min(len(X), CHECKED_ROWS)).astype(np.int64)]
        _, far = self._nearest(some)
        k = self.kernel_
        size = k.diag(some)[:, None] + k.diag(self.rows_)
        D = np.maximum(size - 2.0 * k(some, self.rows_), 0.0)
        want = np.sort(D, axis=1)[:, : self.n_neighbors]
        out = Diagnostics(summary={"rows": len(X), "kept_rows": len(self.rows_), "n_neighbors": self.n_neighbors,
                                   "median_distance": float(np.median(np.sqrt(far[:, -1])))})  # fmt: skip
        out.certificates = [Certificate(
            "distance_error", float((np.abs(far - want) / np.maximum(size.max(), np.finfo(float).tiny)).max()), 1e-10,
            "squared distances of the neighbours against the smallest by definition, relative to k(x,x) + k(z,z)",
        )]  # fmt: skip
        return out


@algorithm("kernel_nearest_neighbors")
class KernelNearestNeighbors(_Neighbors, HasProba, Classifier):
    """The majority of the nearest rows by the distance in the feature space of a kernel.

    ‖φ(x) - φ(z)‖² = k(x,x) - 2 k(x,z) + k(z,z). Probabilities are the shares of votes; among classes with equal shares
    the one with the nearest row wins, then the first class. Rows at equal distances count in their order. With the
    linear kernel, and with any radial one whose lengths are equal, these are Euclid's nearest neighbours.

    References
    ----------
    Yu, Ji, Zhang (2002), Kernel nearest-neighbor algorithm, Neural Processing Letters 15.
    Cover, Hart (1967), Nearest neighbor pattern classification, IEEE Trans. Information Theory 13(1).
    """

    tags = ("non_parametric", "discriminative", "high_capacity", "kernel", "lazy")

    codes_: Annotated[Codes, "(r,) classes of the rows"]

    def __init__(self, *, kernel: Similarity = None, n_neighbors: Count = 5, weights: Votes = "uniform") -> None:
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights

    def _fit(self, X: Matrix, y: Codes) -> None:
        self._keep(X)
        self.codes_ = y

    def _votes(self, X: Matrix) -> tuple[Matrix, np.ndarray]:
        at, far = self._nearest(X)
        votes, shares = self.codes_[at], _shares(far, self.weights)
        return np.stack([(shares * (votes == c)).sum(axis=1) for c in range(len(self.classes_))], axis=1), votes

    def _proba(self, X: Matrix) -> Matrix:
        P, _ = self._votes(X)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _decide(self, X: Matrix) -> Codes:
        """Among the classes of the largest share, that of the nearest neighbour."""
        P, votes = self._votes(X)
        top = P.max(axis=1, keepdims=True)
        tied = top - P <= TIE
        first = np.take_along_axis(tied, votes, axis=1).argmax(axis=1)
        return np.asarray(votes[np.arange(len(X)), first])

    def _diagnose(self, X: Matrix, y: Codes) -> Diagnostics:
        out = self._report(X)
        out.summary["training_accuracy"] = float(np.mean(self._decide(X) == y))
        return out


@algorithm("kernel_nearest_neighbors_regression")
class KernelNearestNeighborsRegression(_Neighbors, MultiOutput, Regressor):
    """The mean target of the nearest rows by the distance in the feature space of a kernel.

    ‖φ(x) - φ(z)‖² = k(x,x) - 2 k(x,z) + k(z,z). Rows at equal distances count in their order. With the linear kernel,
    and with any radial one whose lengths are equal, these are Euclid's nearest neighbours.

    References
    ----------
    Yu, Ji, Zhang (2002), Kernel nearest-neighbor algorithm, Neural Processing Letters 15.
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 2.3.2.
    """

    tags = ("non_parametric", "direct", "high_capacity", "kernel", "lazy")

    targets_: Annotated[Matrix | Vector, "(r,) or (r, q) targets of the rows"]

    def __init__(self, *, kernel: Similarity = None, n_neighbors: Count = 5, weights: Votes = "uniform") -> None:
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights

    def _fit(self, X: Matrix, y: Matrix | Vector) -> None:
        self._keep(X)
        self.targets_ = y

    def _predict(self, X: Matrix) -> Matrix | Vector:
        at, far = self._nearest(X)
        w = _shares(far, self.weights)
        several = self.targets_.ndim == 2
        return np.asarray(np.einsum("ij,ijk->ik" if several else "ij,ij->i", w, self.targets_[at]))

    def _diagnose(self, X: Matrix, y: Matrix | Vector) -> Diagnostics:
        out = self._report(X)
        out.summary["training_rmse"] = float(np.sqrt(np.mean((self._predict(X) - y) ** 2)))
        return out
