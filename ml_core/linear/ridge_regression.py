"""Ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy.linalg import svd

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import MultiOutput, Weighted
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear.linear_sums import LinearSums
from ml_core.registry import algorithm
from ml_core.selection.left_out import left_out
from ml_core.statistics import Moments
from ml_core.sums import Additive, Census, Passes

EPS = float(np.finfo(float).eps)
PATH = 10.0 ** np.arange(-4.0, 4.5, 0.5)


@algorithm("ridge_regression")
class RidgeRegression(Additive, Weighted, MultiOutput, Regressor):
    """Least squares with a squared penalty, which shrinks the coefficients and makes them unique.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)² + alpha ‖w‖²; O(n d²). With the singular values σ of the centred table,
    X = U diag(σ) Vᵀ: w = V diag(σ/(σ² + alpha)) Uᵀy, b = ȳ - x̄ᵀw, effective degrees of freedom Σ σ²/(σ² + alpha), one
    more for b. With `penalize_bias` the penalty is alpha (‖w‖² + b²). For noise of variance σₙ² and coefficients drawn
    from N(0, σₚ² I) the most probable w has alpha = σₙ²/σₚ². With alpha = 0 it is the least-squares solution of least
    ‖w‖. The weights count rows.

    The table is seen through a triangular root of its scatter alone, so chunks, `update` and `forget` give what one fit
    to the rows gives, with 16 - log₁₀(cond) digits; `forget` loses those of the share of the scatter that is left.

    References
    ----------
    Hoerl, Kennard (1970), Ridge regression: biased estimation for nonorthogonal problems, Technometrics 12(1).
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 3.4.1.
    """

    largest = SQUARES
    complexity = "O(n d²)"
    tags = ("parametric", "discriminative", "linear", "closed_form")

    coef_: Annotated[Vector, "(d,) or (q, d) slopes, target units per feature unit"]
    intercept_: Annotated[Any, "number or (q,), value at X = 0"]
    alpha_: Annotated[float, "penalty in use"]
    effective_parameters_: Annotated[float, "Σ σ²/(σ² + alpha), and 1 for an intercept without penalty"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[Vector, "(q,) prediction at center_"]
    weights_: Annotated[Matrix, "(d, q) slopes"]
    rss_: Annotated[Vector, "(q,) weighted residual sum of squares"]
    sums_: Annotated[LinearSums, "a triangular root of the scatter of [X, Y]"]

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Penalty, squared feature units per weight.")] = 1.0,
        fit_intercept: Annotated[bool, Field(description="Learn b; otherwise b = 0.")] = True,
        penalize_bias: Annotated[bool, Field(description="Penalise b as a coefficient.")] = False,
        noise_variance: Annotated[
            float | None, Field(gt=0, description="σₙ²; with prior_variance it replaces alpha by σₙ²/σₚ².")
        ] = None,
        prior_variance: Annotated[float | None, Field(gt=0, description="σₚ² of each coefficient.")] = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.penalize_bias = penalize_bias
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance

    def _sums(self, X: Matrix, y: Vector | Matrix, s: Vector) -> LinearSums:
        return LinearSums.of(X, y, s, self.fit_intercept)

    def _solve(self, sums: LinearSums) -> None:
        self.sums_, self.alpha_ = sums, self._penalty()
        A, B = self._system()
        U, size, Vt = svd(A, full_matrices=False, check_finite=False)
        seen = U.T @ B
        w = Vt.T @ (_gain(size, self.alpha_, max(A.shape))[:, None] * seen)
        first, t, d = self._bias(), sums.triangle, sums.columns
        self.weights_, self.center_ = np.ascontiguousarray(w[first:]), t.mean[:d]
        b = w[0] if first else t.mean[d:] + t.rest[d:] - (t.mean + t.rest)[:d] @ self.weights_
        self.offset_ = (b if self.fit_intercept else 0.0 * b) + self.center_ @ self.weights_
        self.rss_ = ((B - A @ w) ** 2).sum(axis=0)
        self.effective_parameters_ = _freedom(size, self.alpha_) + (self.fit_intercept and not first)
        b = self.offset_ - self.center_ @ self.weights_
        self.coef_ = self.weights_[:, 0].copy() if sums.single else np.ascontiguousarray(self.weights_.T)
        self.intercept_ = float(b[0]) if sums.single else b

    def _penalty(self) -> float:
        both = (self.noise_variance, self.prior_variance)
        if (both[0] is None) != (both[1] is None):
            missing = "noise_variance" if both[0] is None else "prior_variance"
            issue = Issue(f"/params/{missing}", "missing", "give both variances or neither")
            raise InvalidParameter(f"{missing} is missing: give both variances or alpha", [issue])
        return self.alpha if both[0] is None or both[1] is None else both[0] / both[1]

    def _bias(self) -> int:
        return int(self.fit_intercept and self.penalize_bias)

    def _system(self) -> tuple[Matrix, Matrix]:
        """Few rows A, B with the products of the table; centred unless the bias is a penalised column."""
        t, d = self.sums_.triangle, self.sums_.columns
        A, B = t.root[:, :d], t.root[:, d:]
        if not self._bias():
            return A, B
        n, mean = np.sqrt(t.total), t.mean + t.rest
        top = n * np.concatenate([[1.0], mean[:d]])
        return np.vstack([top, np.hstack([np.zeros((len(A), 1)), A])]), np.vstack([n * mean[d:], B])

    def _predict(self, X: Matrix) -> Vector | Matrix:
        out = (X - self.center_) @ self.weights_ + self.offset_
        return out[:, 0] if self.sums_.single else out

    def _audit(self, census: Census) -> Passes:
        t: Slopes = yield SlopesPart(self)
        mean, n = t.targets.mean, t.targets.total
        tss = np.diag(t.targets.scatter) + (0.0 if self.fit_intercept else n * mean**2)
        outputs = [[k, float(r), float(v), 1 - float(r / v) if v > 0 else None]
                   for k, (r, v) in enumerate(zip(t.rss, tss, strict=True))]  # fmt: skip
        out = Diagnostics(summary={
            "rows": t.targets.rows, "observations": n, "alpha": self.alpha_,
            "effective_parameters": self.effective_parameters_, "rss": float(t.rss.sum()), "r2": outputs[0][3],
        })  # fmt: skip
        b = self.offset_ - self.center_ @ self.weights_
        pull = np.vstack([b if self._bias() else 0.0 * b, self.weights_]) * self.alpha_
        off = np.abs(t.gradient - pull)[0 if self.fit_intercept else 1 :]
        size = (t.size + np.abs(pull))[0 if self.fit_intercept else 1 :]
        out.certificates = [
            Certificate("normal_equations", float((off / np.where(size > 0, size, 1.0)).max()), 1e-10,
                        "[1, X]ᵀS(y - f) = alpha (b, w), relative to the size of the terms"),
        ]  # fmt: skip
        out.tables["outputs"] = Table(("output", "rss", "tss", "r2"), outputs)
        out.curves["path"] = self._path(n)
        text = "errors of leaving one row out take all rows in memory; the path has their invariant mean (gcv)"
        out.warnings.append(Notice("rows_not_in_memory", text))
        return out

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        out = super()._diagnose(X, y, s)
        out.warnings = [n for n in out.warnings if n.code != "rows_not_in_memory"]
        h = self._leverages(X)
        r = y.reshape(len(X), -1) - (X - self.center_) @ self.weights_ - self.offset_
        left = np.where(1 - h > 1e-10, 1 - h, np.nan)[:, None]
        out.summary["leave_one_out_mse"] = float(np.mean(s @ (r / left) ** 2 / s.sum()))
        out.summary["largest_leverage"] = float(h.max())
        off = abs(float(s @ h) - self.effective_parameters_)
        out.certificates.append(Certificate(
            "leverage_sum_error", off, 1e-6 * len(self.center_),
            "the leverages of the training rows add up to the effective parameters"))  # fmt: skip
        return out

    def left_out(self, X: Matrix, y: Vector | Matrix, s: Vector | None = None) -> Vector | Matrix:
        """(n,) or (n, q) prediction of each training row by a fit of all others; NaN where only such a fit can tell."""
        h = self._leverages(X)
        return left_out(y, self._predict(X), h if s is None else s * h)

    def _leverages(self, X: Matrix) -> Vector:
        """(n,) ∂fᵢ/∂yᵢ of a row of weight 1."""
        A, _ = self._system()
        _, size, Vt = svd(A, full_matrices=False, check_finite=False)
        gain = _gain(size, self.alpha_, max(A.shape))
        K = Vt.T * np.sqrt(np.divide(gain, size, out=np.zeros_like(size), where=size > 0))
        if self._bias():
            return np.asarray(((K[0] + X @ K[1:]) ** 2).sum(axis=1))
        h = (((X - self.center_) @ K) ** 2).sum(axis=1)
        return np.asarray(h + (1 / self.sums_.triangle.total if self.fit_intercept else 0.0))

    def _path(self, n: float) -> dict[str, Any]:
        """Of penalties, all from one decomposition: degrees of freedom, RSS, generalised cross-validation, ‖w‖."""
        A, B = self._system()
        U, size, Vt = svd(A, full_matrices=False, check_finite=False)
        fits = [Vt.T @ (_gain(size, a, max(A.shape))[:, None] * (U.T @ B)) for a in PATH]
        free = np.array([_freedom(size, a) + (self.fit_intercept and not self._bias()) for a in PATH])
        rss = np.array([((B - A @ w) ** 2).sum() for w in fits])
        with np.errstate(divide="ignore", invalid="ignore"):
            gcv = n * rss / np.where(n > free, n - free, np.nan) ** 2
        norms = np.array([np.linalg.norm(w[self._bias() :]) for w in fits])
        return {"x": PATH, "effective_parameters": free, "rss": rss, "gcv": gcv, "coefficient_norm": norms}

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The triangle, and its singular values."""
        return Cost(flops=2.0 * n * (d + k) ** 2 + 20.0 * min(n, d) * d * d, memory_bytes=24.0 * n * (d + k))


