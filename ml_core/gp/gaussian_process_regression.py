"""Gaussian process regression."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core import naming
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import HasJointPosterior, Samples, Weighted
from ml_core.certificates import Diagnostics
from ml_core.distributions.base import Distribution
from ml_core.distributions.normal import MultivariateNormal, Normal
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.gp import exact, gp_notes, gp_report, sparse
from ml_core.gp.expansion import chosen
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
from ml_core.gp.surface import Surface
from ml_core.gp.task import Mean, Task
from ml_core.kernels import Kernel, ScaleKernel
from ml_core.naming import listed
from ml_core.numerics.memory import ask, granted
from ml_core.params import Column, MaxIter, Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.base import Solution
from ml_core.validation import check_query

MATRICES = 7.0
EVALUATIONS = 40.0


@algorithm("gaussian_process_regression")
class GaussianProcessRegression(Weighted, HasJointPosterior, Samples, Regressor):
    """A Gaussian process as prior over functions, conditioned on the rows: exact posterior, Normal predictions.

    y = f(x) + e, f ~ GP(m, τ² k), e ~ N(0, s2 + known noise). C = τ²K + D = L Lᵀ, α = C⁻¹(y - m): the function at z has
    mean m + k_zᵀα and variance k(z,z) - k_zᵀC⁻¹k_z (`epistemic_sd` is its root); an outcome adds the noise. The log
    marginal likelihood -½(y - m)ᵀα - log|L| - n/2 log 2π is maximised over the logarithms of the kernel's
    hyperparameters, τ² and s2 (L-BFGS within bounds, analytic gradients, several starts). A `constant` or `linear`
    mean has coefficients of flat prior, whose uncertainty is in every variance. O(n³) per evaluation, 8n² bytes a
    matrix; beyond `exact_rows`, or the memory granted, `n_inducing` rows stand for all (variational bound, O(n m²)),
    and the answer says so. Weights repeat rows. The mean is kernel ridge regression with alpha = s2/τ².

    `posterior` gives outcomes; their joint distribution, and draws from it, come from `joint_posterior`. `sample` draws
    the posterior function at the distinct training (or the inducing) rows; `draw` at any rows, from the prior too.

    References
    ----------
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, chapters 2, 4 and 5.
    Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes, AISTATS.
    """

    queue = "long"
    largest = SQUARES
    complexity = "O(n³) per evaluation; O(n m²) with m inducing rows"
    draws = "functions"
    tags = ("non_parametric", "discriminative", "high_capacity", "kernel", "bayesian", "probabilistic", "smooth")

    surface_: Annotated[Surface, "posterior over functions"]
    kernel_: Annotated[Kernel, "kernel in use, its variance within"]
    noise_variance_: Annotated[float, "s2, squared target units"]
    hyperparameters_: Annotated[dict[str, float], "every hyperparameter by name"]
    log_marginal_likelihood_: Annotated[float, "nats; of the sparse method, a lower bound"]
    method_: Annotated[str, "exact or sparse"]
    jitter_: Annotated[float, "added to the diagonal to factor it"]
    sampled_rows_: Annotated[Codes | None, "(r,) numbers of the rows at which `sample` draws functions"]
    runs_: Annotated[list[Run], "climbs of the marginal likelihood"]
    solution_: Solution
    n_iter_: int

    def __init__(
        self,
        *,
        kernel: Covariance = None,
        signal_variance: Annotated[
            float | None,
            Field(gt=0, le=1e90, description="τ², a factor of the kernel. null: learned from the variance of y on, "
                  "unless the kernel has a factor of its own; 1 where hyperparameters are given."),
        ] = None,
        noise_variance: Annotated[
            float | None, Field(ge=0, le=1e90, description="s2 (its start); null: a tenth of the variance of y.")
        ] = None,
        hyperparameters: Hyperparameters = "maximise",
        fixed: Fixed = (),
        search_factor: SearchFactor = 1e5,
        n_restarts: Restarts = 2,
        mean: Annotated[
            Literal["zero", "average", "constant", "linear"],
            Field(description="Prior mean: 0, the mean target, a coefficient, a coefficient and slopes (flat priors)."),
        ] = "zero",
        noise_column: Annotated[
            Column | None, Field(description="Column of known noise variances, which is no feature then.")
        ] = None,
        method: Method = "auto",
        exact_rows: ExactRows = 4000,
        n_inducing: Inducing = 300,
        max_iter: MaxIter = 200,
        tol: Slope = 1e-5,
        random_state: Seed = 0,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.hyperparameters = hyperparameters
        self.fixed = fixed
        self.search_factor = search_factor
        self.n_restarts = n_restarts
        self.mean = mean
        self.noise_column = noise_column
        self.method = method
        self.exact_rows = exact_rows
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """n³ an evaluation and seven matrices; with m inducing rows 8 n m² and six of (m, n)."""
        steps = 2.0 + EVALUATIONS * (self.hyperparameters == "maximise") * (1 + self.n_restarts if n <= 600 else 1)
        if self._exactly(n):
            return Cost(flops=steps * (float(n) ** 3 + 20.0 * n * n * d), memory_bytes=_bytes(n))
        m = float(min(self.n_inducing, n))
        return Cost(flops=steps * 8.0 * n * m * m, memory_bytes=6.0 * 8.0 * n * m + 3e7)

    def _exactly(self, n: int) -> bool:
        small = n <= self.exact_rows and _bytes(n) <= granted()
        return self.method == "exact" or (self.method == "auto" and small)

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        F = self._features(X)
        mean = self._prior_mean(F, y, s)
        task = Task(F, y - mean.offset, self._known_noise(X), s, mean.basis(F)).checked()
        with naming.use(self._names_beside(X.shape[1])):
            space = self._space(task)
        self.method_ = self._method(len(y))
        flat = len(y) > 1 and bool(np.ptp(y) == 0.0)
        if self.hyperparameters == "maximise" and space.free.any() and not flat:
            logs, Z = self._climb(task, space)
        else:
            logs, Z, self.runs_ = space.start, self._inducing(task, space, space.start), []
            self.solution_, self.n_iter_ = Solution(logs, 0, True, "direct", []), 0
        self._conclude(task, mean, space, logs, Z)
        gp_notes.note(self, space, task, flat, y)

    def _climb(self, task: Task, space: Space) -> tuple[Vector, Matrix | None]:
        how: dict[str, Any] = {"restarts": self.n_restarts, "seed": int(self.random_state), "tol": float(self.tol),
                               "max_iter": int(self.max_iter), "on_sample": exact.value_gradient}  # fmt: skip
        if self.method_ == "exact":
            self.runs_, self.solution_ = search(task, space, exact.value_gradient, **how)
            Z = None
        else:
            Z = self._inducing(task, space, space.start)
            assert Z is not None  # noqa: S101 - the method is sparse
            rows = Z
            self.runs_, self.solution_ = search(
                task, space, lambda t, k, s2: sparse.value_gradient(t, k, s2, rows), **how)  # fmt: skip
        self.n_iter_ = max(1, self.solution_.n_iter)
        return self.runs_[-1].end, Z

    def _conclude(self, task: Task, mean: Mean, space: Space, logs: Vector, Z: Matrix | None) -> None:
        kernel, s2 = space.at(logs)
        self.kernel_, self.noise_variance_ = kernel, s2
        self.hyperparameters_ = dict(zip(space.names, space.values(logs).tolist(), strict=True))
        if Z is None:
            at = exact.final(task, kernel, s2)
            self.surface_ = exact.surface(task, kernel, mean, s2, at)
            self.log_marginal_likelihood_, self.jitter_ = at.value, at.jitter
            return
        found = sparse.bound(task, kernel, s2, kernel(Z), kernel(Z, task.X))
        self.surface_ = sparse.surface(task, kernel, mean, found, Z)
        self.log_marginal_likelihood_, self.jitter_ = found.value, found.jitter

    def _method(self, n: int) -> str:
        if self.method == "exact":
            ask(_bytes(n), f"exact inference on {n} rows", "choose method='sparse', or fewer rows")
        if self._exactly(n):
            return "exact"
        ask(48.0 * n * min(n, self.n_inducing), f"{self.n_inducing} inducing rows for {n} rows", "lower n_inducing")
        if self.noise_variance == 0:
            raise InvalidParameter("noise_variance: the sparse method needs noise; give a positive variance or null",
                                   [Issue("/params/noise_variance", "value_error", "positive for sparse")])  # fmt: skip
        return "sparse"

    def _inducing(self, task: Task, space: Space, logs: Vector) -> Matrix | None:
        if self.method_ == "exact":
            return None
        kernel, _ = space.at(logs)
        return task.X[sparse.inducing_rows(kernel, task.X, min(self.n_inducing, len(task.X)))]

    def _space(self, task: Task) -> Space:
        """Kernel and noise to start from."""
        kernel = chosen(self.kernel, task.X)
        total = float(task.weight.sum())
        middle = float(task.weight @ task.y) / total
        variance = float(task.weight @ (task.y - middle) ** 2) / total
        size = variance if task.H.shape[1] else float(task.weight @ task.y**2) / total
        size = size or 1.0
        given, signal = self.hyperparameters == "given", self.signal_variance
        if signal is None and not given and not has_amplitude(kernel):
            signal = size
        noise = self.noise_variance if self.noise_variance is not None else 0.1 * variance or 1e-6 * size
        whole = kernel if signal is None else ScaleKernel(signal, kernel)
        return Space.of(whole, signal is not None, float(noise), float(self.search_factor), tuple(self.fixed))

    def _prior_mean(self, F: Matrix, y: Vector, s: Vector) -> Mean:
        offset = float(s @ y / s.sum()) if self.mean == "average" else 0.0
        return Mean(self.mean, offset, np.asarray(s @ F / s.sum()))

    def _features(self, X: Matrix) -> Matrix:
        column = self._column_of("noise_column")
        if column is None:
            return X
        if X.shape[1] < 2:
            text = "noise_column leaves no feature"
            raise InvalidParameter(text, [Issue("/params/noise_column", "value_error", text)])
        return np.ascontiguousarray(np.delete(X, column, axis=1))

    def _known_noise(self, X: Matrix) -> Vector:
        column = self._column_of("noise_column")
        if column is None:
            return np.zeros(len(X))
        known = X[:, column]
        if (known < 0).any():
            row = int(np.argmax(known < 0))
            text = f"row {row}: a noise variance is not negative, column {listed([column])} has {known[row]:g}"
            raise InvalidData(text, [Issue("/params/noise_column", "negative", text)])
        return known.copy()

    def _predict(self, X: Matrix) -> Vector:
        return self.surface_.at(self._features(X))

    def _posterior(self, X: Matrix) -> Distribution:
        mean, latent = self.surface_.marginal(self._features(X))
        return Normal(mean, np.sqrt(latent + self.noise_variance_ + self._known_noise(X)), np.sqrt(latent))

    def _joint_posterior(self, X: Matrix) -> Distribution:
        mean, C = self.surface_.joint(self._features(X))
        C[np.diag_indices_from(C)] += self.noise_variance_ + self._known_noise(X)
        return MultivariateNormal(mean[None], C[None])

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, Any]:
        return gp_report.draws(*self.surface_.joint(self.surface_.rows), n, rng), None

    def _finish(self, X: Any) -> None:
        F = self._features(np.asarray(X, dtype=np.float64))
        at = np.unique(np.vstack([F, self.surface_.rows]), axis=0, return_index=True, return_inverse=True)
        self.sampled_rows_ = at[1][at[2].ravel()[len(F) :]]

    def draw(self, X: Any, n: int = 1, *, prior: bool = False, random_state: int = 0) -> Matrix:
        """(n, rows of X) joint draws of the function, from the posterior or (without the flat mean) from the prior."""
        F = self._features(check_query(self, X))
        mean, C = (np.full(len(F), self.surface_.mean.offset), self.kernel_(F)) if prior else self.surface_.joint(F)
        return gp_report.draws(mean, C, n, generator(random_state))

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        F, mean = self._features(X), self.surface_.mean
        task = Task(F, y - mean.offset, self._known_noise(X), s, mean.basis(F))
        return gp_report.diagnose(self, task)


def _bytes(n: int) -> float:
    """Of exact inference on n rows."""
    return MATRICES * 8.0 * n * n + 1e6
