"""Regressions whose loss has kinks: the rows in the terms of the interior point, and its certificate."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear.residual_regression import ResidualRegression
from ml_core.linear.standard_design import StandardDesign
from ml_core.solvers.interior_point import Kinked, interior_point
from ml_core.solvers.optimal_face import settle

SHOWN = 200


class KinkedRegression(ResidualRegression):
    """Needs `_slopes()` → (up, down), the cost per unit of a positive and negative residual beyond `epsilon_`."""

    epsilon_: float
    objective_scale: str
    alpha_l1: float
    alpha_l2: float

    def _slopes(self) -> tuple[float, float]:
        return 1.0, 1.0

    def _problem(self, X: Matrix, y: Vector, s: Vector) -> tuple[StandardDesign, Kinked, float]:
        """The design, the problem in its units, and what its objective is to be multiplied with."""
        penalised = self.alpha_l1 > 0 or self.alpha_l2 > 0
        D = StandardDesign.of(X, y, s, self.fit_intercept, merge=not penalised)
        unit, times = float(s.mean()), float(s.sum()) if self.objective_scale == "mean" else 1.0
        D = D.tempered(self.alpha_l1 * times / unit, self.alpha_l2 * times * D.size / unit) if penalised else D
        up, down = self._slopes()
        eps = np.full(len(y), self.epsilon_ / D.size)
        P = Kinked(D.A, D.t, up * s / unit, down * s / unit, eps, D.penalty(self.alpha_l2 * times * D.size / unit))
        if self.alpha_l1 > 0:
            P = _with_absolute(P, D, self.alpha_l1 * times / unit)
        return D, P, unit * D.size

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        self._set_epsilon(y, s)
        D, P, _ = self._problem(X, y, s)
        if not P.A.shape[1]:
            self._keep(D, np.zeros(0))
            self.unique_, self.n_iter_, self.converged_, self.trace_ = True, 1, True, []
            return
        found = interior_point(P)
        face = settle(P, found, np.concatenate([s, np.zeros(len(P.y) - len(s))]))
        self._keep(D, face.w)
        self.unique_, self.n_iter_, self.converged_ = face.dimension == 0, max(1, found.n_iter), found.converged
        self.trace_ = found.trace
        self._remark(D, self.alpha_l1 > 0 or self.alpha_l2 > 0)
        if face.dimension:
            rule = "the middle of the segment they form" if face.dimension == 1 else "that with the least squares"
            self._note("not_unique", f"the minimisers form a set of dimension {face.dimension}; {rule} was taken",
                       "compare objectives, not coefficients; a small alpha_l2 makes the answer unique")  # fmt: skip

    def _set_epsilon(self, y: Vector, s: Vector) -> None:
        self.epsilon_ = 0.0

    def _kinks(self, X: Matrix, y: Vector, s: Vector, out: Diagnostics) -> None:
        """The gap to a lower bound from multipliers found anew, and the rows with multipliers inside their bounds."""
        D, P, unit = self._problem(X, y, s)
        w = D.pack(self.coef_, self.offset_)
        sides = np.where(P.y > P.eps, P.up, np.where(P.y < -P.eps, -P.down, 0.0))
        d, value = interior_point(P).d if len(w) else sides, P.value(w)
        size = value + 1e-6 * P.value(np.zeros(len(w)))
        gap = (value - P.bound(d, w)) / size if size > 0 else 0.0
        out.summary["objective"], out.summary["dual_bound"] = value * unit, P.bound(d, w) * unit
        lost = float(np.maximum(P.up, P.down)[: len(y)] @ D.rounding(w)) / size if size > 0 else 0.0
        text = "objective above a lower bound of all, relative"
        out.certificates.append(Certificate("duality_gap", gap, 1e-8 + lost, text))
        r = y - self._predict(X)
        near = np.flatnonzero(np.abs(np.abs(r) - self.epsilon_) <= 1e-9 * (D.size + np.abs(y).max()))
        out.summary["active_rows"] = len(near)
        rows = [[int(i), float(r[i]), float(d[i] * unit / D.size)] for i in near[:SHOWN]]
        out.tables["active_rows"] = Table(("row", "residual", "multiplier"), rows)


def _with_absolute(P: Kinked, D: StandardDesign, alpha: float) -> Kinked:
    """The problem with rows that cost alpha |wⱼ|, w in the units of X (times the target's)."""
    first, each = int(D.intercept), alpha * D.lengths()
    rows = np.eye(P.A.shape[1])[first:]
    none = np.zeros(len(rows))
    both = [np.concatenate([v, each]) for v in (P.up, P.down)]
    return Kinked(np.vstack([P.A, rows]), np.concatenate([P.y, none]), both[0], both[1],
                  np.concatenate([P.eps, none]), P.mu)  # fmt: skip
