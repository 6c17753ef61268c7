"""Bayesian linear regression with a Gaussian prior."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import eigh

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import HasJointPosterior, HasParameterPosterior, Samples, Weighted
from ml_core.certificates import Diagnostics
from ml_core.distributions.base import Distribution
from ml_core.distributions.normal import MultivariateNormal, Normal
from ml_core.distributions.student import MultivariateStudentT, StudentT
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear import bayesian_inference
from ml_core.linear.linear_sums import fast_sums
from ml_core.linear.unknown_noise import UnknownNoise, learn
from ml_core.numerics.triangle import Triangle
from ml_core.params import Intercept, MaxIter, RealMatrix, RealVector, Tol
from ml_core.registry import algorithm
from ml_core.solvers.gaussian_linear import (
    Posterior,
    Prior,
    Sums,
    bounds,
    isotropic,
    maximise_evidence,
    posterior,
)
from ml_core.sums import Additive, Census, Passes


@algorithm("bayesian_linear_regression")
class BayesianLinearRegression(Additive, Weighted, HasJointPosterior, HasParameterPosterior, Samples, Regressor):
    """Linear regression with a Gaussian prior: closed-form posterior, predictive distribution and evidence.

    y = b + xᵀw + e, e ~ N(0, σ²), w ~ N(w₀, S₀) with S₀ = I/alpha unless given; O(n d² + d³).
    S_N⁻¹ = S₀⁻¹ + ΦᵀΦ/σ², w_N = S_N(S₀⁻¹w₀ + Φᵀy/σ²). A new outcome is N(φᵀw_N, σ² + φᵀS_Nφ): the second term is the
    epistemic part, `epistemic_sd` its root. As S₀ grows the mean tends to least squares; it is ridge regression with
    λ = alpha σ² for an isotropic prior, and a singular S₀ pins the directions it gives no variance.

    The noise variance is known, or estimated: RSS/(n - γ) of the ridge fit with λ = alpha (γ its effective parameters),
    or, with `hyperparameters="evidence"`, alpha and σ² (unless given) maximise the evidence by MacKay's fixed point.
    The model keeps a triangular root of the centred scatter, so `update` with more rows gives what one fit to all rows
    would, in any order; so do chunks (16 - log₁₀(cond) digits), and `forget` takes rows out again (the same, less the
    digits of the share of the scatter that is left). Integer weights repeat rows. `sample` draws coefficients (n, d)
    and intercepts (n,) from their posterior.

    With `noise_shape` a₀ and `noise_scale` b₀ the noise variance is learned too: σ² ~ InverseGamma(a₀, b₀) and
    w | σ² ~ N(w₀, σ² S₀), so that the mean is ridge regression with λ = alpha. The posterior is normal-inverse-gamma
    with a_N = a₀ + n/2 and b_N = b₀ + ½(‖y - Φw_N‖² + (w_N - w₀)ᵀS₀⁻¹(w_N - w₀)); coefficients and outcomes follow
    Student's t with 2 a_N degrees of freedom.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, sections 3.3–3.5.
    MacKay (1992), Bayesian interpolation, Neural Computation 4(3).
    Bernardo, Smith (1994), Bayesian Theory, appendix A.2.
    """

    largest = SQUARES
    complexity = "O(n d² + d³)"
    draws = "coefficients"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "bayesian", "closed_form")

    coef_: Annotated[Vector, "(d,) posterior mean slopes"]
    intercept_: Annotated[float, "posterior mean of the intercept"]
    alpha_: Annotated[float, "prior precision in use (isotropic priors)"]
    noise_variance_: Annotated[float, "noise variance in use; of a learned one the squared scale of its t, b_N/a_N"]
    unknown_noise_: Annotated[UnknownNoise | None, "posterior of the noise variance, where it has a prior"] = None
    log_evidence_: Annotated[float, "log marginal likelihood, nats"]
    posterior_: Annotated[Posterior, "posterior of (value at the centre, slopes)"]
    prior_: Annotated[Prior, "prior in use"]
    sums_: Annotated[Triangle, "a triangular root of the scatter of [X, y] over the rows seen"]
    n_iter_: Annotated[int, "steps of the evidence fixed point"]
    trace_: Annotated[list[float], "log evidence by step"]

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(gt=0, description="Prior precision of each coefficient (or its start).")] = 1.0,
        noise_variance: Annotated[
            float | None, Field(gt=0, description="Known noise variance, squared target units; estimated when absent.")
        ] = None,
        noise_shape: Annotated[
            float | None, Field(gt=0, description="a₀ of an inverse-gamma prior of the noise variance, with b₀.")
        ] = None,
        noise_scale: Annotated[
            float | None, Field(gt=0, description="b₀, squared target units: its mode is b₀/(a₀ + 1).")
        ] = None,
        hyperparameters: Annotated[
            Literal["given", "evidence"], Field(description="Keep alpha, or maximise the evidence over it and noise.")
        ] = "given",
        prior_mean: Annotated[
            RealVector | None, Field(description="w₀ (d,), or (1 + d,) with the intercept's first; 0 when absent.")
        ] = None,
        prior_covariance: Annotated[
            RealMatrix | None, Field(description="S₀ (d, d), or (1 + d, 1 + d), intercept first; replaces alpha.")
        ] = None,
        bias_prior_variance: Annotated[
            Annotated[float, Field(gt=0, allow_inf_nan=True)] | Literal["flat"] | None,
            Field(description="Prior variance of the intercept; flat is infinite variance; by default 1/alpha."),
        ] = None,
        fit_intercept: Intercept = True,
        max_iter: MaxIter = 1000,
        tol: Annotated[Tol, Field(description="Relative change of alpha and noise at which to stop.")] = 1e-9,
    ) -> None:
        self.alpha = alpha
        self.noise_variance = noise_variance
        self.noise_shape = noise_shape
        self.noise_scale = noise_scale
        self.hyperparameters = hyperparameters
        self.prior_mean = prior_mean
        self.prior_covariance = prior_covariance
        self.bias_prior_variance = bias_prior_variance
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _sums(self, X: Matrix, y: Vector, s: Vector) -> Triangle:
        return Triangle.of(np.column_stack([X, y]), s)

    def _known(self) -> Triangle:  # models of earlier versions hold the scatter itself
        return self.sums_ if isinstance(self.sums_, Triangle) else Triangle.of_scatter(self.sums_)

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        self._solve(fast_sums(X, y, s, intercept=True).triangle)

    def _solve(self, seen: Triangle) -> None:
        """Everything is a function of the sums, so an updated model equals one fitted to all rows."""
        self.sums_, self.prior_ = seen, self._prior(len(seen.mean) - 1)
        sums = Sums.of(seen, self.fit_intercept)
        self.alpha_, self.n_iter_, self.trace_ = self.alpha, 1, []
        before, self.unknown_noise_ = self._noise_prior(), None
        if before is not None:
            post, self.unknown_noise_ = learn(sums, self.prior_, before)
            noise = self.unknown_noise_.unit
        else:
            noise = self.noise_variance or self._ridge_noise(sums)
            if self.hyperparameters == "evidence":
                noise = self._maximise(sums, noise)
            post = posterior(sums, self.prior_, noise)
        self.posterior_, self.noise_variance_, self.log_evidence_ = post, noise, post.log_evidence
        self.coef_ = np.ascontiguousarray(post.mean[1:])
        self.intercept_ = float(post.mean[0] - post.center @ self.coef_)

    def _noise_prior(self) -> UnknownNoise | None:
        a, b = self.noise_shape, self.noise_scale
        if a is None and b is None:
            return None
        if a is None or b is None:
            raise _wrong("noise_shape" if a is None else "noise_scale", "give noise_shape and noise_scale, or neither")
        if self.noise_variance is not None:
            raise _wrong("noise_variance", "a known noise variance has no prior: leave noise_shape and noise_scale out")
        if self.hyperparameters == "evidence":
            raise _wrong("hyperparameters", "evidence sets the noise variance: leave noise_shape and noise_scale out")
        return UnknownNoise(float(a), float(b))

    def _maximise(self, sums: Sums, noise: float) -> float:
        shared = self.bias_prior_variance is None
        e = maximise_evidence(sums, self.prior_, self.alpha, noise, shared=shared, max_iter=self.max_iter, tol=self.tol,
                              fixed_noise=self.noise_variance is not None)  # fmt: skip
        self.alpha_, self.n_iter_, self.trace_ = e.alpha, e.n_iter, e.trace
        self.prior_ = isotropic(self.prior_, e.alpha, shared)
        if not e.converged:
            self._note_short(f"the fixed point still moved after {e.n_iter} steps")
        if self.noise_variance is None and e.noise <= 2 * bounds(sums, self.alpha)[0]:
            self._note("noise_at_floor", "the rows are fitted exactly; the noise stays at 1e-13 of the variance of y",
                       "give noise_variance, or use fewer features than rows")  # fmt: skip
        return e.noise

    def _ridge_noise(self, sums: Sums) -> float:
        """RSS/(n - γ) of the ridge fit with λ = alpha; a share of the variance of y when the fit leaves nothing."""
        p = posterior(sums, self.prior_, 1.0)
        left = sums.total - (self.prior_.root.shape[1] - p.shrinkage + self.prior_.flat)
        if left > 1e-9 * sums.total and p.rss > sums.least * sums.total:
            return p.rss / left
        self._note("noise_not_estimable", "the ridge fit leaves no residual to estimate the noise from; used "
                   "1e-6 of the mean square of y (1 when that is 0)", "give noise_variance")  # fmt: skip
        return 1e-6 * sums.mean_square() if sums.F[:, -1].any() else 1.0

    def _prior(self, d: int) -> Prior:
        """Mean (1 + d,) and root (1 + d, k) of the prior over (intercept, slopes); a flat intercept has no column."""
        p, flat = d + 1, self.bias_prior_variance in ("flat", float("inf"))
        mean = self._sized(self.prior_mean, d, "prior_mean", np.zeros(p))
        cov = self.prior_covariance
        if cov is not None and self.hyperparameters == "evidence":
            raise _wrong("prior_covariance", "evidence chooses an isotropic prior: leave prior_covariance out")
        if cov is not None and len(cov) == p and self.bias_prior_variance is not None:
            raise _wrong("bias_prior_variance", "prior_covariance already holds the intercept's variance")
        bias = 1 / self.alpha if self.bias_prior_variance is None else self.bias_prior_variance
        root = np.zeros((p, p))
        root[1:, 1:] = np.eye(d) / np.sqrt(self.alpha)
        if not flat:
            root[0, 0] = np.sqrt(float(bias))
        if cov is not None:
            self._sized(cov[0] if len(cov) else np.zeros(0), d, "prior_covariance", mean)
            root[p - len(cov) :, p - len(cov) :] = _root(cov)
        if not self.fit_intercept:
            root[0], mean[0] = 0.0, 0.0
        return Prior(mean, root if self.fit_intercept and not flat else root[:, 1:].copy(), self.fit_intercept,
                     bool(flat and self.fit_intercept))  # fmt: skip

    def _sized(self, value: Vector | None, d: int, name: str, default: Vector) -> Vector:
        """(1 + d,) from d or, with an intercept, 1 + d values."""
        if value is None:
            return default
        if len(value) == d:
            return np.concatenate([[0.0], value])
        if self.fit_intercept and len(value) == d + 1:
            return np.array(value, dtype=float)
        more = f" or {d + 1}" if self.fit_intercept else ""
        raise _wrong(name, f"X has {d} features, so it needs size {d}{more}, got {len(value)}")

    def _predict(self, X: Matrix) -> Vector:
        return (X - self.posterior_.center) @ self.coef_ + self.posterior_.mean[0]

    def _roots(self, X: Matrix) -> Matrix:
        """(n, k) B with B Bᵀ the covariance of the mean function at the rows."""
        return self.posterior_.root[0] + (X - self.posterior_.center) @ self.posterior_.root[1:]

    def _posterior(self, X: Matrix) -> Distribution:
        h, unknown = (self._roots(X) ** 2).sum(axis=1), self.unknown_noise_
        if unknown is not None:
            freedom = np.full(len(h), unknown.freedom)
            return StudentT(self._predict(X), np.sqrt(self.noise_variance_ + h), freedom, np.sqrt(h))
        return Normal(self._predict(X), np.sqrt(self.noise_variance_ + h), np.sqrt(h))

    def _joint_posterior(self, X: Matrix) -> Distribution:
        B = self._roots(X)
        mean, C = self._predict(X)[None], (B @ B.T + self.noise_variance_ * np.eye(len(X)))[None]
        unknown = self.unknown_noise_
        return MultivariateNormal(mean, C) if unknown is None else MultivariateStudentT(mean, C, [unknown.freedom])

    def _coefficient_root(self) -> Matrix:
        """(1 + d, k) root of the covariance of (intercept, slopes)."""
        B = self.posterior_.root
        return np.vstack([B[0] - self.posterior_.center @ B[1:], B[1:]])

    def _parameter_posterior(self) -> dict[str, Distribution]:
        B = self._coefficient_root()
        if self.unknown_noise_ is not None:
            every = self.unknown_noise_.marginals(np.concatenate([[self.intercept_], self.coef_]), B)
            return {k: v for k, v in every.items() if k != "intercept" or self.fit_intercept}
        out: dict[str, Distribution] = {"coefficients": MultivariateNormal(self.coef_[None], (B[1:] @ B[1:].T)[None])}
        if self.fit_intercept:
            out["intercept"] = Normal(np.array([self.intercept_]), np.sqrt((B[:1] ** 2).sum(axis=1)))
        return out

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, Any]:
        B = self._coefficient_root()
        moves = rng.standard_normal((n, B.shape[1])) @ B.T
        if self.unknown_noise_ is not None:
            shape = self.unknown_noise_.shape
            moves *= np.sqrt(shape / rng.gamma(shape, size=(n, 1)))
        draws = np.concatenate([[self.intercept_], self.coef_]) + moves
        return np.ascontiguousarray(draws[:, 1:]), np.ascontiguousarray(draws[:, 0])

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        return bayesian_inference.diagnose(self, X, y, s)

    def _audit(self, census: Census) -> Passes:
        return (yield from bayesian_inference.audit(self))

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """2 n d² for the sums, 30 d³ per posterior."""
        steps = 30 if self.hyperparameters == "evidence" else 2
        return Cost(flops=2.0 * n * d * d + 30.0 * steps * d**3, memory_bytes=80.0 * d * d + 1e6)


def _wrong(name: str, text: str) -> InvalidParameter:
    return InvalidParameter(f"{name}: {text}", [Issue(f"/params/{name}", "value_error", text)])


def _root(cov: Matrix) -> Matrix:
    """B with B Bᵀ = cov, which must be symmetric and positive semi-definite."""
    if cov.shape[0] != cov.shape[1] or np.abs(cov - cov.T).max() > 1e-9 * np.abs(cov).max():
        raise _wrong("prior_covariance", "expected a symmetric matrix")
    values, V = eigh(0.5 * (cov + cov.T), check_finite=False)
    if values[0] < -1e-10 * max(abs(values[-1]), abs(values[0])):
        raise _wrong("prior_covariance", f"expected no negative eigenvalue, the least is {values[0]:.3g}")
    return np.asarray(V * np.sqrt(np.maximum(values, 0.0)))
