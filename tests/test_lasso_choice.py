"""The lasso's penalty by cross-validation and criteria, and several targets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LassoCV, lasso_path

from ml_core.errors import InvalidParameter
from ml_core.linear.lasso import Lasso
from ml_core.selection.splits import folds


def table(n=80, d=12, q=1, seed=0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) + 2.0
    W = np.where(r.random((d, q)) < 0.3, r.normal(size=(d, q)), 0.0)
    Y = X @ W + r.normal(size=(n, q))
    return X, Y[:, 0] if q == 1 else Y


def test_cross_validation_is_the_peers_on_the_same_folds():
    X, y = table()
    alphas = np.geomspace(1.0, 1e-3, 30)
    ours = Lasso(choose_alpha="cross_validation", alphas=2 * alphas, objective_scale="mean", random_state=4).fit(X, y)
    peer = LassoCV(alphas=alphas, cv=folds(80, 5, seed=4), tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose([row[1] for row in ours.compared_], peer.mse_path_.mean(axis=1), rtol=1e-5)
    assert ours.alpha_ == pytest.approx(2 * 80 * peer.alpha_)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    one = Lasso(choose_alpha="cross_validation", rule="one_standard_error", random_state=4).fit(X, y)
    best = Lasso(choose_alpha="cross_validation", random_state=4).fit(X, y)
    assert one.alpha_ >= best.alpha_
    report = best.diagnostics(X, y)
    assert [c.name for c in report.certificates if not c.holds] == []
    assert len(report.curves["cross_validation"]["x"]) == 100


@pytest.mark.parametrize(("kind", "price"), [("aic", 2.0), ("bic", np.log(80))])
def test_criteria_are_their_formulas_along_the_peers_path(kind, price):
    X, y = table()
    m = Lasso(choose_alpha=kind, path_length=40).fit(X, y)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    alphas = np.array([row[0] for row in m.compared_])
    _, coefs, _ = lasso_path(Xc, yc, alphas=alphas / 160, tol=1e-12, max_iter=100_000)
    rss = ((yc[:, None] - Xc @ coefs) ** 2).sum(axis=0)
    want = 80 * np.log(rss / 80) + price * (1 + (coefs != 0).sum(axis=0))
    np.testing.assert_allclose([row[1] for row in m.compared_], want, rtol=1e-5)
    assert m.alpha_ == alphas[np.argmin(want)]


def test_several_targets_are_fits_of_each():
    X, Y = table(q=3)
    m = Lasso(alpha=20.0, alpha_l2=1.0).fit(X, Y)
    for k in range(3):
        one = Lasso(alpha=20.0, alpha_l2=1.0).fit(X, Y[:, k])
        np.testing.assert_allclose(m.coef_[k], one.coef_, atol=1e-12)
        np.testing.assert_allclose(m.predict(X)[:, k], one.predict(X), atol=1e-10)
    report = m.diagnostics(X, Y)
    assert [c.name for c in report.certificates if not c.holds] == []
    assert len(report.certificates) == 6
    assert [row[0] for row in report.tables["outputs"].rows] == [0, 1, 2]
    shared = Lasso(choose_alpha="cross_validation", path_length=20).fit(X, Y)
    assert shared.coef_.shape == (3, 12)


def test_nothing_to_choose_and_bad_penalties():
    X = np.arange(12.0).reshape(6, 2)
    flat = Lasso(choose_alpha="cross_validation", folds=3).fit(X, np.full(6, 7.0))
    assert not flat.coef_.any()
    assert flat.intercept_ == 7.0
    assert "nothing_to_choose" in [n.code for n in flat.notices_]
    for bad in ([], [-1.0]):
        with pytest.raises(InvalidParameter, match="alphas"):
            Lasso(choose_alpha="aic", alphas=bad).fit(X, np.arange(6.0))
    heavy = np.array([1.0, 2, 0, 1, 3, 1, 1, 1, 1, 2])
    A, y = table(10, 3)
    s = Lasso(choose_alpha="bic").fit(A, y, sample_weight=heavy)
    many = Lasso(choose_alpha="bic").fit(np.repeat(A, heavy.astype(int), axis=0), np.repeat(y, heavy.astype(int)))
    np.testing.assert_allclose(s.predict(A), many.predict(A), atol=1e-8)


def test_mallows_cp_along_the_path_and_every_coefficient_has_a_reason():
    r = np.random.default_rng(0)
    X = r.normal(size=(80, 6))
    y = X[:, 0] - 2 * X[:, 1] + r.normal(size=80)
    m = Lasso(alpha=30.0).fit(X, y)
    out = m.diagnostics(X, y)
    curve = out.curves["path"]
    noise = curve["rss"][-1] / (80 - curve["support_size"][-1] - 1)
    np.testing.assert_allclose(
        curve["mallows_cp"], (np.array(curve["rss"]) + 2 * noise * (np.array(curve["support_size"]) + 1)) / 80
    )
    assert out.summary["mallows_cp"] == pytest.approx(
        (out.summary["rss"] + 2 * noise * out.summary["effective_parameters"]) / 80
    )
    rows = out.tables["coefficients"].rows
    assert [row[0] for row in rows] == ["intercept", *range(6)]
    assert [row[7] for row in rows[1:]] == ["left_out" if w == 0 else "penalised" for w in m.coef_]
