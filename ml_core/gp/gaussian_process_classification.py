"""Gaussian process classification."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import HasPosterior, HasProba, Weighted
from ml_core.certificates import Diagnostics
from ml_core.distributions.base import Distribution
from ml_core.distributions.categorical import Categorical
from ml_core.distributions.normal import Normal
from ml_core.gp import gp_notes, gp_report, laplace_report
from ml_core.gp.curvature import Evidence, Gram
from ml_core.gp.expansion import chosen
from ml_core.gp.laplace import Labelled, Mode, Prior, T, mode
from ml_core.gp.latent import LatentSurface, SparseLatent
from ml_core.gp.options import (
    Covariance,
    ExactRows,
    Fixed,
    Hyperparameters,
    Inducing,
    Method,
    Restarts,
    SearchFactor,
    Slope,
)
from ml_core.gp.search import Run, Space, has_amplitude, search
from ml_core.gp.sparse import inducing_rows
from ml_core.gp.sparse_laplace import Projection, SparseEvidence
from ml_core.kernels import Kernel, ScaleKernel
from ml_core.notices import MORE_TIME
from ml_core.numerics.averaged import averaged_logistic, averaged_softmax
from ml_core.numerics.memory import ask, granted
from ml_core.params import MaxIter, Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.base import Solution
from ml_core.validation import check_query

EVALUATIONS = 40.0
SIGNAL = 4.0
TINY = float(np.finfo(float).tiny)
SEARCH = 1.5
"""The search takes the time over this, so that Newton's method has the rest for the mode."""


