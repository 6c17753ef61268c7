"""Columns of very different units cost penalised least squares no digits, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ml_core import registry
from ml_core.numerics.singular import singular

FREE = {"operator": [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [0, 0, 0]]}
UNITS = [(1.0, 1.0, 1.0), (1e6, 1.0, 1.0), (1e12, 1.0, 1e-3), (1e-12, 1.0, 1e12), (1e80, 1.0, 1.0)]


def exact(X: np.ndarray, y: np.ndarray, alpha: float, bias: bool) -> np.ndarray:
    """(b, w) from the normal equations, by elimination in fractions."""
    A = [[Fraction(1), *(Fraction(v) for v in row)] for row in X.tolist()]
    p = len(A[0])
    M = [[sum(r[i] * r[j] for r in A) + (Fraction(alpha) if i == j and (i or bias) else 0) for j in range(p)]
         + [sum(r[i] * Fraction(t) for r, t in zip(A, y.tolist(), strict=True))] for i in range(p)]  # fmt: skip
    for k in range(p):
        M[k] = [v / M[k][k] for v in M[k]]
        for i in range(p):
            if i != k:
                M[i] = [a - M[i][k] * b for a, b in zip(M[i], M[k], strict=True)]
    return np.array([float(row[-1]) for row in M])


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1.0, 100.0])
@pytest.mark.parametrize(
    ("name", "params"),
    [("ridge_regression", {}), ("ridge_regression", {"penalize_bias": True}), ("generalized_tikhonov", {}),
     ("generalized_tikhonov", FREE)],
)  # fmt: skip
def test_every_digit_whatever_the_units(name: str, params: dict[str, Any], alpha: float, units: Any) -> None:
    r = np.random.default_rng(0)
    X = r.normal(size=(20, 3))
    y = X @ [1.0, 2.0, 3.0] + r.normal(size=20)
    model: Any = registry.build({"algorithm": name, "params": {**params, "alpha": alpha}}).fit(X * units, y)
    want = exact(X * units, y, alpha, "penalize_bias" in params)
    np.testing.assert_allclose(model.coef_, want[1:], rtol=1e-12)
    assert all(c.holds for c in model.diagnostics(X * units, y).certificates)
    assert not model.notices_


@pytest.mark.parametrize("name", ["ridge_regression", "generalized_tikhonov"])
def test_a_tiny_column_beside_others_keeps_its_digits(name: str) -> None:
    r = np.random.default_rng(0)
    X = r.normal(size=(20, 3)) * [1.0, 1e-140, 1.0]
    y = X @ [1.0, 2.0, 3.0] + r.normal(size=20)
    model: Any = registry.build({"algorithm": name, "params": {"alpha": 1.0}}).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact(X, y, 1.0, False)[1:], rtol=1e-12)
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


def test_many_solutions_are_told_without_a_penalty() -> None:
    X, y = np.array([[1.0, 2], [2, 4], [3, 6]]), np.array([1.0, 2, 4])
    for name in ("ridge_regression", "generalized_tikhonov"):
        model: Any = registry.build({"algorithm": name, "params": {"alpha": 0.0}}).fit(X, y)
        np.testing.assert_allclose(model.coef_, [0.3, 0.6], rtol=1e-14)
        assert model.intercept_ == pytest.approx(-2 / 3, rel=1e-14)
        assert [n.code for n in model.notices_] == ["rank_deficient"]
        model = registry.build({"algorithm": name, "params": {"alpha": 1e-3}}).fit(X, y)
        assert not model.notices_


def test_certificates_hold_where_nothing_is_left_over() -> None:
    r = np.random.default_rng(1)
    X, y = r.normal(size=(6, 9)), r.normal(size=6)
    model: Any = registry.build({"algorithm": "ridge_regression", "params": {"alpha": 0.0}}).fit(X, y)
    assert model.predict(X) == pytest.approx(y, rel=1e-12)
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
@pytest.mark.parametrize("graded", [0, 1])
def test_singular_values_to_their_own_rounding(shape: tuple[int, int], graded: int) -> None:
    r = np.random.default_rng(2)
    size = 10.0 ** np.linspace(-9, 9, shape[graded])
    A = r.normal(size=shape) * (size if graded else size[:, None])
    U, c, V = singular(A)
    r = min(shape)
    assert U.shape == (shape[0], r)
    assert V.shape == (shape[1], r)
    np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-14)
    np.testing.assert_allclose(V.T @ V, np.eye(r), atol=1e-14)
    assert (np.diff(c) <= 0).all()
    np.testing.assert_allclose((U * c) @ V.T, A, atol=1e-14 * c[0])
