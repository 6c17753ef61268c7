"""The grid of functions, losses, aggregations and penalties: named rows, general optimisers, limits, refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from ml_core import naming
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.empirical_risk_minimizer import EmpiricalRiskMinimizer
from tests.least_squares import KNOWN_X, KNOWN_Y

LOSSES = {
    "squared": lambda f, y: (f - y) ** 2, "absolute": lambda f, y: np.abs(f - y),
    "logistic": lambda f, y: -np.where(y > 0, y * np.log(f), 0) - np.where(y < 1, (1 - y) * np.log1p(-f), 0),
}  # fmt: skip
GRID = [
    (g, loss, c, p) for g, loss, c, p in
    product(("linear", "polynomial", "logistic"), LOSSES, ("mean", "max", "weighted_sum"), ("none", "l2", "l1"))
    if loss != "logistic" or g == "logistic"
]  # fmt: skip


def table(n=25):
    r = np.random.default_rng(3)
    X = r.normal(size=(n, 2))
    return X, (expit(X @ [1.0, -2.0] + 0.5 + r.normal(size=n)) > 0.5).astype(float), r.integers(1, 3, n).astype(float)


def objective(m, X, y, s):
    f = m.predict(X)
    each = LOSSES[m.loss](f, y)
    cost = {"mean": s @ each / s.sum(), "max": each.max(), "weighted_sum": s @ each}[m.aggregation]
    size = {"none": 0.0, "l2": m.coef_ @ m.coef_, "l1": np.abs(m.coef_).sum()}[m.penalty]
    return float(cost + m.alpha * size)


@pytest.mark.parametrize(("function", "loss", "aggregation", "penalty"), GRID)
def test_every_choice_reaches_what_a_general_search_finds(function, loss, aggregation, penalty):
    X, y, s = table()
    m = EmpiricalRiskMinimizer(function=function, loss=loss, aggregation=aggregation, penalty=penalty, alpha=0.05)
    m.fit(X, y, sample_weight=s)
    value = objective(m, X, y, s)
    assert m.objective_ == pytest.approx(value, rel=1e-7, abs=1e-9)
    report = m.diagnostics(X, y, s)
    assert [(c.name, c.value) for c in report.certificates if not c.holds] == []
    at, other = np.array([m.intercept_, *m.coef_]), EmpiricalRiskMinimizer(**m.get_params()).fit(X, y, sample_weight=s)
    other.model_ = None

    def cost(v):
        other.intercept_, other.coef_ = float(v[0]), v[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            return objective(other, X, y, s)

    found = minimize(cost, at + 0.02, method="Nelder-Mead", options={"maxfev": 3000, "xatol": 1e-8, "fatol": 1e-10})
    assert value <= found.fun + 2e-6 * (1 + abs(found.fun))


@pytest.mark.parametrize(("params", "name"), [
    ({}, "linear_regression"), ({"aggregation": "weighted_sum"}, "weighted_least_squares"),
    ({"penalty": "l2"}, "ridge_regression"), ({"penalty": "l1"}, "lasso"),
    ({"loss": "absolute"}, "least_absolute_deviations"), ({"aggregation": "max"}, "minimax_regression"),
    ({"aggregation": "max", "loss": "absolute"}, "minimax_regression"), ({"aggregation": "max", "penalty": "l2"}, ""),
])  # fmt: skip
def test_named_rows_are_named(params, name):
    m = EmpiricalRiskMinimizer(**params).fit(KNOWN_X, KNOWN_Y)
    assert m.equals_ == name
    assert m.diagnostics(KNOWN_X, KNOWN_Y).tables["equals"].rows[0][0] == (name or None)


def test_known_values_on_the_mean_scale():
    ridge = EmpiricalRiskMinimizer(penalty="l2", alpha=1.0).fit(KNOWN_X, KNOWN_Y)
    np.testing.assert_allclose([ridge.coef_[0], ridge.intercept_], [0.6111111, 1.2222222], atol=1e-7)
    lasso = EmpiricalRiskMinimizer(penalty="l1", alpha=4.0, aggregation="weighted_sum").fit(KNOWN_X, KNOWN_Y)
    assert lasso.objective_ == pytest.approx(6.3)
    flat = EmpiricalRiskMinimizer(aggregation="max").fit(KNOWN_X, KNOWN_Y)
    assert flat.objective_ == pytest.approx(1.0)


def test_the_logistic_choice_is_logistic_regression():
    X, y, _ = table(200)
    m = EmpiricalRiskMinimizer(function="logistic", loss="logistic", penalty="l2", alpha=0.01,
                               aggregation="weighted_sum").fit(X, y)  # fmt: skip
    peer = LogisticRegression(C=1 / 0.02, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(m.predict(X), peer.predict_proba(X)[:, 1], atol=1e-5)
    assert m.equals_ == "penalized_logistic_regression"
    assert EmpiricalRiskMinimizer(function="logistic", loss="logistic").fit(X, y).equals_ == "logistic_regression"
    rows = m.diagnostics(X, y).tables["coefficients"].rows
    assert [row[:2] for row in rows] == [["intercept", m.intercept_], *([j, w] for j, w in enumerate(m.coef_))]


def test_terms_of_polynomials_are_named():
    with naming.use(["age"]):
        m = EmpiricalRiskMinimizer(function="polynomial", degree=3).fit([[1.0], [2], [3], [4], [5]], [1.0, 3, 2, 5, 4])
        table = m.diagnostics([[1.0], [2], [3], [4], [5]], [1.0, 3, 2, 5, 4]).tables["coefficients"]
    assert [row[1] for row in table.rows] == ["intercept", "age", "age^2", "age^3"]


def test_the_largest_log_loss_of_overlapping_rows_is_that_of_no_knowledge_and_separable_rows_are_told():
    x = np.array([[0.0], [1], [2], [3]])
    both = EmpiricalRiskMinimizer(function="logistic", loss="logistic", aggregation="max")
    assert both.fit(x, np.array([0.0, 1, 0, 1])).objective_ == pytest.approx(np.log(2), rel=1e-6)
    assert "unbounded" in [n.code for n in both.fit(x, np.array([0.0, 0, 1, 1])).notices_]
    local = EmpiricalRiskMinimizer(function="logistic", loss="squared").fit(x, np.array([0.0, 1, 0, 1]))
    assert "local_minimum" in [n.code for n in local.notices_]
    assert len(local.starts_) == 10


def test_refusals_say_what_to_change():
    with pytest.raises(InvalidParameter, match="needs the logistic function"):
        EmpiricalRiskMinimizer(loss="logistic").fit(KNOWN_X, KNOWN_Y)
    with pytest.raises(InvalidData, match="row 1 has 3"):
        EmpiricalRiskMinimizer(function="logistic", loss="logistic").fit(KNOWN_X, KNOWN_Y)


TINY = [c for c in GRID if c[3] != "none" and (c[0] == "logistic" or c[:3] == ("linear", "absolute", "mean"))]


@pytest.mark.parametrize("unit", [1e-149, 1e-100, 1e-60])
@pytest.mark.parametrize(("function", "loss", "aggregation", "penalty"), TINY)
def test_a_penalised_column_of_tiny_numbers_is_as_good_as_absent(unit, function, loss, aggregation, penalty):
    X, y, s = table()
    tiny = X * [unit, 1.0]
    both, alone = (
        EmpiricalRiskMinimizer(function=function, loss=loss, aggregation=aggregation, penalty=penalty, alpha=0.1)
        for _ in range(2)
    )
    both.fit(tiny, y, sample_weight=s)
    alone.fit(X[:, 1:], y, sample_weight=s)
    assert [c for c in both.diagnostics(tiny, y, s).certificates if not c.holds] == []
    assert objective(both, tiny, y, s) == pytest.approx(objective(alone, X[:, 1:], y, s), rel=1e-5)
