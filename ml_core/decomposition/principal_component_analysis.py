"""Principal component analysis."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.certificates import Diagnostics
from ml_core.decomposition import component_report
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.naming import listed
from ml_core.numerics.column_moments import column_moments, degrees, deviation
from ml_core.numerics.triangle import Triangle
from ml_core.params import Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers import spectrum
from ml_core.solvers.spectrum import EPS, Rows, Spectrum
from ml_core.sums import Additive, Census, Passes

SMALL = 2e7
"""n·d·min(n, d) up to which few components cost no less than all."""
SAFE = 1e-4
"""λ_k / λ₁ from which the covariance route keeps 11 digits of every eigenvalue."""


@algorithm("principal_component_analysis")
class PrincipalComponentAnalysis(Additive, Weighted, Inverts, Transformer):
    """Orthogonal directions of largest variance.

    S = Σᵢ sᵢ (xᵢ - m)(xᵢ - m)ᵀ / (Σᵢ sᵢ - ddof) = V diag(λ) Vᵀ, z = (x - m) V_k, reconstruction m + z V_kᵀ. The mean
    squared reconstruction error is the sum of the discarded λ. Each direction's largest-magnitude entry is positive.
    By SVD of the centred table, O(n d min(n, d)); through S, O(n d² + d³), only where that loses no digit that matters;
    O(n d k) a step for few components. From chunks, and after `update` and `forget`, it is the SVD of a triangular root
    of the scatter, with the digits of the SVD of the table (after a fit through S with those of S).

    References
    ----------
    Jolliffe (2002), Principal Component Analysis, 2nd edition.
    Halko, Martinsson, Tropp (2011), Finding structure with randomness, SIAM Review 53(2).
    """

    task = "dimension_reduction"  # type: ignore[assignment]
    complexity = "O(n d min(n, d))"
    tags = ("parametric", "direct", "low_capacity", "unsupervised")
    largest = SQUARES
    min_rows = 2

    sums_: Annotated[Triangle | None, "a root of the scatter of the rows seen; null after lanczos and randomized"]
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
        k = self._requested(*X.shape)
        self.mean_ = s @ X / s.sum() if self.center else np.zeros(X.shape[1])
        self.sums_ = None
        self._uncentred()
        self.scale_ = self._scales(X, s)
        rows = self._rows(X, s)
        found = self._spectrum(rows, s, k)
        if not found.converged:
            self._note_short("the subspace iteration stopped before its values settled",
                             "use solver full or lanczos")  # fmt: skip
        self._keep(found, degrees(float(s.sum()), self.ddof), max(X.shape))
        if self.sums_ is None and self.solver_ in ("full", "covariance"):
            self.sums_ = self._sums(X, s)

    def _sums(self, X: Matrix, s: Vector) -> Triangle:
        return Triangle.of(X, s)

    def _solve(self, sums: Triangle) -> None:
        k, total = self._requested(sums.rows, len(sums.mean)), sums.total
        self.sums_, self.mean_ = sums, sums.mean if self.center else np.zeros(len(sums.mean))
        self.scale_ = np.ones(len(sums.mean))
        self._uncentred()
        if self.standardize:
            norms = sums.norms()
            constant = norms <= 4 * EPS * sums.top * np.sqrt(total)
            self.scale_ = deviation(norms / np.sqrt(total), constant, total, self.ddof)
            self._constant(constant)
        self.solver_ = "sums"
        found = spectrum.full(self._scaled(sums))
        self._keep(found, degrees(total, self.ddof), max(sums.rows, len(sums.mean), k or 1))

    def _scaled(self, sums: Triangle) -> Matrix:
        """(r + 1, d) with the products of the centred, scaled, weighted table."""
        step = np.sqrt(sums.total) * ((sums.mean - self.mean_) + sums.rest)
        return np.vstack([sums.root, step]) / self.scale_

    def _update(self, *args: Any) -> None:
        self._kept()
        super()._update(*args)

    def _forget(self, *args: Any) -> None:
        self._kept()
        super()._forget(*args)

    def _kept(self) -> None:
        if self.sums_ is None:
            raise InvalidData(f"a fit by solver {self.solver_} keeps no sums of the rows to add to or take from; fit "
                              "with solver full or covariance, or from chunks")  # fmt: skip

    def _audit(self, census: Census) -> Passes:
        seen: Triangle = yield self._sums
        return component_report.certify(self, self._scaled(seen), seen.total)

    def _requested(self, n: int, d: int) -> int | None:
        """Number of components when it is known before the spectrum is."""
        most, k = min(n, d) - (self.solver == "lanczos"), self.n_components
        whole = isinstance(k, int)
        if (isinstance(k, int) and k > most) or (not whole and self.solver in ("lanczos", "randomized")):
            text = (
                f"solver {self.solver} with {n} rows and {d} columns needs "
                f"n_components {'to be' if whole else 'as a whole number'} ≤ {most}, got {k}"
            )
            raise InvalidParameter(text, [Issue("/params/n_components", "too_many", text)])
        return k if isinstance(k, int) else None

    def _scales(self, X: Matrix, s: Vector) -> Vector:
        if not self.standardize:
            return np.ones(X.shape[1])
        scale, constant = column_moments(X, s, self.ddof)[1:]
        self._constant(constant)
        return scale

    def _uncentred(self) -> None:
        if not self.center:
            self._note("not_centered", "without centring the first direction points at the mean of the data",
                       "set center to true unless the origin has a meaning")  # fmt: skip

    def _constant(self, constant: np.ndarray) -> None:
        if constant.any():
            self._note("constant_column", f"columns {listed(np.flatnonzero(constant))} are constant; their scale is 1",
                       "drop them, they carry no information")  # fmt: skip

    def _rows(self, X: Matrix, s: Vector) -> Rows:
        return Rows(X, self.mean_, self.scale_, None if (s == 1).all() else np.sqrt(s))

    def _spectrum(self, rows: Rows, s: Vector, k: int | None) -> Spectrum:
        (n, d), self.solver_ = rows.X.shape, self.solver
        rng = generator(self.random_state)
        few = k is not None and 10 * k <= min(n, d) and n * d * min(n, d) > SMALL
        if self.solver == "auto":
            self.solver_ = "full" if n < 2 * d else "covariance"
        if self.solver_ == "covariance":
            G = spectrum.gram(rows, float(s.sum()) if self.center else 0.0)
            found = spectrum.of_gram(G, k)
            if self._accurate(found, k):
                self._remember(rows, s, spectrum.root_of_gram(G))
                return found
            self.solver_ = "full"
        if self.solver == "auto" and few:
            self.solver_ = "lanczos"
        if self.center:
            spectrum.recentre(rows, float(s.sum()))
        A = rows.dense()
        if self.solver_ == "full" or not A.any():
            found = spectrum.full(A)
            self._remember(rows, s, found.values[:, None] * found.vectors)
            return found
        return (spectrum.lanczos if self.solver_ == "lanczos" else spectrum.randomized)(A, k or 1, rng)

    def _remember(self, rows: Rows, s: Vector, root: Matrix) -> None:
        """Keep the sums that the route to the answer had on its way, where they are about the mean."""
        if self.center:
            X, none = rows.X, np.zeros(rows.X.shape[1])
            top = np.maximum(X.max(axis=0), -X.min(axis=0))
            self.sums_ = Triangle(float(s.sum()), len(X), rows.mean.copy(), none, top, root * rows.scale)

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
        return component_report.certify(self, self._rows(X, s).dense(), float(s.sum()))
