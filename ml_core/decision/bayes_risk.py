"""The least risk that any decision rule can have, and the risk of a given one."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix
from ml_core.certificates import Certificate, Notice
from ml_core.decision.continuous_risk import continuous
from ml_core.decision.densities import NamedDensity
from ml_core.decision.rules import (
    BayesRisk,
    GivenRule,
    Rule,
    TableRule,
    best,
    distribution,
    dominance,
    loss_matrix,
    weights,
    within,
    wrong,
)
from ml_core.params import RealMatrix, RealVector, Seed
from ml_core.registry import Answer, function


@function("bayes_risk", example={"posterior": [[0.1, 0.9], [0.8, 0.2]], "marginal": [0.5, 0.5]})
def bayes_risk(
    *,
    posterior: Annotated[RealMatrix | None, Field(description="p(y|x): a row per x, a column per class.")] = None,
    marginal: Annotated[RealVector | None, Field(description="p(x), with posterior; default uniform.")] = None,
    likelihood: Annotated[RealMatrix | None, Field(description="p(x|y): a row per class, a column per x.")] = None,
    densities: Annotated[list[NamedDensity] | None, Field(description="p(x|y) of each class, named.")] = None,
    prior: Annotated[RealVector | None, Field(description="p(y) of the classes; default uniform.")] = None,
    loss: Annotated[RealMatrix | None, Field(description="L[z][y] of decision z when y is true; default 0-1.")] = None,
    rule: Annotated[GivenRule | None, Field(description="A rule whose risk to compute as well.")] = None,
    n_samples: Annotated[int, Field(ge=100, le=10_000_000, description="Monte Carlo draws per class.")] = 100_000,
    random_state: Seed = 0,
) -> Answer[BayesRisk]:
    """Bayes risk R* = Σₓ min_z Σ_y L(z, y) p(x|y) p(y); the minimum stands inside the sum, one decision for every x.

    Give a posterior table with p(x), or a likelihood table or named densities with priors. Tables are exact; densities
    on the line are integrated adaptively between the decision boundaries; more dimensions use draws from each class,
    with the standard error of the stratified mean. Ties take the lowest decision (the positive one, the last, where
    there are two). Zero exactly when some decision costs nothing almost everywhere.

    References
    ----------
    Berger (1985), Statistical Decision Theory and Bayesian Analysis, chapter 4.
    """
    forms = {"posterior": posterior, "likelihood": likelihood, "densities": densities}
    given = [name for name, v in forms.items() if v is not None]
    if len(given) != 1:
        raise wrong("posterior", "one_of", f"give exactly one of {', '.join(forms)}; got {given or 'none'}")
    if densities is not None:
        return continuous(list(densities), prior, loss, rule, n_samples, random_state)
    if posterior is not None:
        distribution(posterior, "posterior")
        p = weights(marginal, len(posterior), "marginal")
        return _table(p[:, None] * posterior, posterior, loss_matrix(loss, posterior.shape[1]), rule)
    assert likelihood is not None  # noqa: S101 - the one that is left
    distribution(likelihood, "likelihood")
    joint = likelihood.T * weights(prior, len(likelihood), "prior")
    total = joint.sum(axis=1, keepdims=True)
    flat = np.full_like(joint, 1.0 / joint.shape[1])
    return _table(joint, np.divide(joint, total, out=flat, where=total > 0), loss_matrix(loss, len(likelihood)), rule)


def _table(joint: Matrix, posterior: Matrix, L: Matrix, rule: Rule | None) -> Answer[BayesRisk]:
    R = joint @ L.T
    choice = best(R)
    least = float(R.min(axis=1).sum())
    constant = R.sum(axis=0)
    risk = given = None
    conditional = posterior @ L.T
    if rule is not None:
        if not isinstance(rule, TableRule) or len(rule.decisions) != len(R):
            raise wrong("rule", "kind", f"tables need a table rule with {len(R)} decisions")
        z = within(np.asarray(rule.decisions), len(L))
        risk, given = float(R[np.arange(len(R)), z].sum()), [float(v) for v in conditional[np.arange(len(R)), z]]
    value = BayesRisk(least, None, "table", float(constant.min()), int(constant.argmin()), [int(z) for z in choice],
                      conditional.tolist(), None, risk, None, given)  # fmt: skip
    achieved = float(R[np.arange(len(R)), choice].sum())
    ties = np.flatnonzero((R.min(axis=1, keepdims=True) == R).sum(axis=1) > 1).tolist()
    tie = Notice("tie", f"several decisions are equally good at x = {ties}", "any of them is a Bayes decision")
    excess = Certificate("decision_excess", abs(achieved - least), 1e-12,
                         "risk of the returned decisions minus the Bayes risk")  # fmt: skip
    return Answer(value, (excess, *dominance(value)), (tie,) if ties else ())
