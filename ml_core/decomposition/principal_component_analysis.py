"""Principal component analysis."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidParameter, Issue
from ml_core.naming import listed
from ml_core.numerics.column_moments import column_moments, degrees
from ml_core.params import Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers import spectrum
from ml_core.solvers.spectrum import EPS, Rows, Spectrum

SMALL = 2e7
"""n·d·min(n, d) up to which few components cost no less than all."""
SAFE = 1e-4
"""λ_k / λ₁ from which the covariance route keeps 11 digits of every eigenvalue."""


@algorithm("principal_component_analysis")
class PrincipalComponentAnalysis(Weighted, Inverts, Transformer):
    """Orthogonal directions of largest variance.

    S = Σᵢ sᵢ (xᵢ - m)(xᵢ - m)ᵀ / (Σᵢ sᵢ - ddof) = V diag(λ) Vᵀ, z = (x - m) V_k, reconstruction m + z V_kᵀ. The mean
    squared reconstruction error is the sum of the discarded λ. Each direction's largest-magnitude entry is positive.
    By SVD of the centred table, O(n d min(n, d)); through S, O(n d² + d³), only where that loses no digit that matters;
    O(n d k) a step for few components.

    References
    ----------
    Jolliffe (2002), Principal Component Analysis, 2nd edition.
    Halko, Martinsson, Tropp (2011), Finding structure with randomness, SIAM Review 53(2).
    """

    task = "dimension_reduction"  # type: ignore[assignment]
    complexity = "O(n d min(n, d))"
    tags = ("parametric", "unsupervised")
    largest = SQUARES
    min_rows = 2

    components_: Annotated[Matrix, "(k, d) directions of unit length, in order of variance"]
    explained_variance_: Annotated[Vector, "(k,) eigenvalues λ, squared units of the (scaled) columns"]
    explained_variance_ratio_: Annotated[Vector, "(k,) λ over the total variance"]
    singular_values_: Annotated[Vector, "(k,) of the centred, scaled, weighted table"]
    discarded_variance_: Annotated[float, "sum of the eigenvalues that are left out"]
    mean_: Annotated[Vector, "(d,)"]
    scale_: Annotated[Vector, "(d,) divisor of each column, 1 unless standardised"]
    rank_: Annotated[int, "directions with a variance above rounding; a lower bound when only k were computed"]
    solver_: Annotated[str, "the route that was taken"]

    def __init__(
        self,
        *,
        n_components: Annotated[
            Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)] | None,
            Field(description="How many; a fraction asks for the least number that explains it; null for the rank."),
        ] = None,
        ddof: Annotated[Literal[0, 1], Field(description="Divisor n - ddof of the covariance.")] = 0,
        standardize: Annotated[bool, Field(description="Divide each column by its standard deviation.")] = False,
        center: Annotated[bool, Field(description="Subtract the mean; without it the first axis points at it.")] = True,
        whiten: Annotated[bool, Field(description="Scale the coordinates to variance 1.")] = False,
        solver: Annotated[
            Literal["auto", "full", "covariance", "lanczos", "randomized"],
            Field(description="SVD, eigenvectors of the covariance, or iterations for few components."),
        ] = "auto",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.ddof = ddof
        self.standardize = standardize
        self.center = center
        self.whiten = whiten
        self.solver = solver
        self.random_state = random_state

    def _fit(self, X: Matrix, s: Vector) -> None:
        k = self._requested(X)
        self.mean_ = s @ X / s.sum() if self.center else np.zeros(X.shape[1])
        if not self.center:
            self._note("not_centered", "without centring the first direction points at the mean of the data",
                       "set center to true unless the origin has a meaning")  # fmt: skip
        self.scale_ = self._scales(X, s)
        rows = self._rows(X, s)
        found = self._spectrum(rows, s, k)
        if not found.converged:
            self._note("not_converged", "the subspace iteration stopped before its values settled",
                       "use solver full or lanczos")  # fmt: skip
        self._keep(found, degrees(float(s.sum()), self.ddof), max(X.shape))

    def _requested(self, X: Matrix) -> int | None:
        """Number of components when it is known before the spectrum is."""
        most, k = min(X.shape) - (self.solver == "lanczos"), self.n_components
        whole = isinstance(k, int)
        if (whole and k > most) or (not whole and self.solver in ("lanczos", "randomized")):
            text = (
                f"solver {self.solver} with {X.shape[0]} rows and {X.shape[1]} columns needs "
                f"n_components {'to be' if whole else 'as a whole number'} ≤ {most}, got {k}"
            )
            raise InvalidParameter(text, [Issue("/params/n_components", "too_many", text)])
        return k if isinstance(k, int) else None

    def _scales(self, X: Matrix, s: Vector) -> Vector:
        if not self.standardize:
            return np.ones(X.shape[1])
        scale, constant = column_moments(X, s, self.ddof)[1:]
        if constant.any():
            self._note("constant_column", f"columns {listed(np.flatnonzero(constant))} are constant; their scale is 1",
                       "drop them, they carry no information")  # fmt: skip
        return scale

    def _rows(self, X: Matrix, s: Vector) -> Rows:
        return Rows(X, self.mean_, self.scale_, None if (s == 1).all() else np.sqrt(s))

    def _spectrum(self, rows: Rows, s: Vector, k: int | None) -> Spectrum:
        (n, d), self.solver_ = rows.X.shape, self.solver
        rng = generator(self.random_state)
        few = k is not None and 10 * k <= min(n, d) and n * d * min(n, d) > SMALL
        if self.solver == "auto":
            self.solver_ = "full" if n < 2 * d else "covariance"
        if self.solver_ == "covariance":
            found = spectrum.of_gram(spectrum.gram(rows, float(s.sum()) if self.center else 0.0), k)
            if self._accurate(found, k):
                return found
            self.solver_ = "full"
        if self.solver == "auto" and few:
            self.solver_ = "lanczos"
        if self.center:
            spectrum.recentre(rows, float(s.sum()))
        A = rows.dense()
        if self.solver_ == "full" or not A.any():
            return spectrum.full(A)
        return (spectrum.lanczos if self.solver_ == "lanczos" else spectrum.randomized)(A, k or 1, rng)

    def _accurate(self, found: Spectrum, k: int | None) -> bool:
        """Whether the eigenvalues that will be kept stand clear of the rounding of the covariance."""
        values = found.values**2
        if k is None and self.n_components is not None:
            k = self._count(values, float(values.sum()), len(values))
        kept = values[:k]
        if kept[-1] >= SAFE * kept[0]:
            return True
        if self.solver == "covariance":
            self._note("covariance_accuracy", "the smallest kept eigenvalue lost digits: squaring the table squares "
                       f"its condition number ({np.sqrt(kept[0] / max(kept[-1], EPS * kept[0])):.1e})",
                       "use solver full")  # fmt: skip
        return self.solver == "covariance"

    def _count(self, values: Vector, total: float, rank: int) -> int:
        """Components to keep: as asked, the least number that explains the fraction, or the rank."""
        if isinstance(self.n_components, int):
            return self.n_components
        if self.n_components is None:
            return max(rank, 1)
        share = np.cumsum(values) / (total or 1.0)
        return min(int(np.searchsorted(share, self.n_components * (1 - 4 * EPS))) + 1, max(rank, 1))

    def _keep(self, found: Spectrum, divisor: float, size: int) -> None:
        """Set the learned attributes from the spectrum; variances that are rounding become 0."""
        values, total = found.values, found.square
        loss = size * EPS if self.solver_ != "covariance" else np.sqrt(found.vectors.shape[1] * EPS)
        self.rank_ = int((values > loss * values[0]).sum())
        values = np.where(values > loss * values[0], values, 0.0)
        k = self._count(values**2, total, self.rank_)
        if k > self.rank_:
            self._note("rank_deficient", f"the table has rank {self.rank_}: the last of {k} components have variance 0",
                       "ask for fewer components; whitening leaves these coordinates at 0")  # fmt: skip
        kept = values[:k] ** 2
        rest = float((values[k:] ** 2).sum()) if found.whole else max(total - float(kept.sum()), 0.0)
        self.n_features_out_ = k
        self.components_ = np.ascontiguousarray(found.vectors[:k])
        self.singular_values_ = values[:k].copy()
        self.explained_variance_ = kept / divisor
        self.explained_variance_ratio_ = kept / total if total > 0 else np.zeros(k)
        self.discarded_variance_ = rest / divisor

    def _gain(self) -> Vector:
        """Standard deviations of the coordinates that whitening divides by; infinite where there is no variance."""
        return np.where(self.explained_variance_ > 0, np.sqrt(self.explained_variance_), np.inf)

    def _transform(self, X: Matrix) -> Matrix:
        Z = Rows(X, self.mean_, self.scale_).dense() @ self.components_.T
        return Z / self._gain() if self.whiten else Z

    def _inverse_transform(self, X: Matrix) -> Matrix:
        Z = X * np.sqrt(self.explained_variance_) if self.whiten else X
        return Z @ self.components_ * self.scale_ + self.mean_

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"component{i}" for i in range(self.n_features_out_)]

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Of the SVD route, the dearest."""
        return Cost(flops=4.0 * n * d * min(n, d) + 20.0 * min(n, d) ** 3, memory_bytes=16.0 * n * d + 32.0 * d * d)

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        A, V, var = self._rows(X, s).dense(), self.components_, self.explained_variance_
        divisor = max(float(s.sum()) - self.ddof, 0.0) or float(s.sum())
        total = float((A * A).sum()) / divisor
        Z = A @ V.T
        top = max(total, np.finfo(float).tiny)
        cross = Z.T @ Z / divisor
        lost = float(((A - Z @ V) ** 2).sum()) / divisor
        residual = np.linalg.norm((A.T @ Z / divisor - V.T * var) / top, axis=0)
        out = Diagnostics(summary={
            "components": len(var), "rank": self.rank_, "total_variance": total, "reconstruction_error": lost,
            "discarded_variance": self.discarded_variance_, "explained_ratio": float(var.sum() / top),
        })  # fmt: skip
        out.certificates = [
            Certificate("orthonormality", float(np.abs(V @ V.T - np.eye(len(V))).max()), 1e-10,
                "the directions have unit length and are at right angles"),
            Certificate("eigen_residual", float(residual.max()), 1e-9,
                "largest ‖S v - λ v‖ over the total variance: each direction is an eigenvector of the covariance"),
            Certificate("reconstruction_gap", abs(lost - self.discarded_variance_) / top, 1e-9,
                "the mean squared reconstruction error is the sum of the discarded eigenvalues, relative to the total"),
            Certificate("largest_covariance", float(np.abs(cross - np.diag(np.diag(cross))).max()) / top, 1e-9,
                "the coordinates are uncorrelated, relative to the total variance"),
        ]  # fmt: skip
        return self._report(out)

    def _report(self, out: Diagnostics) -> Diagnostics:
        var, share = self.explained_variance_, self.explained_variance_ratio_
        numbers, cumulative = np.arange(1, len(var) + 1), np.cumsum(share)
        table: list[list[Any]] = [
            [int(i), float(v), float(np.sqrt(v)), float(r), float(c)]
            for i, v, r, c in zip(numbers, var, share, cumulative, strict=True)
        ]
        columns = ("component", "eigenvalue", "sd", "explained_ratio", "cumulative_ratio")
        out.tables["components"] = Table(columns, table)
        out.curves["scree"] = {"x": numbers, "y": var, "explained_ratio": share, "cumulative_ratio": cumulative}
        out.matrices["components"] = self.components_
        return out
