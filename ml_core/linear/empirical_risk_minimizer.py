"""A function, a loss, a cost and a penalty of one's choice."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import expit

from ml_core import naming
from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, Regressor
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.linear.lasso import Lasso
from ml_core.linear.least_absolute_deviations import LeastAbsoluteDeviations
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.minimax_regression import MinimaxRegression
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.linear.standard_design import StandardDesign
from ml_core.params import Intercept, MaxIter, Seed, WeightKind
from ml_core.preprocessing.polynomial_features import PolynomialFeatures
from ml_core.registry import algorithm, spec_of
from ml_core.rng import generator
from ml_core.solvers.risk import Found, Risk, minimise_risk

PROBES = 20


@algorithm("empirical_risk_minimizer")
class EmpiricalRiskMinimizer(Weighted, Regressor):
    """The grid of linear learning: which function, which loss, how losses add up, and what is penalised.

    min over w, b of  C(ℓ(g(xᵢ), yᵢ)) + alpha P(w). The function g is linear, a polynomial of x, or logistic
    1/(1 + e^-(wᵀx + b)); the loss (g - y)², |g - y|, or -y ln g - (1 - y) ln(1 - g), which needs the logistic function
    and y in [0, 1]; the `aggregation` C is the mean over rows (Σ sℓ/Σ s), the largest, or the weighted sum Σ sℓ;
    P is nothing, ‖w‖² or ‖w‖₁, never of b. Where the choice is an algorithm of its own that one is fitted, and `equals`
    names it: least squares, ridge, lasso, least absolute deviations, minimax, logistic regression. All else goes to
    quasi-Newton or sequential quadratic programs. A logistic function with squared or absolute loss is not convex: the
    lowest of `n_starts` local minima is taken and the notice `local_minimum` says so. Without a penalty a logistic loss
    of separable rows has no minimum; the fit then ends at a bound, with the notice `unbounded`.

    References
    ----------
    Vapnik (1998), Statistical Learning Theory, chapter 1.
    Shalev-Shwartz, Ben-David (2014), Understanding Machine Learning, chapters 2 and 13.
    """

    complexity = "that of the algorithm it equals; else O(n d) a step"
    tags = ("parametric", "direct", "high_capacity", "linear")

    equals_: Annotated[str, "the algorithm that this choice is, empty where it has no name"]
    model_: Annotated[Any, "the fit by that algorithm, where it is used"]
    basis_: Annotated[Any, "the monomials, for a polynomial"]
    coef_: Annotated[Vector, "(d,) slopes of the columns, or of the monomials"]
    intercept_: Annotated[float, "value of wᵀx + b at x = 0"]
    center_: Annotated[Vector, "(d,) the point around which wᵀx + b is computed"]
    offset_: Annotated[float, "value of wᵀx + b at center_"]
    objective_: Annotated[float, "cost plus penalty"]
    starts_: Annotated[list[float], "objective of each start"]
    n_iter_: Annotated[int, "steps of the solver, over all starts"]

    def __init__(
        self,
        *,
        function: Annotated[
            Literal["linear", "polynomial", "logistic"], Field(description="What predicts y from x.")
        ] = "linear",
        degree: Annotated[int, Field(ge=1, le=10, description="Total degree of a polynomial.")] = 2,
        loss: Annotated[
            Literal["squared", "absolute", "logistic"], Field(description="What a wrong prediction costs.")
        ] = "squared",
        aggregation: Annotated[
            Literal["mean", "max", "weighted_sum"], Field(description="How the losses of the rows add up.")
        ] = "mean",
        penalty: Annotated[Literal["none", "l2", "l1"], Field(description="Nothing, ‖w‖² or ‖w‖₁.")] = "none",
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Strength of the penalty.")] = 1.0,
        fit_intercept: Intercept = True,
        weight_kind: WeightKind = "frequency",
        n_starts: Annotated[int, Field(ge=1, le=1000, description="Starts where there may be several minima.")] = 10,
        max_iter: MaxIter = 2000,
        random_state: Seed = 0,
    ) -> None:
        self.function = function
        self.degree = degree
        self.loss = loss
        self.aggregation = aggregation
        self.penalty = penalty
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        self._refuse(y)
        self.basis_ = PolynomialFeatures(degree=self.degree).fit(X) if self.function == "polynomial" else None
        Z = self._columns(X)
        self.equals_, self.model_ = self._named()
        if self.model_ is not None:
            with naming.use(self._names(X.shape[1])):
                self.model_.fit(Z, y, sample_weight=s)
            self.coef_, self.intercept_ = self.model_.coef_, float(self.model_.intercept_)
            self.center_, self.offset_ = np.zeros(len(self.coef_)), self.intercept_
            self.notices_ += self.model_.notices_
            self.starts_, self.n_iter_ = [], int(getattr(self.model_, "n_iter_", 1))
        else:
            self._search(Z, y, s)
        self.objective_ = self._objective(Z, y, s)

    def _refuse(self, y: Vector) -> None:
        if self.loss != "logistic":
            return
        if self.function != "logistic":
            text = f"the logistic loss needs the logistic function, not a {self.function} one"
            raise InvalidParameter(text, [Issue("/params/loss", "incompatible", text)])
        bad = np.flatnonzero((y < 0) | (y > 1))
        if len(bad):
            text = f"the logistic loss needs targets from 0 to 1; row {bad[0]} has {y[bad[0]]:g}"
            raise InvalidData(text, [Issue("/target", "out_of_domain", text)])

    def _columns(self, X: Matrix) -> Matrix:
        return X if self.basis_ is None else np.asarray(self.basis_.transform(X))

    def _strength(self) -> tuple[float, float]:
        """(l1, l2)."""
        alpha = float(self.alpha)
        return (alpha if self.penalty == "l1" else 0.0), (alpha if self.penalty == "l2" else 0.0)

    def _named(self) -> tuple[str, Any]:
        """The algorithm that the choice is, and an estimator of it; logistic regression has none for shares."""
        l1, l2 = self._strength()
        free = self.fit_intercept
        same: Any = {"fit_intercept": free, "weight_kind": self.weight_kind}
        scale: Any = "mean" if self.aggregation == "mean" else "sum"
        if self.function == "logistic":
            named = self.loss == "logistic" and self.aggregation != "max"
            return ("penalized_" * (l1 + l2 > 0) + "logistic_regression" if named else ""), None
        if self.aggregation == "max":
            none = self.penalty == "none" or self.alpha == 0
            return ("minimax_regression", MinimaxRegression(fit_intercept=free)) if none else ("", None)
        if self.loss == "absolute":
            return "least_absolute_deviations", LeastAbsoluteDeviations(
                alpha_l1=l1, alpha_l2=2 * l2, objective_scale=scale, **same)  # fmt: skip
        if self.penalty == "l1":
            return "lasso", Lasso(alpha=l1, objective_scale=scale, path_length=0, **same)
        if self.penalty == "l2":
            return "ridge_regression", RidgeRegression(alpha=l2, objective_scale=scale, **same)
        name = "linear_regression" if self.aggregation == "mean" else "weighted_least_squares"
        return name, LinearRegression(**same)

    def _risk(self, Z: Matrix, y: Vector, s: Vector) -> tuple[StandardDesign, Risk]:
        D, (l1, l2) = StandardDesign.of(Z, y, s, self.fit_intercept, merge=self.penalty == "none"), self._strength()
        first = np.zeros(int(self.fit_intercept))
        if l1 > 0 or l2 > 0:
            D = D.tempered(l1, l2)
        unit = D.lengths() if l1 > 0 or l2 > 0 else np.zeros(D.A.shape[1] - len(first))
        each = s / s.sum() if self.aggregation == "mean" else s
        return D, Risk(D.A, y, each, np.concatenate([first, l1 * unit]), np.concatenate([first, l2 * unit**2]),
                       self.loss, self.function == "logistic", self.aggregation == "max")  # fmt: skip

    def _convex(self) -> bool:
        return self.loss == "logistic" or self.function != "logistic"

    def _search(self, Z: Matrix, y: Vector, s: Vector) -> None:
        D, R = self._risk(Z, y, s)
        p, rng = D.A.shape[1], generator(self.random_state)
        starts: list[Vector] = [np.zeros(p)]
        if not self._convex():
            starts += list(3 * rng.normal(size=(self.n_starts - 1, p)))
        found = minimise_risk(R, starts, int(self.max_iter))
        self.starts_, self.n_iter_ = found.values, found.n_iter
        first = int(self.fit_intercept)
        self.coef_ = D.basis @ found.w[first:] / D.scale
        self.center_, self.offset_ = D.mean, float(found.w[0]) if first else 0.0
        self.intercept_ = self.offset_ - float(D.mean @ self.coef_)
        self._say(found)

    def _say(self, found: Found) -> None:
        if not self._convex():
            low = int(sum(v <= found.value + 1e-6 * (1 + abs(found.value)) for v in found.values))
            self._note("local_minimum", f"this risk is not convex; {low} of {len(found.values)} starts came to the "
                       "lowest minimum found, a lower one may exist", "raise n_starts")  # fmt: skip
        if found.unbounded:
            self._note("unbounded", "the risk falls without end as the coefficients grow (the rows are separable); the "
                       "search ended at its bound", "penalise the coefficients")  # fmt: skip

    def _predict(self, X: Matrix) -> Vector:
        if self.model_ is not None:
            return np.asarray(self.model_.predict(self._columns(X)))
        near = "offset_" in vars(self)  # models of earlier versions have the value at 0 alone
        Z = self._columns(X) - (self.center_ if near else 0.0)
        eta = Z @ self.coef_ + (self.offset_ if near else self.intercept_)
        return np.asarray(expit(eta) if self.function == "logistic" else eta)

    def _standard(self, D: StandardDesign) -> Vector:
        w = D.basis.T @ (self.coef_ * D.scale)
        b = self.offset_ + float((D.mean - self.center_) @ self.coef_)
        return np.concatenate([[b], w]) if self.fit_intercept else w

    def _objective(self, Z: Matrix, y: Vector, s: Vector) -> float:
        D, R = self._risk(Z, y, s)
        return R.value(self._standard(D))

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        Z = self._columns(X)
        with naming.use(self._names(X.shape[1])):
            out = self._report(Z, y, s)
        r = y - self._predict(X)
        out.summary |= {
            "rows": len(X), "objective": self._objective(Z, y, s), "iterations": self.n_iter_,
            "mean_squared_residual": float(s @ r**2 / s.sum()), "largest_residual": float(np.abs(r).max()),
        }  # fmt: skip
        params = [] if self.model_ is None else sorted(spec_of(self.model_)["params"].items())
        rows = [[self.equals_ or None, k, str(v)] for k, v in params] or [[self.equals_ or None, None, None]]
        out.tables["equals"] = Table(("algorithm", "parameter", "value"), rows)
        out.tables["starts"] = Table(("start", "objective"), [[i, v] for i, v in enumerate(self.starts_)])
        return out

    def _names(self, d: int) -> list[str] | tuple[str, ...] | None:
        if self.basis_ is None:
            return naming.current()
        return list(self.basis_.get_feature_names_out(naming.current() or [f"x{j}" for j in range(d)]))

    def _report(self, Z: Matrix, y: Vector, s: Vector) -> Diagnostics:
        """That of the algorithm it equals; else a certificate and the coefficients."""
        if self.model_ is not None:
            out: Diagnostics = self.model_.diagnostics(Z, y, s)
            out.warnings = [n for n in out.warnings if n not in self.notices_]
            return out
        out = Diagnostics(certificates=[self._probe(Z, y, s)])
        terms: list[tuple[str | int, float]] = [("intercept", self.intercept_)] if self.fit_intercept else []
        rows = [[t, w, None, "this risk is no likelihood, or its minimum has no normal limit: no classical errors"]
                for t, w in [*terms, *enumerate(self.coef_.tolist())]]  # fmt: skip
        out.tables["coefficients"] = naming.told(Table(("term", "estimate", "standard_error", "reason"), rows))
        return out

    def _probe(self, Z: Matrix, y: Vector, s: Vector) -> Certificate:
        """The most that small steps along the axes and random directions lower the objective by."""
        D, R = self._risk(Z, y, s)
        w, rng = self._standard(D), generator(0)
        ways = np.vstack([np.eye(len(w)), -np.eye(len(w)), rng.normal(size=(PROBES, len(w)))])
        value, size = R.value(w), R.value(np.zeros(len(w)))
        least = min((R.value(w + h * v) for v in ways for h in (1e-2, 1e-4)), default=value)
        fall = (value - least) / max(size, 1e-300)
        return Certificate("probed_decrease", fall, 1e-5, "how far nearby points are lower, in risks of w = 0")

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """A few hundred passes over the rows for each start."""
        width = PolynomialFeatures(degree=self.degree)._width(d) if self.function == "polynomial" else d
        starts = 1 if self._convex() else self.n_starts
        return Cost(flops=800.0 * n * width * starts, memory_bytes=24.0 * n * (width + 1))
