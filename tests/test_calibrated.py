"""calibrated: maps against known digits and scikit-learn, order, any classifier, reported failures."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.registry import build, spec_of
from ml_core.selection.calibrated import Calibrated
from ml_core.solvers.calibration_maps import isotonic, platt, temperature

KERNEL = {"algorithm": "kernel_svm", "params": {"kernel": {"kernel": "rbf", "length_scale": 1.0}}}
LINEAR = {"algorithm": "soft_margin_svm", "params": {}}
METHODS = ["platt", "isotonic", "temperature"]


def made(spec, **params):
    return build({"algorithm": "calibrated", "params": {"estimator": spec, **params}})


def data(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 2))
    return X, np.where(X[:, 0] + X[:, 1] + r.normal(size=n) > 0.5, "ill", "well")


def test_platt_digits():
    a, b = platt(np.array([-2, -1, -0.5, 0.5, 1, 3]), np.array([0.0, 0, 1, 0, 1, 1]), np.ones(6))
    assert -a == pytest.approx(-0.53079449824265, abs=1e-12)
    assert -b == pytest.approx(0.068248737843857, abs=1e-12)


def test_platt_never_slopes_down():
    f, y = np.arange(10.0), (np.arange(10) < 5).astype(float)
    a, b = platt(f, y, np.ones(10))
    assert a == 0
    assert b == pytest.approx(0.0, abs=1e-12)
    assert platt(np.ones(4), np.array([0.0, 1, 1, 1]), np.ones(4))[0] == 0


def test_platt_takes_separated_and_far_scores():
    for scale in (1e-8, 1.0, 1e8):
        a, b = platt(scale * np.arange(-5.0, 5), (np.arange(-5, 5) >= 0).astype(float), np.ones(10))
        p = 1 / (1 + np.exp(-(a * scale * np.arange(-5.0, 5) + b)))
        assert np.isfinite(p).all()
        assert p[0] < 0.2 < 0.8 < p[-1]


def test_isotonic_known_and_against_a_peer():
    knots, values = isotonic(np.array([1.0, 2, 2, 2, 3]), np.array([0.0, 1, 0, 1, 0]), np.ones(5))
    np.testing.assert_allclose(np.interp([1, 2, 3], knots, values), [0, 0.5, 0.5], atol=1e-15)
    r = np.random.default_rng(0)
    f, s = r.normal(size=200).round(1), r.uniform(0.5, 2, 200)
    y = (f + r.normal(size=200) > 0).astype(float)
    peer = IsotonicRegression(out_of_bounds="clip").fit(f, y, s)
    grid = np.linspace(-4, 4, 501)
    np.testing.assert_allclose(np.interp(grid, *isotonic(f, y, s)), peer.predict(grid), atol=1e-12)


def test_temperature_is_stationary():
    r = np.random.default_rng(0)
    F = r.normal(size=(500, 4))
    P = np.exp(0.7 * F) / np.exp(0.7 * F).sum(axis=1, keepdims=True)
    y = np.array([r.choice(4, p=p) for p in P])
    a = temperature(F, y, np.ones(500))
    assert a == pytest.approx(0.7, abs=0.15)

    def loss(a):
        return -np.log(np.exp(a * F)[np.arange(500), y] / np.exp(a * F).sum(axis=1)).sum()

    assert loss(a) <= min(loss(a + 1e-3), loss(a - 1e-3))
    assert temperature(F, np.argmin(F, axis=1), np.ones(500)) == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spec", [KERNEL, LINEAR, {"algorithm": "logistic_regression", "params": {}},
                                  {"algorithm": "gaussian_naive_bayes", "params": {}}])  # fmt: skip
def test_any_classifier_and_its_order(spec, method):
    X, y = data()
    model = made(spec, method=method).fit(X, y)
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    P = model.predict_proba(X)
    order = np.argsort(model._raw(model.estimator_, X)[:, 0], kind="stable")
    assert (np.diff(P[order, 1]) >= -1e-12).all()
    assert (model.predict(X) == model.classes_[(P[:, 1] >= 0.5).astype(int)]).all()
    assert report.summary["held_out_log_loss"] < 0.6


@pytest.mark.parametrize("method", METHODS)
def test_several_classes(method):
    X, y = load_iris(return_X_y=True)
    model = made(LINEAR, method=method).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    if method != "isotonic":  # steps tie, there the first of the tied is taken
        assert (model.predict(X) == model.estimator_.predict(X)).all()
    assert model.score(X, y) > 0.9
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


def test_probabilities_are_honest_on_new_rows():
    X, y = data(3000)
    model = made(LINEAR).fit(X[:1000], y[:1000])
    p, hit = model.predict_proba(X[1000:])[:, 1], y[1000:] == model.classes_[1]
    for low in np.arange(0, 1, 0.25):
        part = (p >= low) & (p < low + 0.25)
        assert abs(hit[part].mean() - p[part].mean()) < 4 * 0.5 / np.sqrt(part.sum())


def test_labels_without_signal_are_never_inverted():
    r = np.random.default_rng(7)
    X, y = r.normal(size=(60, 40)), r.integers(0, 2, 60)
    spec = {"algorithm": "kernel_svm", "params": {"kernel": {"kernel": "rbf", "length_scale": float(np.sqrt(20.0))}}}
    for method in METHODS:
        model = made(spec, method=method).fit(X, y)
        p, f = model.predict_proba(X)[:, 1], model.estimator_.decision_function(X)
        assert (np.diff(p[np.argsort(f)]) >= -1e-12).all()
        assert np.ptp(p) == 0 or roc_auc_score(y, p) >= 0.5
        codes = {n.code for n in model.notices_}
        assert (model.predict(X) == model.estimator_.predict(X)).all() or "labels_changed" in codes


def test_few_rows_of_a_class():
    X, y = data(40)
    y = np.where(np.arange(40) < 2, "rare", "usual")
    model = made(LINEAR).fit(X, y)
    assert model.folds_ == 2
    assert "fewer_folds" in [n.code for n in model.notices_]
    with pytest.raises(InvalidData, match="'rare' has a single row"):
        made(LINEAR).fit(X, np.where(np.arange(40) < 1, "rare", "usual"))


def test_spec_and_refusals():
    model = made(KERNEL, method="isotonic")
    assert spec_of(build(spec_of(model))) == spec_of(model)
    with pytest.raises(InvalidParameter, match="expected a classifier"):
        made({"algorithm": "linear_regression", "params": {}})
    with pytest.raises(InvalidParameter):
        Calibrated(estimator=3).fit(*data())
