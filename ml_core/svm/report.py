"""What a machine's answer says of itself, recomputed from its coefficients and scores on the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Codes, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.numerics.stable import slacks
from ml_core.solvers.box_dual import levels
from ml_core.svm.duals import classification

EPS = float(np.finfo(float).eps)
MOST_ROWS = 1000
CASES = ("zero", "free", "bound")
COLUMNS = ("negative", "positive", "primal", "dual", "gap", "largest_violation", "support_vectors", "zero", "free",
           "bound", "misplaced", "margin", "intercept", "training_errors", "pairs", "converged")  # fmt: skip


@dataclass(frozen=True)
class Size:
    """The score b at the centre, ‖w‖² of the answer and of Σ αᵢyᵢφ(xᵢ), and the magnitudes a score adds up at most."""

    b: float
    square: float
    expanded: float
    terms: float


@dataclass(frozen=True)
class Evidence:
    """One machine over its training rows: signs, bounds, α, scores f and slacks (n,), and the figures made of them.

    `size` says what the scores and ‖w‖² are made of.
    """

    names: tuple[str, str]
    rows: Codes
    sign: Vector
    cap: Vector
    alpha: Vector
    f: Vector
    intercept: float
    tol: float
    size: Size

    @property
    def slack(self) -> Vector:
        """max(0, 1 - y f), without the rounding of rows below their bound."""
        return slacks(1.0 - self.sign * self.f, self.alpha < self.cap, 1.0 + self.size.terms)

    @property
    def primal(self) -> float:
        """½ ‖w‖² + Σ capᵢ ξᵢ."""
        return 0.5 * self.size.square + float(self.cap @ self.slack)

    @property
    def dual(self) -> float:
        """Σ α - ½ ‖w‖²."""
        return float(self.alpha.sum()) - 0.5 * self.size.expanded

    @property
    def case(self) -> Codes:
        """0: α = 0, 1: 0 < α < cap, 2: α = cap."""
        return np.where(self.alpha <= 0, 0, np.where(self.alpha < self.cap, 1, 2))

    def violation(self) -> float:
        """m - M of the dual, 0 where it is negative."""
        program = classification(self.sign, self.cap)
        beta = (self.alpha * self.sign)[None]
        found = levels(program, np.clip(beta, program.lo, program.hi), (self.sign - (self.f - self.size.b))[None])
        return max(0.0, found.violation)

    def misplaced(self) -> int:
        """Rows whose case contradicts yf beyond tol: 0 needs yf ≥ 1, free yf = 1, bound yf ≤ 1."""
        u, case, slack = self.sign * self.f - 1.0, self.case, self.tol + self.rounding
        return int(np.sum(((case < 2) & (u < -slack)) | ((case > 0) & (u > slack))))

    @property
    def rounding(self) -> float:
        """Rounding error of a score."""
        return 256 * EPS * (1.0 + self.size.terms)

    @property
    def allowed(self) -> float:
        """Largest gap of an answer whose optimality conditions hold up to tol."""
        return self.tol * float(self.cap.sum()) + self.rounding * float(self.cap.sum() + self.alpha.sum())

    @property
    def over(self) -> float:
        """How far α exceeds its bound, relative to the largest bound."""
        return float(np.max(self.alpha - self.cap)) / float(self.cap.max())

    def row(self, n_iter: int, converged: bool) -> list[object]:
        """The line of the table of machines."""
        counts = np.bincount(self.case, minlength=3).tolist()
        norm = np.sqrt(self.size.square)
        wrong = int(np.sum(np.where(self.f >= 0, 1.0, -1.0) != self.sign))
        return [*self.names, self.primal, self.dual, self.primal - self.dual, self.violation(), counts[1] + counts[2],
                *counts, self.misplaced(), float(1 / norm) if norm > 0 else None, self.intercept, wrong, n_iter,
                int(converged)]  # fmt: skip

    def support(self) -> list[list[object]]:
        """Support vectors, the largest α first: row, label sign, α, f, slack, case."""
        on = np.flatnonzero(self.alpha > 0)
        on = on[np.argsort(-self.alpha[on], kind="stable")]
        return [[*self.names, int(self.rows[i]), int(self.sign[i]), float(self.alpha[i]), float(self.f[i]),
                 float(self.slack[i]), CASES[self.case[i]]] for i in on[:MOST_ROWS]]  # fmt: skip


@dataclass(frozen=True)
class SquaredEvidence(Evidence):
    """Of a machine with squared slacks: α has no bound and equals 2 cap ξ."""

    @property
    def primal(self) -> float:
        """½ ‖w‖² + Σ capᵢ ξᵢ²."""
        return 0.5 * self.size.square + float(self.cap @ self.slack**2)

    @property
    def dual(self) -> float:
        """Σ α - ½ ‖w‖² - Σ αᵢ²/(4 capᵢ)."""
        return float(self.alpha.sum()) - 0.5 * self.size.expanded - 0.25 * float((self.alpha**2 / self.cap).sum())

    @property
    def case(self) -> Codes:
        """0: α = 0, 1: α > 0."""
        return (self.alpha > 0).astype(np.int64)

    @property
    def over(self) -> float:
        """There is no bound."""
        return 0.0

    def violation(self) -> float:
        """Largest |ξ - α/(2 cap)|."""
        return float(np.abs(self.slack - 0.5 * self.alpha / self.cap).max())

    def misplaced(self) -> int:
        """Rows whose slack contradicts their α beyond tol."""
        return int(np.sum(np.abs(self.slack - 0.5 * self.alpha / self.cap) > self.tol + self.rounding))


def certificates(found: list[Evidence]) -> list[Certificate]:
    """The worst machine decides."""
    worst = max(found, key=lambda e: (e.primal - e.dual) / e.allowed)
    size = max(worst.primal, EPS)
    return [
        Certificate("duality_gap", (worst.primal - worst.dual) / size, worst.allowed / size,
                    "primal less dual objective, relative to the primal; at most tol times the sum of the bounds"),
        Certificate("kkt_violation", max(e.violation() for e in found), max(e.tol + 2 * e.rounding for e in found),
                    "largest violation m - M of the optimality conditions, in units of the decision value"),
        Certificate("bounds", max(e.over for e in found), 4 * EPS,
                    "0 ≤ α ≤ bound, relative to the largest bound"),
        Certificate("balance", max(abs(float(e.alpha @ e.sign)) / max(float(e.alpha.sum()), EPS) for e in found),
                    1e-10, "Σ αᵢyᵢ = 0, relative to Σ α"),
    ]  # fmt: skip


def diagnostics(found: list[Evidence], steps: list[tuple[int, bool]]) -> Diagnostics:
    """Certificates, the table of machines and that of support vectors."""
    rows = [e.row(*s) for e, s in zip(found, steps, strict=True)]
    out = Diagnostics(certificates=certificates(found))
    out.tables["machines"] = Table(COLUMNS, rows)
    support = [line for e in found for line in e.support()]
    out.tables["support_vectors"] = Table(
        ("negative", "positive", "row", "sign", "alpha", "decision_value", "slack", "case"), support[:MOST_ROWS]
    )
    out.summary = {"machines": len(found), "primal": sum(e.primal for e in found), "dual": sum(e.dual for e in found)}
    out.summary["duality_gap"] = out.summary["primal"] - out.summary["dual"]  # type: ignore[operator]
    if len(found) == 1:
        out.summary |= dict(zip(COLUMNS[5:], rows[0][5:], strict=True))  # type: ignore[arg-type]
        out.summary["total_slack"] = float(found[0].slack.sum())
    return out
