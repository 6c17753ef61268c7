"""Mixtures of Gaussians."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Cost, Density
from ml_core.capabilities import HasPosterior, HasProba, Samples, Weighted
from ml_core.certificates import Diagnostics
from ml_core.distributions.categorical import Categorical
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.mixture.mixture_report import audit
from ml_core.mixture.starts import Frame, broken, check_given, given_start, k_means_start, random_start
from ml_core.naming import listed
from ml_core.numerics.column_sums import ColumnPart, ColumnSums
from ml_core.numerics.gaussian import Moments, moments, root
from ml_core.numerics.stable import log_softmax, logsumexp
from ml_core.params import MaxIter, RealMatrix, RealStack, RealVector, Seed, Tol
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.base import Bundle, Solution, Steps, answered, together, translated
from ml_core.solvers.em import Run, Stop, Unbounded, em, restarts
from ml_core.solvers.gaussian_em import Kind
from ml_core.solvers.gaussian_sums import Scatter, Theta
from ml_core.solvers.sample import Draw, room
from ml_core.sums import Census, Passes
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

    From chunks: all starts take each pass together. Up to 65,536 rows they are those of memory; of more rows as many
    are drawn by a hash of their cells, so that chunks do not matter, and each start begins where EM on these rows ends.
    From the same start the log-likelihood is that of `fit` to 12 digits, the log-density of a row to 1e-10 nats.

    References
    ----------
    Dempster, Laird, Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39(1).
    McLachlan, Peel (2000), Finite Mixture Models, Wiley.
    """

    queue = "long"
    complexity = "O(n K d²) per iteration and start"
    tags = ("parametric", "generative", "high_capacity", "soft_clustering")
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
        self._check(*X.shape)
        frame = Frame.of_rows(X, s, self.covariance_type, self.reg_covar)
        Z, n, steps = frame.rows(X), float(s.sum()), self.max_iter
        runs = []
        for r, start in enumerate(self._starts(frame, Z, s, moments(Z, s))):
            stop = Stop(self.tol, steps, n, r * steps, self._tries() * steps)
            with progress.share(self._tries() - r):
                runs.append(answered(self._run(frame, start, stop), lambda part: part(Z, s)))
        self._conclude(frame, runs, len(X), np.ptp(X, axis=0) == 0)

    def _passes(self, census: Census) -> Passes:
        self._check(census.rows, census.width)
        columns: ColumnSums = yield ColumnPart()
        frame = Frame.of(columns.mean, columns.sd**2, self.covariance_type, self.reg_covar)
        starts = yield from self._sampled(frame, census)
        stop = Stop(self.tol, self.max_iter, columns.total)
        runs = yield from translated(together([self._run(frame, start, stop) for start in starts]), frame.part)
        self._conclude(frame, runs, census.rows, columns.constant)

    def _check(self, n: int, d: int) -> None:
        """InvalidParameter unless n rows of d columns can be fitted."""
        K = self.n_components
        if n < K:
            text = f"{K} components need at least {K} rows of positive weight, got n_samples = {n}"
            raise InvalidParameter(text, [Issue("/params/n_components", "too_many", text)])
        check_given(self.init, self.means_init, self.weights_init, self.covariances_init, K, d)

    def _sampled(self, frame: Frame, census: Census) -> Steps[list[Theta | Run[Theta]]]:
        """Starts as in memory where all rows fit the sample; else where EM on the sample's rows ends."""
        if self.init == "given":
            whole: Moments = yield frame.part(Scatter())
            return list(self._starts(frame, np.empty((0, census.width)), np.empty(0), whole))
        size = room(census.width)
        draw = Draw(size, self.random_state, whole=census.rows <= size)
        sample, whole = (yield Bundle((draw, frame.part(Scatter())))).each
        Z, s = frame.rows(sample.X), sample.s
        starts = list(self._starts(frame, Z, s, whole))
        if sample.whole:
            return starts
        stop = Stop(self.tol, self.max_iter, float(s.sum()))
        ends = [answered(self._run(frame, start, stop), lambda part: part(Z, s)) for start in starts]
        return [start if end.failure else end.theta for start, end in zip(starts, ends, strict=True)]

    def _tries(self) -> int:
        return 1 if self.init == "given" or self.n_components == 1 else self.n_init

    def _starts(self, frame: Frame, Z: Matrix, s: Vector, whole: Moments) -> Iterator[Theta | Run[Theta]]:
        """Each from its own random stream; a run without likelihood where none can be made."""
        kind = k_means_start if self.init == "k_means" else random_start
        for r in range(self._tries()):
            try:
                if self.init == "given":
                    yield given_start(frame, whole, self.means_init, self.weights_init, self.covariances_init)
                else:
                    yield kind(frame.form, Z, s, whole, self.n_components, generator(self.random_state, r))
            except Unbounded as e:
                yield broken(e)

    def _run(self, frame: Frame, start: Theta | Run[Theta], stop: Stop) -> Steps[Run[Theta]]:
        """EM from one start, in the units of the frame."""
        if isinstance(start, Run):
            return start
        form = frame.form
        return (yield from em(start, form.e_step, form.m_step, lambda t: frame.outside(t).means.ravel(), stop))

    def _conclude(self, frame: Frame, runs: list[Run[Theta]], n: int, constant: np.ndarray) -> None:
        best, _ = restarts(runs)
        if best is None:
            raise InvalidData(f"every start failed: {runs[0].failure}; set reg_covar above 0, take fewer components, "
                              "or drop constant and dependent columns")  # fmt: skip
        self.start_log_likelihoods_ = [r.log_likelihood for r in runs]
        self.floor_ = frame.form.floor * frame.scale**2
        self._store(best, frame.outside(best.theta))
        self._remark(n, np.flatnonzero(constant).tolist(), runs, best)

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

    def _remark(self, n: int, constant: list[int], runs: list[Run[Theta]], best: Run[Theta]) -> None:
        """The notices of a fit."""
        if not self.converged_:
            rising = f"the likelihood still rose by more than tol after {self.n_iter_} iterations"
            self._note_short(rising, "raise max_iter or tol")
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
        if constant:
            self._note("constant_column", f"columns {listed(constant)} are constant: their variance is the floor",
                       "drop them")  # fmt: skip
        near = sum(best.log_likelihood - r.log_likelihood <= NEAR_BEST * n for r in runs if not r.failure)
        if len(runs) > 1 and near == 1:
            self._note("local_optimum", f"only one of {len(runs)} starts found the best likelihood", "raise n_init")

    def _joint(self, X: Matrix) -> Matrix:
        return self._theta().joint(X)

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

    def _theta(self) -> Theta:
        """The parameters, such that no M-step revives a component."""
        floored = tuple(self.floored_)
        return Theta(self.weights_, self.means_, self._stack(), self.whiten_, self.log_scale_, floored, resets=10**9)

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        out: Diagnostics = answered(audit(self, self._theta()), lambda part: part(X, s))
        return out

    def _audit(self, census: Census) -> Passes:
        return audit(self, self._theta())

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Sixty iterations per start."""
        K, width = self.n_components, d if self.covariance_type in ("full", "tied") else 1
        work = n * K * d * (2.0 * width + 8) + 20.0 * n * K + 10.0 * K * width**3
        steps = self.n_init * min(60, self.max_iter)
        return Cost(flops=steps * work, memory_bytes=8.0 * (3 * n * d + 6 * K * d * width))
