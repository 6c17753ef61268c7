"""Rows in pieces, in one of which a column is so small that its squares vanish: only the whole table decides."""

import numpy as np
import pytest

from ml_core.errors import InvalidData
from ml_core.registry import build
from ml_core.sums import diagnose_chunks, fit_chunks

CHUNKED = [
    "linear_regression", "ridge_regression", "generalized_tikhonov", "bayesian_linear_regression",
    "least_squares_classifier", "centroid_classifier", "linear_discriminant_analysis",
    "quadratic_discriminant_analysis", "gaussian_naive_bayes",
]  # fmt: skip


class Pieces:
    """The rows in three chunks."""

    def __init__(self, X, y):
        self.parts = list(zip(np.array_split(X, 3), np.array_split(y, 3), strict=True))

    def __len__(self):
        return len(self.parts)

    def read(self, i):
        return *self.parts[i], None


def table(model, tiny):
    """(60, 3) with the column 1 tiny in the second third, and a target."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=60)
    X[20:40, 1] *= tiny
    return X, np.where(y > 0, "yes", "no") if model.task == "classification" else y


def scores(model, X):
    return model.decision_function(X) if model.task == "classification" else model.predict(X)


@pytest.mark.parametrize("name", CHUNKED)
@pytest.mark.parametrize("tiny", [1e-152, 1e-200, 1e-307])
def test_pieces_with_a_tiny_column_are_learned_from(name, tiny):
    model = build({"algorithm": name, "params": {}})
    X, y = table(model, tiny)
    model.fit(X[:20], y[:20])
    model.update(X[20:40], y[20:40]).update(X[40:], y[40:])
    whole = build({"algorithm": name, "params": {}}).fit(X, y)
    chunks = fit_chunks(build({"algorithm": name, "params": {}}), Pieces(X, y))
    for pieces in (model, chunks):
        np.testing.assert_allclose(scores(pieces, X), scores(whole, X), rtol=1e-8, atol=1e-9)
        assert all(c.holds for c in pieces.diagnostics(X, y).certificates)
    assert all(c.holds for c in diagnose_chunks(chunks, Pieces(X, y)).certificates)


@pytest.mark.parametrize("name", [n for n in CHUNKED if n != "linear_regression"])
def test_a_column_that_is_tiny_in_every_piece_is_named(name):
    model = build({"algorithm": name, "params": {}})
    X, y = table(model, 1.0)
    X[:, 1] *= 1e-160
    with pytest.raises(InvalidData, match="column 1 is below 1e-150"):
        fit_chunks(model, Pieces(X, y))
    with pytest.raises(InvalidData, match="column 1 is below 1e-150"):
        model.fit(X, y)


@pytest.mark.parametrize("name", ["ridge_regression", "generalized_tikhonov"])
def test_tiny_rows_after_zeros_are_named_and_change_nothing(name):
    model = build({"algorithm": name, "params": {}})
    X, y = table(model, 1.0)
    X[:10, 1] = 0.0
    model.fit(X[:10], y[:10])
    before = model.coef_.copy()
    with pytest.raises(InvalidData, match="column 1 is below 1e-150"):
        model.update(X[10:] * [1.0, 1e-160, 1.0], y[10:])
    np.testing.assert_array_equal(model.coef_, before)
    np.testing.assert_allclose(
        model.update(X[10:], y[10:]).coef_, build({"algorithm": name, "params": {}}).fit(X, y).coef_, rtol=1e-9
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e160])
def test_least_squares_learns_from_pieces_in_any_unit(scale):
    X, y = table(build({"algorithm": "linear_regression", "params": {}}), 1.0)
    fit = build({"algorithm": "linear_regression", "params": {}}).fit(X, y)
    Z = X * [1.0, scale, 1.0]
    model = build({"algorithm": "linear_regression", "params": {}}).fit(Z[:20], y[:20]).update(Z[20:], y[20:])
    np.testing.assert_allclose(model.coef_ * [1.0, scale, 1.0], fit.coef_, rtol=1e-12)
    report = model.diagnostics(Z, y)
    assert all(c.holds for c in report.certificates)
    assert report.summary["digits_left"] == pytest.approx(fit.diagnostics(X, y).summary["digits_left"], abs=0.1)
