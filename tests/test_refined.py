"""Systems solved by a factor in single precision: the digits of a double one, or the matrix back as it was."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import RBFKernel
from ml_core.numerics.refined import LEAST_ROWS, product, refined
from ml_core.parallel import use_threads
from tests.test_tiles import kernel

N = LEAST_ROWS + 37


def right(n: int = N) -> np.ndarray:
    """Right sides of sizes that differ by 10^300, and one of zeros."""
    B = np.random.default_rng(1).normal(size=(n, 4)) * np.array([1.0, 1e-150, 1e150, 0.0])
    return np.ascontiguousarray(B)


@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-3])
def test_the_answer_has_the_residuals_of_a_double_factor(noise: float, scale: float) -> None:
    A, B = scale * kernel(N, noise), right()
    X = refined(A.copy(), B, scale * noise)
    assert X is not None
    ours, theirs = (np.abs(B - A.astype(np.longdouble) @ x).max(axis=0) for x in (X, cho_solve(cho_factor(A), B)))
    assert (ours <= 4 * theirs).all()
    np.testing.assert_array_equal(X[:, 3], 0.0)


def test_bits_do_not_depend_on_the_threads() -> None:
    B, found = right(), []
    for n in (1, 2, 5):
        with use_threads(n):
            found.append(refined(kernel(N), B, 0.1))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(("noise", "claimed"), [(1e-9, 1e-9), (1e-9, 1.0), (-0.5, 1.0)])
def test_a_matrix_too_steep_or_not_positive_definite_is_given_back(noise: float, claimed: float) -> None:
    A = kernel(N, noise)
    before = A.copy()
    assert refined(A, right(), claimed) is None
    np.testing.assert_array_equal(A, before)


def test_few_rows_go_by_the_double_factor() -> None:
    assert refined(kernel(200), right(200), 0.1) is None


def test_products_come_from_the_upper_triangle_and_the_diagonal() -> None:
    A, X = kernel(300), right(300)[:, :1]
    held = np.triu(A, 1)
    held[0, 0] = np.nan
    np.testing.assert_allclose(product(held, A.diagonal(), X), A @ X, rtol=1e-12)


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_kernel_ridge_is_the_solution_of_its_equations_to_rounding(intercept: str) -> None:
    rng = np.random.default_rng(5)
    X, s = rng.normal(size=(N, 3)), rng.uniform(0.5, 2.0, N)
    Y = np.column_stack([np.sin(X[:, 0]), 1e6 * X[:, 1] + 3.0])
    model = KernelRidgeRegression(kernel=RBFKernel(1.0), alpha=0.1, intercept=intercept).fit(X, Y, sample_weight=s)
    K = RBFKernel(1.0)(X) + (1.0 if intercept == "penalised" else 0.0) + np.diag(0.1 / s)
    free = np.ones((N, 1 if intercept == "free" else 0))
    system = np.block([[K, free], [free.T, np.zeros((free.shape[1],) * 2)]])
    want = np.linalg.solve(system, np.vstack([Y, np.zeros((free.shape[1], 2))]))[:N]
    np.testing.assert_allclose(model.dual_coef_, want, atol=1e-11 * np.abs(want).max())
    assert model.jitter_ == 0.0
    assert all(c.holds for c in model.diagnostics(X, Y, s).certificates)