@algorithm("gaussian_process_classification")
class GaussianProcessClassification(Weighted, HasProba, HasPosterior, Classifier):
    """A Gaussian process as prior over scores, conditioned on labels by Laplace's approximation.

    Two classes: P(second) = σ(f(x)), f ~ GP(m, τ² k). K classes: softmax of K independent functions of that prior. The
    posterior is approximated by the normal N(f̂, (K⁻¹ + W)⁻¹) at its mode f̂ = K a, a = s(1_y - p), found by Newton's
    method; hyperparameters maximise the approximate evidence Ψ(f̂) - ½ log|I + K W| (L-BFGS within bounds, analytic
    gradients, several starts). Probabilities are averaged over that normal: two classes to rounding, more over a
    lattice of 4,093 points (about 1e-4). `posterior` also tells means and sds of the scores.
    O(C n³) per Newton step, 8n² bytes a matrix, C = 1 for two classes, else K; beyond `exact_rows`, or the memory
    granted, `n_inducing` rows stand for all (O(C² n m²), the evidence less ½ tr W(K - Q)), and the answer says so.
    Weights repeat rows. With given hyperparameters the mode is kernel logistic regression of alpha 1 without intercept.

    References
    ----------
    Williams, Barber (1998), Bayesian classification with Gaussian processes, IEEE PAMI 20(12).
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 3.4, 3.5 and 5.5.
    Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes, AISTATS.
    """

    queue = "long"
    remedy = "weights near 1 and columns near 0 help; or give the hyperparameters"
    largest = SQUARES
    complexity = "O(C n³) per Newton step, C functions; O(C² n m²) with m inducing rows"
    tags = (
        "non_parametric", "discriminative", "high_capacity", "kernel", "bayesian", "probabilistic", "smooth",
        "extension",
    )  # fmt: skip
    example_params = {"n_restarts": 0}  # noqa: RUF012 - annotated ClassVar in the base

    surface_: Annotated[LatentSurface | SparseLatent, "approximate posterior over the scores"]
    kernel_: Annotated[Kernel, "kernel in use, its variance within"]
    hyperparameters_: Annotated[dict[str, float], "every hyperparameter by name"]
    log_marginal_likelihood_: Annotated[float, "nats, by Laplace's approximation"]
    method_: Annotated[str, "exact (all rows) or sparse (inducing rows)"]
    runs_: Annotated[list[Run], "climbs of the evidence"]
    newton_steps_: Annotated[int, "Newton steps to the mode from 0"]
    solution_: Solution
    n_iter_: int

    def __init__(
        self,
        *,
        kernel: Covariance = None,
        signal_variance: Annotated[
            float | None,
            Field(gt=0, le=1e90, description="τ², a factor of the kernel, in squared log-odds. null: learned from 4 "
                  "on, unless the kernel has a factor of its own; 1 where hyperparameters are given."),
        ] = None,
        hyperparameters: Hyperparameters = "maximise",
        fixed: Fixed = (),
        search_factor: SearchFactor = 1e5,
        n_restarts: Restarts = 2,
        mean: Annotated[
            Literal["zero", "base_rate"],
            Field(description="Prior mean of the scores, to which they return far from the rows: 0, or the log-odds of "
                  "the classes' shares of the weight."),
        ] = "zero",
        method: Method = "auto",
        exact_rows: ExactRows = 2000,
        n_inducing: Inducing = 200,
        max_iter: MaxIter = 100,
        tol: Slope = 1e-5,
        random_state: Seed = 0,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.signal_variance = signal_variance
        self.hyperparameters = hyperparameters
        self.fixed = fixed
        self.search_factor = search_factor
        self.n_restarts = n_restarts
        self.mean = mean
        self.method = method
        self.exact_rows = exact_rows
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Five factors an evaluation of the evidence; with m inducing rows as many products of (m, n) by (m, m)."""
        C = 1.0 if k <= 2 else float(k)
        steps = 1.0 + EVALUATIONS * (self.hyperparameters == "maximise") * (1 + self.n_restarts if n <= 600 else 1)
        if self._exactly(n, C):
            return Cost(flops=steps * (5.0 * C * float(n) ** 3 + 20.0 * n * n * d), memory_bytes=_bytes(n, C))
        m = float(min(self.n_inducing, n))
        return Cost(flops=steps * 8.0 * n * (C * m) ** 2, memory_bytes=_sparse_bytes(n, m, C))

    def _exactly(self, n: int, functions: float) -> bool:
        small = n <= self.exact_rows and _bytes(n, functions) <= granted()
        return self.method == "exact" or (self.method == "auto" and small)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        rows = self._labelled(X, y, s)
        self.method_ = self._method(len(X), rows.functions)
        space = self._space(X)
        Z = self._inducing(space, X)
        if self.hyperparameters == "maximise" and space.free.any():
            with progress.share(SEARCH):
                self.runs_, self.solution_ = search(
                    rows, space, self._evidence(Z), on_sample=Evidence(), restarts=self.n_restarts,
                    seed=int(self.random_state), tol=float(self.tol), max_iter=int(self.max_iter))  # fmt: skip
            logs = self.runs_[-1].end
        else:
            logs, self.runs_ = space.start, []
            self.solution_ = Solution(logs, 0, True, "direct", [])
        self.n_iter_ = max(1, self.solution_.n_iter)
        self.kernel_ = space.at(logs)[0]
        self.hyperparameters_ = dict(zip(space.names, space.values(logs).tolist(), strict=True))
        self._conclude(rows, Z)
        gp_notes.search_notes(self, space)

    def _method(self, n: int, functions: int) -> str:
        what, advice = f"{functions} latent functions of {n} rows", "choose method='sparse', or fewer rows"
        if self.method == "exact":
            ask(_bytes(n, functions), what, advice)
        if self._exactly(n, functions):
            return "exact"
        m = min(n, self.n_inducing)
        ask(_sparse_bytes(n, m, functions), f"{m} inducing rows for {what}",
            "lower n_inducing, or nystroem_features before bayesian_logistic_regression in a pipeline")  # fmt: skip
        return "sparse"

    def _inducing(self, space: Space, X: Matrix) -> Matrix | None:
        if self.method_ == "exact":
            return None
        return X[inducing_rows(space.at(space.start)[0], X, min(self.n_inducing, len(X)))]

    def _labelled(self, X: Matrix, y: Codes, s: Vector) -> Labelled:
        K = len(self.classes_)
        logs = np.log(np.bincount(y, s, K) / s.sum()) if self.mean == "base_rate" else np.zeros(K)
        return Labelled(X, y, s, K, logs[1:] - logs[:1] if K == 2 else logs - logs.mean())

    def _evidence(self, Z: Matrix | None) -> Evidence | SparseEvidence:
        return Evidence() if Z is None else SparseEvidence(Z)

    def _conclude(self, rows: Labelled, Z: Matrix | None) -> None:
        """The mode from 0, so that it depends on the kernel alone, and the normal around it."""
        kernel = self.kernel_
        if Z is None:
            self.surface_ = LatentSurface.of(kernel, rows, *self._around(rows, Gram(kernel(rows.X))))
            return
        reduced = Projection.of(kernel(Z), kernel(Z, rows.X), kernel.diag(rows.X))
        self.surface_ = SparseLatent.of(kernel, Z, rows.offset, reduced, *self._around(rows, reduced))
        share = float(reduced.short.sum()) / max(float(kernel.diag(rows.X).sum()), TINY)
        gp_notes.sparse_note(self, len(rows.y), f"probabilities and the evidence are approximate; {share:.2g} of the "
                             "prior variance is beyond them")  # fmt: skip

    def _around(self, rows: Labelled, prior: Prior[T]) -> tuple[Mode, T]:
        at = mode(rows, prior)
        curve = prior.curvature(rows, at.f)
        self.newton_steps_ = at.steps
        self.log_marginal_likelihood_ = at.value - curve.half_logdet - prior.slack(rows, at.f)
        if not at.converged:
            why, advice = "the kernel matrix is too large for its rounding", "lower signal_variance"
            if progress.was_cut():
                why, advice = "time was over", MORE_TIME
            self._note("mode_not_converged", f"Newton's method stopped {at.miss:.3g} from the mode after {at.steps} "
                       f"steps: {why}", advice)  # fmt: skip
        return at, curve

    def _space(self, X: Matrix) -> Space:
        kernel, signal = chosen(self.kernel, X), self.signal_variance
        if signal is None and self.hyperparameters == "maximise" and not has_amplitude(kernel):
            signal = SIGNAL
        whole = kernel if signal is None else ScaleKernel(signal, kernel)
        return Space.of(whole, signal is not None, None, float(self.search_factor), tuple(self.fixed))

    def _proba(self, X: Matrix) -> Matrix:
        return _averaged(*self.surface_.spread(X))

    def latent_posterior(self, X: Any) -> list[Normal]:
        """The normal of each score at the rows of X: one of a batch of n for two classes, else one per class."""
        mean, covariance = self.surface_.spread(check_query(self, X))
        sd = np.sqrt(np.einsum("ncc->nc", covariance))
        return [Normal(m, e) for m, e in zip(mean.T, sd.T, strict=True)]

    def _posterior(self, X: Matrix) -> Distribution:
        mean, covariance = self.surface_.spread(X)
        sd = np.sqrt(np.einsum("ncc->nc", covariance))
        return Categorical(self.classes_.tolist(), _averaged(mean, covariance), mean, sd)

    def draw(self, X: Any, n: int = 1, *, prior: bool = False, random_state: int = 0) -> np.ndarray:
        """(n, C, rows of X) joint draws of the scores, from the approximate posterior or from the prior."""
        A, rng = check_query(self, X), generator(random_state)
        C = self.surface_.weights.shape[1]
        if prior:
            K = self.kernel_(A)
            means = self.surface_.offset
            return np.stack([gp_report.draws(np.full(len(A), m), K, n, rng) for m in means], axis=1)
        mean, covariance = self.surface_.joint(A)
        return gp_report.draws(mean, covariance, n, rng).reshape(n, C, len(A))

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        return laplace_report.diagnose(self, self._labelled(X, y, s))


def _bytes(n: int, functions: float) -> float:
    return 8.0 * float(n) * n * (3.0 * functions + 5.0) + 1e6


def _sparse_bytes(n: int, m: float, functions: float) -> float:
    return 8.0 * n * (10.0 * m + functions**2) + 32.0 * (functions * m) ** 2 + 1e6


def _averaged(mean: Matrix, covariance: np.ndarray) -> Matrix:
    """(n, K) probabilities of normal scores."""
    if mean.shape[1] > 1:
        return averaged_softmax(mean, covariance)
    sd = np.sqrt(covariance[:, 0, 0])
    P = np.column_stack([averaged_logistic(-mean[:, 0], sd), averaged_logistic(mean[:, 0], sd)])
    return P / P.sum(axis=1, keepdims=True)
