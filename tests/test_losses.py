"""Every loss of a linear predictor: one list of instances, every property over all of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from mpmath import exp, log, mp, mpf
from scipy.special import log_softmax

from ml_core.losses.base import Interval, Smooth, TwiceSmooth
from ml_core.losses.logistic import Logistic
from ml_core.losses.softmax import Softmax

LOSSES = [Logistic(), Softmax(2), Softmax(3), Softmax(5, "reference"), Softmax(7)]


def targets(loss: Any, r: np.random.Generator, n: int) -> np.ndarray:
    return r.integers(0, loss.domain.high + 1, n).astype(float) if loss.domain.whole else r.random(n)


@pytest.fixture(params=LOSSES, ids=repr)
def case(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    loss = request.param
    return loss, 3 * r.normal(size=(40, loss.width)), targets(loss, r, 40)


def test_is_what_the_solvers_ask_for(case: Any) -> None:
    assert isinstance(case[0], TwiceSmooth)
    assert isinstance(case[0], Smooth)
    assert case[0].domain.contains(case[2]).all()


def test_gradient_is_the_slope_of_the_value(case: Any) -> None:
    loss, eta, y = case
    h = 1e-6
    for j in range(loss.width):
        step = np.zeros(loss.width)
        step[j] = h
        slope = (loss.value(eta + step, y) - loss.value(eta - step, y)) / (2 * h)
        np.testing.assert_allclose(loss.gradient(eta, y)[:, j], slope, atol=1e-8)


def test_curvature_is_the_slope_of_the_gradient(case: Any) -> None:
    loss, eta, y = case
    h = 1e-6
    for j in range(loss.width):
        step = np.zeros(loss.width)
        step[j] = h
        slope = (loss.gradient(eta + step, y) - loss.gradient(eta - step, y)) / (2 * h)
        np.testing.assert_allclose(loss.curvature(eta, y)[:, :, j], slope, atol=1e-8)


def test_curvature_is_symmetric_positive_and_bounded(case: Any) -> None:
    loss, eta, y = case
    C = loss.curvature(np.vstack([eta, np.zeros((1, loss.width))]), np.append(y, y[0]))
    np.testing.assert_array_equal(C, C.transpose(0, 2, 1))
    values = np.linalg.eigvalsh(C)
    assert values.min() >= -1e-15
    assert values.max() <= loss.curvature_bound * (1 + 1e-12)


def test_all_answers_agree(case: Any) -> None:
    loss, eta, y = case
    value, gradient, curvature = loss.all(eta, y)
    np.testing.assert_array_equal(value, loss.value(eta, y))
    np.testing.assert_array_equal(gradient, loss.gradient(eta, y))
    np.testing.assert_array_equal(curvature, loss.curvature(eta, y))


def test_start_is_the_best_constant(case: Any) -> None:
    loss, _, y = case
    y[: int(loss.domain.high) + 1] = np.arange(int(loss.domain.high) + 1)
    s = np.random.default_rng(1).random(len(y)) + 0.1
    r = loss.gradient(np.tile(loss.start(y, s), (len(y), 1)), y)
    np.testing.assert_allclose(s @ r, 0, atol=1e-12)


def test_extremes_stay_finite(case: Any) -> None:
    loss, eta, y = case
    for out in loss.all(1e5 * eta, y):
        assert np.isfinite(out).all()


def test_survives_pickling(case: Any) -> None:
    assert pickle.loads(pickle.dumps(case[0])) == case[0]


def test_softmax_is_minus_the_log_probability() -> None:
    r = np.random.default_rng(3)
    for loss in LOSSES[1:]:
        eta, y = r.normal(size=(30, loss.width)), r.integers(0, loss.classes, 30)
        want = -log_softmax(eta @ loss.basis.T, axis=1)[np.arange(30), y]
        np.testing.assert_allclose(loss.value(eta, y.astype(float)), want, rtol=1e-13)


def test_logistic_digits_against_extended_precision() -> None:
    mp.dps = 40
    for t in (-700.0, -40.0, -1.0, -1e-9, 0.0, 1e-9, 3.0, 37.0, 700.0):
        for y in (0.0, 1.0):
            m = mpf(t) * (1 - 2 * int(y))
            want = float(log(1 + exp(m)))
            got = Logistic().value(np.array([[t]]), np.array([y]))[0]
            assert got == pytest.approx(want, rel=4e-16, abs=1e-300)


def test_two_class_softmax_is_logistic() -> None:
    eta, y = np.linspace(-5, 5, 11)[:, None], np.tile([0.0, 1.0], 6)[:11]
    np.testing.assert_allclose(Softmax(2, "reference").value(eta, y), Logistic().value(eta, y), rtol=1e-12)


def test_interval() -> None:
    np.testing.assert_array_equal(Interval(0, 2, whole=True).contains(np.array([-1, 0, 0.5, 2, 3])), [0, 1, 0, 1, 0])
