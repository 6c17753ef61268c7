"""Units of columns and of weights: what can be fitted is fitted the same, what cannot is refused by name, never NaN."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ml_core.base import SQUARES, clone
from ml_core.bayes.beta_bernoulli import MOST_FLIPS, BetaBernoulli
from ml_core.bayes.gaussian_naive_bayes import GaussianNaiveBayes
from ml_core.certificates import Certificate
from ml_core.cluster.k_means import KMeans
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis
from ml_core.discriminant.linear_discriminant_analysis import LinearDiscriminantAnalysis
from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.kernels.kernel_matrix_check import kernel_matrix_check
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.metrics.roc_curve import roc_curve
from ml_core.mixture.gaussian_mixture import GaussianMixture
from ml_core.validation import SQUARABLE, check_matrix

X = np.random.default_rng(4).normal(size=(60, 3)) + np.repeat([[0.0, 0, 0], [4, 0, 3]], 30, axis=0)
Y = np.repeat([0, 1], 30)
SQUARING = [
    KMeans(n_clusters=2), PrincipalComponentAnalysis(), PrincipalComponentAnalysis(standardize=True),
    QuadraticDiscriminantAnalysis(), GaussianMixture(n_components=2), GaussianMixture(covariance_type="diagonal"),
    LinearDiscriminantAnalysis(), GaussianNaiveBayes(),
]  # fmt: skip


def names(model: Any) -> str:
    return f"{type(model).__name__}-{len(repr(model))}"


def holding(model: Any, A: np.ndarray, **fit: Any) -> dict[str, Any]:
    """The report as JSON, all of whose certificates hold."""
    report = model.diagnostics(A, Y, **fit).to_json()
    assert not [c for c in report["certificates"] if not c["holds"]]
    return json.loads(json.dumps(report, allow_nan=False))


@pytest.mark.parametrize("model", SQUARING, ids=names)
@pytest.mark.parametrize("unit", [2.0**-400, 2.0**-100, 2.0**100, 2.0**320])
def test_units_of_the_columns_change_no_grouping(model: Any, unit: float) -> None:
    one, two = clone(model).fit(X, Y), clone(model).fit(X * unit, Y)
    holding(two, X * unit)
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(two.predict(X * unit), one.predict(X))
    else:
        np.testing.assert_allclose(two.explained_variance_ratio_, one.explained_variance_ratio_, rtol=1e-10)


@pytest.mark.parametrize("model", SQUARING, ids=names)
@pytest.mark.parametrize("factor", [2.0**-250, 2.0**250])
def test_the_unit_of_the_weights_changes_nothing(model: Any, factor: float) -> None:
    s = np.linspace(1, 2, 60)
    one, two = clone(model).fit(X, Y, sample_weight=s), clone(model).fit(X, Y, sample_weight=s * factor)
    holding(two, X, sample_weight=s * factor)
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(two.predict(X), one.predict(X))
    else:
        np.testing.assert_allclose(two.explained_variance_, one.explained_variance_, rtol=1e-10)


@pytest.mark.parametrize("model", SQUARING, ids=names)
@pytest.mark.parametrize("cell", [SQUARES * 2, 1.7e308])
def test_cells_that_cannot_be_squared_are_named(model: Any, cell: float) -> None:
    A = X.copy()
    A[7, 1] = cell
    with pytest.raises(InvalidData, match="divide column 1 by a constant; row 7") as e:
        clone(model).fit(A, Y)
    assert e.value.issues[0].pointer == "/rows/7/1"


@pytest.mark.parametrize("model", SQUARING, ids=names)
def test_columns_whose_squares_vanish_are_named(model: Any) -> None:
    with pytest.raises(InvalidData, match="column 2 is below 1e-150"):
        clone(model).fit(X * [1, 1, 1e-200], Y)


def test_both_signs_of_the_largest_float_are_finite() -> None:
    A = np.array([[1.7e308], [1.7e308], [-1.7e308], [-1.7e308]])
    np.testing.assert_array_equal(check_matrix(A), A)
    with pytest.raises(InvalidData, match="row 1, column 0 is inf"):
        check_matrix(np.array([[1.7e308], [np.inf], [-np.inf]]))
    assert check_matrix(np.full((2, 1), SQUARABLE), largest=SQUARES).shape == (2, 1)


@pytest.mark.parametrize("accepts", ["real", "binary", "count", "nonnegative"])
def test_infinity_is_in_no_domain(accepts: str) -> None:
    with pytest.raises(InvalidData, match="row 1, column 0 is inf"):
        check_matrix(np.array([[1.0], [np.inf]]), accepts=accepts)


@pytest.mark.parametrize("solver", ["auto", "full", "covariance", "lanczos", "randomized"])
@pytest.mark.parametrize("value", [0.0, 3.7])
def test_rows_that_are_all_equal_have_no_variance(solver: Any, value: float) -> None:
    A = np.full((10, 3), value)
    model = PrincipalComponentAnalysis(n_components=1, solver=solver).fit(A)
    assert model.explained_variance_.tolist() == [0]
    assert (model.transform(A) == 0).all()
    report = model.diagnostics(A).to_json()
    assert all(c["holds"] is True for c in report["certificates"])


@pytest.mark.parametrize(
    "model", [PrincipalComponentAnalysis(ddof=1), QuadraticDiscriminantAnalysis(ddof=1)], ids=names
)
def test_counts_below_one_leave_no_degree_of_freedom(model: Any) -> None:
    with pytest.raises(InvalidData, match="ddof=1"):
        clone(model).fit(X, Y, sample_weight=np.full(60, 0.01))


def test_more_flips_than_can_be_counted_are_refused() -> None:
    flips = np.array([[1.0], [0.0]])
    model = BetaBernoulli().fit(flips, sample_weight=[MOST_FLIPS / 2, MOST_FLIPS / 4])
    assert all(c.holds for c in model.diagnostics(flips, sample_weight=[MOST_FLIPS / 2, MOST_FLIPS / 4]).certificates)
    with pytest.raises(InvalidData, match="one more changes nothing"):
        model.update(flips, sample_weight=[MOST_FLIPS, 1])
    with pytest.raises(InvalidData, match="one more changes nothing"):
        BetaBernoulli().fit(flips, sample_weight=[1e80, 1])


def test_a_certificate_of_numpy_numbers_is_still_json() -> None:
    one = Certificate("gap", float(np.float64(1e-9)), 1e-8, "small")
    two = Certificate("gap", np.float64(1e-9), np.float64(1e-8), "small")
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())


@pytest.mark.parametrize(("a", "b"), [(1e-300, 1e-300), (1e-300, 1e15), (1e15, 1e-10), (1e15, 1.0), (1e15, 1e15)])
def test_extreme_priors_have_a_posterior(a: float, b: float) -> None:
    flips = np.array([[1.0], [0.0], [1.0]])
    model = BetaBernoulli(a=a, b=b).fit(flips)
    assert model.posterior(flips[:1]).mean[0, 0] == pytest.approx((a + 2) / (a + b + 3))
    json.dumps(model.diagnostics(flips).to_json(), allow_nan=False)
    with pytest.raises(InvalidParameter, match="1000000000000000"):
        BetaBernoulli(a=1e300, b=b).fit(flips)


@pytest.mark.parametrize("solver", ["newton", "irls", "lbfgs"])
@pytest.mark.parametrize("factor", [2.0**-250, 2.0**250])
def test_the_unit_of_the_weights_moves_no_coefficient(solver: Any, factor: float) -> None:
    s, y = np.linspace(1, 2, 60), (np.arange(60) % 3 == 0).astype(int)
    for alpha in (0.0, 1.0):
        one = LogisticRegression(alpha=alpha, solver=solver).fit(X, y, sample_weight=s)
        two = LogisticRegression(alpha=alpha * factor, solver=solver).fit(X, y, sample_weight=s * factor)
        np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-8)
        assert two.solution_.converged
        assert two.solution_.trace[-1] == pytest.approx(one.solution_.trace[-1] * factor, rel=1e-12)
        assert all(c.holds for c in two.diagnostics(X, y, sample_weight=s * factor).certificates)


@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12])
def test_certificates_allow_for_digits_that_an_offset_takes(offset: float) -> None:
    y = (np.arange(60) % 3 == 0).astype(int)
    for alpha in (0.0, 1.0):
        model = LogisticRegression(alpha=alpha).fit(X + offset, y)
        assert all(c.holds for c in model.diagnostics(X + offset, y).certificates)


@pytest.mark.parametrize("unit", [1e-200, 1e-100, 1e100, 1e200])
def test_a_report_of_any_unit_is_json(unit: float) -> None:
    y = (np.arange(60) % 3 == 0).astype(int)
    for alpha in (0.0, 1.0):
        A = X * [unit, 1, 1]
        report = LogisticRegression(alpha=alpha).fit(A, y).diagnostics(A, y).to_json()
        assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_scores_of_any_size_are_ranked() -> None:
    out = roc_curve(y=[1, 0, 1, 0], scores=np.array([1.7e308, -1.7e308, 5e-324, 0.0]))
    assert out.value.auc == 1.0
    assert out.value.thresholds.tolist()[1:] == [1.7e308, 5e-324, 0.0, -1.7e308]


def test_weights_of_a_curve_have_a_range() -> None:
    y, scores = [1, 0, 1, 0], np.array([1.0, 2, 3, 4])
    plain = roc_curve(y=y, scores=scores, sample_weight=np.array([1.0, 2, 3, 4])).value.auc
    for factor in (2.0**-290, 2.0**290):
        out = roc_curve(y=y, scores=scores, sample_weight=factor * np.array([1.0, 2, 3, 4]))
        assert out.value.auc == plain
        assert out.certificates[0].holds
    for weight in (1e-300, 1e300):
        with pytest.raises(InvalidParameter, match="must lie between"):
            roc_curve(y=y, scores=scores, sample_weight=np.full(4, weight))


def test_kernel_matrices_too_large_to_check_are_refused() -> None:
    for K in (np.full((3, 3), 1.7e308), np.array([[1.0, 1.7e308], [-1.7e308, 1.0]])):
        with pytest.raises(InvalidData, match="multiply it by a constant"):
            kernel_matrix_check(matrix=K)
    assert kernel_matrix_check(matrix=SQUARES * np.eye(2), normalise=True).value.kernel_matrix
    assert kernel_matrix_check(matrix=1e-300 * np.eye(2), normalise=True).value.kernel_matrix


@pytest.mark.parametrize("model", [QuadraticDiscriminantAnalysis(), LogisticRegression(alpha=1.0)], ids=names)
@pytest.mark.parametrize(("low", "high"), [
    (False, True), (-(2**63), 2**63 - 1), (1, 2**70), (-1e20, 1e20), ("", "ä"), (True, 2),
    (np.uint64(0), np.uint64(2**64 - 1)),
])  # fmt: skip
def test_labels_come_back_as_they_were_given(model: Any, low: Any, high: Any) -> None:
    y = np.array([low, high] * 30) if type(low) is type(high) else np.array([low, high] * 30, dtype=object)
    fitted = clone(model).fit(X, y)
    assert fitted.classes_.tolist() == [low, high]
    assert set(fitted.predict(X).tolist()) <= {low, high}
    json.dumps(fitted.diagnostics(X, y).to_json(), allow_nan=False)
