"""Systematic samples of rows by size, and fits that start from one."""

import numpy as np
import pytest

from ml_core.linear.softmax_regression import SoftmaxRegression
from ml_core.parallel import use_threads
from ml_core.solvers.leverage_sample import squared_lengths, systematic


def sizes(n: int = 5000) -> np.ndarray:
    return np.random.default_rng(0).pareto(1.0, n) + 0.1


def test_rows_are_taken_in_proportion_to_their_size_and_large_ones_always() -> None:
    size, m = sizes(), 400
    rows, chance = systematic(size, m)
    assert len(rows) in (m - 1, m)
    below = chance < 1.0
    rate = chance[below] / size[rows][below]
    assert rate.max() == pytest.approx(rate.min(), rel=1e-12)
    assert set(np.flatnonzero(size * rate[0] >= 1.0 + 1e-9)) <= set(rows.tolist())
    assert (np.diff(rows) > 0).all()


def test_a_sum_of_sizes_is_estimated_to_one_row() -> None:
    size = sizes()
    rows, chance = systematic(size, 400)
    step = float((size[rows] / chance)[chance < 1.0].max())
    assert abs((size[rows] / chance).sum() - size.sum()) <= step * (1 + 1e-9)


def test_lengths_agree_with_numpy_and_are_cut_off() -> None:
    X = np.random.default_rng(1).normal(size=(50, 4)) * [1.0, 10.0, 0.1, 1e200]
    mean, scale = X.mean(axis=0), np.array([1.0, 10.0, 0.1, 1e200])
    whole = (((X - mean) / scale) ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_lengths(X, mean, scale, 1e9), whole, rtol=1e-12)
    np.testing.assert_allclose(squared_lengths(X, mean, scale, 2.0), np.minimum(whole, 2.0), rtol=1e-12)
    assert (squared_lengths(X, mean, np.full(4, 1e-200), 200.0) == 200.0).all()


def table(n: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Three classes; the last column is 1 in about 30 of n rows, which one in eight rows hardly show."""
    rng = np.random.default_rng(2)
    X = np.hstack([rng.normal(size=(n, 4)), (rng.random((n, 1)) < 30 / n).astype(float)])
    scores = X @ rng.normal(size=(5, 3)) + rng.gumbel(size=(n, 3))
    return X, scores.argmax(axis=1)


def test_rare_columns_leave_few_steps_and_a_gradient_of_zero_whatever_the_threads() -> None:
    X, y = table()
    fits = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            fits.append(SoftmaxRegression(alpha=1.0).fit(X, y))
    model = fits[0]
    assert model.solution_.converged
    assert model.n_iter_ <= 10
    for other in fits[1:]:
        assert np.array_equal(model.coef_, other.coef_)
        assert np.array_equal(model.intercept_, other.intercept_)
    off = model.predict_proba(X) - np.eye(3)[y]
    assert np.abs(off.T @ X + model.coef_).max() <= 1e-9 * len(X) ** 0.5
    assert np.abs(off.sum(axis=0)).max() <= 1e-9 * len(X) ** 0.5
