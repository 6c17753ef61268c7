"""Regression by the largest residual."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear import residual_report
from ml_core.linear.residual_regression import ResidualRegression
from ml_core.linear.standard_design import StandardDesign
from ml_core.params import Intercept
from ml_core.registry import algorithm
from ml_core.solvers.minimax import lower_bound, minimax


@algorithm("minimax_regression")
class MinimaxRegression(ResidualRegression):
    """The line whose largest residual is least: Chebyshev's approximation.

    min over w, b of  maxᵢ |yᵢ - xᵢᵀw - b|; the squared loss has the same minimiser. The linear program min t with
    -t ≤ rᵢ ≤ t, over a set of rows that grows by those it leaves out of bounds (HiGHS; O(n d) a round). At the optimum
    rank + 1 residuals equal ±t as a rule, in one column with alternating signs, and their multipliers certify that no
    line does better. It fits noise that is bounded and uniform; one outlier decides all.

    Weights that count rows (`frequency`) change nothing here, since the largest of repeated residuals is the same;
    with `weight_kind` scale the largest sᵢ|rᵢ| is least. Errors of the coefficients have no classical form.

    References
    ----------
    Cheney (1966), Introduction to Approximation Theory, chapter 2.
    Boyd, Vandenberghe (2004), Convex Optimization, section 6.1.
    """

    complexity = "O(n d) a round, some ten rounds"
    tags: ClassVar[tuple[str, ...]] = ("parametric", "direct", "low_capacity", "linear")

    bound_: Annotated[float, "the least largest (weighted) residual, target units"]

    def __init__(
        self,
        *,
        fit_intercept: Intercept = True,
        weight_kind: Annotated[
            Literal["frequency", "scale"],
            Field(description="Weights repeat rows (no effect), or multiply the residual before the largest is taken."),
        ] = "frequency",
    ) -> None:
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind  # type: ignore[assignment]

    def _heights(self, s: Vector) -> Vector:
        """(n,) what the bound is multiplied with in each row."""
        return np.ones(len(s)) if self.weight_kind == "frequency" else s.max() / s

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        D, h = StandardDesign.of(X, y, s, self.fit_intercept), self._heights(s)
        if not D.A.shape[1]:
            self._keep(D, np.zeros(0))
            self.unique_, self.n_iter_, self.converged_, self.trace_ = True, 1, True, []
        else:
            found = minimax(D.A, D.t, h, s)
            self._keep(D, found.w)
            self.unique_, self.n_iter_ = found.unique, found.n_iter
            self.converged_, self.trace_ = found.converged, found.trace
        self.bound_ = self._largest(X, y, s)
        self._remark(D, False)
        if not self.unique_:
            self._note("not_unique", "other coefficients have the same largest residual; the middle of their segment, "
                       "or of larger sets the least squares, was taken",
                       "compare largest residuals, not coefficients")  # fmt: skip

    def _largest(self, X: Matrix, y: Vector, s: Vector) -> float:
        weight = np.ones(len(s)) if self.weight_kind == "frequency" else s
        return float((weight * np.abs(y - self._predict(X))).max())

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        D, h = StandardDesign.of(X, y, s, self.fit_intercept), self._heights(s)
        out, r = residual_report.report(self, D, X, y, s), y - self._predict(X)
        unit = D.size * (1.0 if self.weight_kind == "frequency" else float(s.max()))
        value = self._largest(X, y, s)
        out.summary["objective"] = value
        if D.A.shape[1]:
            w, found = D.pack(self.coef_, self.offset_), minimax(D.A, D.t, h, s)
            low = unit * lower_bound(D.A, D.t, h, w, found)
            size = value + 1e-6 * unit * float((np.abs(D.t) / h).max())
            out.summary["dual_bound"] = low
            slack = 1e-8 + (unit * float(D.rounding(w).max()) / size if size > 0 else 0.0)
            out.certificates.append(Certificate("duality_gap", (value - low) / size if size > 0 else 0.0, slack,
                                                "largest residual above a lower bound of all, relative"))  # fmt: skip
            rows = [[int(i), float(r[i]), float(d)] for i, d in zip(found.rows, found.d, strict=True)]
            out.tables["active_rows"] = Table(("row", "residual", "multiplier"), rows)
            out.summary["active_rows"] = len(rows)
        why = "the largest residual has no normal limit: no classical errors"
        residual_report.put_coefficients(self, out, D, s, None, why)
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """A factorization, and some rounds over the rows."""
        return Cost(flops=8.0 * n * (d + 1) ** 2 + 1e4 * (d + 1) ** 3, memory_bytes=8.0 * n * (2 * d + 8))
