"""Tukey's biweight regression."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import lstsq

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear import residual_report, robust_report
from ml_core.linear.residual_regression import ResidualRegression
from ml_core.linear.robust_scale import Scaled, check_width, mad, scaled_fit
from ml_core.linear.standard_design import StandardDesign
from ml_core.losses.huber import Huber
from ml_core.losses.tukey import Tukey
from ml_core.params import Intercept, MaxIter, Seed, WeightKind
from ml_core.registry import algorithm
from ml_core.rng import generator

DIFFERENT = 1e-6


@algorithm("tukey_biweight_regression")
class TukeyBiweightRegression(ResidualRegression):
    """Least squares for small residuals and no influence at all for large ones, which are named as outliers.

    min over w, b of  Σᵢ sᵢ T(yᵢ - xᵢᵀw - b), T(r) = c²/6 (1 - (1 - (r/c)²)³) for |r| ≤ c and c²/6 beyond. Reweighted
    least squares with weights (1 - (r/c)²)² or 0, then Newton's method; O(n d²) a step. The sum is not convex and has
    several minima as a rule: the search starts from least absolute deviations, from Huber's fit, from least squares and
    from `n_starts` lines through rows drawn at random, and the lowest is taken; the table `starts` tells all of them.

    c = `c` · scale. `mad` takes the scale, median |r|/0.6745, from the fit itself, found in turn (minima are compared
    at the width that the first start leads to); `start` keeps that of least absolute deviations; `none` takes c in
    target units. Weights that are exactly 0 mark outliers. Standard errors as in huber_regression, asymptotic around
    this minimum. `weight_kind` changes these alone.

    References
    ----------
    Beaton, Tukey (1974), The fitting of power series, meaning polynomials, Technometrics 16.
    Maronna, Martin, Yohai, Salibián-Barrera (2019), Robust Statistics, 2nd ed., chapter 5.
    """

    complexity = "O(n d²) a step, some ten steps for each start"

    scale_: Annotated[float, "scale in use, target units; 1 without one"]
    c_: Annotated[float, "residual from which on a row has no influence, target units"]
    starts_: Annotated[list[list[float]], "by start: objective at the common width, and scale"]

    def __init__(
        self,
        *,
        c: Annotated[float, Field(gt=0, le=1e90, description="Width in units of the scale.")] = 4.685,
        scale: Annotated[
            Literal["mad", "start", "none"],
            Field(description="Scale of the fit's own residuals, of least absolute deviations, or target units."),
        ] = "mad",
        n_starts: Annotated[int, Field(ge=0, le=10_000, description="Random starts beside the three others.")] = 0,
        fit_intercept: Intercept = True,
        weight_kind: WeightKind = "frequency",
        max_iter: Annotated[MaxIter, Field(description="Most steps for one scale.")] = 1000,
        random_state: Seed = 0,
    ) -> None:
        self.c = c
        self.scale = scale
        self.n_starts = n_starts
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        D = StandardDesign.of(X, y, s, self.fit_intercept)
        check_width("c", self.c, D.size if self.scale == "none" else 1.0)
        begin = self._starts(D, s)
        width = self._width(D, s, begin[0])
        found = []
        for i, w in enumerate(begin):
            progress.tick(i, len(begin), "starts")
            found.append(self._search(D, s, w, width))
        common = self._at(found[0].scale, width)
        values = [_value(D, s, f.w, common) for f in found]
        best = int(np.argmin(values))
        least, answer = values[best], found[best]
        self._keep(D, answer.w)
        self.n_iter_, self.converged_, self.trace_ = max(1, answer.n_iter), answer.converged, answer.trace
        self.scale_ = 1.0 if self.scale == "none" else answer.scale * D.size
        self.c_ = self._at(answer.scale, width) * D.size
        self.starts_ = [[v * D.size**2, f.scale * D.size] for v, f in zip(values, found, strict=True)]
        self._say(X, y, s, D, answer, float(np.ptp(values)) > DIFFERENT * (abs(least) + DIFFERENT))

    def _say(self, X: Matrix, y: Vector, s: Vector, D: StandardDesign, answer: Scaled, several: bool) -> None:
        self._remark(D, False)
        self.unique_ = not several
        if several:
            self._note("local_minima", "the starts led to different minima; the lowest of them was taken, a lower one "
                       "may exist", "look at the table of starts, and raise n_starts")  # fmt: skip
        if self.scale != "none" and answer.scale == 0:
            self._note("scale_is_zero", "at least half the rows lie on one line, so the scale of the rest is 0; all "
                       "other rows are outliers", "give c in target units with scale none")  # fmt: skip
            return
        rejected = float(s[np.abs(y - self._predict(X)) >= self.c_].sum() / s.sum())
        if rejected > 0.5:
            self._note("most_rows_rejected", f"{rejected:.0%} of the rows have weight 0",
                       "raise c: the line describes a minority of the rows")  # fmt: skip

    def _width(self, D: StandardDesign, s: Vector, first: Vector) -> float:
        """c in standard units where it is fixed, in units of the scale where that is found in turn."""
        if self.scale == "none":
            return self.c / D.size
        return float(self.c) * (mad(D.t - D.A @ first, s) if self.scale == "start" else 1.0)

    def _at(self, scale: float, width: float) -> float:
        return width * scale if self.scale == "mad" else width

    def _starts(self, D: StandardDesign, s: Vector) -> list[Vector]:
        """Least absolute deviations, Huber, least squares, and lines through as many random rows as it takes."""
        n, p = D.A.shape
        none, absolute = np.zeros(p), robust_report.least_absolute(D, s)
        huber = scaled_fit(D.A, D.t, s, Huber, none, absolute, width=1.345, scale="mad", max_iter=self.max_iter).w
        root, rng = np.sqrt(s), generator(self.random_state)
        squares = lstsq(root[:, None] * D.A, root * D.t, check_finite=False)[0] if p else none
        drawn = [rng.choice(n, size=min(n, p), replace=False) for _ in range(self.n_starts)]
        return [absolute, huber, squares, *(lstsq(D.A[rows], D.t[rows], check_finite=False)[0] for rows in drawn)]

    def _search(self, D: StandardDesign, s: Vector, w: Vector, width: float) -> Scaled:
        none = np.zeros(D.A.shape[1])
        if self.scale == "mad":
            return scaled_fit(D.A, D.t, s, Tukey, none, w, width=width, scale="mad", max_iter=self.max_iter)
        if width <= 1e-12:
            return Scaled(w, 0.0, 0, True, [])
        found = scaled_fit(D.A, D.t, s, Tukey, none, w, width=width, scale="none", max_iter=self.max_iter)
        size = 1.0 / D.size if self.scale == "none" else width / float(self.c)
        return Scaled(found.w, size, found.n_iter, found.converged, found.trace)

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        D = StandardDesign.of(X, y, s, self.fit_intercept)
        out, r = residual_report.report(self, D, X, y, s), y - self._predict(X)
        out.summary |= {"scale": self.scale_, "c": self.c_}
        names = ["least_absolute_deviations", "huber", "least_squares", *map(str, range(self.n_starts))]
        rows = [[name, *row] for name, row in zip(names, self.starts_, strict=True)]
        out.tables["starts"] = Table(("start", "objective", "scale"), rows)
        if self.c_ <= 1e-12 * D.size:
            robust_report.exact(self, D, X, y, s, out)
            return out
        loss = Tukey(self.c_ / D.size)
        w = D.pack(self.coef_, self.offset_)
        robust_report.weights(self, out, X, r, s, loss.omega(r / D.size))
        robust_report.stationary(out, D, s, loss, np.zeros(len(w)), w)
        out.summary["objective"] = D.size**2 * float(s @ loss.rho(r / D.size))
        out.certificates.append(_curves_up(D, s, loss, w))
        if self.scale == "mad":
            robust_report.scale_repeats(self, out, D, s, w, float(self.c))
        robust_report.inference(self, out, D, s, r / D.size, loss, False)
        return out


def _value(D: StandardDesign, s: Vector, w: Vector, c: float) -> float:
    """The objective at width c; at width 0 the weight off the line."""
    r = D.t - D.A @ w
    return float(s @ Tukey(c).rho(r)) if c > 1e-12 else float(s[np.abs(r) > 1e-9].sum())


def _curves_up(D: StandardDesign, s: Vector, loss: Tukey, w: Vector) -> Certificate:
    """The least eigenvalue of the Hessian over the largest of AᵀSA: at least 0 at a minimum, if only a local one."""
    H = (D.A.T * (s * loss.bend(D.A @ w - D.t))) @ D.A
    size = np.linalg.eigvalsh((D.A.T * s) @ D.A)[-1] if len(w) else 1.0
    least = float(np.linalg.eigvalsh(H)[0] / size) if len(w) else 0.0
    return Certificate("least_curvature", least, -1e-8, "Hessian's least eigenvalue, relative: ≥ 0 at a local minimum",
                       at_least=True)  # fmt: skip
