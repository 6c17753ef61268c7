"""Bayesian logistic regression by Laplace's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Cost
from ml_core.capabilities import HasParameterPosterior, HasPosterior, Samples
from ml_core.certificates import Diagnostics
from ml_core.class_weights import ClassWeight
from ml_core.distributions.base import Distribution
from ml_core.distributions.categorical import Categorical
from ml_core.distributions.normal import MultivariateNormal
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.linear.laplace_report import UNTOLD, PrecisionPart, determined, put_posterior
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.parameters import Distance, Parametrization, SmoothSolver, Threshold
from ml_core.naming import listed
from ml_core.numerics.logistic_normal import mean_logistic, mean_softmax
from ml_core.params import Intercept, MaxIter, Seed
from ml_core.registry import algorithm
from ml_core.solvers.base import Steps, answered, at_once, spent
from ml_core.solvers.linear_objective import Columns
from ml_core.solvers.linear_parts import ClassColumns, ClassColumnsPart, Frame, columns_of
from ml_core.solvers.newton import SINGULAR
from ml_core.sums import Census, Passes

MOST_UNKNOWNS = 4000
FLAT = 1e-6
ROUNDS, MOVED, LEAST_SLOPE, FAR = 60, 1e-8, -1e-4, 3.0
CELLS = 1 << 22


@algorithm("bayesian_logistic_regression")
class BayesianLogisticRegression(HasPosterior, HasParameterPosterior, Samples, LogisticRegression):
    """`logistic_regression` with the posterior of its weights: logistic for two classes, softmax for more.

    The prior is wⱼ ~ N(0, 1/alpha), of the intercepts flat. The posterior is normal around the most probable weights,
    the fit of `logistic_regression` with the same alpha, its precision the Hessian there: Laplace's method, exact as
    rows grow in number. alpha = 0 is a flat prior; the posterior is then no distribution, and the fit is refused, where
    the classes are separable or columns cannot be told apart. `hyperparameters` evidence takes the alpha at which
    alpha = γ/‖w‖², γ = k - alpha tr C being the slopes, of k with covariance C, that the rows determine: where the
    evidence is largest but for the change of the curvature with the weights.

    `predict_proba` and decisions use the most probable weights; `posterior` averages the probabilities over all
    weights, so they lie nearer to each other where rows are few. Two classes: MacKay's probit approximation,
    σ(m/√(1 + πv/8)) of a score of mean m and variance v, at most 0.02 off. More: the average over a lattice of 1024
    points with a shift of `random_state`, typically 0.001 off. `parameter_posterior` has the marginals of each class;
    `sample` draws all slopes (n, d), of more classes side by side (n, K d), and intercepts (n,) or (n, K) together.
    O(n d² K²) beyond the fit, and the storage of one matrix of all unknowns.

    References
    ----------
    MacKay (1992), The evidence framework applied to classification networks, Neural Computation 4(5).
    Bishop (2006), Pattern Recognition and Machine Learning, sections 4.4 and 4.5.
    """

    draws = "coefficients"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "probabilistic", "bayesian")

    alpha_: Annotated[float, "precision of each slope's prior, in use"]
    scale_: Annotated[Vector, "(d,) units of the slopes in root_"]
    root_: Annotated[Matrix, "(D q, D q) R, covariance R Rᵀ of the q scores' slopes times scale_, and of offset_"]

    def __init__(
        self,
        *,
        alpha: Annotated[
            float, Field(ge=0, description="Precision of each slope's prior (or its start); 0 is a flat prior.")
        ] = 1.0,
        hyperparameters: Annotated[
            Literal["given", "evidence"], Field(description="Keep alpha, or make the evidence largest over it.")
        ] = "given",
        fit_intercept: Intercept = True,
        parametrization: Parametrization = "full",
        solver: Annotated[SmoothSolver, Field(description="Of the most probable weights.")] = "newton",
        tol: Distance = 1e-10,
        max_iter: MaxIter = 200,
        threshold: Threshold = 0.5,
        class_weight: ClassWeight = None,
        random_state: Seed = 0,
    ) -> None:
        super().__init__(
            alpha=alpha, fit_intercept=fit_intercept, parametrization=parametrization, solver=solver, tol=tol,
            max_iter=max_iter, threshold=threshold, class_weight=class_weight, random_state=random_state,
        )  # fmt: skip
        self.hyperparameters = hyperparameters

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The fit, a Hessian and its factors."""
        q, fit = max(1, k - 1), super().cost(n, d, k)
        p = (d + 1) * q
        flops = fit.flops + 1.0 * n * d * d * q * (q + 1) + 4.0 * p**3
        return Cost(flops=flops, memory_bytes=fit.memory_bytes + 40.0 * p * p)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self._refuse_size(X.shape[1])
        fit = at_once(super()._fit)

        def learned() -> Steps[Frame]:
            yield from fit(X, y, s)
            return (yield from self._learn(self._problem(X, y, s).columns))

        answered(self._chosen(learned), lambda part: part(X, y, s))

    def _passes(self, census: Census) -> Passes:
        self._refuse_size(census.width)
        fit = super()._passes

        def learned() -> Steps[Frame]:
            yield from fit(census)
            found: ClassColumns = yield ClassColumnsPart(len(self.classes_))
            return (yield from self._learn(columns_of(found.scaled(self.class_weight_), self.fit_intercept)))

        yield from self._chosen(learned)

    def _strength(self, total: float) -> float:
        return self.alpha_

    def _chosen(self, learned: Callable[[], Steps[Frame]]) -> Steps[None]:
        """The fit; with evidence again and again, by secants of log γ/‖w‖² - log alpha, until alpha = γ/‖w‖²."""
        evidence = self.hyperparameters == "evidence"
        if evidence and self.alpha == 0:
            text = "the search for the largest evidence starts from alpha > 0"
            raise InvalidParameter(text, [Issue("/params/alpha", "positive", text)])
        at, before = float(np.log(self.alpha)) if evidence else 0.0, (np.nan, np.nan)
        for step in range(ROUNDS):
            self.alpha_, self.notices_ = float(np.exp(at)) if step else float(self.alpha), []
            problem = (yield from learned()).penalty()
            if not evidence:
                return
            told, size = determined(problem, self.root_), float(np.square(self._independent()[0]).sum())
            if told <= UNTOLD * self.coef_.size or size == 0:
                self._note("no_slope", f"the rows tell of no slope: alpha grew to {self.alpha_:.3g}", "give alpha")
                return
            off = float(np.log(told / size / self.alpha_))
            progress.tick(step, ROUNDS, "values of alpha", alpha=self.alpha_)
            if abs(off) <= MOVED:
                return
            if spent(step + 1, ROUNDS):
                break
            slope = (off - before[1]) / (at - before[0]) if step else -1.0
            before = at, off
            at += float(np.clip(-off / slope, -FAR, FAR) if slope < LEAST_SLOPE else np.copysign(FAR, off))
        self._note_short(f"alpha still moved after {step + 1} fits", "give alpha")

    def _refuse_size(self, d: int) -> None:
        unknowns = (d + self.fit_intercept) * max(1, len(self.classes_) - 1)
        if unknowns > MOST_UNKNOWNS:
            raise InvalidData(f"the posterior of {unknowns} unknowns needs a matrix of as many rows and columns; at "
                              f"most {MOST_UNKNOWNS}: use fewer columns, or logistic_regression")  # fmt: skip

    def _learn(self, columns: Columns) -> Steps[Frame]:
        """The root of the covariance, from one pass over the rows; InvalidData where there is no posterior."""
        if self.separation_ != "none":
            used = np.flatnonzero(self.separating_direction_.any(axis=0)).tolist()
            raise InvalidData(f"columns {listed(used)} separate the classes, and with alpha = 0 nothing bounds the "
                              "weights: there is no posterior; set alpha > 0")  # fmt: skip
        frame = self._frame(columns)
        v = frame.penalty().pack(*self._independent())
        H: Matrix = (yield PrecisionPart(frame, v)).each[0] + frame.penalty().second(v)[2]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
        values, Q = np.linalg.eigh(H * scale[:, None] * scale)
        flat = Q[:, values <= len(H) * SINGULAR * values[-1]]
        if flat.shape[1]:
            used = np.flatnonzero(np.abs(flat).max(axis=1).reshape(frame.penalty().shape).max(axis=1) > FLAT).tolist()
            names = listed([j for j in used if j < len(columns.mean)])
            raise InvalidData(f"these rows do not tell columns {names} apart, and with alpha = 0 nothing else does: "
                              "there is no posterior; set alpha > 0, or drop columns")  # fmt: skip
        self.root_ = scale[:, None] * Q / np.sqrt(values)
        self.scale_ = columns.scale
        return frame

    def _moments(self, X: Matrix) -> tuple[Matrix, np.ndarray]:
        """Means (n, q) of the independent scores, and roots (n, q, D q) of their covariances."""
        W, b, at = self._independent()
        Z = X - at
        mean = Z @ W.T + b
        Z = Z / self.scale_
        if self.fit_intercept:
            Z = np.hstack([Z, np.ones((len(Z), 1))])
        q = mean.shape[1]
        return mean, (Z @ self.root_.reshape(Z.shape[1], -1)).reshape(len(X), q, -1)

    def _posterior(self, X: Matrix) -> Distribution:
        P = np.empty((len(X), len(self.classes_)))
        each = max(1, CELLS // self.root_.size)
        for a in range(0, len(X), each):
            P[a : a + each] = self._averaged(*self._moments(X[a : a + each]))
        return Categorical(self.classes_.tolist(), P)

    def _averaged(self, mean: Matrix, root: np.ndarray) -> Matrix:
        if len(self.classes_) > 2:
            return mean_softmax(mean, root @ root.transpose(0, 2, 1), self._basis(), int(self.random_state))
        m, v = mean[:, 0], np.square(root[:, 0]).sum(axis=1)
        return np.stack([mean_logistic(-m, v), mean_logistic(m, v)], axis=1)

    def coefficient_roots(self) -> tuple[Matrix, np.ndarray]:
        """Slopes and, where learned, the intercept last, (K, D) or (1, D), and roots (K, D, D q) of covariances."""
        mean = np.column_stack([self.coef_, self.intercept_])[:, : len(self.root_) // self._basis().shape[1]]
        D = mean.shape[1]
        T = np.eye(D)
        d = len(self.scale_)
        T[np.arange(d), np.arange(d)] = 1.0 / self.scale_
        if self.fit_intercept:
            T[d, :d] = -self.center_ / self.scale_
        R = (T @ self.root_.reshape(D, -1)).reshape(D, -1, len(self.root_))
        return mean, np.einsum("kq,dqr->kdr", self._basis(), R, optimize=True)

    def _parameter_posterior(self) -> dict[str, Distribution]:
        mean, roots = self.coefficient_roots()
        names = [f"class {c}" for c in self.classes_.tolist()] if len(mean) > 1 else ["coefficients"]
        blocks = zip(names, mean, roots, strict=True)
        return {name: MultivariateNormal(m[None], (R @ R.T)[None]) for name, m, R in blocks if R.any()}

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, Any]:
        mean, roots = self.coefficient_roots()
        d = len(self.scale_)
        draws = mean + np.einsum("kdr,nr->nkd", roots, rng.standard_normal((n, len(self.root_))), optimize=True)
        free = draws[:, :, d] if self.fit_intercept else np.zeros(draws.shape[:2])
        return np.ascontiguousarray(draws[:, :, :d]).reshape(n, -1), free[:, 0] if len(mean) == 1 else free

    def _report(self, columns: Columns, unit: float) -> Steps[Diagnostics]:
        out = yield from super()._report(columns, unit)
        yield from put_posterior(out, self, self._frame(columns))
        return out
