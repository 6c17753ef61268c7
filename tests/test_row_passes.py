"""Passes over ranges of rows: magnitudes of columns against NumPy, and fits whose bits do not depend on the threads."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from ml_core.linear.generalized_linear_model import GeneralizedLinearModel
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.losses.softmax import Softmax
from ml_core.numerics.column_moments import magnitudes
from ml_core.parallel import CELLS, row_ranges, use_threads
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.weighted_products import MANY, STRIP_CELLS, STRIP_ROWS, add_products, blocks, room_for

RNG = np.random.default_rng(4)
X = RNG.normal(3.0, 1.0, (3 * CELLS // 20, 20))
Y = X @ RNG.normal(size=20) + RNG.normal(size=len(X))
LABELS = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
COUNTS = RNG.poisson(np.exp(0.1 * (Y - Y.mean()) / Y.std())).astype(float)
FITS: dict[str, tuple[Any, Any]] = {
    "least squares": (LinearRegression(), Y),
    "weighted": (LinearRegression(fit_intercept=False), np.stack([Y, Y**2], axis=1)),
    "ridge": (RidgeRegression(alpha=2.0), Y),
    "logistic": (LogisticRegression(alpha=1.0), LABELS > 0),
    "softmax": (LogisticRegression(alpha=1.0), LABELS),
    "counts": (GeneralizedLinearModel(family="poisson"), COUNTS),
}


@pytest.mark.parametrize("shape", [(1, 3), (7, 1), (1000, 4), (3 * CELLS // 9, 9)])
def test_magnitudes_are_those_of_numpy(shape: tuple[int, int]) -> None:
    A = np.random.default_rng(1).normal(size=shape)
    A.flags.writeable = False
    np.testing.assert_array_equal(magnitudes(A), np.abs(A).max(axis=0))


@pytest.mark.parametrize("row", [0, 2 * CELLS // 9])
def test_a_cell_that_is_no_number_shows_in_its_column(row: int) -> None:
    A = np.ones((3 * CELLS // 9, 9))
    A[row, 4] = np.nan
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(magnitudes(A))), [4])


@pytest.mark.parametrize(("n", "width"), [(1, 1), (100_000, 3), (CELLS, 1000), (CELLS, 1), (5, 2 * CELLS)])
def test_ranges_cover_the_rows_once(n: int, width: int) -> None:
    rows = np.concatenate([np.arange(n)[r] for r in row_ranges(n, width)])
    np.testing.assert_array_equal(rows, np.arange(n))


@pytest.mark.parametrize("name", FITS)
def test_threads_change_no_bit(name: str) -> None:
    model, y = FITS[name]
    s = np.random.default_rng(2).uniform(0.5, 2.0, len(X)) if name == "weighted" else None

    def learned(threads: int) -> dict[str, Any]:
        with use_threads(threads):
            return {k: np.array(v) for k, v in vars(model.fit(X, y, s)).items() if k in ("coef_", "intercept_", "rss_")}

    one = learned(1)
    for threads in (2, 3):
        for k, v in learned(threads).items():
            np.testing.assert_array_equal(v, one[k])


def test_weighted_normal_equations_are_the_answer_of_an_orthogonal_method() -> None:
    model, targets = FITS["weighted"]
    s = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    root = np.sqrt(s)[:, None]
    want = np.linalg.lstsq(X * root, targets * root, rcond=None)[0]
    np.testing.assert_allclose(model.fit(X, targets, s).coef_.T, want, rtol=1e-12, atol=1e-13)
    assert model.solver_ == "normal_equations"


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("q", "d"), [(1, 4), (3, 4), (MANY, 4), (MANY + 2, 70)])
@pytest.mark.parametrize("kind", ["same", "each", "signed"])
def test_weighted_products_are_their_sums(q: int, d: int, kind: str, intercept: bool) -> None:
    rng = np.random.default_rng(3)
    m = max(STRIP_CELLS // (q * d), STRIP_ROWS) + 7
    Z, s = rng.normal(size=(m, d)), rng.uniform(0.5, 2.0, m)
    A = rng.normal(size=(1 if kind == "same" else m, q, q))
    C = np.repeat(A @ A.transpose(0, 2, 1), m if kind == "same" else 1, axis=0)
    if kind == "signed":
        C *= rng.choice([-1.0, 1.0], m)[:, None, None]
    full = np.hstack([Z, np.ones((m, 1))]) if intercept else Z
    D = full.shape[1]
    total = room_for(q, D)
    for part in (slice(0, m // 3), slice(m // 3, m)):
        add_products(total, Z[part], C[part], s[part], D)
    want = np.einsum("i,ijk,ia,ib->jkab", s, C, full, full, optimize=True)
    np.testing.assert_allclose(blocks(total, q, D), want, rtol=1e-11, atol=1e-8 * np.abs(want).max())


def test_pairs_of_columns_too_many_for_a_tile_are_all_there() -> None:
    rng = np.random.default_rng(4)
    q, D, m = MANY, STRIP_CELLS // STRIP_ROWS // 10, 3
    Z = rng.normal(size=(m, D))
    C = np.arange(1.0, m + 1)[:, None, None] * np.eye(q)
    total = room_for(q, D)
    add_products(total, Z, C, np.ones(m), D)
    want = (Z.T * np.arange(1.0, m + 1)) @ Z
    np.testing.assert_allclose(blocks(total, q, D)[1, 1], want, rtol=1e-12, atol=1e-12)
    assert not blocks(total, q, D)[0, 1].any()


def test_the_hessian_of_softmax_at_zero_is_one_gram_matrix_times_the_curvature_of_equal_shares() -> None:
    rows = slice(0, 5000)
    P = LinearObjective(X[rows], LABELS[rows].astype(float), np.ones(5000), Softmax(3))
    Z = P.standardised()
    want = np.kron(Z.T @ Z, np.eye(2) / 3)
    np.testing.assert_allclose(P.second(P.zero())[2], want, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_standardised_rows_are_one_copy(intercept: bool) -> None:
    P = LinearObjective(X, LABELS.astype(float), np.ones(len(X)), Softmax(3), fit_intercept=intercept)
    tracemalloc.start()
    Z = P.standardised()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.05 * Z.nbytes
    np.testing.assert_array_equal(Z[:, :20], (X - P.columns.mean) / P.columns.scale)
    assert Z.shape[1] == 20 + intercept
    assert (Z[:, 20:] == 1).all()
