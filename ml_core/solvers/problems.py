"""Problems for the optimisers as JSON: {"problem": "quadratic", "A": …, "b": …} and others; never code."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ml_core.arrays import Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.losses.base import Smooth
from ml_core.losses.every import LossSpec, loss_of
from ml_core.params import RealMatrix, RealVector
from ml_core.solvers.objectives import MeanLoss, Objective, QuadraticForm, Rosenbrock

MOST = 1000
LARGEST = 1e90


class Problem(BaseModel):
    """A description that `objective` turns into functions."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
    )

    def objective(self) -> Objective:
        """The objective; InvalidParameter where parts do not fit."""
        raise TypeError("a problem is one of its kinds")


class QuadraticProblem(Problem):
    """½ wᵀA w - bᵀw."""

    problem: Literal["quadratic"]
    A: Annotated[RealMatrix, Field(description="(d, d) symmetric.")]
    b: Annotated[RealVector, Field(description="(d,)")]

    def objective(self) -> QuadraticForm:
        """With the symmetric part of A."""
        d = len(self.b)
        if self.A.shape != (d, d) or not d:
            raise _wrong("A", "shape", f"A has the shape {self.A.shape}, b has {d} entries; A must be d × d")
        if np.abs(self.A - self.A.T).max() > 1e-10 * np.abs(self.A).max():
            raise _wrong("A", "symmetric", "A must be symmetric; (A + Aᵀ)/2 is the same function")
        _bounded(A=self.A, b=self.b)
        return QuadraticForm(0.5 * (self.A + self.A.T), self.b)


class RosenbrockProblem(Problem):
    """Σ 100 (wⱼ₊₁ - wⱼ²)² + (1 - wⱼ)², which is not convex."""

    problem: Literal["rosenbrock"]
    size: Annotated[int, Field(ge=2, le=MOST, description="Unknowns d.")] = 2

    def objective(self) -> Rosenbrock:
        """Of that size."""
        return Rosenbrock(self.size)


class LossProblem(Problem):
    """Mean loss of a linear predictor plus ½ alpha ‖slopes‖²: least squares, ridge, logistic, softmax, Huber."""

    problem: Literal["mean_loss"]
    loss: Annotated[LossSpec, Field(description="A differentiable loss, by name or with parameters.")] = "squared"
    X: Annotated[RealMatrix, Field(description="(n, d) rows.")]
    y: Annotated[RealVector, Field(description="(n,) targets as the loss takes them: numbers, 0 and 1, 0 … K-1, ±1.")]
    sample_weight: Annotated[RealVector | None, Field(description="(n,) non-negative weights.")] = None
    alpha: Annotated[float, Field(ge=0, description="Strength of the L2 penalty.")] = 0.0
    fit_intercept: Annotated[bool, Field(description="Add a free intercept, the last unknown (of each score).")] = True

    def objective(self) -> MeanLoss:
        """With a column of ones for the intercept."""
        loss: Any = loss_of(self.loss)
        spec = loss.to_json()
        if not isinstance(loss, Smooth):
            raise _wrong("loss", "smooth", f"{spec['loss']} is not differentiable; choose a "
                         "differentiable loss, such as huber, squared_hinge or logistic")  # fmt: skip
        n = len(self.X)
        s = np.ones(n) if self.sample_weight is None else self.sample_weight
        if not n or len(self.y) != n or len(s) != n:
            raise _wrong("y", "length", f"X has {n} rows, y {len(self.y)}, sample_weight {len(s)}; they must be equal")
        if (s < 0).any() or not s.any():
            raise _wrong("sample_weight", "weights", "sample_weight must be non-negative and not all 0")
        bad = np.flatnonzero(~loss.domain.contains(self.y))
        if len(bad):
            raise _wrong("y", "domain", f"y[{bad[0]}] = {self.y[bad[0]]:g} is no target of {spec['loss']} (from "
                         f"{loss.domain.low:g} to {loss.domain.high:g})")  # fmt: skip
        _bounded(X=self.X, y=self.y, sample_weight=s, alpha=np.array([self.alpha]))
        X = np.hstack([self.X, np.ones((n, 1))]) if self.fit_intercept else self.X
        return MeanLoss(loss, np.ascontiguousarray(X), self.y, s, self.alpha, self.fit_intercept)


def _bounded(**values: Vector) -> None:
    for name, value in values.items():
        if np.abs(value).max(initial=0.0) > LARGEST:
            raise _wrong(name, "range", f"{name} holds a number beyond {LARGEST:g}; use another unit")


def _wrong(name: str, code: str, message: str) -> InvalidParameter:
    return InvalidParameter(message, [Issue(f"/problem/{name}", code, message)])


NamedProblem = Annotated[QuadraticProblem | RosenbrockProblem | LossProblem, Field(discriminator="problem")]


def start_of(start: Vector | None, objective: Objective) -> Vector:
    """The starting point: 0 unless given."""
    w = np.zeros(objective.size) if start is None else start
    if len(w) != objective.size:
        message = f"start has {len(w)} entries, the problem {objective.size} unknowns"
        raise InvalidParameter(message, [Issue("/start", "length", message)])
    with np.errstate(over="ignore", invalid="ignore"):
        f, g = objective.value_gradient(w)
    if not np.isfinite(f) or not np.isfinite(g).all():
        message = "the objective overflows at the start; start nearer to 0, or scale the columns"
        raise InvalidParameter(message, [Issue("/start", "overflow", message)])
    return w
