"""Ridge and Tikhonov: one decomposition for all penalties, chosen by closed-form errors of leaving rows out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeCV

from ml_core.errors import InvalidParameter
from ml_core.linear.generalized_tikhonov import GeneralizedTikhonov
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.selection.splits import folds
from ml_core.sums import fit_chunks
from tests.least_squares import KNOWN_X, KNOWN_Y

GRID = np.logspace(-3, 3, 13)


def table(n=40, d=6, q=1, seed=0, offset=0.0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) + offset
    Y = X @ r.normal(size=(d, q)) + 2 * r.normal(size=(n, q)) + 3
    return X, Y[:, 0] if q == 1 else Y


def left_out_error(make, X, y, s=None):
    """One copy of a row left out, by as many fits; rows count as often as their weight says."""
    s = np.ones(len(y)) if s is None else s
    total = 0.0
    for i in range(len(y)):
        t = s.copy()
        t[i] -= 1
        m = make().fit(X, y, sample_weight=t)
        total += s[i] * float(np.sum((y[i] - m.predict(X[i : i + 1])[0]) ** 2))
    return total / s.sum() / (1 if y.ndim == 1 else y.shape[1])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "d", "q"), [(40, 6, 1), (15, 30, 1), (1500, 8, 1)])
def test_the_choice_is_the_peers(n, d, q, intercept):
    X, y = table(n, d, q)
    ours = RidgeRegression(choose_alpha="leave_one_out", alphas=GRID, fit_intercept=intercept).fit(X, y)
    peer = RidgeCV(alphas=GRID, fit_intercept=intercept, store_cv_results=True).fit(X, y)
    assert ours.alpha_ == pytest.approx(peer.alpha_)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-7, atol=1e-9)
    report = ours.diagnostics(X, y)
    assert [c.name for c in report.certificates if not c.holds] == []
    assert "alpha_choice" in [c.name for c in report.certificates]
    np.testing.assert_allclose(report.curves["path"]["leave_one_out_mse"], peer.cv_results_.mean(axis=0), rtol=1e-7)


@pytest.mark.parametrize("params", [{}, {"penalize_bias": True}, {"fit_intercept": False}])
def test_errors_along_the_path_are_those_of_refitting_with_counts_as_weights(params):
    X, Y = table(9, 3, 2, offset=1.0)
    s = np.array([1.0, 2, 1, 3, 1, 1, 2, 1, 1])
    report = RidgeRegression(alphas=GRID[::4], **params).fit(X, Y, sample_weight=s).diagnostics(X, Y, s)
    want = [left_out_error(lambda a=a: RidgeRegression(alpha=float(a), **params), X, Y, s) for a in GRID[::4]]
    np.testing.assert_allclose(report.curves["path"]["leave_one_out_mse"], want, rtol=1e-8)


def test_gcv_is_its_formula_and_sums_suffice_for_it():
    X, y = table(30, 4)
    m = RidgeRegression(choose_alpha="gcv", alphas=GRID).fit(X, y)
    A, values = X - X.mean(axis=0), []
    for a in GRID:
        H = A @ np.linalg.solve(A.T @ A + a * np.eye(4), A.T) + 1 / 30
        values.append(30 * np.sum((y - H @ y) ** 2) / (30 - np.trace(H)) ** 2)
    np.testing.assert_allclose(m.diagnostics(X, y).curves["path"]["gcv"], values, rtol=1e-9)
    assert m.alpha_ == pytest.approx(GRID[int(np.argmin(values))])
    half = RidgeRegression(choose_alpha="gcv", alphas=GRID).fit(X[:12], y[:12]).update(X[12:], y[12:])
    assert half.alpha_ == pytest.approx(m.alpha_)
    np.testing.assert_allclose(half.coef_, m.coef_, rtol=1e-10)


class Halves:
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return 2

    def read(self, i):
        return self.X[i::2], self.y[i::2], None


@pytest.mark.parametrize("choice", ["leave_one_out", "gcv"])
def test_chunks_choose_as_memory_does_and_an_update_keeps_what_rows_alone_can_tell(choice):
    X, y = table(50, 5)
    whole = RidgeRegression(choose_alpha=choice, alphas=GRID).fit(X, y)
    parts = fit_chunks(RidgeRegression(choose_alpha=choice, alphas=GRID), Halves(X, y))
    assert parts.alpha_ == pytest.approx(whole.alpha_)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-10)
    more = whole.update(X[:3] + 1, y[:3])
    assert ("alpha_kept" in [n.code for n in more.notices_]) == (choice == "leave_one_out")


def test_the_mean_scale_and_ends_of_the_grid():
    X, y = KNOWN_X, KNOWN_Y
    mean = RidgeRegression(alpha=1.0, objective_scale="mean").fit(X, y)
    np.testing.assert_allclose([mean.coef_[0], mean.intercept_], [0.6111111, 1.2222222], atol=1e-7)
    edge = RidgeRegression(choose_alpha="leave_one_out", alphas=[100.0, 1000.0]).fit(*table())
    assert "alpha_at_end_of_grid" in [n.code for n in edge.notices_]
    for bad in ([], [-1.0, 2.0], [1e95]):
        with pytest.raises(InvalidParameter, match="alphas"):
            RidgeRegression(choose_alpha="gcv", alphas=bad).fit(X, y)
    with pytest.raises(InvalidParameter, match="no penalty leaves"):
        RidgeRegression(choose_alpha="gcv", alphas=[0.0]).fit(*table(5, 9))


def test_known_tikhonov_and_its_equations():
    m = GeneralizedTikhonov(alpha=1.0, penalties=[2.0]).fit(KNOWN_X, KNOWN_Y)
    assert m.coef_[0] == pytest.approx(0.7857142857142857, rel=1e-14)
    X, y = table(20, 5, offset=4.0)
    D = np.array([0.0, 1.0, 3.0, 0.0, 10.0])
    m = GeneralizedTikhonov(alpha=0.7, penalties=D).fit(X, y)
    A, P = np.hstack([np.ones((20, 1)), X]), 0.7 * np.diag([0.0, *D])
    np.testing.assert_allclose([m.intercept_, *m.coef_], np.linalg.solve(A.T @ A + P, A.T @ y), rtol=1e-10)
    H = A @ np.linalg.solve(A.T @ A + P, A.T)
    assert m.effective_parameters_ == pytest.approx(np.trace(H))
    report = m.diagnostics(X, y)
    assert [c.name for c in report.certificates if not c.holds] == []
    want = left_out_error(lambda: GeneralizedTikhonov(alpha=0.7, penalties=D), X, y)
    assert report.summary["leave_one_out_mse"] == pytest.approx(want, rel=1e-9)


@given(st.integers(0, 1000), st.integers(3, 30), st.integers(1, 8), st.sampled_from([1e-6, 0.3, 50.0]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_penalties_of_one_are_ridge(seed, n, d, alpha, intercept):
    X, y = table(n, d, seed=seed)
    one = GeneralizedTikhonov(alpha=alpha, fit_intercept=intercept).fit(X, y)
    two = RidgeRegression(alpha=alpha, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-8 * (1 + np.abs(y).max()))
    assert one.effective_parameters_ == pytest.approx(two.effective_parameters_, rel=1e-6)


def test_differences_ask_for_smooth_slopes():
    X, y = table(30, 6)
    flat = GeneralizedTikhonov(alpha=1e12, operator="first_difference", fit_intercept=False).fit(X, y)
    total = X.sum(axis=1)
    np.testing.assert_allclose(flat.coef_, total @ y / (total @ total), rtol=1e-6)
    line = GeneralizedTikhonov(alpha=1e12, operator="second_difference", fit_intercept=False).fit(X, y)
    B = X @ np.stack([np.ones(6), np.arange(6.0)], axis=1)
    np.testing.assert_allclose(line.predict(X), B @ np.linalg.lstsq(B, y, rcond=None)[0], rtol=1e-6)
    L = np.diff(np.eye(6), axis=0)
    np.testing.assert_allclose(GeneralizedTikhonov(alpha=2.0, operator=L).fit(X, y).coef_,
                               GeneralizedTikhonov(alpha=2.0, operator="first_difference").fit(X, y).coef_)


def test_what_stays_singular_is_said_and_bad_operators_are_refused():
    X, y = table(20, 3)
    twins = np.hstack([X, X[:, :1]])
    m = GeneralizedTikhonov(penalties=[0.0, 1.0, 1.0, 0.0]).fit(twins, y)
    assert "rank_deficient" in [n.code for n in m.notices_]
    assert m.coef_[0] == pytest.approx(m.coef_[3])
    np.testing.assert_allclose(m.predict(twins), GeneralizedTikhonov(penalties=[0.0, 1.0, 1.0]).fit(X, y).predict(X))
    cases = [({"penalties": [1.0]}, "entries"), ({"penalties": [1.0, -1.0, 0.0]}, r"penalties\[1\] is -1"),
             ({"operator": np.eye(2)}, "operator has 2 columns")]  # fmt: skip
    for params, message in cases:
        with pytest.raises(InvalidParameter, match=message):
            GeneralizedTikhonov(**params).fit(X, y)
    with pytest.raises(InvalidParameter, match="needs more than 2 columns"):
        GeneralizedTikhonov(operator="second_difference").fit(X[:, :2], y)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("penalize_bias", [False, True])
def test_cross_validation_is_a_fit_per_fold(outputs: int, penalize_bias: bool):
    X, y = table(40, 5, offset=2.0)
    Y = y if outputs == 1 else np.stack([y, -2 * y + X[:, 0], X[:, 1]], axis=1)
    s = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    grid = [0.01, 1.0, 30.0, 1e3]
    m = RidgeRegression(choose_alpha="cross_validation", alphas=grid, folds=4, random_state=3,
                        penalize_bias=penalize_bias).fit(X, Y, s)  # fmt: skip
    want = np.zeros((4, 4))
    for k, (train, test) in enumerate(folds(40, 4, seed=3)):
        for i, a in enumerate(grid):
            alpha = a * s[train].sum() / s.sum()
            fit = RidgeRegression(alpha=alpha, penalize_bias=penalize_bias).fit(X[train], Y[train], s[train])
            r = (Y[test] - fit.predict(X[test])).reshape(len(test), -1)
            want[k, i] = np.average((r**2).mean(axis=1), weights=s[test])
    found = np.array(m.compared_)
    np.testing.assert_allclose(found[:, 1], want.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found[:, 2], want.std(axis=0, ddof=1) / 2, rtol=1e-9)
    assert m.alpha_ == grid[int(want.mean(axis=0).argmin())]
    np.testing.assert_allclose(m.coef_, RidgeRegression(alpha=m.alpha_, penalize_bias=penalize_bias).fit(X, Y, s).coef_)
    report = m.diagnostics(X, Y, s)
    assert "alpha_choice" in [c.name for c in report.certificates if c.holds]
    np.testing.assert_allclose(report.curves["cross_validation"]["error"], found[:, 1])


def test_cross_validation_keeps_alpha_when_rows_come_and_serves_differences():
    X, y = table(60, 6)
    m = GeneralizedTikhonov(choose_alpha="cross_validation", operator="first_difference", folds=3).fit(X[:50], y[:50])
    before = m.alpha_
    m.update(X[50:], y[50:])
    assert m.alpha_ == before
    assert "alpha_kept" in [n.code for n in m.notices_]
    same = GeneralizedTikhonov(alpha=before, operator="first_difference").fit(X, y)
    np.testing.assert_allclose(m.coef_, same.coef_, rtol=1e-9)
    assert np.isnan(m.left_out(X, y)).all()
    with pytest.raises(InvalidParameter, match="fold"):
        RidgeRegression(choose_alpha="cross_validation", folds=30).fit(X[:9], y[:9])


@pytest.mark.parametrize("q", [1, 2])
def test_mallows_cp_measures_against_the_fit_without_penalty(q: int):
    X, y = table(50, 5, q)
    A = np.hstack([np.ones((50, 1)), X])
    Y = y.reshape(50, -1)
    noise = ((Y - A @ np.linalg.lstsq(A, Y, rcond=None)[0]) ** 2).sum(axis=0) / 44
    m = RidgeRegression(alpha=3.0).fit(X, y)
    report = m.diagnostics(X, y)
    rss = ((Y - m.predict(X).reshape(50, -1)) ** 2).sum(axis=0)
    want = (rss + 2 * m.effective_parameters_ * noise) / 50
    np.testing.assert_allclose([row[6] for row in report.tables["outputs"].rows], want, rtol=1e-9)
    assert report.summary["mallows_cp"] == pytest.approx(want[0])
    tiny = RidgeRegression(alpha=1.0, alphas=[0.0, 1.0]).fit(X, y).diagnostics(X, y)
    assert tiny.curves["path"]["mallows_cp"][0] == pytest.approx(np.mean(noise * (44 + 12) / 50))
    rows = report.tables["coefficients"].rows
    assert len(rows) == 6 * q
    assert rows[0][:3] == [0, "intercept", pytest.approx(np.atleast_1d(m.intercept_)[0])]
    assert {r[8] for r in rows} == {"penalised"}
    assert RidgeRegression().fit(*table(5, 9)).diagnostics(*table(5, 9)).summary["mallows_cp"] is None
