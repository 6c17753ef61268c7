"""Kernel logistic regression."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import entr

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import HasProba, Scores, Weighted
from ml_core.certificates import Certificate, Diagnostics
from ml_core.gp.expansion import Expansion, chosen
from ml_core.gp.landmarks import Approximation, Landmarked, Landmarks
from ml_core.gp.options import Similarity
from ml_core.kernels import Kernel
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.losses.logistic import Logistic
from ml_core.losses.softmax import Softmax
from ml_core.numerics.stable import expit, log_expit, log_softmax, softmax
from ml_core.params import Intercept, MaxIter, Tol
from ml_core.registry import algorithm
from ml_core.solvers.base import Solution
from ml_core.solvers.lbfgs import lbfgs
from ml_core.solvers.linear_objective import LinearObjective, unit_of
from ml_core.solvers.newton import inverse, newton
from ml_core.solvers.spectrum import root_of_gram

NEWTON_UNKNOWNS = 1500
FACTORED_UNKNOWNS = 4000
TINY = float(np.finfo(float).tiny)


@algorithm("kernel_logistic_regression")
class KernelLogisticRegression(Landmarked, Weighted, HasProba, Scores, Classifier):
    """Class probabilities from scores in the feature space of a kernel: logistic for two classes, softmax for more.

    min over f, b of  Σᵢ sᵢ ℓ(f(xᵢ) + b, yᵢ) + ½ alpha ‖f‖², f = Σᵢ aᵢ k(xᵢ, ·), the intercept free. Convex; at the
    minimum alpha aᵢ = sᵢ(yᵢ - pᵢ). K = G Gᵀ by Cholesky with pivots (r columns), then Newton's method over G, as for
    logistic regression, which it is with the linear kernel. O(n r²) per step, 8n² bytes a matrix. The dual is
    Σᵢ sᵢ H(yᵢ - alpha aᵢ/sᵢ) - ½ alpha aᵀKa, H the entropy: its gap bounds the distance to the minimum.

    References
    ----------
    Zhu, Hastie (2005), Kernel logistic regression and the import vector machine, J. Comp. Graph. Stat. 14(1).
    """

    queue = "long"
    matrices, noun = 5.0, "kernel logistic regression"
    remedy = "raise alpha, or lower weights: scores are sums of s(y - p)/alpha times the kernel, and lose its digits"
    largest = SQUARES
    complexity = "O(n r²) per step, r the rank of the kernel matrix"
    tags = ("non_parametric", "discriminative", "high_capacity", "kernel", "probabilistic")

    expansion_: Annotated[Expansion, "scores: rows, dual weights and intercepts"]
    dual_coef_: Annotated[Matrix, "(n, 1) or (n, K) dual weights a; of the landmarks where these stand in"]
    intercept_: Annotated[Vector, "(1,) or (K,) log-odds where f = 0"]
    kernel_: Annotated[Kernel, "kernel in use"]
    rank_: Annotated[int, "r, the numerical rank of the kernel matrix"]
    solution_: Solution
    n_iter_: int

    def __init__(
        self,
        *,
        kernel: Similarity = None,
        alpha: Annotated[float, Field(gt=0, le=1e90, description="Penalty on ½‖f‖².")] = 1.0,
        fit_intercept: Intercept = True,
        tol: Annotated[Tol, Field(description="Distance to the optimum in standard errors.")] = 1e-10,
        max_iter: MaxIter = 200,
        approximation: Approximation = "none",
        n_landmarks: Landmarks = 300,
    ) -> None:
        self.kernel = kernel
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The root of the kernel matrix and about eight Hessians of full rank at most."""
        if self._approximates(n):
            return self._cost_through(n, d, k)
        r = float(min(n, NEWTON_UNKNOWNS))
        return Cost(flops=float(n) * n * (20.0 * d + r) + 16.0 * n * r * r * max(1, k - 1), memory_bytes=40.0 * n * n)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        if self._landmarks_stand_in(X, s):
            return self._fit_landmarks(X, y, s)
        self.kernel_ = chosen(self.kernel, X)
        progress.tick(0, None, "kernel matrix")
        G = np.ascontiguousarray(root_of_gram(self.kernel_(X)).T)
        self.rank_ = G.shape[1]
        classes = len(self.classes_)
        loss = Logistic() if classes == 2 else Softmax(classes)
        problem = LinearObjective(G, y.astype(np.float64), s, loss, alpha=float(self.alpha),
                                  fit_intercept=self.fit_intercept)  # fmt: skip
        unit = unit_of(s)
        self.solution_ = self._solve(problem if unit == 1.0 else problem.in_units_of(unit))
        self.n_iter_ = max(1, self.solution_.n_iter)
        W, b = problem.unpack(self.solution_.w)
        B = np.ones((1, 1)) if classes == 2 else Softmax(classes).basis
        self.intercept_ = B @ b
        a = self._residual(G @ W.T @ B.T + self.intercept_, y) * (s / self.alpha)[:, None]
        self.expansion_, self.dual_coef_ = Expansion(self.kernel_, X, a, self.intercept_), a
        if not self.solution_.converged:
            self._note_short(f"stopped after {self.n_iter_} steps ({self.solution_.reason})",
                             "raise max_iter")  # fmt: skip

    def _fit_landmarks(self, X: Matrix, y: Codes, s: Vector) -> None:
        """Logistic regression on the features: the dual weights are those of the landmarks."""
        twin = self._taught(self._linear_twin(), X, y, s)
        self.expansion_ = self._expanded(twin.coef_.T, twin.intercept_)
        self.kernel_, self.dual_coef_ = self.expansion_.kernel, self.expansion_.weights
        self.intercept_, self.rank_ = twin.intercept_, twin.n_features_in_
        self.solution_, self.n_iter_ = twin.solution_, max(1, twin.n_iter_)

    def _linear_twin(self) -> LogisticRegression:
        return LogisticRegression(
            alpha=self.alpha, fit_intercept=self.fit_intercept, tol=self.tol, max_iter=self.max_iter
        )

    def _solve(self, problem: LinearObjective) -> Solution:
        tol, steps, zero = float(self.tol), int(self.max_iter), problem.zero()
        if problem.size <= NEWTON_UNKNOWNS:
            return newton(problem, zero, tol=tol, max_iter=steps)
        solve = inverse(problem.second(zero)[2]) if problem.size <= FACTORED_UNKNOWNS else None
        return lbfgs(problem.value_gradient, zero, tol=tol, max_iter=10 * steps, solve=solve)

    def _residual(self, scores: Matrix, y: Codes) -> Matrix:
        """(n, 1) y - p for two classes, (n, K) 1_y - p for more."""
        if scores.shape[1] == 1:
            return np.where(y[:, None] == 1, expit(-scores), -expit(scores))
        out = -softmax(scores)
        out[np.arange(len(y)), y] += 1.0
        return out

    def _scores(self, X: Matrix) -> Matrix | Vector:
        f = self.expansion_.at(X)
        return f[:, 0] if f.shape[1] == 1 else f

    def _proba(self, X: Matrix) -> Matrix:
        f = self.expansion_.at(X)
        return softmax(f) if f.shape[1] > 1 else np.hstack([expit(-f), expit(f)])

    def _log_proba(self, X: Matrix) -> Matrix:
        f = self.expansion_.at(X)
        return log_softmax(f) if f.shape[1] > 1 else np.hstack([log_expit(-f), log_expit(f)])

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        return self._twin_diagnosed(X, y, s) or self._diagnosed(X, y, s)

    def _diagnosed(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        a, alpha = self.dual_coef_, float(self.alpha)
        f = self.kernel_(X) @ a
        scores, weight = f + self.intercept_, s[:, None]
        each = log_softmax(scores) if a.shape[1] > 1 else np.hstack([log_expit(-scores), log_expit(scores)])
        fit, norm = -float(s @ each[np.arange(len(y)), y]), float(np.vdot(a, f))
        primal = fit + 0.5 * alpha * norm
        off = np.abs(alpha * a - weight * self._residual(scores, y)).max() / s.max()
        out = Diagnostics(summary={
            "rows": len(X), "observations": float(s.sum()), "objective": primal, "log_likelihood": -fit,
            "function_norm": max(norm, 0.0) ** 0.5, "rank": self.rank_, "iterations": self.n_iter_,
            "accuracy": float(np.average(each.argmax(axis=1) == y, weights=s)),
        })  # fmt: skip
        out.certificates = [
            Certificate("stationarity", float(off), 1e-7, "largest |alpha a - s(y - p)| over the largest weight"),
            Certificate("relative_gap", (primal - self._dual(y, s, norm)) / max(abs(primal), TINY), 1e-7,
                        "objective less dual objective, relative: the distance to the minimum at most"),
        ]  # fmt: skip
        if self.fit_intercept:
            total = np.abs((weight * self._residual(scores, y)).sum(axis=0)).max() / s.sum()
            text = "|Σ s(y - p)| per unit of weight: 0 where the intercept is free"
            out.certificates.append(Certificate("intercept_balance", float(total), 1e-8, text))
        out.traces["objective"] = self.solution_.trace
        return out

    def _dual(self, y: Codes, s: Vector, norm: float) -> float:
        """Σ sᵢ H(1_y - alpha aᵢ/sᵢ) - ½ alpha aᵀKa."""
        share = float(self.alpha) * self.dual_coef_ / s[:, None]
        if share.shape[1] == 1:
            p = (y == 1)[:, None] - share
            P = np.hstack([1.0 - p, p])
        else:
            P = -share
            P[np.arange(len(y)), y] += 1.0
        return float(s @ entr(np.clip(P, 0.0, 1.0)).sum(axis=1)) - 0.5 * float(self.alpha) * norm
