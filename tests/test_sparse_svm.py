"""soft_margin_svm on scipy.sparse rows: the machine of the same rows as a table, liblinear, refusals, certificates."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC

from ml_core.errors import InvalidData
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.progress import listen
from ml_core.solvers.dual_coordinate import balanced, dual_coordinate
from ml_core.svm.soft_margin_svm import SoftMarginSVM

LOSSES = ["hinge", "squared_hinge"]


def words(n: int = 300, d: int = 500, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Rows of a few logarithmic counts each, and labels that follow some columns."""
    r = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.03, rng=r, data_sampler=lambda size: 1 + np.log(r.integers(1, 6, size)))
    X = X.tocsr()
    return X, np.where(X @ r.normal(size=d) + 0.5 * r.normal(size=n) > 0, "yes", "no")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_the_machine_of_the_same_rows_as_a_table(loss: Any, layout: str) -> None:
    X, y = words()
    one = SoftMarginSVM(C=0.3, loss=loss, tol=1e-8).fit(X.asformat(layout), y)
    two = SoftMarginSVM(C=0.3, loss=loss, tol=1e-8).fit(X.toarray(), y)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-5)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X.toarray()), atol=1e-5)
    np.testing.assert_array_equal(one.predict(X), one.predict(X.toarray()))
    a, b = one.diagnostics(X, y), two.diagnostics(X.toarray(), y)
    assert all(c.holds for c in a.certificates), a.certificates
    assert not a.warnings
    assert a.summary["primal"] == pytest.approx(b.summary["primal"], rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_never_worse_than_liblinear(loss: Any) -> None:
    X, y = words(400, 300, 1)
    t, power = np.where(y == "yes", 1.0, -1.0), 1 + (loss == "squared_hinge")

    def objective(m: Any) -> float:
        slack = np.maximum(0, 1 - t * (X @ m.coef_[0] + m.intercept_[0]))
        return float(0.5 * m.coef_[0] @ m.coef_[0] + 0.2 * np.sum(slack**power))

    peer = LinearSVC(C=0.2, loss=loss, intercept_scaling=100.0, tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, y)
    ours = SoftMarginSVM(C=0.2, loss=loss).fit(X, y)
    assert objective(ours) <= objective(peer) * (1 + 1e-6)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=2e-3)


@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
def test_classes_and_weights(multiclass: Any) -> None:
    X, _ = words(240, 60, 2)
    r = np.random.default_rng(3)
    y, s = r.integers(0, 3, 240), r.integers(0, 3, 240).astype(float)
    one = SoftMarginSVM(C=0.1, multiclass=multiclass, tol=1e-8).fit(X, y, sample_weight=s)
    rows = np.repeat(np.arange(240), s.astype(int))
    two = SoftMarginSVM(C=0.1, multiclass=multiclass, tol=1e-8).fit(X[rows].toarray(), y[rows])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-5)
    report = one.diagnostics(X, y, s)
    assert all(c.holds for c in report.certificates), report.certificates


def test_rows_are_neither_made_dense_nor_written_into() -> None:
    n, d = 200, 2_000_000
    r = np.random.default_rng(4)
    at = r.integers(0, d, 2 * n)
    X = sparse.coo_array((np.ones(2 * n), (np.repeat(np.arange(n), 2), at)), shape=(n, d)).tocsr()
    before = X.copy()
    y = (at[::2] < d // 2).astype(int)
    model = SoftMarginSVM().fit(X, y)  # as a table 3.2 GB
    assert model.score(X, y) == 1.0
    for a, b in ((X.data, before.data), (X.indices, before.indices), (X.indptr, before.indptr)):
        np.testing.assert_array_equal(a, b)


def test_cells_given_twice_are_summed() -> None:
    cells = np.array([1.0, 2.0, 3.0, -3.0]), np.zeros(4, dtype=int), np.array([0, 2, 3, 4])
    X = sparse.csr_array(cells, shape=(3, 1))
    model = SoftMarginSVM().fit(X, [1, 1, 0])
    same = SoftMarginSVM().fit([[3.0], [3.0], [-3.0]], [1, 1, 0])
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-5)
    assert len(X.data) == 4


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_bad_cells_are_named(value: float) -> None:
    X, y = words(20, 10)
    bad = X.tolil()
    bad[7, 3] = value
    with pytest.raises(InvalidData, match="row 7, column 3") as refused:
        SoftMarginSVM().fit(bad, y)
    assert refused.value.issues[0].pointer == "/rows/7/3"