def _gain(size: Vector, alpha: float, count: int) -> Vector:
    """σ/(σ² + alpha); 0 for singular values that are rounding when alpha is 0."""
    least = count * EPS * size.max(initial=0.0) if alpha == 0 else 0.0
    kept = size > least
    return np.divide(size, size**2 + alpha, out=np.zeros_like(size), where=kept)


def _freedom(size: Vector, alpha: float) -> float:
    return float((size * _gain(size, alpha, len(size))).sum())


@dataclass(frozen=True)
class Slopes:
    """Moments of the targets, Σ s r² (q,), [1, X]ᵀS r and the size of its terms (1 + d, q)."""

    targets: Moments
    rss: Vector
    gradient: Matrix
    size: Matrix

    def merge(self, other: Slopes) -> Slopes:
        """Of both sets of rows."""
        return Slopes(self.targets.merge(other.targets), self.rss + other.rss, self.gradient + other.gradient,
                      self.size + other.size)  # fmt: skip


@dataclass(frozen=True)
class SlopesPart:
    """The part whose total is `Slopes`."""

    model: RidgeRegression

    def __call__(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Slopes:
        """Of the rows of X."""
        m, Y = self.model, y.reshape(len(X), -1)
        r = Y - (X - m.center_) @ m.weights_ - m.offset_
        A, weight = np.hstack([np.ones((len(X), 1)), X]), s[:, None]
        return Slopes(Moments.of(Y, s), s @ r**2, A.T @ (weight * r), np.abs(A).T @ (weight * np.abs(r)))
