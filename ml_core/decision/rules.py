"""Decision rules as data, the answer about their risk, and the checks both kinds of problem share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate
from ml_core.errors import InvalidParameter, Issue

SUM_TOL = 1e-9


class LinearRule(BaseModel):
    """Decide the largest of weights · x + intercepts, one row of weights a decision."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    kind: Literal["linear"]
    weights: list[list[float]]
    intercepts: list[float]


class IntervalRule(BaseModel):
    """On the line: decisions[i] between boundaries[i-1] and boundaries[i], a boundary belonging to the right."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    kind: Literal["intervals"]
    boundaries: list[float]
    decisions: Annotated[list[int], Field(min_length=1)]


class TableRule(BaseModel):
    """One decision per value of a discrete x."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["table"]
    decisions: Annotated[list[int], Field(min_length=1)]


Rule = LinearRule | IntervalRule | TableRule
GivenRule = Annotated[Rule, Field(discriminator="kind")]


@dataclass(frozen=True)
class BayesRisk:
    """The Bayes risk, its standard error (Monte Carlo only), and the rules it was compared with.

    Tables: `decisions` and `conditional_risks` R(z, x) per x. One dimension: `boundaries` of the Bayes rule and the
    `decisions` between them. `rule_risk` is that of the supplied rule, `rule_conditional_risks` its R(f, x) on tables.
    """

    risk: float
    standard_error: float | None
    method: Literal["table", "quadrature", "monte_carlo"]
    best_constant_risk: float
    best_constant_decision: int
    decisions: list[int] | None
    conditional_risks: list[list[float]] | None
    boundaries: list[float] | None
    rule_risk: float | None
    rule_standard_error: float | None
    rule_conditional_risks: list[float] | None


def wrong(field: str, code: str, message: str) -> InvalidParameter:
    """The error of one argument."""
    return InvalidParameter(message, [Issue(f"/{field}", code, message)])


def distribution(P: Matrix, name: str) -> None:
    """Refuse rows that are not probabilities."""
    if P.size == 0 or (P < 0).any() or np.abs(P.sum(axis=1) - 1).max() > SUM_TOL:
        raise wrong(name, "not_a_distribution", f"rows of {name} must be ≥ 0 and sum to 1 (tolerance {SUM_TOL:g})")


def weights(p: Vector | None, n: int, name: str) -> Vector:
    """(n,) probabilities, uniform by default."""
    if p is None:
        return np.full(n, 1.0 / n)
    if len(p) != n:
        raise wrong(name, "length", f"{name} has {len(p)} entries, expected {n}")
    distribution(p[None], name)
    return p


def loss_matrix(L: Matrix | None, K: int) -> Matrix:
    """(Z, K) losses, zero-one by default."""
    if L is None:
        return 1.0 - np.eye(K)
    if L.shape[1] != K or not len(L):
        raise wrong("loss", "shape", f"loss needs a column per class ({K}), got {L.shape[1] if len(L) else 0}")
    return L


def best(R: Matrix) -> np.ndarray:
    """Decision of least risk per row of R (n, Z): the lowest number, but the last of two."""
    if R.shape[1] == 2:
        return (R[:, 1] <= R[:, 0]).astype(np.int64)
    return R.argmin(axis=1)


def decide(rule: Rule, x: Matrix, Z: int) -> np.ndarray:
    """(n,) decisions of a supplied rule at points x (n, d)."""
    if isinstance(rule, TableRule):
        raise wrong("rule", "kind", "a table rule needs discrete x")
    if isinstance(rule, IntervalRule):
        fits = len(rule.decisions) == len(rule.boundaries) + 1 and sorted(rule.boundaries) == rule.boundaries
        if x.shape[1] != 1 or not fits:
            raise wrong("rule", "intervals", "interval rules need x on the line, sorted boundaries, one decision more")
        out = np.asarray(rule.decisions)[np.searchsorted(rule.boundaries, x[:, 0], side="right")]
    else:
        if {len(w) for w in rule.weights} - {x.shape[1]} or len(rule.intercepts) != len(rule.weights):
            raise wrong("rule", "shape", f"a linear rule needs {x.shape[1]} weights and an intercept per decision")
        out = (x @ np.asarray(rule.weights).T + np.asarray(rule.intercepts)).argmax(axis=1)
    return within(out, Z)


def within(decisions: np.ndarray, Z: int) -> np.ndarray:
    """The decisions, refused when one has no row in the loss."""
    if (decisions < 0).any() or (decisions >= Z).any():
        raise wrong("rule", "decision", f"decisions run from 0 to {Z - 1}")
    return decisions


def dominance(value: BayesRisk, slack: float = 1e-12) -> tuple[Certificate, ...]:
    """No other rule at hand does better."""
    others = [r for r in (value.best_constant_risk, value.rule_risk) if r is not None]
    return (Certificate("advantage", min(others) - value.risk, -slack * max(1.0, abs(value.risk)) - slack,
                        "no constant or supplied rule has a smaller risk", at_least=True),)  # fmt: skip
