"""A column of little but rounding, and rows that weigh less than one: neither spoils what is known of the others."""

from typing import Any

import numpy as np
import pytest

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.registry import build

R = np.random.default_rng(1)
X = R.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 1 + R.normal(size=60) * 0.5
LABELS = np.where(X[:, 0] + 0.8 * R.normal(size=60) < 0, "no", "yes")
NUMBERS = 1e18 + R.integers(0, 500, 60)
"""As doubles multiples of 128: of their differences little is left but rounding."""


@pytest.mark.parametrize(("name", "params"), [
    ("linear_regression", {}), ("linear_regression", {"solver": "svd"}),
    ("linear_regression", {"min_norm": "centered"}), ("weighted_least_squares", {}),
    ("generalized_linear_model", {}), ("least_absolute_deviations", {}),
    ("huber_regression", {}), ("tukey_biweight_regression", {}), ("epsilon_insensitive_regression", {}),
    ("minimax_regression", {}), ("penalized_logistic_regression", {"penalty": "firth"}),
])  # fmt: skip
@pytest.mark.parametrize("twin", [False, True])
def test_a_column_of_rounding_takes_no_other_with_it(name: str, params: dict[str, Any], twin: bool) -> None:
    target = LABELS if name.startswith("penalized") else Y
    spec = {"algorithm": name, "params": params}
    known = np.column_stack([X, X[:, :1] * 2]) if twin else X
    spoilt = np.column_stack([known, NUMBERS])
    whole, part = build(spec).fit(spoilt, target), build(spec).fit(X, target)
    answer = "predict_proba" if target is LABELS else "predict"
    np.testing.assert_allclose(getattr(whole, answer)(spoilt), getattr(part, answer)(X), rtol=1e-6, atol=1e-6)
    report: Any = whole.diagnostics(spoilt, target)
    assert not [n.message for n in report.warnings if n.code == "certificate_fails"]


def test_sums_too_keep_what_is_sure() -> None:
    spoilt = np.column_stack([X, NUMBERS])
    m: Any = build({"algorithm": "linear_regression", "params": {}}).fit(spoilt[:30], Y[:30])
    m.update(spoilt[30:], Y[30:])
    part: Any = build({"algorithm": "linear_regression", "params": {}}).fit(X, Y)
    assert (m.rank_, m.aliased_) == (4, [3])
    np.testing.assert_allclose(m.predict(spoilt), part.predict(X), rtol=1e-9)


def refitted(s: np.ndarray, i: int, lighter: float) -> float:
    """The residual of row i by a fit in which it weighs less by `lighter`."""
    root = np.sqrt(s - lighter * np.eye(len(s))[i])
    A = np.column_stack([np.ones(len(X)), X])
    w = np.linalg.lstsq(root[:, None] * A, root * Y, rcond=None)[0]
    return float(Y[i] - A[i] @ w)


@pytest.mark.parametrize("name", ["linear_regression", "ridge_regression", "generalized_tikhonov"])
def test_a_row_lighter_than_one_copy_is_left_out_whole(name: str) -> None:
    s = R.uniform(0.01, 3, 60) ** 2
    X[0], s[0] = [30.0, 0.0, 0.0], 0.04
    params = {} if name == "linear_regression" else {"alpha": 0.0}
    m: Any = build({"algorithm": name, "params": params}).fit(X, Y, sample_weight=s)
    report: Any = m.diagnostics(X, Y, sample_weight=s)
    left = np.array([refitted(s, i, min(s[i], 1.0)) for i in range(60)])
    assert report.summary["leave_one_out_mse"] == pytest.approx(s @ left**2 / s.sum(), rel=1e-8)
    assert 0 < report.summary["largest_leverage"] <= 1
    assert all(c.holds for c in report.certificates)


@pytest.mark.parametrize("name", ["logistic_regression", "penalized_logistic_regression", "generalized_linear_model"])
def test_no_leverage_is_above_one(name: str) -> None:
    s = np.full(60, 0.01)
    params = {"penalty": "firth"} if name.startswith("penalized") else {}
    target = Y if name.startswith("generalized") else LABELS
    m: Any = build({"algorithm": name, "params": params}).fit(X, target, sample_weight=s)
    assert m.diagnostics(X, target, sample_weight=s).summary["largest_leverage"] <= 1


@pytest.mark.parametrize("name", ["logistic_regression", "penalized_logistic_regression"])
@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e290])
def test_errors_of_slopes_are_told_in_any_unit(name: str, unit: float) -> None:
    params = {"penalty": "firth"} if name.startswith("penalized") else {}
    Z, spec = R.normal(size=(60, 2)), {"algorithm": name, "params": params}
    one, far = (build(spec).fit(A, LABELS).diagnostics(A, LABELS).tables["coefficients"] for A in (Z, Z * unit))
    for mine, other in zip(one.rows[1:], far.rows[1:], strict=True):
        assert (other[-1], other[4:6]) == (None, pytest.approx(mine[4:6], rel=1e-6))
        np.testing.assert_allclose(np.array(other)[[2, 3, 6, 7]].astype(float) * unit,
                                   np.array(mine)[[2, 3, 6, 7]].astype(float), rtol=1e-6)  # fmt: skip


@pytest.mark.parametrize("name", ["tukey_biweight_regression", "huber_regression"])
def test_targets_of_tiny_units_are_fitted(name: str) -> None:
    one: Any = build({"algorithm": name, "params": {}}).fit(X, Y)
    far: Any = build({"algorithm": name, "params": {}}).fit(X, Y * 1e-150)
    np.testing.assert_allclose(far.coef_ * 1e150, one.coef_, rtol=1e-9)
    here, there = (m.diagnostics(X, y).tables["coefficients"].rows for m, y in ((one, Y), (far, Y * 1e-150)))
    assert [row[3] for row in there] == pytest.approx([row[3] for row in here], rel=1e-6)


@pytest.mark.parametrize(("name", "params", "place"), [
    ("ridge_regression", {"choose_alpha": "cross_validation", "folds": 61}, "/params/folds"),
    ("lasso", {"choose_alpha": "cross_validation", "folds": 61}, "/params/folds"),
    ("tukey_biweight_regression", {"c": 1e-80}, "/params/c"), ("huber_regression", {"delta": 1e-80}, "/params/delta"),
])  # fmt: skip
def test_refusals_name_the_parameter(name: str, params: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        build({"algorithm": name, "params": params}).fit(X, Y)
    assert [i.pointer for i in refused.value.issues] == [place]


def test_weights_out_of_range_are_named() -> None:
    with pytest.raises(InvalidData) as refused:
        build({"algorithm": "linear_regression", "params": {}}).fit(X, Y, sample_weight=np.full(60, 1e-300))
    assert [(i.pointer, i.code) for i in refused.value.issues] == [("/weights", "out_of_range")]
