"""Bayes risk of known densities: quadrature between decision boundaries on the line, Monte Carlo beyond."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate
from ml_core.decision.densities import Density
from ml_core.decision.rules import BayesRisk, Rule, best, decide, dominance, loss_matrix, weights, wrong
from ml_core.numerics.stable import softmax
from ml_core.registry import Answer
from ml_core.rng import generator

CHUNK = 1 << 16
BISECTIONS = 200
Decide = Callable[[Matrix], np.ndarray]


def continuous(
    densities: list[Density], prior: Vector | None, loss: Matrix | None, rule: Rule | None, n_samples: int, seed: int
) -> Answer[BayesRisk]:
    """Risk of the Bayes rule (and of `rule`) for classes with the given densities."""
    if len({q.dimension for q in densities}) != 1:
        raise wrong("densities", "dimension", f"the densities differ: d = {[q.dimension for q in densities]}")
    p = weights(prior, len(densities), "prior")
    L = loss_matrix(loss, len(densities))
    if densities[0].dimension == 1:
        return _on_the_line(densities, p, L, rule)
    return _monte_carlo(densities, p, L, rule, n_samples, seed)


def _posterior_risk(densities: list[Density], p: Vector, L: Matrix, x: Matrix) -> Matrix:
    """(n, Z) conditional risks R(z, x) = Σ_y L(z, y) p(y|x)."""
    with np.errstate(divide="ignore"):
        joint = np.column_stack([q.log_density(x) for q in densities]) + np.log(p)
    return softmax(joint) @ L.T


def _on_the_line(densities: list[Density], p: Vector, L: Matrix, rule: Rule | None) -> Answer[BayesRisk]:
    breaks = np.unique(np.concatenate([q.breaks() for q in densities]))
    edges, decisions = _pieces(lambda x: best(_posterior_risk(densities, p, L, x)), breaks)
    risk, check = _piece_risk(densities, p, L, edges, decisions, breaks)
    given = None
    if rule is not None:
        theirs = _pieces(lambda x: decide(rule, x, len(L)), breaks)
        given = _piece_risk(densities, p, L, *theirs, breaks)[0]
    constant = L @ p
    value = BayesRisk(risk, None, "quadrature", float(constant.min()), int(constant.argmin()), decisions, None,
                      edges[1:-1], given, None, None)  # fmt: skip
    return Answer(value, (
        Certificate("integral_difference", abs(risk - check), 1e-9, "quadrature against distribution functions"),
        *dominance(value, 1e-9),
    ))  # fmt: skip


def _pieces(choose: Decide, breaks: Vector) -> tuple[list[float], list[int]]:
    """Edges and the constant decision between them, boundaries bisected to the last bit.

    Decisions are compared on the densities' quantiles and between them; a region thinner than that is not seen.
    """
    inner = np.sort(np.concatenate([breaks, 0.5 * (breaks[1:] + breaks[:-1]), np.nextafter(breaks[1:-1], np.inf)]))
    z = choose(inner[:, None])
    edges, decisions = [float(inner[0])], [int(z[0])]
    for i in np.flatnonzero(np.diff(z)):
        low = float(inner[i])
        while decisions[-1] != z[i + 1]:
            low = _bisect(choose, low, float(inner[i + 1]), decisions[-1])
            edges.append(low)
            decisions.append(int(choose(np.array([[low]]))[0]))
    return [*edges, float(inner[-1])], decisions


def _bisect(choose: Decide, low: float, high: float, here: int) -> float:
    """The first representable point found at which the decision is no longer `here`."""
    for _ in range(BISECTIONS):
        mid = 0.5 * (low + high)
        if mid in (low, high):
            break
        if choose(np.array([[mid]]))[0] == here:
            low = mid
        else:
            high = mid
    return high


def _piece_risk(
    densities: list[Density], p: Vector, L: Matrix, edges: list[float], decisions: list[int], breaks: Vector
) -> tuple[float, float]:
    """Σ over pieces and classes of L(z, y) p(y) ∫ p(x|y) dx by quadrature, and by distribution functions."""
    total, check = [], []
    cuts = np.unique(np.concatenate([breaks[:: max(1, len(breaks) // 40)], breaks[-1:], edges]))
    for a, b in pairwise(cuts):
        z = decisions[int(np.clip(np.searchsorted(edges, a, side="right") - 1, 0, len(decisions) - 1))]
        for y, q in enumerate(densities):
            if p[y] * L[z, y] != 0:
                mass = quad(lambda t, q=q: float(np.exp(q.log_density(np.array([[t]]))[0])), a, b, epsabs=1e-13,
                            epsrel=1e-11, limit=200, full_output=1)[0]  # fmt: skip
                total.append(L[z, y] * p[y] * mass)
                check.append(L[z, y] * p[y] * q.mass(a, b))
    return float(np.sum(total)), float(np.sum(check))


def _monte_carlo(
    densities: list[Density], p: Vector, L: Matrix, rule: Rule | None, n: int, seed: int
) -> Answer[BayesRisk]:
    """Mean of min_z R(z, x) over x drawn from every class in turn: the classes' shares add no noise."""
    rng = generator(seed)
    sums = np.zeros((3, 2))
    for y, q in enumerate(densities):
        parts = np.zeros((3, 2))
        for start in range(0, n, CHUNK):
            progress.tick(y * n + start, len(densities) * n, "draws")
            x = q.sample(min(CHUNK, n - start), rng)
            R = _posterior_risk(densities, p, L, x)
            z = best(R)
            theirs = R[np.arange(len(x)), decide(rule, x, len(L))] if rule is not None else np.zeros(len(x))
            draws = np.stack([R.min(axis=1), theirs, L[z, y]])
            parts += np.stack([draws.sum(axis=1), np.square(draws).sum(axis=1)], axis=1)
        mean = parts[:, 0] / n
        sums += np.stack([p[y] * mean, p[y] ** 2 * np.maximum(parts[:, 1] / n - mean**2, 0) / (n - 1)], axis=1)
    risk, given, counted = sums[:, 0]
    se = np.sqrt(sums[:, 1])
    constant = L @ p
    value = BayesRisk(
        float(risk), float(se[0]), "monte_carlo", float(constant.min()), int(constant.argmin()), None, None, None,
        None if rule is None else float(given), None if rule is None else float(se[1]), None,
    )  # fmt: skip
    spread = float(np.hypot(se[0], se[2])) or 1e-12
    return Answer(value, (
        Certificate("counting_difference", abs(float(counted - risk)) / spread, 6.0,
                    "losses counted on the draws agree with the mean conditional risk, in standard errors"),
        *dominance(value, 6 * float(se[:2].max())),
    ))  # fmt: skip
