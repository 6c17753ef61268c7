"""Factors and inverses by tiles: LAPACK's to rounding, the same bits on any number of threads, in place."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import LinAlgError, hilbert

from ml_core.numerics import positive, tiles
from ml_core.parallel import team, use_threads


def kernel(n: int, noise: float = 0.1) -> np.ndarray:
    """A Gaussian kernel matrix with noise."""
    X = np.random.default_rng(n).normal(size=(n, 3))
    return np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1)) + noise * np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 600, 1025])
def test_the_factor_and_the_inverse_are_those_of_the_matrix(n: int) -> None:
    A = kernel(n)
    L = A.copy()
    assert tiles.cholesky(L)
    np.testing.assert_array_equal(np.triu(L, 1), np.triu(A, 1), err_msg="the upper triangle is kept")
    np.testing.assert_allclose(np.tril(L) @ np.tril(L).T, A, atol=1e-12)
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(A), atol=1e-12)
    tiles.inverse(L)
    np.testing.assert_array_equal(np.triu(L, 1), np.triu(A, 1))
    inverse = np.tril(L) + np.tril(L, -1).T
    np.testing.assert_allclose(inverse @ A, np.eye(n), atol=1e-10)


def test_bits_do_not_depend_on_the_threads() -> None:
    found = []
    for n in (1, 2, 3, 5):
        A = kernel(900)
        with use_threads(n):
            assert tiles.cholesky(A)
            L = A.copy()
            tiles.inverse(A)
        found.append((L, A))
    for L, A in found[1:]:
        np.testing.assert_array_equal(L, found[0][0])
        np.testing.assert_array_equal(A, found[0][1])


@pytest.mark.parametrize("row", [0, 300, 899])
def test_a_matrix_that_is_not_positive_definite_is_told(row: int) -> None:
    A = kernel(900)
    A[row, row] = -1.0
    assert not tiles.cholesky(A.copy())
    with pytest.raises(LinAlgError):
        positive.factor(A)


def test_a_nearly_singular_matrix_gets_jitter_and_its_upper_triangle_back() -> None:
    A = hilbert(700)
    before = A.copy()
    jitter = positive.factor(A)
    assert 0 < jitter < 1e-3
    L = np.tril(A)
    np.testing.assert_allclose(L @ L.T, before + jitter * np.eye(700), atol=1e-12)


@pytest.mark.parametrize("A", [np.eye(4)[::2, ::2], np.eye(4, dtype=np.float16), np.ones((2, 3))])
def test_other_layouts_are_refused(A: np.ndarray) -> None:
    with pytest.raises(TypeError, match="C-ordered"):
        tiles.cholesky(A)


def test_a_factor_in_single_precision_may_stand_in_rows_that_are_longer() -> None:
    A, B = kernel(600), np.random.default_rng(0).normal(size=(3, 600)).astype(np.float32)
    held = np.full((600, 1300), np.nan, dtype=np.float32)
    held[:, :600] = A
    L, right = held[:, :600], B.copy()
    assert tiles.cholesky(L)
    assert np.isnan(held[:, 600:]).all()
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(A), atol=1e-4)
    tiles.solved(L, right)
    np.testing.assert_allclose(right @ A, B, atol=1e-3)
    with pytest.raises(TypeError, match="right sides"):
        tiles.solved(L, B.astype(np.float64))


def test_a_failure_in_a_team_reaches_the_caller() -> None:
    for n in (1, 2):
        with use_threads(n), team() as each, pytest.raises(ZeroDivisionError):
            each(lambda i: 1 // i, [1, 0])
