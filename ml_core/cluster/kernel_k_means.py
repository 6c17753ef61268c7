"""Kernel k-means clustering."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import eigh

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Clusterer, Cost
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.cluster.k_means import KMeans
from ml_core.errors import InvalidParameter, Issue
from ml_core.gp.expansion import Expansion, chosen
from ml_core.gp.landmarks import Approximation, Landmarked, Landmarks
from ml_core.gp.options import Similarity
from ml_core.kernels import Kernel
from ml_core.params import MaxIter, Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.kernel_lloyd import KernelLloyd, alternate, seeded

BOUNDED_ROWS = 1500
TINY = float(np.finfo(float).tiny)


@algorithm("kernel_k_means")
class KernelKMeans(Landmarked, Weighted, Clusterer):
    """Groups around means in the feature space of a kernel.

    min over labels z of J = Σᵢ sᵢ ‖φ(xᵢ) - m_{zᵢ}‖², m_c the weighted mean of φ in cluster c. A row's squared distance
    to m_c is k(x,x) - 2 Σ_{i in c} (sᵢ/S_c) k(xᵢ, x) + α_c, with α_c the mean of k over pairs of c, computed once a
    sweep. Means and nearest means alternate: J never rises and the end is a local optimum, so the best of `n_init`
    starts is kept and every J returned. A tied row stays; an empty cluster receives the row farthest from its mean.
    Clusters are numbered by their lexicographically least rows. With the linear kernel it is k-means. O(n² k) a sweep,
    8n² bytes.

    References
    ----------
    Dhillon, Guan, Kulis (2004), Kernel k-means: spectral clustering and normalized cuts, KDD.
    Schölkopf, Smola, Müller (1998), Nonlinear component analysis as a kernel eigenvalue problem, Neural Computation 10.
    """

    queue = "long"
    matrices, noun = 3.0, "kernel k-means"
    largest = SQUARES
    complexity = "O(n² k) per sweep and start"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "unsupervised")

    expansion_: Annotated[Expansion, "-2 × the products with every mean, and α"]
    kernel_: Annotated[Kernel, "kernel in use"]
    inertia_: Annotated[float, "J, squared feature length times weight"]
    inertias_: Annotated[Vector, "(n_init,) J of every start"]
    iterations_: Annotated[Codes, "(n_init,) sweeps of every start"]
    objective_trace_: Annotated[Vector, "J before each sweep of the best start"]
    partition_: Annotated[Codes, "(n,) clusters of the training rows; a tied row stays where it was"]
    n_iter_: int

    def __init__(
        self,
        *,
        kernel: Similarity = None,
        n_clusters: Annotated[int, Field(ge=1, description="Number of clusters.")] = 8,
        init: Annotated[
            Literal["kmeans++", "random_partition"], Field(description="D²-weighted draws of rows, or random parts.")
        ] = "kmeans++",
        n_init: Annotated[int, Field(ge=1, description="Starts.")] = 10,
        max_iter: MaxIter = 300,
        random_state: Seed = 0,
        approximation: Approximation = "none",
        n_landmarks: Landmarks = 300,
    ) -> None:
        self.kernel = kernel
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The kernel matrix, and about 15 sweeps a start."""
        if self._approximates(n):
            return self._cost_through(n, d, k)
        sweeps = 30.0 * self.n_init * self.n_clusters
        return Cost(flops=float(n) * n * (20.0 * d + sweeps), memory_bytes=3.0 * 8.0 * n * n)

    def _fit(self, X: Matrix, s: Vector) -> None:
        if self.n_clusters > len(X):
            text = f"n_clusters={self.n_clusters} needs at least as many rows, got n_samples={len(X)}"
            raise InvalidParameter(text, [Issue("/params/n_clusters", "too_many", text)])
        if self._landmarks_stand_in(X, s):
            return self._fit_landmarks(X, s)
        self.kernel_ = chosen(self.kernel, X)
        K, rng = self.kernel_(X), generator(self.random_state)
        runs = []
        for r in range(self.n_init):
            start = seeded(K, s, self.n_clusters, self.init, rng)
            with progress.share(self.n_init - r):
                runs.append(alternate(K, s, start, max_iter=int(self.max_iter)))
        best = min(runs, key=lambda r: r.inertia)
        self._keep(X, best, K, s)
        self.inertias_ = np.array([r.inertia for r in runs])
        self.iterations_ = np.array([r.n_iter for r in runs])

    def _fit_landmarks(self, X: Matrix, s: Vector) -> None:
        """k-means on the features."""
        twin = self._taught(self._linear_twin(), X, s)
        labels, self.partition_ = twin.labels_, _numbered(twin.labels_, X)
        own = [int(labels[self.partition_ == c][0]) for c in range(self.partition_.max() + 1)]
        M = twin.cluster_centers_[own]
        self.expansion_ = self._expanded(-2.0 * M.T, np.einsum("cj,cj->c", M, M))
        self.kernel_ = self.expansion_.kernel
        self.inertia_, self.n_iter_, self.inertias_ = twin.inertia_, twin.n_iter_, twin.inertias_
        self.iterations_, self.objective_trace_ = twin.iterations_, twin.objective_trace_

    def _linear_twin(self) -> KMeans:
        return KMeans(n_clusters=self.n_clusters, init=self.init, n_init=self.n_init, max_iter=self.max_iter,
                      random_state=self.random_state)  # fmt: skip

    def _keep(self, X: Matrix, best: KernelLloyd, K: Matrix, s: Vector) -> None:
        """Clusters numbered by their least rows, whatever the order of the rows."""
        self.partition_ = _numbered(best.labels, X)
        k = int(self.partition_.max()) + 1
        if k < self.n_clusters:
            self._note("fewer_distinct_rows", f"rows are distinct under the kernel for {k} clusters only",
                       f"set n_clusters to at most {k}")  # fmt: skip
        means = mean_weights(self.partition_, s, k)
        self.expansion_ = Expansion(self.kernel_, X, -2.0 * means, np.einsum("ic,ic->c", means, K @ means))
        self.inertia_, self.n_iter_ = best.inertia, best.n_iter
        self.objective_trace_ = np.array(best.trace)
        if not best.converged:
            self._note_short(f"rows still moved after {best.n_iter} sweeps")

    def _decide(self, X: Matrix) -> Codes:
        return np.asarray(self.expansion_.at(X).argmin(axis=1))

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        return self._twin_diagnosed(X, s) or self._diagnosed(X, s)

    def _diagnosed(self, X: Matrix, s: Vector) -> Diagnostics:
        K, k = self.kernel_(X), self.expansion_.weights.shape[1]
        means = mean_weights(self.partition_, s, k)
        F = K @ means
        D = K.diagonal()[:, None] - 2.0 * F + np.einsum("ic,ic->c", means, F)
        own = D[np.arange(len(X)), self.partition_]
        J, scale = float(s @ own), max(float(np.abs(K.diagonal()).max()), TINY)
        sizes = np.bincount(self.partition_, s, k)
        out = Diagnostics(summary={
            "rows": len(X), "observations": float(s.sum()), "clusters": k, "inertia": J, "iterations": self.n_iter_,
            "starts_at_best": int((self.inertias_ <= self.inertias_.min() * (1 + 1e-9)).sum()),
        })  # fmt: skip
        out.certificates = [
            Certificate("inertia_error", abs(J - self.inertia_) / (scale * s.sum()), 1e-12,
                        "J recomputed from the labels, relative to the largest k(x,x) and the weight"),
            Certificate("nearest_mean", float((own - D.min(axis=1)).max()) / scale, 1e-12,
                        "no row is nearer to another mean than to its own, relative to the largest k(x,x)"),
        ]  # fmt: skip
        if len(X) <= BOUNDED_ROWS:
            low = spectral_bound(K, s, k)
            out.summary["least_possible_inertia"] = low
            out.certificates.append(Certificate("spectral_bound", (low - J) / (scale * s.sum()), 1e-9,
                                                "J is not below what the kernel's eigenvalues allow"))  # fmt: skip
        rows = [[c, float(w), float(np.average(own[self.partition_ == c], weights=s[self.partition_ == c]))]
                for c, w in enumerate(sizes)]  # fmt: skip
        out.tables["clusters"] = Table(("cluster", "weight", "mean_squared_distance"), [list(r) for r in rows])
        out.traces["objective"] = self.objective_trace_
        return out


def _numbered(labels: Codes, X: Matrix) -> Codes:
    """The same parts, numbered by their least rows of X."""
    old = np.unique(labels, return_inverse=True)[1].ravel()
    first = np.unique(old[np.lexsort(X.T[::-1])], return_index=True)[1]
    return np.asarray(np.argsort(np.argsort(first))[old])


def mean_weights(labels: Codes, s: Vector, k: int) -> Matrix:
    """(n, k) weights of the rows in the mean of each cluster."""
    out = np.zeros((len(labels), k))
    out[np.arange(len(labels)), labels] = s / np.bincount(labels, s, k)[labels]
    return out


def spectral_bound(K: Matrix, s: Vector, k: int) -> float:
    """Σ s k(x,x) less the k largest eigenvalues of √S K √S: no partition into k parts has a smaller J. O(n³)."""
    root = np.sqrt(s)
    top = eigh(root[:, None] * K * root, subset_by_index=(len(K) - k, len(K) - 1), eigvals_only=True)
    return max(float(s @ K.diagonal() - top.sum()), 0.0)
