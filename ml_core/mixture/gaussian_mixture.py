"""Mixtures of Gaussians."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Cost, Density
from ml_core.capabilities import HasPosterior, HasProba, Samples, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.distributions.categorical import Categorical
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.mixture.starts import check_given, given_start, k_means_start, random_start, rescaled, with_units
from ml_core.naming import listed
from ml_core.numerics.gaussian import log_densities, root
from ml_core.numerics.stable import log_softmax, logsumexp
from ml_core.params import MaxIter, RealMatrix, RealStack, RealVector, Seed, Tol
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.base import Solution
from ml_core.solvers.em import Run, Stop, Unbounded, em, restarts
from ml_core.solvers.gaussian_em import GaussianEM, Kind, Theta
from ml_core.validation import check_query

NEAR_BEST = 1e-4
"""Starts that end within this many nats per sample of the best count as having found it."""


@algorithm("gaussian_mixture")
class GaussianMixture(Weighted, HasProba, HasPosterior, Samples, Density):
    """A weighted sum of Gaussians, fitted by expectation–maximisation; soft clusters with posterior responsibilities.

    p(x) = Σ_k π_k N(x | m_k, S_k); E: r_ik = π_k N(xᵢ | m_k, S_k) / p(xᵢ); M: N_k = Σᵢ sᵢ r_ik, π_k = N_k / Σ sᵢ,
    m_k = Σᵢ sᵢ r_ik xᵢ / N_k, S_k = Σᵢ sᵢ r_ik (xᵢ - m_k)(xᵢ - m_k)ᵀ / N_k. One step O(n K d²), or O(n K d) when S_k is
    diagonal. The likelihood is not concave: `n_init` starts end in local optima, the best is kept and all are reported.

    Components are in the order of their means' coordinates, except when the start is given. A component that lost its
    rows restarts at the row of least density. Without a floor the likelihood is unbounded (a component on a single
    point), so no variance in any direction may fall below `reg_covar`; the M-step maximises exactly under that bound,
    so the likelihood never falls, and a bound that is not reached changes nothing. Columns are standardised inside
    (isotropic: all by one factor, identity: not), so a change of units changes nothing but the units of the answer.

    References
    ----------
    Dempster, Laird, Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39(1).
    McLachlan, Peel (2000), Finite Mixture Models, Wiley.
    """

    queue = "long"
    complexity = "O(n K d²) per iteration and start"
    tags = ("parametric", "generative", "soft_clustering")
    largest = SQUARES
    example_params: ClassVar[dict[str, Any]] = {"n_components": 3}

    weights_: Annotated[Vector, "(K,) π"]
    means_: Annotated[Matrix, "(K, d)"]
    covariances_: Annotated[np.ndarray, "full (K, d, d), tied (d, d), diagonal (K, d), isotropic and identity (K,)"]
    whiten_: Annotated[np.ndarray, "(K, d, d), or (K, d, 1) for diagonals: W with S⁻¹ = W Wᵀ"]
    log_scale_: Annotated[Vector, "(K,) log|W|"]
    floored_: Annotated[list[int], "components that the floor holds up"]
    floor_: Annotated[Vector, "(d,) least variance of each column, feature units²"]
    log_likelihood_: Annotated[float, "total, nats, on the rows of the fit"]
    start_log_likelihoods_: Annotated[list[float], "where each start ended"]
    converged_: bool
    n_iter_: int
    resets_: Annotated[int, "how often an empty component was restarted in the best run"]
    solution_: Solution

    def __init__(
        self,
        *,
        n_components: Annotated[int, Field(ge=1, description="K, the number of Gaussians.")] = 2,
        covariance_type: Annotated[
            Kind, Field(description="Own, one shared, own axis-parallel, own spherical, or unit covariances.")
        ] = "full",
        init: Annotated[Literal["k_means", "random", "given"], Field(description="Where EM starts.")] = "k_means",
        means_init: Annotated[RealMatrix | None, Field(description="(K, d) start of the means, for given.")] = None,
        weights_init: Annotated[RealVector | None, Field(description="(K,) start of π; null: equal.")] = None,
        covariances_init: Annotated[
            RealStack | None, Field(description="(K, d, d) start of the covariances; null: that of all rows.")
        ] = None,
        n_init: Annotated[int, Field(ge=1, description="Starts; one suffices for given or one component.")] = 5,
        tol: Tol = 1e-6,
        max_iter: MaxIter = 500,
        reg_covar: Annotated[
            float | None,
            Field(ge=0, description="Least variance in any direction, units²; null: 1e-6 of each column's variance."),
        ] = None,
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.init = init
        self.means_init = means_init
        self.weights_init = weights_init
        self.covariances_init = covariances_init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.reg_covar = reg_covar
        self.random_state = random_state

    def _fit(self, X: Matrix, s: Vector) -> None:
        K = self.n_components
        if len(X) < K:
            text = f"{K} components need at least {K} rows of positive weight, got n_samples = {len(X)}"
            raise InvalidParameter(text, [Issue("/params/n_components", "too_many", text)])
        problem, centre, scale = rescaled(X, s, self.covariance_type, self.reg_covar)
        check_given(self.init, self.means_init, self.weights_init, self.covariances_init, K, X.shape[1])
        best, runs = restarts(self._runs(problem, centre, scale))
        if best is None:
            raise InvalidData(f"every start failed: {runs[0].failure}; set reg_covar above 0, take fewer components, "
                              "or drop constant and dependent columns")  # fmt: skip
        self.start_log_likelihoods_ = [r.log_likelihood for r in runs]
        self.floor_ = problem.floor * scale**2
        self._store(best, with_units(best.theta, centre, scale))
        self._remark(X, runs, best)

    def _runs(self, problem: GaussianEM, centre: Vector, scale: Vector) -> Iterator[Run[Theta]]:
        """One EM run per start, each from its own random stream."""
        count = 1 if self.init == "given" or self.n_components == 1 else self.n_init
        for r in range(count):
            rng = generator(self.random_state, r)
            if self.init == "given":
                start = given_start(problem, centre, scale, self.means_init, self.weights_init, self.covariances_init)
            else:
                start = (k_means_start if self.init == "k_means" else random_start)(problem, self.n_components, rng)
            if isinstance(start, Run):
                yield start
                continue
            stop = Stop(self.tol, self.max_iter, float(problem.s.sum()), r * self.max_iter, count * self.max_iter)
            yield em(start, problem.e_step, problem.m_step, lambda t: with_units(t, centre, scale).means.ravel(), stop)

    def _store(self, best: Run[Theta], theta: Theta) -> None:
        order = np.arange(len(theta.weights)) if self.init == "given" else np.lexsort(theta.means.T[::-1])
        self.weights_, self.means_ = theta.weights[order], np.ascontiguousarray(theta.means[order])
        self.whiten_, self.log_scale_ = np.ascontiguousarray(theta.whiten[order]), theta.log_scale[order]
        self.covariances_ = self._shape(theta.covariances[order])
        self.floored_ = sorted(int(np.flatnonzero(order == k)[0]) for k in theta.floored)
        self.solution_, self.resets_ = best.solution, theta.resets
        self.log_likelihood_ = best.log_likelihood
        self.converged_, self.n_iter_ = best.solution.converged, best.solution.n_iter

    def _shape(self, S: np.ndarray) -> np.ndarray:
        """Covariances in the shape of their type."""
        if self.covariance_type == "full":
            return np.ascontiguousarray(S)
        if self.covariance_type == "tied":
            return S[0].copy()
        return S[:, :, 0].copy() if self.covariance_type == "diagonal" else S[:, 0, 0].copy()

    def _stack(self) -> np.ndarray:
        """Covariances as (K, d, d), or (K, d, 1) for diagonals."""
        (K, d), C = self.means_.shape, self.covariances_
        if self.covariance_type == "tied":
            return np.repeat(C[None], K, axis=0)
        if self.covariance_type in ("isotropic", "identity"):
            return np.repeat(C[:, None, None], d, axis=1)
        return C if self.covariance_type == "full" else C[:, :, None]

    def _remark(self, X: Matrix, runs: list[Run[Theta]], best: Run[Theta]) -> None:
        """The notices of a fit."""
        if not self.converged_:
            rising = f"the likelihood still rose by more than tol after {self.n_iter_} iterations"
            self._note("not_converged", rising, "raise max_iter or tol")
        if self.floored_:
            held = f"components {self.floored_} are held at the least variances allowed, {self.floor_.tolist()}"
            self._note("variance_floor", f"{held}; without them the likelihood has no bound",
                       "take fewer components, or look for repeated or dependent values")  # fmt: skip
        if self.resets_:
            lost = f"a component lost all its rows {self.resets_} times and was restarted"
            self._note("empty_component", lost, "take fewer components")
        failed = [r.failure for r in runs if r.failure]
        if failed:
            broke = f"{len(failed)} of {len(runs)} starts broke off: {failed[0]}"
            self._note("unbounded_likelihood", broke, "set reg_covar above 0")
        constant = np.flatnonzero(np.ptp(X, axis=0) == 0).tolist()
        if constant:
            self._note("constant_column", f"columns {listed(constant)} are constant: their variance is the floor",
                       "drop them")  # fmt: skip
        near = sum(best.log_likelihood - r.log_likelihood <= NEAR_BEST * len(X) for r in runs if not r.failure)
        if len(runs) > 1 and near == 1:
            self._note("local_optimum", f"only one of {len(runs)} starts found the best likelihood", "raise n_init")

    def _joint(self, X: Matrix) -> Matrix:
        """(n, K) log π_k N(x | m_k, S_k)."""
        with np.errstate(divide="ignore"):
            return log_densities(X, self.means_, self.whiten_, self.log_scale_) + np.log(self.weights_)

    def _log_density(self, X: Matrix) -> Vector:
        return np.asarray(logsumexp(self._joint(X), axis=1))

    def _log_proba(self, X: Matrix) -> Matrix:
        return log_softmax(self._joint(X))

    def predict(self, X: object) -> Codes:
        """(n,) number of the most probable component, the first of equals."""
        return np.asarray(self._joint(check_query(self, X)).argmax(axis=1))

    def _posterior(self, X: Matrix) -> Categorical:
        return Categorical(list(range(len(self.weights_))), self._proba(X))

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, Codes]:
        """A component from π, then a row of it."""
        z = rng.choice(len(self.weights_), size=n, p=self.weights_)
        rows, S = rng.standard_normal((n, self.means_.shape[1])), self._stack()
        for k in np.unique(z):
            mine = z == k
            spread = rows[mine] * np.sqrt(S[k, :, 0]) if S.shape[2] == 1 else rows[mine] @ root(S[k]).T
            rows[mine] = self.means_[k] + spread
        return rows, z

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        K, n = len(self.weights_), float(s.sum())
        value, free = float(s @ self._log_density(X)), self._free_parameters()
        r, S = self._proba(X), self._stack()
        bits = np.where(r > 0, r * np.log(np.where(r > 0, r, 1.0)), 0.0).sum(axis=1)
        sd = np.sqrt(S[:, :, 0] if S.shape[2] == 1 else np.einsum("kjj->kj", S))
        names = (f"sd_{j}" for j in range(X.shape[1]))
        columns = ("component", "weight", "mass", "at_floor", "log_determinant", *names)
        held, log_det = [k in self.floored_ for k in range(K)], -2 * self.log_scale_
        rows = [list(row) for row in zip(range(K), self.weights_, s @ r, held, log_det, *sd.T, strict=True)]
        return Diagnostics(
            summary={
                "rows": len(X), "columns": X.shape[1], "components": K, "parameters": free,
                "log_likelihood": value, "mean_log_likelihood": value / n,
                "aic": 2 * free - 2 * value, "bic": free * float(np.log(n)) - 2 * value,
                "assignment_entropy": float(-(s @ bits) / n), "iterations": self.n_iter_,
                "starts": len(self.start_log_likelihoods_), "resets": self.resets_,
            },
            certificates=self._certificates(X, s),
            tables={
                "components": Table(columns, rows),
                "starts": Table(("start", "log_likelihood"), list(map(list, enumerate(self.start_log_likelihoods_)))),
            },
            traces={"log_likelihood": self.solution_.trace},
            matrices={"means": self.means_, "covariances": self.covariances_},
        )  # fmt: skip

    def _free_parameters(self) -> int:
        """K - 1 weights, K d means, and the covariances of the type."""
        K, d = self.means_.shape
        own = {"full": K * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diagonal": K * d, "isotropic": K}
        return K - 1 + K * d + own.get(self.covariance_type, 0)

    def _certificates(self, X: Matrix, s: Vector) -> list[Certificate]:
        """One more E-step and M-step from the answer."""
        n = float(s.sum())
        problem = GaussianEM(X, s, self.covariance_type, self.floor_, np.var(X, axis=0))
        here = Theta(self.weights_, self.means_, self._stack(), self.whiten_, self.log_scale_, resets=10**9)
        found, value = problem.e_step(here)
        try:
            gain = (problem.e_step(problem.m_step(here, found))[1] - value) / n
        except Unbounded:
            gain = float("inf")
        slack = 1e-10 * (1 + abs(value) / n)
        return [
            Certificate("em_step_loss", max(-gain, 0.0), slack, "one more EM step does not lower the likelihood"),
            Certificate("em_step_gain", gain, max(self.tol, slack), "nor raise it by more than tol, nats per sample"),
        ]

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Sixty iterations per start."""
        K, width = self.n_components, d if self.covariance_type in ("full", "tied") else 1
        work = n * K * d * (2.0 * width + 8) + 20.0 * n * K + 10.0 * K * width**3
        steps = self.n_init * min(60, self.max_iter)
        return Cost(flops=steps * work, memory_bytes=8.0 * (3 * n * d + 6 * K * d * width))
