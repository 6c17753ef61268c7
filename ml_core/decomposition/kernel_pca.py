"""Kernel principal component analysis."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy.linalg import eigh

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Transformer
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis
from ml_core.errors import InvalidParameter, Issue
from ml_core.gp.expansion import chosen
from ml_core.gp.landmarks import Approximation, Landmarked, Landmarks
from ml_core.gp.options import Similarity
from ml_core.kernels import Kernel
from ml_core.kernels.weighted import weighted_sums
from ml_core.registry import algorithm
from ml_core.solvers.spectrum import orient

DROPPED = 1e-10
TINY = float(np.finfo(float).tiny)


@algorithm("kernel_pca")
class KernelPCA(Landmarked, Weighted, Transformer):
    """Principal components in the feature space of a kernel.

    With p = s/Σs the shares of the rows and K̃ᵢⱼ = ⟨φ(xᵢ) - m, φ(xⱼ) - m⟩, m = Σ pᵢφ(xᵢ), the eigenvectors of
    √P K̃ √P with values λ are the directions of largest variance λ. A row z has the coordinates
    Σᵢ aᵢ k̃(xᵢ, z), a = √P v/√λ, so that directions have length 1 and coordinates variance λ. Eigenvalues up to 1e-10
    of the largest are dropped. With the linear kernel this is principal component analysis. O(n³), 8n² bytes a matrix.
    The coordinate of the training row that is farthest from 0 is positive.

    References
    ----------
    Schölkopf, Smola, Müller (1998), Nonlinear component analysis as a kernel eigenvalue problem, Neural Computation 10.
    """

    task = "dimension_reduction"  # type: ignore[assignment]
    queue = "long"
    matrices, noun = 5.0, "kernel principal component analysis"
    largest = SQUARES
    complexity = "O(n³)"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "unsupervised")

    kernel_: Annotated[Kernel, "kernel in use"]
    rows_: Annotated[Matrix, "(n, d) training rows, or the landmarks"]
    dual_coef_: Annotated[Matrix, "(n, k) a: weights of the training rows in each direction, Σᵢ aᵢ = 0"]
    offset_: Annotated[Vector, "(k,) coordinates of the mean before centring"]
    eigenvalues_: Annotated[Vector, "(k,) variances λ, largest first"]
    explained_variance_ratio_: Annotated[Vector, "(k,) shares of the total variance"]
    total_variance_: Annotated[float, "Σλ, the trace of the centred kernel matrix over n"]
    discarded_variance_: Annotated[float, "variance of the directions that were not kept"]

    def __init__(
        self,
        *,
        kernel: Similarity = None,
        n_components: Annotated[
            int | float | None,
            Field(gt=0, description="Number of directions, the share of variance (below 1) to reach, or null: all."),
        ] = None,
        approximation: Approximation = "none",
        n_landmarks: Landmarks = 300,
    ) -> None:
        self.kernel = kernel
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.n_components = n_components

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The kernel matrix and all its eigenvectors."""
        if self._approximates(n):
            return self._cost_through(n, d, k)
        return Cost(flops=9.0 * float(n) ** 3 + 20.0 * n * n * d, memory_bytes=5.0 * 8.0 * n * n)

    def _fit(self, X: Matrix, s: Vector) -> None:
        self._asked(len(X))
        if self._landmarks_stand_in(X, s):
            return self._fit_landmarks(X, s)
        self.kernel_, self.rows_ = chosen(self.kernel, X), X
        share = s / s.sum()
        progress.tick(0, 2, "kernel matrix")
        K = self.kernel_(X)
        middle = K @ share
        centred = _centred(K, middle, share)
        root = np.sqrt(share)
        progress.tick(1, 2, "eigenvectors")
        values, V = self._spectrum(root[:, None] * centred * root)
        self._keep(values, float(share @ centred.diagonal()))
        k = self.n_features_out_
        oriented = orient((V[:, :k] / root[:, None]).T).T  # coordinates are multiples of these
        a = oriented * share[:, None] / np.sqrt(self.eigenvalues_)
        self.dual_coef_ = a - share[:, None] * a.sum(axis=0)
        self.offset_ = middle @ self.dual_coef_

    def _fit_landmarks(self, X: Matrix, s: Vector) -> None:
        """Principal components of the features."""
        twin, most = self._linear_twin(), self._projected(X[:1]).shape[1]
        if isinstance(self.n_components, int) and self.n_components > most:
            self._note("fewer_components", f"{most} landmarks have no more than {most} components, "
                       f"{self.n_components} were asked for", "raise n_landmarks")  # fmt: skip
            twin.n_components = most
        self._taught(twin, X, s)
        found = self._expanded(twin.components_.T, -twin.mean_ @ twin.components_.T)
        self.kernel_, self.rows_, self.dual_coef_, self.offset_ = found.kernel, found.rows, found.weights, -found.offset
        self.n_features_out_, self.eigenvalues_ = len(twin.components_), twin.explained_variance_
        self.explained_variance_ratio_, self.discarded_variance_ = (
            twin.explained_variance_ratio_, twin.discarded_variance_)  # fmt: skip
        self.total_variance_ = float(self.eigenvalues_.sum()) + self.discarded_variance_

    def _linear_twin(self) -> PrincipalComponentAnalysis:
        return PrincipalComponentAnalysis(n_components=self.n_components)

    def _asked(self, n: int) -> None:
        k = self.n_components
        if (isinstance(k, float) and k >= 1.0) or (isinstance(k, int) and k > n):
            text = f"n_components is a whole number up to the {n} rows, or a share below 1, got {k}"
            raise InvalidParameter(text, [Issue("/params/n_components", "too_many", text)])

    def _spectrum(self, G: Matrix) -> tuple[Vector, Matrix]:
        """Eigenvalues and vectors, largest first: all, or the number asked for where these are few."""
        n, k = len(G), self.n_components
        part = (n - k, n - 1) if isinstance(k, int) and 4 * k <= n else None
        values, V = eigh(G, subset_by_index=part, overwrite_a=True, check_finite=False)
        return values[::-1], V[:, ::-1]

    def _keep(self, values: Vector, total: float) -> None:
        kept = values[values > DROPPED * max(float(values[0]), TINY)]
        if isinstance(self.n_components, float):
            kept = kept[: int(np.searchsorted(np.cumsum(kept), self.n_components * total * (1 - 1e-15))) + 1]
        elif self.n_components is not None:
            if self.n_components > len(kept):
                self._note("rank_deficient", f"the centred kernel matrix has rank {len(kept)}: {len(kept)} of "
                           f"{self.n_components} directions are kept", "ask for fewer components")  # fmt: skip
            kept = kept[: self.n_components]
        if not len(kept):
            self._note("no_variance", "every row has the same features under this kernel", "choose other columns")
        self.n_features_out_ = len(kept)
        self.eigenvalues_, self.total_variance_ = kept.copy(), max(total, 0.0)
        self.explained_variance_ratio_ = kept / max(total, TINY)
        self.discarded_variance_ = max(total - float(kept.sum()), 0.0)

    def _transform(self, X: Matrix) -> Matrix:
        return np.asarray(weighted_sums(self.kernel_, X, self.rows_, self.dual_coef_) - self.offset_)

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"component{i}" for i in range(self.n_features_out_)]

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        return self._twin_diagnosed(X, s) or self._diagnosed(X, s)

    def _diagnosed(self, X: Matrix, s: Vector) -> Diagnostics:
        a, var, share = self.dual_coef_, self.eigenvalues_, s / s.sum()
        K = self.kernel_(X)
        centred = _centred(K, K @ share, share)
        Z = self._transform(X)
        top = max(float(share @ centred.diagonal()), TINY)
        lengths = a.T @ centred @ a
        spread = Z.T @ (share[:, None] * Z)
        residual = np.linalg.norm(centred @ (share[:, None] * Z) - Z * var, axis=0)
        lost = float(share @ centred.diagonal() - share @ (Z**2).sum(axis=1))
        worst = {
            "orthonormality": _largest(lengths - np.eye(len(var))), "centred": _largest(share @ Z) / top**0.5,
            "largest_covariance": _largest(spread - np.diag(var)) / top,
            "eigen_residual": _largest(residual / np.maximum(np.sqrt(var) * top, TINY) / len(X) ** 0.5),
            "reconstruction_gap": abs(lost - self.discarded_variance_) / top,
        }  # fmt: skip
        out = Diagnostics(summary={
            "rows": len(X), "observations": float(s.sum()), "components": len(var), "total_variance": top,
            "reconstruction_error": lost, "discarded_variance": self.discarded_variance_,
        })  # fmt: skip
        out.certificates = [Certificate(n, v, _TOLERANCES[n], _MEANINGS[n]) for n, v in worst.items()]
        ratio = self.explained_variance_ratio_
        numbers, cumulative = np.arange(1, len(var) + 1), np.cumsum(ratio)
        rows: list[list[Any]] = [list(r) for r in zip(numbers.tolist(), var, ratio, cumulative, strict=True)]
        out.tables["components"] = Table(("component", "eigenvalue", "explained_ratio", "cumulative_ratio"), rows)
        out.curves["scree"] = {"x": numbers, "y": var, "explained_ratio": ratio, "cumulative_ratio": cumulative}
        return out


_TOLERANCES = {"orthonormality": 1e-4, "centred": 1e-9, "largest_covariance": 1e-9, "eigen_residual": 1e-6,
               "reconstruction_gap": 1e-9}  # fmt: skip
_MEANINGS = {
    "orthonormality": "directions in feature space have length 1 and are at right angles (small λ lose digits)",
    "centred": "mean coordinates are 0, in standard deviations of all directions together",
    "largest_covariance": "coordinates are uncorrelated with variances λ, relative to the total variance",
    "eigen_residual": "largest ‖K̃Pz - λz‖ of a direction's coordinates z, relative to ‖z‖ and the total variance",
    "reconstruction_gap": "the mean squared distance to the directions is the variance not kept, relative to the total",
}


def _largest(A: np.ndarray) -> float:
    return float(np.abs(A).max(initial=0.0))


def _centred(K: Matrix, middle: Vector, share: Vector) -> Matrix:
    """⟨φᵢ - m, φⱼ - m⟩ from K, its weighted means `middle` (n,), and the shares; exactly symmetric."""
    out = K - (middle[:, None] + middle) + float(share @ middle)
    return np.asarray(0.5 * (out + out.T))
