"""Condition numbers and aliased columns of linear fits, against singular values in five hundred digits."""

import mpmath as mp
import numpy as np
import pytest

from ml_core.registry import build

FITS = [
    "linear_regression", "huber_regression", "tukey_biweight_regression", "least_absolute_deviations",
    "minimax_regression", "epsilon_insensitive_regression",
]  # fmt: skip


def condition(A, s):
    """Of √S A, by eigenvalues of the Gram matrix in so many digits that squares cost none."""
    with mp.workdps(500):
        M = mp.matrix(A.tolist())
        for i, v in enumerate(s):
            M[i, :] = M[i, :] * mp.sqrt(mp.mpf(float(v)))
        sizes = mp.eigsy(M.T * M, eigvals_only=True)
        return float(mp.sqrt(max(sizes) / min(sizes)))


def table(rng):
    X = rng.normal(size=(24, 3)) * [1.0, 100.0, 1e-3] + [0.0, 1e4, 0.0]
    return X, X[:, 0] + rng.standard_t(2, size=24), rng.integers(1, 4, size=24).astype(float)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e90])
def test_condition_number_is_that_of_the_weighted_rows(name, intercept, scale):
    X, y, s = table(np.random.default_rng(0))
    X[:, 2] *= scale
    d = build({"algorithm": name, "params": {"fit_intercept": intercept}}).fit(X, y, s).diagnostics(X, y, s)
    A = np.hstack([np.ones((len(X), 1)), X]) if intercept else X
    assert d.summary["condition_number"] == pytest.approx(condition(A, s), rel=1e-9)
    assert d.summary["rank"] == A.shape[1]
    assert "aliased_columns" not in d.tables


@pytest.mark.parametrize("name", ["huber_regression", "tukey_biweight_regression"])
def test_condition_number_at_the_answer_has_the_weights_of_the_loss(name):
    X, y, s = table(np.random.default_rng(1))
    y[:3] += 1e3
    m = build({"algorithm": name, "params": {}}).fit(X, y, s)
    d, u = m.diagnostics(X, y, s), np.abs(y - m.predict(X))
    if name == "huber_regression":
        omega = np.minimum(1.0, m.delta_ / u)
    else:
        omega = np.where(u < m.c_, (1 - (u / m.c_) ** 2) ** 2, 0.0)
    assert (omega[:3] < 0.01).all()
    want = condition(np.hstack([np.ones((len(X), 1)), X]), s * omega)
    assert d.summary["weighted_condition_number"] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("name", FITS)
def test_aliased_columns_are_named_and_have_no_condition(name):
    X, y, s = table(np.random.default_rng(2))
    X = np.column_stack([X, X[:, 0], np.full(len(X), 7.0)])
    d = build({"algorithm": name, "params": {}}).fit(X, y, s).diagnostics(X, y, s)
    assert d.summary["rank"] == 4
    assert d.summary["columns"] == 6
    assert d.summary["condition_number"] is None
    assert [row[0] for row in d.tables["aliased_columns"].rows] == [3, 4]
