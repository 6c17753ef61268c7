"""What an analyst compares between siblings has one name and one convention: coefficient tables, criteria, solvers."""

from __future__ import annotations

import numpy as np
import pytest

from ml_core.errors import InvalidData
from ml_core.linear.generalized_linear_model import GeneralizedLinearModel
from ml_core.linear.huber_regression import HuberRegression
from ml_core.linear.lasso import Lasso
from ml_core.linear.least_absolute_deviations import LeastAbsoluteDeviations
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.penalized_logistic_regression import PenalizedLogisticRegression
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.preprocessing.gaussian_basis import GaussianBasis
from ml_core.preprocessing.sigmoid_basis import SigmoidBasis
from ml_core.registry import build
from tests.least_squares import KNOWN_X, KNOWN_Y

LABELS = [0, 1, 0, 1]


@pytest.mark.parametrize(("model", "y", "ratio"), [
    (LinearRegression(), KNOWN_Y, "t"), (RidgeRegression(), KNOWN_Y, "t"), (Lasso(), KNOWN_Y, "t"),
    (LeastAbsoluteDeviations(), KNOWN_Y, "z"), (HuberRegression(), KNOWN_Y, "z"), (LogisticRegression(), LABELS, "z"),
    (PenalizedLogisticRegression(penalty="firth"), LABELS, "z"),
    (PenalizedLogisticRegression(penalty="l1"), LABELS, "z"),
    (GeneralizedLinearModel(family="poisson"), KNOWN_Y, "z"), (GeneralizedLinearModel(family="gamma"), KNOWN_Y, "t"),
])  # fmt: skip
def test_coefficient_tables_have_one_shape(model, y, ratio):
    table = model.fit(KNOWN_X, y).diagnostics(KNOWN_X, y).tables["coefficients"]
    at = table.columns.index("estimate")
    assert table.columns[at - 1 : at + 6] == ("term", "estimate", "standard_error", ratio, "p", "low", "high")
    assert table.columns[-1] == "reason"
    for row in table.rows:
        assert (row[-1] is None) == (row[at + 1] is not None)


def test_criteria_count_coefficients_alone_in_every_sibling():
    """AIC and BIC with two coefficients, 13.7793379 and 12.5519266; Cp = (2.7 + 2·2·1.35)/4."""
    models = [LinearRegression(), RidgeRegression(alpha=0.0), Lasso(alpha=0.0)]
    for model in [*models, RidgeRegression(alpha=0.0, penalize_bias=True)]:
        out = model.fit(KNOWN_X, KNOWN_Y).diagnostics(KNOWN_X, KNOWN_Y).summary
        assert out["aic"] == pytest.approx(13.7793379, abs=1e-7)
        assert out["bic"] == pytest.approx(12.5519266, abs=1e-7)
        assert out["mallows_cp"] == pytest.approx(2.025, rel=1e-5)
        assert out.get("rank", 2) == out.get("columns", 2) == 2
    gaussian = GeneralizedLinearModel().fit(KNOWN_X, KNOWN_Y).diagnostics(KNOWN_X, KNOWN_Y).summary
    assert gaussian["parameters"] == 2
    assert gaussian["aic"] == pytest.approx(4 - 2 * gaussian["log_likelihood"])


@pytest.mark.parametrize(("solver", "told"), [("auto", "qr"), ("svd", "svd"), ("newton", "newton")])
def test_the_solver_is_told(solver, told):
    table = LinearRegression(solver=solver).fit(KNOWN_X, KNOWN_Y).diagnostics(KNOWN_X, KNOWN_Y).tables["solver"]
    assert table.columns == ("output", "solver", "iterations", "stopped_by")
    assert [row[1] for row in table.rows] == [told]


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_gradient_descent_that_met_its_rule_has_a_certificate_that_holds(shift):
    X = KNOWN_X + shift
    model = LinearRegression(solver="gradient_descent", max_iter=200_000).fit(X, KNOWN_Y)
    assert model.solutions_[0].converged
    assert all(c.holds for c in model.diagnostics(X, KNOWN_Y).certificates)


@pytest.mark.parametrize("params", [{}, {"alpha": 1.0}, {"solver": "irls"}, {"solver": "lbfgs"}])
def test_an_exposure_needs_no_feature_beside_it(params):
    E, y = np.array([[10.0], [20], [30]]), np.array([2.0, 4, 9])
    model = GeneralizedLinearModel(family="poisson", exposure=0, **params).fit(E, y)
    assert model.intercept_ == pytest.approx(np.log(0.25), rel=1e-12)
    np.testing.assert_allclose(model.predict([[40.0]]), [10.0], rtol=1e-12)
    assert all(c.holds for c in model.diagnostics(E, y).certificates)


def test_no_events_at_all_are_the_intercept():
    model = GeneralizedLinearModel(family="poisson", exposure=0).fit([[10.0], [20], [30]], np.zeros(3))
    assert "along the intercept" in model.notices_[0].message


@pytest.mark.parametrize(("X", "y", "pointer"), [
    ([[1.0, 1.0], [2.0, 1.0]], [-1.0, 2.0], "/target"), ([[1.0, 0.0], [2.0, 1.0]], [1.0, 2.0], "/params/exposure"),
])  # fmt: skip
def test_refused_rows_point_at_their_field(X, y, pointer):
    with pytest.raises(InvalidData, match=r"row(s)? 0") as e:
        GeneralizedLinearModel(family="poisson", exposure=1).fit(X, y)
    assert [issue.pointer for issue in e.value.issues] == [pointer]


@pytest.mark.parametrize("params", [{"algorithm": "gaussian_basis"}, {"algorithm": "sigmoid_basis"}])
def test_bases_with_given_centres_have_a_cost(params):
    model = build(params | {"params": {"centers": [[0.0, 1.0], [1.0, 2.0]]}})
    assert isinstance(model, GaussianBasis | SigmoidBasis)
    assert model.cost(10, 2).memory_bytes == 16.0 * 10 * 4
