"""Leverages, residuals and Cook's distances of generalised linear and logistic fits against statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from ml_core.linear.generalized_linear_model import GeneralizedLinearModel
from ml_core.linear.logistic_regression import LogisticRegression

R = np.random.default_rng(0)
X = R.normal(size=(80, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 3.0]
ETA = 0.4 * (X[:, 0] + (X[:, 1] - 50) / 100)
TARGETS: dict[str, np.ndarray] = {
    "gaussian": ETA + R.normal(size=80), "poisson": R.poisson(np.exp(ETA)).astype(float),
    "binomial": (R.random(80) < 1 / (1 + np.exp(-ETA))).astype(float), "gamma": R.gamma(2.0, np.exp(ETA)),
}  # fmt: skip
PEERS: dict[str, Any] = {
    "gaussian": sm.families.Gaussian(), "poisson": sm.families.Poisson(), "binomial": sm.families.Binomial(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}  # fmt: skip


@pytest.mark.parametrize("family", list(TARGETS))
def test_rows_are_those_of_statsmodels(family: Any) -> None:
    y = TARGETS[family]
    model = GeneralizedLinearModel(family=family).fit(X, y)
    out = model.diagnostics(X, y)
    peer = sm.GLM(y, sm.add_constant(X), family=PEERS[family]).fit(tol=1e-12)
    influence = peer.get_influence(observed=False)
    want = [y, peer.fittedvalues, peer.resid_pearson, peer.resid_deviance, influence.hat_matrix_diag,
            influence.resid_studentized, influence.cooks_distance[0]]  # fmt: skip
    rows = out.tables["influential_rows"].rows
    at = [r[0] for r in rows]
    for k, values in enumerate(want):
        np.testing.assert_allclose([r[k + 1] for r in rows], values[at], rtol=2e-5, atol=1e-9)
    assert at[0] == int(np.argmax(influence.cooks_distance[0]))
    assert out.summary["largest_leverage"] == pytest.approx(influence.hat_matrix_diag.max(), rel=1e-6)
    np.testing.assert_allclose(out.curves["residuals"]["deviance"], peer.resid_deviance, rtol=1e-5, atol=1e-8)
    assert (out.curves["residuals"]["deviance"] ** 2).sum() == pytest.approx(out.summary["deviance"])
    assert (out.curves["residuals"]["pearson"] ** 2).sum() == pytest.approx(out.summary["pearson_chi2"])


def test_two_classes_are_the_binomial_family() -> None:
    y = TARGETS["binomial"]
    one = LogisticRegression().fit(X, y.astype(int)).diagnostics(X, y.astype(int))
    two = GeneralizedLinearModel(family="binomial").fit(X, y).diagnostics(X, y)
    np.testing.assert_allclose(np.array(one.tables["influential_rows"].rows, float),
                               np.array(two.tables["influential_rows"].rows, float), rtol=1e-6)  # fmt: skip
    apart = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert "influential_rows" not in apart.diagnostics([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).tables


def test_a_weight_is_so_many_copies_and_exposure_is_not() -> None:
    y = TARGETS["poisson"]
    s = np.arange(80) % 3 + 1.0
    rows = np.repeat(np.arange(80), s.astype(int))
    weighted = GeneralizedLinearModel(family="poisson").fit(X, y, s).diagnostics(X, y, s)
    repeated = GeneralizedLinearModel(family="poisson").fit(X[rows], y[rows]).diagnostics(X[rows], y[rows])
    for name in ("largest_leverage", "largest_cook_distance", "largest_studentized_residual"):
        assert weighted.summary[name] == pytest.approx(repeated.summary[name], rel=1e-7)
    E = R.uniform(1, 5, 80)
    count = R.poisson(E * np.exp(ETA)).astype(float)
    Z = np.column_stack([X, E])
    out = GeneralizedLinearModel(family="poisson", exposure=3).fit(Z, count).diagnostics(Z, count)
    peer = sm.GLM(count, sm.add_constant(X), family=PEERS["poisson"], offset=np.log(E)).fit(tol=1e-12)
    found = peer.get_influence(observed=False)
    assert out.summary["largest_leverage"] == pytest.approx(found.hat_matrix_diag.max(), rel=1e-6)
    assert out.summary["largest_cook_distance"] == pytest.approx(found.cooks_distance[0].max(), rel=1e-6)
    np.testing.assert_allclose(out.curves["residuals"]["pearson"], peer.resid_pearson, rtol=1e-5, atol=1e-8)
