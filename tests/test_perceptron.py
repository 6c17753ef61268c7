"""The perceptron: known runs, scikit-learn, Novikoff's bound, pocket, separability, updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import Perceptron as Peer

from ml_core import progress
from ml_core.errors import Cancelled, InvalidData, InvalidParameter
from ml_core.linear.perceptron import Perceptron
from ml_core.solvers.perceptron import margin, widest_margin

KNOWN = np.array([[4.0, 1], [3, 2], [1, 3], [0.5, 4]])
SIGNS = np.array([1, 1, -1, -1])
r = np.random.default_rng(0)
APART = r.normal(size=(60, 3))
SIDE = APART @ [1.0, -2.0, 0.5] > 0.3
APART = APART + 0.2 * np.where(SIDE, 1, -1)[:, None] * np.array([1.0, -2.0, 0.5])
MIXED, LABEL = r.normal(size=(80, 2)), r.integers(0, 2, 80)


def certificates(model, X, y, **given):
    return {c.name: c for c in model.diagnostics(X, y, **given).certificates}


def test_the_known_run():
    model = Perceptron(fit_intercept=False).fit(KNOWN, SIGNS)
    np.testing.assert_array_equal(model.coef_, [[3, -2]])
    assert model.mistakes_.tolist() == [2]
    assert model.converged_.all()
    report = model.diagnostics(KNOWN, SIGNS)
    table = report.tables["mistakes"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["radius2"] == 17
    assert row["margin"] == pytest.approx(7 / 41**0.5, rel=1e-12)
    assert row["bound"] == pytest.approx(17 * 41 / 49, rel=1e-12)
    assert all(c.holds for c in report.certificates)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("eta", [1.0, 0.25])
@pytest.mark.parametrize(("X", "y"), [(APART, SIDE), (MIXED, LABEL)], ids=["apart", "mixed"])
def test_cyclic_equals_the_peer(X, y, eta, fit_intercept):
    ours = Perceptron(max_epochs=30, answer="last", eta=eta, fit_intercept=fit_intercept).fit(X, y)
    theirs = Peer(shuffle=False, tol=None, max_iter=30, eta0=eta, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(ours.intercept_, np.broadcast_to(theirs.intercept_, 1), atol=1e-12)


def test_many_classes_equal_the_peer():
    X = r.normal(size=(90, 4)) + 2 * np.eye(4)[np.arange(90) % 3]
    y = np.arange(90) % 3
    ours = Perceptron(max_epochs=20, answer="last").fit(X, y)
    theirs = Peer(shuffle=False, tol=None, max_iter=20).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-9)
    assert (ours.predict(X) == theirs.predict(X)).all()


@given(st.integers(0, 10**6), st.sampled_from(["cyclic", "stochastic", "batch"]), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_mistakes_stay_below_the_bound(seed, mode, fit_intercept, weighted):
    g = np.random.default_rng(seed)
    X, w = g.normal(size=(30, 3)), g.normal(size=3)
    y = X @ w > (0.2 if fit_intercept else 0.0)
    if y.all() or not y.any():
        return
    s = g.uniform(0.1, 3, 30) if weighted else np.ones(30)
    model = Perceptron(mode=mode, fit_intercept=fit_intercept, max_epochs=100_000, random_state=seed)
    model.fit(X, y, sample_weight=s)
    assert model.converged_.all()
    found = certificates(model, X, y, sample_weight=s)
    assert found["mistakes_over_bound"].holds
    assert found["error_difference"].holds
    table = model.diagnostics(X, y, sample_weight=s).tables["mistakes"].rows[0]
    if not weighted:
        count = model.mistakes_[0] if mode != "batch" else model.effective_[0]
        assert count <= table[7] * (1 + 1e-9)


def test_the_widest_margin_is_that_of_an_independent_search():
    Z = np.column_stack([APART, np.ones(60)]) * np.where(SIDE, 1, -1)[:, None]
    w = Perceptron(max_epochs=10_000).fit(APART, SIDE).last_[0]
    found = widest_margin(Z, w)
    peer = minimize(lambda v: 0.5 * v @ v, w * 100, jac=lambda v: v, method="SLSQP",
                    constraints={"type": "ineq", "fun": lambda v: Z @ v - 1, "jac": lambda v: Z})  # fmt: skip
    assert found == pytest.approx(1 / np.linalg.norm(peer.x), rel=1e-5)
    assert found >= margin(Z, w)


def test_weights_are_a_combination_of_the_rows():
    X = np.random.default_rng(4).normal(size=(5, 9))
    model = Perceptron(fit_intercept=False).fit(X, [0, 1, 0, 1, 1])
    w = model.coef_[0]
    np.testing.assert_allclose(X.T @ np.linalg.lstsq(X.T, w, rcond=None)[0], w, atol=1e-10)


def test_eta_only_scales():
    one, two = Perceptron().fit(APART, SIDE), Perceptron(eta=8.0).fit(APART, SIDE)
    np.testing.assert_array_equal(8 * one.coef_, two.coef_)
    assert one.mistakes_ == two.mistakes_


def test_the_pocket_is_never_worse_than_the_last():
    model = Perceptron(max_epochs=200).fit(MIXED, LABEL)
    last = Perceptron(max_epochs=200, answer="last").fit(MIXED, LABEL)
    assert model.errors_[0] == model.traces_[0].min()
    assert model.errors_[0] <= last.errors_[0]
    assert model.score(MIXED, LABEL) >= last.score(MIXED, LABEL)
    assert [n.code for n in model.notices_] == ["not_separable"]
    assert model.epochs_.tolist() == [200]
    assert not model.converged_.any()
    assert "mistakes_over_bound" not in certificates(model, MIXED, LABEL)


def test_separable_but_not_yet():
    model = Perceptron(max_epochs=1, mode="batch", start=[[0.0, 0.0, 0.0, 1e6]]).fit(APART, SIDE)
    assert [n.code for n in model.notices_] == ["not_converged"]
    assert "raise max_epochs" in model.notices_[0].advice


def test_rows_on_the_boundary_still_correct():
    model = Perceptron(fit_intercept=False).fit([[1.0], [-1.0]], ["b", "a"])
    assert model.mistakes_.tolist() == [1]
    assert list(model.predict([[2.0], [-2.0], [0.0]])) == ["b", "a", "b"]


def test_a_start_that_separates_is_the_answer():
    model = Perceptron(start=[[3.0, -2.0, 0.0]]).fit(KNOWN, SIGNS)
    assert model.mistakes_.tolist() == [0]
    assert model.epochs_.tolist() == [0]
    np.testing.assert_array_equal(model.coef_, [[3, -2]])
    with pytest.raises(InvalidParameter, match="start must be"):
        Perceptron(start=[[1.0]]).fit(KNOWN, SIGNS)


def test_equal_seeds_draw_equal_rows():
    one, two, three = (Perceptron(mode="stochastic", random_state=k, max_epochs=5).fit(MIXED, LABEL) for k in (1, 1, 2))
    np.testing.assert_array_equal(one.last_, two.last_)
    assert (one.last_ != three.last_).any()


def test_update_goes_on_from_the_last_weights():
    model = Perceptron(max_epochs=1, answer="last").fit(MIXED[:40], LABEL[:40])
    theirs = Peer(shuffle=False)
    theirs.partial_fit(MIXED[:40], LABEL[:40], classes=[0, 1]).partial_fit(MIXED[40:], LABEL[40:])
    model.update(MIXED[40:], LABEL[40:])
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-10)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_)
    assert [n.code for n in model.notices_] == ["updated"]
    assert certificates(model, MIXED[40:], LABEL[40:])["replay_error"].holds
    assert not certificates(model, MIXED[:40], LABEL[:40])["replay_error"].holds
    with pytest.raises(InvalidData, match="never seen"):
        model.update(MIXED[:1], [7])


def test_weights_are_lengths_of_corrections():
    s = np.array([1.0, 2.0, 4.0, 1.0])
    model = Perceptron(fit_intercept=False, max_epochs=1, answer="last").fit(KNOWN, SIGNS, sample_weight=s)
    w = np.zeros(2)
    for x, t, a in zip(KNOWN, SIGNS, s, strict=True):
        if t * (w @ x) <= 0:
            w = w + a * t * x
    np.testing.assert_array_equal(model.coef_[0], w)
    balanced = Perceptron(class_weight="balanced").fit(APART, SIDE)
    assert balanced.class_weight_.tolist() == pytest.approx([30 / (~SIDE).sum(), 30 / SIDE.sum()])
    with pytest.raises(InvalidParameter, match="names 'zebra'"):
        Perceptron(class_weight={"zebra": 2.0}).fit(APART, SIDE)


def test_it_can_be_stopped_within(monkeypatch):
    monkeypatch.setattr("ml_core.solvers.perceptron.TOGETHER", 1)
    heard = []

    def stop(t):
        heard.append(t)
        if t.step == 3:
            raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        Perceptron().fit(MIXED, LABEL)
    assert [t.step for t in heard] == [1, 2, 3]
    assert heard[0].unit == "epochs"


@pytest.mark.parametrize("params", [{}, {"mode": "stochastic"}, {"random_state": 7}])
def test_exclusive_or_keeps_the_best_weights(params: dict[str, Any]) -> None:
    """PER-1, and PER-3 for the names of the labels."""
    X, y = np.array([[0.0, 0.0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])
    m = Perceptron(**params).fit(X, y)
    assert m.score(X, y) == 0.75
    assert "not_separable" in [n.code for n in m.notices_]
    first, second, third = (Perceptron().fit(X, t) for t in (y, 2 * y - 1, np.array(["a", "b"])[y]))
    assert np.array_equal(first.coef_, second.coef_)
    assert np.array_equal(first.coef_, third.coef_)


@pytest.mark.parametrize("mode", ["cyclic", "stochastic", "batch"])
def test_how_many_epochs_are_made_together_does_not_matter(mode, monkeypatch):
    r = np.random.default_rng(5)
    X, y = r.normal(size=(60, 4)), r.integers(0, 2, 60)
    whole = Perceptron(mode=mode, max_epochs=40).fit(X, y)
    monkeypatch.setattr("ml_core.solvers.perceptron.TOGETHER", 7 * X.size)
    parts = Perceptron(mode=mode, max_epochs=40).fit(X, y)
    for name in ("coef_", "last_", "mistakes_", "effective_", "errors_"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    np.testing.assert_array_equal(whole.traces_[0], parts.traces_[0])
