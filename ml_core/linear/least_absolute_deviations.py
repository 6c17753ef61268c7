"""Least absolute deviations, and other quantiles."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Diagnostics
from ml_core.linear import residual_report
from ml_core.linear.kinked_regression import KinkedRegression
from ml_core.linear.parameters import PenaltyL1, PenaltyL2
from ml_core.params import FreeIntercept, ObjectiveScale, WeightKind
from ml_core.registry import algorithm

EXACT = 1e-12
ON_LINE = 1e-9
"""Share of the targets' size within which a residual is 0."""


@algorithm("least_absolute_deviations")
class LeastAbsoluteDeviations(KinkedRegression):
    """The line with the least sum of absolute residuals: a conditional median, which outliers in y hardly move.

    min over w, b of  Σᵢ sᵢ |yᵢ - xᵢᵀw - b| + alpha_l1 ‖w‖₁ + ½ alpha_l2 ‖w‖²; with another `quantile` τ positive
    residuals count 2τ and negative ones 2(1 - τ), and the line estimates that conditional quantile. Convex; a linear
    program (quadratic with alpha_l2), solved by an interior point with some 20 steps of O(n d²) and settled on the rows
    that it passes through, at least as many as the rank. Its dual, max yᵀm for |mᵢ| ≤ sᵢ and Xᵀm = 0, bounds what any
    line can reach. The minimiser need not be unique: then the notice `not_unique` tells the rule of choice. It is the
    maximum of a likelihood with Laplace noise of scale `laplace_scale` = Σ s|r|/Σ s.

    Standard errors (without penalties) are asymptotic for independent errors of one density: τ(1 - τ)/f(0)²
    (XᵀSX)⁻¹ with f(0) by a kernel of bandwidth after Hall and Sheather. `weight_kind` changes these alone: weights
    count rows (`frequency`), or are relative precisions that count as one row on average.

    References
    ----------
    Koenker, Bassett (1978), Regression quantiles, Econometrica 46(1).
    Hall, Sheather (1988), On the distribution of a studentized quantile, JRSS B 50(3).
    Koenker, Machado (1999), Goodness of fit and related inference processes for quantile regression, JASA 94.
    """

    complexity = "O(n d²) a step, some 20 steps"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "robust")

    laplace_scale_: Annotated[float, "mean absolute residual, target units"]

    def __init__(
        self,
        *,
        quantile: Annotated[float, Field(gt=0, lt=1, description="Conditional quantile; 0.5 is the median.")] = 0.5,
        alpha_l1: PenaltyL1 = 0.0,
        alpha_l2: PenaltyL2 = 0.0,
        objective_scale: ObjectiveScale = "sum",
        fit_intercept: FreeIntercept = True,
        weight_kind: WeightKind = "frequency",
    ) -> None:
        self.quantile = quantile
        self.alpha_l1 = alpha_l1
        self.alpha_l2 = alpha_l2
        self.objective_scale = objective_scale
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind

    def _slopes(self) -> tuple[float, float]:
        return 2 * self.quantile, 2 * (1 - self.quantile)

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        super()._fit(X, y, s)
        self.laplace_scale_ = float(s @ np.abs(y - self._predict(X)) / s.sum())

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        D = self._problem(X, y, s)[0]
        out, r = residual_report.report(self, D, X, y, s), y - self._predict(X)
        self._kinks(X, y, s, out)
        up, down = self._slopes()
        cost = float(s @ np.where(r > 0, up * r, -down * r))
        base = _of_constant(y, s, up, down) if self.fit_intercept else float(s @ np.where(y > 0, up * y, -down * y))
        n, b = float(residual_report.counts(self, s).sum()), self.laplace_scale_
        out.summary |= {
            "sum_of_deviations": cost, "r1": 1 - cost / base if base > 0 else None, "laplace_scale": b,
            "log_likelihood": -n * float(np.log(2 * b) + 1) if b > 0 and self.quantile == 0.5 else None,
            "share_below": float(s[r < -ON_LINE * (np.abs(y).max() + b)].sum() / s.sum()),
        }  # fmt: skip
        penalised = self.alpha_l1 > 0 or self.alpha_l2 > 0
        why = "penalised estimates are biased: classical errors have no meaning" if penalised else ""
        exact = n <= self.rank_ or np.abs(r).max() <= EXACT * (np.abs(y).max() + b)
        known = not penalised and not exact
        density = _density(r, residual_report.counts(self, s), self.quantile) if known else None
        if density is None and not why:
            why = "the density of the residuals at 0 cannot be estimated"
        factor = None if density is None else self.quantile * (1 - self.quantile) / density**2
        residual_report.put_coefficients(self, out, D, s, factor, why)
        return out


def _of_constant(y: Vector, s: Vector, up: float, down: float) -> float:
    """The cost of the best constant, a weighted quantile."""
    order = np.argsort(y, kind="stable")
    share = np.cumsum(s[order]) / s.sum()
    c = y[order][min(int(np.searchsorted(share, up / (up + down))), len(y) - 1)]
    return float(s @ np.where(y > c, up * (y - c), down * (c - y)))


def _density(r: Vector, c: Vector, tau: float) -> float | None:
    """f(0) of residuals that count c, by an Epanechnikov kernel; None where they do not spread."""
    n = float(c.sum())
    z, top = float(ndtri(tau)), float(ndtri(0.975)) ** (2 / 3)
    phi = np.exp(-(z**2)) / (2 * np.pi)
    h = n ** (-1 / 3) * top * (1.5 * phi / (2 * z**2 + 1)) ** (1 / 3)
    low, high = max(tau - h, 0.5 / n), min(tau + h, 1 - 0.5 / n)
    mean = float(c @ r) / n
    spread = min(float(np.sqrt(c @ (r - mean) ** 2 / n)), (_rank(r, c, 0.75) - _rank(r, c, 0.25)) / 1.34)
    width = spread * float(ndtri(high) - ndtri(low))
    if not width > 0:
        return None
    u = r / width
    density = float(c @ np.where(np.abs(u) <= 1, 0.75 * (1 - u**2), 0.0)) / (n * width)
    return density if density > 0 else None


def _rank(r: Vector, c: Vector, p: float) -> float:
    """The quantile of values that stand c times each, linear between ranks from 0 to n - 1."""
    order = np.argsort(r, kind="stable")
    last = np.cumsum(c[order])
    at = p * (last[-1] - 1)
    low = int(np.searchsorted(last, np.floor(at), side="right"))
    high = int(np.searchsorted(last, np.floor(at) + 1, side="right"))
    ranked, top = r[order], len(r) - 1
    a, b = float(ranked[min(low, top)]), float(ranked[min(high, top)])
    return a + (at - float(np.floor(at))) * (b - a)
