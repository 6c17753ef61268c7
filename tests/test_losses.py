"""Every loss of a linear predictor: one list of instances, every property over all of them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from mpmath import exp, log, mp, mpf
from scipy import optimize
from scipy.special import log_softmax

from ml_core.errors import InvalidParameter
from ml_core.losses.base import (
    Conjugable,
    Interval,
    Loss,
    Proximable,
    Reweighted,
    Smooth,
    Subdifferentiable,
    TwiceSmooth,
)
from ml_core.losses.every import (
    LOSSES,
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Gamma,
    Hinge,
    Huber,
    InverseGamma,
    Logistic,
    LossMatrix,
    Norm,
    Perceptron,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    SquaredLength,
    Tukey,
    ZeroOne,
    loss_of,
)
from ml_core.losses.norm import p_norm

SOFTMAXES = [Softmax(2), Softmax(3), Softmax(5, "reference"), Softmax(7)]
NORMS = [Norm(1.0, 3), Norm(1.5, 2), Norm(2.0, 1), Norm(2.0, 3), Norm(7.0, 2), Norm("inf", 3)]
ALL = [
    Logistic(), *SOFTMAXES, Squared(), Absolute(), Huber(), Huber(0.3), Tukey(), Tukey(1.5), EpsilonInsensitive(),
    EpsilonInsensitive(0.0), Hinge(), SquaredHinge(), Exponential(), Perceptron(), SquaredLength(3), Poisson(), Gamma(),
    *NORMS, ZeroOne(), LossMatrix(), LossMatrix(((0.0, 1.0, 4.0), (2.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.8, 0.8, 0.8))),
]  # fmt: skip
DECISIONS = (ZeroOne, LossMatrix)
UNBOUNDED = (Exponential, Poisson, Gamma)


def those(protocol: type) -> list[Any]:
    return [loss for loss in ALL if isinstance(loss, protocol)]


def each(losses: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("loss", losses, ids=repr)


def targets(loss: Any, r: np.random.Generator, n: int) -> np.ndarray:
    if isinstance(loss, (Norm, SquaredLength)):
        return r.normal(size=(n, loss.width))
    if loss.domain.nonzero:
        return r.choice([-1.0, 1.0], n)
    if loss.domain.whole:
        return r.integers(0, loss.domain.high + 1, n).astype(float)
    if loss.domain.low >= 0 and not np.isfinite(loss.domain.high):
        return 0.1 + 4 * r.random(n)
    return r.random(n) if np.isfinite(loss.domain.high) else 2 * r.normal(size=n)


def drawn(loss: Any, n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    y = targets(loss, r, n)
    if isinstance(loss, LossMatrix):
        return r.integers(0, len(loss.matrix), n).astype(float)[:, None], y
    return 3 * r.normal(size=(n, loss.width)), y


def total(loss: Any, c: Any, y: np.ndarray, s: np.ndarray) -> float:
    return float(s @ loss.value(np.tile(np.asarray(c, dtype=float), (len(s), 1)), y))


@each(ALL)
def test_targets_lie_in_the_domain(loss: Any) -> None:
    assert isinstance(loss, Loss)
    assert np.all(loss.domain.contains(drawn(loss)[1]))


def test_each_loss_offers_what_it_has_and_no_more() -> None:
    assert {type(v) for v in ALL} | {InverseGamma} == set(LOSSES.values())
    assert {type(v) for v in ALL} - {type(v) for v in those(Subdifferentiable)} == set(DECISIONS)
    kinked = {Absolute, EpsilonInsensitive, Hinge, Perceptron, Norm}
    assert {type(v) for v in those(Subdifferentiable)} - {type(v) for v in those(TwiceSmooth)} == kinked
    assert those(Smooth) == those(TwiceSmooth)
    assert {type(v) for v in those(Loss)} - {type(v) for v in those(Conjugable)} == {Tukey, *DECISIONS}
    without = {Softmax, Norm, Poisson, Gamma}
    assert {type(v) for v in those(Conjugable)} - {type(v) for v in those(Proximable)} == without
    assert {type(v) for v in those(Reweighted)} == {Squared, Absolute, Huber, Tukey}
    assert not [v for v in ALL if not v.convex and not isinstance(v, (Tukey, *DECISIONS))]


@each(those(Subdifferentiable))
def test_gradient_is_the_slope_of_the_value(loss: Any) -> None:
    eta, y = drawn(loss)
    h = 1e-6
    for j in range(loss.width):
        step = np.zeros(loss.width)
        step[j] = h
        slope = (loss.value(eta + step, y) - loss.value(eta - step, y)) / (2 * h)
        size = np.maximum(1.0, np.abs(loss.value(eta, y)))
        np.testing.assert_allclose(loss.gradient(eta, y)[:, j] / size, slope / size, atol=1e-7)


@each([v for v in those(Subdifferentiable) if v.convex])
def test_gradient_bounds_the_value_from_below_at_kinks_too(loss: Any) -> None:
    eta, y = drawn(loss)
    kinks = np.concatenate([eta, np.zeros_like(eta), np.ones_like(eta)])
    y = np.concatenate([y, y, y])
    if isinstance(loss, (Absolute, EpsilonInsensitive, Norm)):
        kinks = np.concatenate([kinks, y.reshape(kinks.shape) + getattr(loss, "epsilon", 0.0)])
        y = np.concatenate([y, y])
    g, value = loss.gradient(kinks, y), loss.value(kinks, y)
    for seed in range(5):
        other = 3 * np.random.default_rng(seed).normal(size=kinks.shape)
        low = value + (g * (other - kinks)).sum(axis=1)
        assert (loss.value(other, y) >= low - 1e-9 * (1 + np.abs(low))).all()


@each([v for v in ALL if v.convex])
def test_convex_along_random_chords(loss: Any) -> None:
    a, y = drawn(loss, 400)
    b = drawn(loss, 400, 1)[0]
    t = np.random.default_rng(2).random((400, 1))
    chord = t[:, 0] * loss.value(a, y) + (1 - t[:, 0]) * loss.value(b, y)
    assert (loss.value(t * a + (1 - t) * b, y) <= chord * (1 + 1e-12) + 1e-12).all()


@each([Tukey(), ZeroOne()])
def test_not_convex(loss: Any) -> None:
    y, far = np.ones(1), np.array([[-20.0]])
    middle = loss.value(0.5 * far + 0.5 * y, y)
    assert middle > 0.5 * loss.value(far, y) + 0.5 * loss.value(y[:, None], y)


@each(those(TwiceSmooth))
def test_curvature_is_the_slope_of_the_gradient(loss: Any) -> None:
    eta, y = drawn(loss)
    h = 1e-6
    size = np.maximum(1.0, np.abs(loss.value(eta, y)))[:, None]
    for j in range(loss.width):
        step = np.zeros(loss.width)
        step[j] = h
        slope = (loss.gradient(eta + step, y) - loss.gradient(eta - step, y)) / (2 * h)
        np.testing.assert_allclose(loss.curvature(eta, y)[:, :, j] / size, slope / size, atol=1e-7)


@each(those(TwiceSmooth))
def test_curvature_is_symmetric_positive_and_bounded(loss: Any) -> None:
    eta, y = drawn(loss)
    C = loss.curvature(np.vstack([eta, np.zeros((1, loss.width))]), np.append(y, y[:1], axis=0))
    np.testing.assert_array_equal(C, C.transpose(0, 2, 1))
    values = np.linalg.eigvalsh(C)
    assert values.min() >= (-1e-15 if loss.convex else -0.8 - 1e-12)
    assert values.max() <= loss.curvature_bound * (1 + 1e-12)


@each([v for v in those(TwiceSmooth) if np.isfinite(v.curvature_bound)])
def test_curvature_bound_is_the_least(loss: Any) -> None:
    eta = np.linspace(-3, 3, 401)[:, None] * np.ones(loss.width)
    if isinstance(loss, Softmax):  # two classes share the probability
        u = np.where(np.arange(loss.classes) < loss.classes - 2, -60.0, 0.0)
        eta = np.linalg.lstsq(loss.basis, u - u[0] * (loss.parametrization == "reference"), rcond=None)[0][None]
    top = np.linalg.eigvalsh(loss.curvature(eta, drawn(loss, len(eta))[1])).max()
    full = not isinstance(loss, Softmax) or loss.parametrization == "full"
    assert top == pytest.approx(loss.curvature_bound, rel=1e-3) if full else top <= loss.curvature_bound


@each(those(TwiceSmooth))
def test_all_answers_agree(loss: Any) -> None:
    eta, y = drawn(loss)
    value, gradient, curvature = loss.all(eta, y)
    np.testing.assert_array_equal(value, loss.value(eta, y))
    np.testing.assert_array_equal(gradient, loss.gradient(eta, y))
    np.testing.assert_array_equal(curvature, loss.curvature(eta, y))
    np.testing.assert_array_equal(gradient, loss.value_gradient(eta, y)[1])


@each(ALL)
def test_start_is_the_best_constant_by_brute_force(loss: Any) -> None:
    for seed, n in ((0, 2), (1, 5), (2, 6), (3, 41)):
        y, r = drawn(loss, max(n, int(loss.width) + 1), seed)[1], np.random.default_rng(seed)
        if loss.domain.whole and not loss.domain.nonzero:
            y[: int(loss.domain.high) + 1] = np.arange(int(loss.domain.high) + 1)[: len(y)]
        if loss.domain.nonzero:
            y[:2] = 1.0, -1.0
        s = r.random(len(y)) + 0.1
        start = loss.start(y, s)
        least = total(loss, start, y, s)
        if isinstance(loss, LossMatrix):
            rivals = [total(loss, [z], y, s) for z in range(len(loss.matrix))]
        else:
            around = [start + scale * r.normal(size=loss.width) for scale in (1e-3, 0.1, 1.0, 5.0) for _ in range(200)]
            if loss.width == 1:
                around += list(np.linspace(-6, 6, 2001)[:, None])
            rivals = [total(loss, c, y, s) for c in around]
        assert least <= min(rivals) + 1e-9 * s.sum()


@each([v for v in those(TwiceSmooth)])
def test_gradients_cancel_at_the_best_constant(loss: Any) -> None:
    y = drawn(loss)[1]
    y[: int(min(loss.domain.high, 9)) + 1] = np.arange(min(loss.domain.high, 9) + 1) if loss.domain.low == 0 else 1.0
    s = np.random.default_rng(1).random(len(y)) + 0.1
    g = loss.gradient(np.tile(loss.start(y, s), (len(y), 1)), y)
    np.testing.assert_allclose(s @ g, 0, atol=1e-11)


@each(ALL)
def test_a_weight_is_a_repetition(loss: Any) -> None:
    y = drawn(loss, 12, 3)[1]
    times = np.random.default_rng(4).integers(1, 4, 12)
    one = loss.start(np.repeat(y, times, axis=0), np.ones(times.sum()))
    np.testing.assert_allclose(loss.start(y, times.astype(float)), one, rtol=1e-6, atol=1e-6)


@each([v for v in ALL if not isinstance(v, (ZeroOne, LossMatrix))])
def test_best_constant_does_not_depend_on_the_unit_of_weights(loss: Any) -> None:
    y = drawn(loss, 21, 5)[1]
    s = np.random.default_rng(5).random(21)
    np.testing.assert_allclose(loss.start(y, 1e6 * s), loss.start(y, s), rtol=1e-7, atol=1e-7)


@each(those(Conjugable))
def test_fenchel_and_young(loss: Any) -> None:
    eta, y = drawn(loss)
    g = loss.gradient(eta, y)
    value = loss.value(eta, y)
    product = (g * eta).sum(axis=1)
    np.testing.assert_allclose(loss.conjugate(g, y), product - value, rtol=1e-9, atol=1e-9)
    other = drawn(loss, 40, 9)[0]
    bound = (g * other).sum(axis=1) - loss.value(other, y)
    assert (loss.conjugate(g, y) >= bound - 1e-9 * (1 + np.abs(bound))).all()


ENDLESS = (Squared, SquaredLength, Huber, SquaredHinge, Exponential, Poisson)


@each([v for v in those(Conjugable) if not isinstance(v, ENDLESS)])
def test_conjugate_is_infinite_beyond_its_domain(loss: Any) -> None:
    y = drawn(loss)[1]
    assert np.isinf(loss.conjugate(np.full((40, loss.width), 2.5), y)).all()


@each([v for v in those(Proximable) if v.width == 1])
@pytest.mark.parametrize("step", [1e-3, 0.7, 30.0])
def test_prox_minimises(loss: Any, step: float) -> None:
    v, y = drawn(loss, 12, 6)
    got = loss.prox(v, y, step)
    for i in range(len(v)):
        def f(x: float, i: int = i) -> float:
            return float(step * loss.value(np.array([[x]]), y[i : i + 1])[0] + 0.5 * (x - v[i, 0]) ** 2)

        found = optimize.minimize_scalar(f, bracket=(got[i, 0] - 1.0, got[i, 0] + 0.9), tol=1e-12)
        assert f(got[i, 0]) <= found.fun + 1e-10 * (1 + abs(found.fun))
        assert got[i, 0] == pytest.approx(found.x, abs=1e-4)


@each(those(Proximable))
def test_prox_and_conjugate_are_one_by_moreau(loss: Any) -> None:
    v, y = drawn(loss, 40, 7)
    step = 0.8
    p = loss.prox(v, y, step)
    u = (v - p) / step
    np.testing.assert_allclose(loss.value(p, y) + loss.conjugate(u, y), (u * p).sum(axis=1), rtol=1e-8, atol=1e-8)


@each(those(Reweighted))
def test_weighted_squares_touch_the_loss_from_above(loss: Any) -> None:
    eta, y = drawn(loss)
    w, r = loss.weight(eta, y), eta[:, 0] - y
    np.testing.assert_allclose(w * r, loss.gradient(eta, y)[:, 0], rtol=1e-13, atol=1e-300)
    assert (w >= 0).all()
    other = drawn(loss, 40, 8)[0]
    above = loss.value(eta, y) + 0.5 * w * ((other[:, 0] - y) ** 2 - r**2)
    assert (loss.value(other, y) <= above + 1e-12 * (1 + np.abs(above))).all()


@each([v for v in those(TwiceSmooth) if not isinstance(v, UNBOUNDED)])
def test_extremes_stay_finite(loss: Any) -> None:
    eta, y = drawn(loss)
    for out in loss.all(1e5 * eta, y):
        assert np.isfinite(out).all()


def test_the_exponential_loss_overflows_quietly_and_its_prox_does_not() -> None:
    y, eta = np.array([1.0, -1.0]), np.array([[-1e5], [1e-3]])
    assert Exponential().value(eta, y)[0] == np.inf
    assert np.isfinite(Exponential().prox(eta, y, 0.5)).all()


@each(ALL)
def test_survives_pickling_and_json(loss: Any) -> None:
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert loss_of(json.loads(json.dumps(loss.to_json()))) == loss
    assert hash(loss_of(loss)) == hash(loss)


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        (3, "/loss"), ({"loss": "hubber"}, "/loss"), ({"loss": "huber", "delta": 0.0}, "/delta"),
        ({"loss": "huber", "delta": "1"}, "/delta"), ({"loss": "huber", "detla": 1.0}, "/detla"),
        ({"loss": "tukey", "c": -1.0}, "/c"), ({"loss": "norm", "p": 0.5}, "/p"), ({"loss": "softmax"}, "/classes"),
        ({"loss": "loss_matrix", "matrix": [[1.0], [1.0, 2.0]]}, "/matrix"),
        ({"loss": "loss_matrix", "matrix": [[float("nan")]]}, "/matrix"),
        ({"loss": "epsilon_insensitive", "epsilon": float("inf")}, "/epsilon"),
    ],
)  # fmt: skip
def test_wrong_specs_say_where(spec: Any, pointer: str) -> None:
    with pytest.raises(InvalidParameter) as e:
        loss_of(spec)
    assert any(i.pointer.startswith(pointer) for i in e.value.issues)


def test_a_name_alone_has_the_defaults() -> None:
    assert loss_of("huber") == Huber()


def test_known_values() -> None:
    zero = np.zeros(2)
    assert Tukey(4.685).value(np.array([[2.0], [9.0]]), zero) == pytest.approx([1.6576631, 3.6582042], abs=5e-8)
    assert Huber(1.345).value(np.array([[2.0], [-2.0]]), zero) == pytest.approx(1.7854875)
    assert Norm(3.0, 2).value(np.array([[3.0, -4.0]]), np.zeros((1, 2))) == pytest.approx(91 ** (1 / 3))
    assert Norm("inf", 2).value(np.array([[3.0, -4.0]]), np.zeros((1, 2))) == 4.0


def test_limits_and_bounds() -> None:
    r, zero = np.linspace(-3, 3, 61)[:, None], np.zeros(61)
    np.testing.assert_allclose(Huber(1e6).value(r, zero), Squared().value(r, zero))
    np.testing.assert_allclose(Tukey(1e6).value(r, zero), Squared().value(r, zero), rtol=1e-10)
    np.testing.assert_array_equal(EpsilonInsensitive(0.0).value(r, zero), Absolute().value(r, zero))
    np.testing.assert_array_equal(Norm(4.0, 1).value(r, zero), Absolute().value(r, zero))
    for sign in (-1.0, 1.0):
        y = np.full(61, sign)
        wrong = ZeroOne().value(r, y)
        np.testing.assert_array_equal(LossMatrix().value((r >= 0) * 1.0, 0.5 + 0.5 * y), wrong)
        for bound in (Hinge().value(r, y), Exponential().value(r, y), 2 * SquaredHinge().value(r, y),
                      Logistic().value(r, 0.5 + 0.5 * y) / np.log(2)):  # fmt: skip
            assert (bound >= wrong - 1e-12).all()


def test_best_constants_in_the_middle_of_many() -> None:
    assert Absolute().start(np.array([5.0, 1.0, 2.0, 4.0]), np.ones(4)) == 3.0
    assert Absolute().start(np.array([5.0, 1.0, 2.0]), np.array([0.3, 0.1, 0.2])) == 3.5
    assert EpsilonInsensitive(10.0).start(np.array([0.0, 4.0]), np.ones(2)) == 2.0
    assert Huber(0.5).start(np.array([0.0, 10.0]), np.ones(2)) == 5.0
    assert Hinge().start(np.array([1.0, -1.0]), np.ones(2)) == 0.0
    assert ZeroOne().start(np.array([1.0, -1.0]), np.array([1.0, 2.0])) == -1.0


def test_the_best_constants_of_distant_targets_keep_their_digits() -> None:
    y = np.array([1.0, 2.0, 4.0, 7.0, 100.0])
    for loss in (Huber(), Tukey(), EpsilonInsensitive(), Absolute(), Squared()):
        near, far = loss.start(y, np.ones(5)), loss.start(y + 1e8, np.ones(5)) - 1e8
        np.testing.assert_allclose(far, near, atol=1e-6)


def test_outliers_do_not_move_the_biweight() -> None:
    y = np.append(np.random.default_rng(0).normal(size=99), 1e9)
    assert abs(Tukey().start(y, np.ones(100))[0]) < 0.3


def test_norms_survive_extremes() -> None:
    for p in (1.5, 2.0, 7.0):
        np.testing.assert_allclose(p_norm(np.array([[3e200, 4e200], [3e-200, 4e-200]]), p) / [1e200, 1e-200],
                                   (3**p + 4**p) ** (1 / p))  # fmt: skip


def test_softmax_is_minus_the_log_probability() -> None:
    r = np.random.default_rng(3)
    for loss in SOFTMAXES:
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
    signs = Interval(-1, 1, whole=True, nonzero=True)
    np.testing.assert_array_equal(signs.contains(np.array([-1, 0, 0.5, 1])), [1, 0, 0, 1])


def test_the_inverse_link_of_gamma_on_its_half_line() -> None:
    r = np.random.default_rng(0)
    loss, eta, y = InverseGamma(), 0.2 + r.random((40, 1)), 0.1 + r.random(40)
    h = 1e-6
    value, gradient, curvature = loss.all(eta, y)
    np.testing.assert_allclose(value, y * eta[:, 0] - np.log(eta[:, 0]), rtol=1e-14)
    np.testing.assert_allclose(gradient[:, 0], (loss.value(eta + h, y) - loss.value(eta - h, y)) / (2 * h), rtol=1e-6,
                               atol=1e-7)  # fmt: skip
    np.testing.assert_allclose(curvature[:, 0, 0], eta[:, 0] ** -2, rtol=1e-12)
    assert np.isinf(loss.value(np.array([[0.0], [-1.0]]), np.ones(2))).all()
    s = r.random(40)
    best = loss.start(y, s)
    assert best == pytest.approx(s.sum() / (s @ y))
    assert min(s @ loss.value(np.full((40, 1), c), y) for c in np.linspace(0.2, 5, 999)) >= s @ loss.value(
        np.full((40, 1), best[0]), y) - 1e-12  # fmt: skip


@pytest.mark.parametrize("parametrization", ["full", "reference"])
def test_softmax_of_scores_that_overflowed_has_no_finite_value(parametrization: str) -> None:
    loss, eta = Softmax(3, parametrization), np.zeros((4, 2))
    eta[0, 0], eta[1, 1], eta[2, 0] = np.inf, np.nan, 1e308
    with np.errstate(invalid="ignore", over="ignore"):
        value = loss.value(eta, np.zeros(4))
    assert not np.isfinite(value[:2]).any()
    assert value[3] == pytest.approx(np.log(3.0), rel=1e-15)
