"""Least mean squares, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import lstsq

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import Updates, Weighted
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.errors import InvalidParameter, Issue
from ml_core.numerics.column_moments import column_moments
from ml_core.params import Intercept, Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.base import spent
from ml_core.solvers.lms_epoch import lms_epoch

GROWTH = 10.0
NEVER = 1e300


@dataclass(frozen=True)
class Run:
    """Weights at the end and on average, rows seen, mean squared error before each change by epoch."""

    w: Vector
    mean: Vector
    seen: int
    losses: list[float]


@algorithm("least_mean_squares")
class LeastMeanSquares(Updates, Weighted, Regressor):
    """Linear regression that learns from one row after another and forgets nothing it needs: w, and nothing else.

    w ← w - aₜ sₜ (wᵀφₜ - yₜ) φₜ with φ = (1, x): the slope of the squared error of a single row. Steps aₜ =
    step/(1 + t/tau)^power with power in (½, 1] satisfy Σ a = ∞, Σ a² < ∞ and converge to least squares; a constant step
    ends in a neighbourhood of it. A step is safe below 2/(s‖φ‖²) of every row, which `normalized` steps
    (a/‖φ‖², 0 < step < 2) mind by themselves. O(d) a row; `epochs` passes, each in a new order. `update` takes up
    where the last row ended, in one pass over the new rows as they come.

    An epoch whose error is ten times that of w = 0 has diverged: the fit then fails and says which step is safe. With
    `standardize` the columns are centred and scaled as the rows of `fit` tell, so that their units do not matter.
    Weights multiply steps. `average` answers with the mean of the last pass, which cancels most of its noise.

    References
    ----------
    Widrow, Hoff (1960), Adaptive switching circuits, IRE WESCON Convention Record 4.
    Robbins, Monro (1951), A stochastic approximation method, Annals of Mathematical Statistics 22.
    Polyak, Juditsky (1992), Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30(4).
    """

    largest = SQUARES
    complexity = "O(n d) an epoch"
    tags = ("parametric", "direct", "low_capacity", "linear", "sequential")

    coef_: Annotated[Vector, "(d,) slopes, target units per feature unit"]
    intercept_: Annotated[float, "value at X = 0"]
    center_: Annotated[Vector, "(d,) subtracted from the columns"]
    scale_: Annotated[Vector, "(d,) what the rest is divided by"]
    state_: Annotated[Vector, "(d [+ 1],) weights after the last row, of (1, (x - center)/scale)"]
    offset_: Annotated[float, "prediction at center_"]
    step_: Annotated[float, "first step in use"]
    tau_: Annotated[float, "rows after which steps begin to shrink"]
    seen_: Annotated[int, "rows learned from, epochs counted"]
    losses_: Annotated[list[float], "by pass: mean squared error of each row before it was learned from"]

    def __init__(
        self,
        *,
        step: Annotated[
            float | None, Field(gt=0, le=1e90, description="First step; by default the largest that no row overshoots.")
        ] = None,
        schedule: Annotated[
            Literal["power", "constant"], Field(description="Shrinking steps, or always the first.")
        ] = "power",
        power: Annotated[float, Field(gt=0.5, le=1, description="How fast steps shrink.")] = 0.75,
        tau: Annotated[
            float | None, Field(gt=0, le=1e90, description="Rows before they shrink; ten passes by default.")
        ] = None,
        normalized: Annotated[bool, Field(description="Divide each step by the squared length of its row.")] = False,
        epochs: Annotated[int, Field(ge=1, le=1_000_000, description="Passes of fit over the rows.")] = 50,
        shuffle: Annotated[bool, Field(description="A new order each epoch; else as the rows come.")] = True,
        average: Annotated[bool, Field(description="Answer with the mean weights of the last pass.")] = True,
        standardize: Annotated[bool, Field(description="Centre and scale the columns by the rows of fit.")] = True,
        fit_intercept: Intercept = True,
        random_state: Seed = 0,
    ) -> None:
        self.step = step
        self.schedule = schedule
        self.power = power
        self.tau = tau
        self.normalized = normalized
        self.epochs = epochs
        self.shuffle = shuffle
        self.average = average
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        d = X.shape[1]
        self.center_, self.scale_ = np.zeros(d), np.ones(d)
        if self.standardize:
            mean, sd, constant = column_moments(X, s)
            self.center_ = mean if self.fit_intercept else self.center_
            self.scale_ = np.where(constant, np.maximum(np.abs(mean), 1.0), sd)
        M = self._design(X)
        size = float((s * (M * M).sum(axis=1)).max())
        self.step_ = (1.0 if self.normalized else 1.0 / max(size, 1e-300)) if self.step is None else float(self.step)
        self.tau_ = 10.0 * len(X) if self.tau is None else float(self.tau)
        self._keep(self._run(M, y, s, np.zeros(M.shape[1]), 0, self.epochs), [])
        self._caution(M, s)

    def _update(self, X: Matrix, y: Vector, s: Vector) -> None:
        M = self._design(X)
        run = self._run(M, y, s, self.state_.copy(), self.seen_, 1)
        self._keep(run, self.losses_)
        self._caution(M, s)

    def _caution(self, M: Matrix, s: Vector) -> None:
        bound = self._bound(M, s)
        if self.step_ >= bound and not any(n.code == "step_too_large" for n in self.notices_):
            self._note("step_too_large", f"steps from {bound:.3g} on overshoot a row, the first was {self.step_:.3g}",
                       "lower step, or set normalized or standardize")  # fmt: skip

    def _bound(self, M: Matrix, s: Vector) -> float:
        """Steps below it move no row's prediction past twice its error."""
        each = s if self.normalized else s * (M * M).sum(axis=1)
        return 2.0 / max(float(each.max()), 1e-300)

    def _design(self, X: Matrix) -> Matrix:
        Z = (X - self.center_) / self.scale_
        return np.ascontiguousarray(np.hstack([np.ones((len(Z), 1)), Z]) if self.fit_intercept else Z)

    def _run(self, M: Matrix, y: Vector, s: Vector, w: Vector, seen: int, epochs: int) -> Run:
        n, mean, losses = len(M), np.zeros(M.shape[1]), []
        tau, power = (NEVER, 1.0) if self.schedule == "constant" else (self.tau_, float(self.power))
        limit = GROWTH * max(float(s @ y**2 / s.sum()), float(s @ (y - M @ w) ** 2 / s.sum()), 1e-300)
        for epoch in range(epochs):
            mixed = self.shuffle and epochs > 1
            order = generator(self.random_state, epoch).permutation(n) if mixed else np.arange(n)
            total = lms_epoch(M, y, s, w, mean, order.astype(np.int64), seen, self.step_, tau, power, self.normalized)
            seen += n
            losses.append(total / float(s.sum()))
            if not losses[-1] <= limit or not np.isfinite(w).all():
                text = (f"diverged in pass {epoch + 1}: the error is {losses[-1]:.3g}, the step {self.step_:.3g}; "
                        f"steps below {self._bound(M, s):.3g} are safe on these rows, or standardize or normalize")
                raise InvalidParameter(text, [Issue("/params/step", "diverged", text)])
            progress.tick(epoch + 1, epochs, "epochs", objective=losses[-1])
            if spent(epoch + 1, epochs):
                break
        return Run(w, mean, seen, losses)

    def _keep(self, run: Run, before: list[float]) -> None:
        self.state_, self.seen_, self.losses_ = run.w, run.seen, before + run.losses
        v, first = run.mean if self.average else run.w, int(self.fit_intercept)
        self.coef_ = v[first:] / self.scale_
        self.offset_ = float(v[0]) if first else 0.0
        self.intercept_ = self.offset_ - float(self.center_ @ self.coef_)

    def _predict(self, X: Matrix) -> Vector:
        return np.asarray((X - self.center_) @ self.coef_ + self.offset_)

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        M, r = self._design(X), y - self._predict(X)
        root = np.sqrt(s / s.sum())
        best = y - M @ lstsq(root[:, None] * M, root * y, check_finite=False)[0]
        mean = float(s @ y / s.sum()) if self.fit_intercept else 0.0
        mse, least, spread = (float((root * v) @ (root * v)) for v in (r, best, y - mean))
        last = self.step_
        if self.schedule == "power":
            last /= (1 + self.seen_ / self.tau_) ** self.power
        out = Diagnostics(summary={
            "rows": len(X), "observations": float(s.sum()), "mse": mse, "least_squares_mse": least,
            "r2": 1 - mse / spread if spread > 0 else None, "first_step": self.step_, "last_step": last,
            "step_bound": self._bound(M, s), "rows_seen": self.seen_,
        })  # fmt: skip
        out.certificates = [Certificate("last_step", last / self._bound(M, s), 1.0,
                                        "last step over the bound of safe ones")]  # fmt: skip
        if self.seen_ <= self.epochs * len(X):
            excess = (mse - least) / spread if spread > 0 else 0.0
            out.certificates.append(Certificate("excess_error", excess, 0.05, "error above that of least squares, as a "
                                                "share of the variance"))  # fmt: skip
        else:
            out.warnings.append(Notice("rows_learned_before", "rows learned before are not at hand: these alone say "
                                       "nothing of the distance to least squares", "diagnose all rows"))  # fmt: skip
        terms = ["intercept", *range(len(self.coef_))][0 if self.fit_intercept else 1 :]
        values = [self.intercept_, *self.coef_.tolist()][0 if self.fit_intercept else 1 :]
        why = "iterates keep the noise of their steps: no classical errors"
        rows = [[t, v, None, why] for t, v in zip(terms, values, strict=True)]
        out.tables["coefficients"] = Table(("term", "estimate", "standard_error", "reason"), rows)
        out.traces["loss"] = list(self.losses_)
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The passes, and least squares for the certificate."""
        return Cost(flops=6.0 * n * d * self.epochs + 2.0 * n * d * d, memory_bytes=24.0 * n * (d + 1))