def test_other_estimators_say_that_they_take_tables() -> None:
    with pytest.raises(TypeError, match="toarray"):
        RidgeRegression().fit(words(20, 10)[0], np.zeros(20))


def test_progress_and_width() -> None:
    X, y = words(50, 40)
    heard: list[Any] = []
    with listen(heard.append):
        model = SoftMarginSVM().fit(X, y)
    assert any("duality_gap" in t.metrics for t in heard)
    with pytest.raises(InvalidData, match="features"):
        model.predict(X[:, :5])


def test_balance_moves_free_multipliers_alone() -> None:
    alpha, sign, cap = np.array([0.0, 0.5, 1.0, 0.4, 1.0]), np.array([1.0, 1, 1, -1, -1]), np.ones(5)
    got = balanced(alpha, sign, cap)
    assert got @ sign == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_array_equal(got[[0, 2, 4]], alpha[[0, 2, 4]])
    assert ((got >= 0) & (got <= cap)).all()


def _stored(X: Any, how: str) -> Any:
    """The cells of a csr_array in another layout."""
    if how == "int64 indices":
        return sparse.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    if how == "unsorted":
        back = np.concatenate([np.arange(e - 1, s - 1, -1) for s, e in pairwise(X.indptr)])
        return sparse.csr_array((X.data[back], X.indices[back], X.indptr), shape=X.shape)
    if how == "cells twice":
        A = X.tocoo()
        cells = (np.tile(A.row, 2), np.tile(A.col, 2))
        return sparse.coo_array((np.concatenate([A.data - 1.0, np.ones(A.nnz)]), cells), shape=X.shape)
    if how == "explicit zeros":
        A = X.tocoo()
        cells = (np.append(A.row, [0, 5]), np.append(A.col, [7, 0]))
        return sparse.coo_array((np.append(A.data, [0.0, 0.0]), cells), shape=X.shape)
    if how == "read-only":
        for a in (X.data, X.indices, X.indptr):
            a.flags.writeable = False
        return X
    return X.asformat(how)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("how", ["csc", "coo", "lil", "dok", "bsr", "int64 indices", "unsorted", "cells twice",
                                 "explicit zeros", "read-only"])  # fmt: skip
def test_any_layout_of_the_same_cells(loss: Any, how: str) -> None:
    X, y = words(120, 60, 5)
    X = X.tolil()
    X[[3, 40]] = 0.0  # rows and columns without a cell
    X[:, [0, 7]] = 0.0
    X = sparse.csr_array(X)
    model = SoftMarginSVM(C=0.3, loss=loss, tol=1e-8).fit(_stored(X.copy(), how), y)
    same = SoftMarginSVM(C=0.3, loss=loss, tol=1e-8).fit(X.toarray(), y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, same.intercept_, atol=1e-5)
    report = model.diagnostics(_stored(X.copy(), how), y)
    assert all(c.holds for c in report.certificates), report.certificates


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "bool"])
def test_cells_of_other_types(dtype: Any) -> None:
    X, y = words(60, 30, 6)
    X = X.astype(dtype)
    model = SoftMarginSVM(C=0.3).fit(X, y)
    np.testing.assert_allclose(model.coef_, SoftMarginSVM(C=0.3).fit(X.astype(np.float64), y).coef_, atol=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_given_several_times_with_a_high_price(loss: Any) -> None:
    r = np.random.default_rng(0)
    X = sparse.random_array((300, 200), density=0.03, rng=r).tocsr()
    y = (X @ r.normal(size=200) + 0.3 * r.normal(size=300) > 0).astype(int)
    rows = r.integers(0, 300, 900)
    labels = np.where(r.random(900) < 0.05, 1 - y[rows], y[rows])
    model = SoftMarginSVM(C=14.0, loss=loss).fit(X[rows], labels)
    report = model.diagnostics(X[rows], labels)
    assert model.machines_[0].converged
    assert not report.warnings
    assert all(c.holds for c in report.certificates), report.certificates
    again = SoftMarginSVM(C=14.0, loss=loss).fit(X[rows], labels)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_a_multiplier_that_moves_far_wakes_the_rows_that_were_firm() -> None:
    """Slopes of the rows that are left are 0 at once, so that the intercept alone has to bring back the others."""
    X, sign = np.array([[-2.0], [-1], [1], [0], [2]]), np.array([-1.0, -1, -1, 1, 1])
    got = dual_coordinate(X, sign, np.ones(5), squared=False, tol=1e-9, max_iter=10_000)
    assert got.converged
    assert got.n_iter < 1000
    assert (got.w[0], got.b) == pytest.approx((2 / 3, -1 / 3), abs=1e-8)
