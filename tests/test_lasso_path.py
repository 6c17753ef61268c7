"""Fits along descending penalties against single fits, for tall and wide tables, with everything that is awkward."""

import numpy as np
import pytest

from ml_core.linear.lasso import Lasso
from ml_core.linear.lasso_problem import Problem
from ml_core.parallel import use_threads
from ml_core.solvers.lasso_path import products
from ml_core.solvers.unit_columns import Columns


def table(n, d, seed=0, *, offset=0.0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) + r.normal(size=(n, 1)) + offset
    X[:, 0] = 3.0
    y = X[:, 1:8] @ r.normal(size=7) + r.normal(size=n) + 4
    return X, y, r.uniform(0.2, 3, n)


def problem_of(X, y, s, *, intercept=True, ridge=0.0):
    return Problem.make(X, y, s, intercept, np.ones(X.shape[1]), ridge)


@pytest.mark.parametrize("shape", [(400, 30), (400, 190), (60, 300)])
@pytest.mark.parametrize("case", [{}, {"ridge": 5.0}, {"intercept": False}, {"offset": 1e6}])
@pytest.mark.parametrize("tol", [1e-3, 1e-7, 0.0])
def test_each_penalty_of_a_path_is_a_fit_within_its_gap(shape, case, tol):
    how = dict(case)
    X, y, s = table(*shape, offset=how.pop("offset", 0.0))
    problem = problem_of(X, y, s, **how)
    alphas = problem.alpha_max() * np.geomspace(1, 1e-3, 25)
    seen = 0
    for alpha, (found, w) in zip(alphas, problem.path(alphas, tol, 10_000), strict=True):
        gap, _ = problem.state(w, float(alpha))
        noise = 16 * float((problem.Z.sure * (1 + np.abs(w) * problem.Z.length / problem.size)).max())
        assert found.converged
        assert 2 * gap.gap <= max(tol, 1e-12 + noise)
        assert w[0] == 0 or how.get("intercept") is False
        seen += np.count_nonzero(w)
    assert seen > 0


def test_order_in_memory_and_steps_of_the_grid_do_not_matter():
    X, y, s = table(500, 40)
    alphas = problem_of(X, y, s).alpha_max() * np.geomspace(1, 1e-2, 30)
    fine = [w for _, w in problem_of(np.asfortranarray(X), y, s).path(alphas, 1e-9, 10_000)]
    few = [w for _, w in problem_of(X, y, s).path(alphas[[0, 29]], 0.0, 10_000)]
    np.testing.assert_allclose(fine[-1], few[-1], atol=3e-4 * np.abs(few[-1]).max())
    assert not fine[0].any()


def test_rounds_that_are_cut_are_told():
    X, y, s = table(400, 30)
    problem = problem_of(X, y, s)
    ends = [found.converged for found, _ in problem.path(problem.alpha_max() * np.array([0.5, 1e-3]), 1e-8, 1)]
    assert not ends[-1]


def test_a_constant_target_has_a_path_of_zeros():
    X, _, s = table(50, 9)
    assert not np.array([w for _, w in problem_of(X, np.full(50, 7.0), s).path(np.array([2.0, 1.0]), 0.0, 9)]).any()


def test_products_in_blocks_are_those_of_the_unit_columns(monkeypatch):
    monkeypatch.setattr("ml_core.solvers.lasso_path.BLOCK", 1)
    X, _, s = table(101, 12, offset=1e5)
    Z = Columns.of(X, s, True)
    at = Z.take(np.arange(1, 12))
    np.testing.assert_allclose(products(Z)[1:, 1:], Z.gram[np.ix_(at, at)], atol=1e-13)
    assert not products(Z)[0].any()


def test_products_have_the_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("ml_core.solvers.lasso_path.BLOCK", 100_000)
    X, _, s = table(1500, 210)
    Z, G = Columns.of(X, s, center=True), []
    for n in (1, 2, 3):
        with use_threads(n):
            G.append(products(Z))
    assert (G[0] == G[1]).all()
    assert (G[0] == G[2]).all()
    rows = np.sqrt(s)[:, None] * (X - Z.mean) / np.where(Z.length > 0, Z.length, np.inf)
    np.testing.assert_allclose(G[0], rows.T @ rows, atol=1e-14)


def test_taking_columns_a_few_at_a_time_keeps_their_products():
    X, _, s = table(80, 40)
    Z = Columns.of(X, s, True)
    for some in ([5], [7, 5, 9], list(range(1, 40))):
        Z.take(np.array(some))
    assert sorted(Z.order) == list(range(1, 40))
    U = np.sqrt(s)[:, None] * (X[:, Z.order] - Z.mean[Z.order]) / Z.length[Z.order]
    np.testing.assert_allclose(Z.gram, U.T @ U, atol=1e-13)
    np.testing.assert_allclose(Z.taken, U, rtol=1e-15)


def test_the_reported_path_ends_where_a_fit_does():
    X, y, s = table(90, 12)
    m = Lasso(path_length=12, tol=1e-8).fit(X, y, sample_weight=s)
    curve = m.diagnostics(X, y, s).curves["path"]
    last = Lasso(alpha=float(curve["x"][-1])).fit(X, y, sample_weight=s)
    assert curve["l1_norm"][-1] == pytest.approx(np.abs(last.coef_).sum(), rel=1e-3)
