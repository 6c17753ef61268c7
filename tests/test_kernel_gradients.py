"""Derivatives of every kernel with respect to its log hyperparameters, against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.kernels import (
    ExponentialKernel,
    Kernel,
    LinearKernel,
    MapKernel,
    MaternKernel,
    PeriodicKernel,
    PolynomialKernel,
    PowerSeriesKernel,
    PrecomputedKernel,
    RationalQuadraticKernel,
    RBFKernel,
    WarpKernel,
    WhiteKernel,
    kernel_of,
    log_parameters,
    with_log_parameters,
)
from ml_core.kernels.traces import outer_less, weighted_gaps
from tests.test_kernels import EVERY

MORE = {"white": LinearKernel() * WhiteKernel() + 0.3 * WhiteKernel() + RBFKernel(0.5)}
every = pytest.mark.parametrize("k", (EVERY | MORE).values(), ids=EVERY | MORE)
X = np.random.default_rng(0).normal(size=(23, 3))
Z = np.random.default_rng(1).normal(size=(11, 3))
STEP = 1e-5


def moved(k: Kernel, i: int, by: float) -> Kernel:
    logs = log_parameters(k)[1]
    logs[i] += by
    return with_log_parameters(k, logs)


@every
@pytest.mark.parametrize("gram", [True, False])
def test_pull_is_the_derivative(k: Kernel, gram: bool) -> None:
    others = None if gram else Z
    K, pull = k.traced(X, others)
    np.testing.assert_allclose(K, k(X, others), rtol=1e-12, atol=1e-13)
    W = np.random.default_rng(2).normal(size=K.shape)
    W = W + W.T if gram else W
    got = pull(W)
    names, logs = log_parameters(k)
    assert got.shape == logs.shape == (len(names),)
    for i in range(len(names)):
        up, down = moved(k, i, STEP)(X, others), moved(k, i, -STEP)(X, others)
        want = np.sum(W * (up - down)) / (2 * STEP)
        size = np.sum(np.abs(W * (up - down))) / (2 * STEP)
        np.testing.assert_allclose(got[i], want, atol=1e-7 * size + 1e-9, err_msg=names[i])


@every
def test_traced_twice_and_pulled_twice_is_the_same(k: Kernel) -> None:
    K, pull = k.traced(X)
    before, W = K.copy(), K.copy()
    one = pull(W)
    assert np.array_equal(K, before)
    assert np.array_equal(W, before)
    assert np.array_equal(one, pull(W))
    assert np.array_equal(K, K.T)


@every
def test_logs_round_trip_and_name_their_places(k: Kernel) -> None:
    names, logs = log_parameters(k)
    again = with_log_parameters(k, logs)
    np.testing.assert_allclose(log_parameters(again)[1], logs, rtol=1e-14)
    assert len(set(names)) == len(names)
    for name, value in zip(names, np.exp(logs), strict=True):
        place = k.to_json()
        for step in name.split("/")[1:]:
            place = place[int(step)] if isinstance(place, list) else place[step]
        np.testing.assert_allclose(place, value, rtol=1e-14)


def test_zero_coefficients_have_no_logarithm() -> None:
    assert log_parameters(PolynomialKernel(3, coef0=0.0))[0] == []
    k = PowerSeriesKernel((0.0, 2.0, 0.0, 1.0), LinearKernel())
    assert log_parameters(k)[0] == ["/coefficients/1", "/coefficients/3"]
    assert with_log_parameters(k, np.log([5.0, 7.0])).coefficients == pytest.approx((0, 5, 0, 7))  # type: ignore[attr-defined]
    with pytest.raises(InvalidParameter, match="resolved"):
        log_parameters(RBFKernel(None))


def test_smooth_kernels_are_scikit_learns() -> None:
    for nu in (0.5, 1.5, 2.5):
        np.testing.assert_allclose(MaternKernel((0.7, 1, 3), nu)(X, Z), sk.Matern((0.7, 1, 3), nu=nu)(X, Z), rtol=1e-12)
    np.testing.assert_allclose(
        RationalQuadraticKernel(0.7, 0.4)(X, Z), sk.RationalQuadratic(0.7, 0.4)(X, Z), rtol=1e-12
    )
    one = sk.ExpSineSquared(0.7, 1.3)(X[:, :1], Z[:, :1])
    np.testing.assert_allclose(PeriodicKernel(0.7, 1.3)(X[:, :1], Z[:, :1]), one, rtol=1e-11)
    np.testing.assert_allclose(MaternKernel(0.5, 0.5)(X, Z), ExponentialKernel(2.0)(X, Z), rtol=1e-12)
    np.testing.assert_allclose(RationalQuadraticKernel(0.7, 1e8)(X, Z), RBFKernel(0.7)(X, Z), rtol=1e-5)


def test_gradients_are_scikit_learns() -> None:
    """An oracle that shares no code: the stacked derivative matrices of another library."""
    W = np.random.default_rng(3).normal(size=(23, 23))
    W = W + W.T
    pairs = [
        (RBFKernel((0.7, 1.0, 3.0)), sk.RBF((0.7, 1.0, 3.0))),
        (MaternKernel((0.7, 1.0, 3.0), 1.5), sk.Matern((0.7, 1.0, 3.0), nu=1.5)),
        (MaternKernel(0.9, 2.5), sk.Matern(0.9, nu=2.5)),
        (2.0 * RBFKernel(0.4), sk.ConstantKernel(2.0) * sk.RBF(0.4)),
    ]
    for ours, theirs in pairs:
        want = np.einsum("ij,ijk->k", W, theirs(X, eval_gradient=True)[1])
        np.testing.assert_allclose(ours.traced(X)[1](W), want, rtol=1e-9)


def test_periodic_repeats_exactly_far_away() -> None:
    k, far = PeriodicKernel(0.8, 0.5), X + 2.0**20
    np.testing.assert_allclose(k(far, Z), k(far - 2.0**20, Z), rtol=1e-9)
    assert PeriodicKernel(None, None).resolved(X).period > 0
    with pytest.raises(InvalidParameter, match="2 values of period"):
        PeriodicKernel(1.0, (1.0, 2.0))(X)


def test_white_is_the_identity_of_rows() -> None:
    twice = np.repeat(X, 2, axis=0)
    assert np.array_equal(WhiteKernel()(twice), np.eye(46))
    assert not WhiteKernel()(X, X.copy()).any()
    assert np.array_equal((2.0 * WhiteKernel() + LinearKernel())(X), LinearKernel()(X) + 2.0 * np.eye(23))


def test_warps_and_maps_are_their_formulas() -> None:
    k = RBFKernel(0.7)
    f = {
        "constant": lambda A: np.full(len(A), 2.0),
        "norm": lambda A: 2.0 * np.linalg.norm(A, axis=1),
        "inverse_norm": lambda A: 2.0 / np.linalg.norm(A, axis=1),
        "gaussian": lambda A: np.exp(-(A**2).sum(axis=1) / 8.0),
        "column": lambda A: A[:, 2],
    }
    for name, g in f.items():
        warped = WarpKernel(name, k, 2.0)(X, Z)  # type: ignore[arg-type]
        np.testing.assert_allclose(warped, g(X)[:, None] * k(X, Z) * g(Z), rtol=1e-12, err_msg=name)
    cosine = WarpKernel("inverse_norm", LinearKernel())(X)
    np.testing.assert_allclose(np.diag(cosine), 1.0, rtol=1e-14)
    angle = 2 * np.pi * X
    maps = {
        "powers": np.hstack([X, X**2]),
        "waves": np.hstack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)]),
        "norm": (X**2).sum(axis=1, keepdims=True),
        "paraboloid": np.column_stack([X, (X**2).sum(axis=1)]),
    }
    for name, P in maps.items():
        np.testing.assert_allclose(MapKernel(name, k, 2)(X), k(P), rtol=1e-10, err_msg=name)  # type: ignore[arg-type]
    # all monomials, scaled as the binomial theorem says, give the polynomial kernel
    scaled = MapKernel("monomials", LinearKernel(), 1)
    np.testing.assert_allclose(scaled(X, Z), PolynomialKernel(1, 1.0)(X, Z), rtol=1e-12)


def test_wrong_warps_and_maps_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="positive length"):
        WarpKernel("gaussian", LinearKernel(), 0.0)
    for value in (3.0, -1.0, 0.5):
        with pytest.raises(InvalidParameter, match="column"):
            WarpKernel("column", LinearKernel(), value)(X)
    with pytest.raises(InvalidData, match="row 1"):
        WarpKernel("inverse_norm", LinearKernel())(np.array([[1.0], [0.0]]))
    with pytest.raises(InvalidParameter, match="monomials"):
        MapKernel("monomials", LinearKernel(), 10)(np.ones((2, 10)))
    with pytest.raises(InvalidData, match="overflows"):
        MapKernel("powers", LinearKernel(), 10)(np.full((2, 1), 1e40))


def test_precomputed_by_row_number_and_by_values() -> None:
    K = RBFKernel(0.7)(np.vstack([X, Z]))
    numbered = PrecomputedKernel(matrix=K.tolist())
    at = np.arange(len(K), dtype=float)[:, None]
    assert np.array_equal(numbered(at[:23], at[23:]), K[:23, 23:])
    assert np.array_equal(numbered.diag(at), np.diag(K))
    assert kernel_of(numbered.to_json()) == numbered
    gram, cross = K[:23, :23].copy(), K[23:, :23].copy()
    valued = PrecomputedKernel()
    assert np.array_equal(valued(gram), gram)
    assert np.array_equal(valued(cross, gram), cross)
    assert np.array_equal(valued(gram, cross), cross.T)
    assert np.array_equal(valued.diag(gram), np.diag(gram))
    np.testing.assert_allclose((2.0 * valued).traced(gram)[1](np.ones((23, 23))), [2 * gram.sum()], rtol=1e-12)


def test_what_cannot_be_a_gram_matrix_is_refused() -> None:
    distances = np.square(np.subtract.outer(np.arange(1.0, 5), np.arange(1.0, 5)))
    with pytest.raises(InvalidData, match="least eigenvalue of the training table is -10"):
        PrecomputedKernel()(distances)
    with pytest.raises(InvalidData, match=r"symmetric: entries \(0, 1\)"):
        PrecomputedKernel()(np.array([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(InvalidData, match="2 rows and 3 columns"):
        PrecomputedKernel()(np.ones((2, 3)))
    with pytest.raises(InvalidData, match="whole"):
        PrecomputedKernel()(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(InvalidData, match=r"k\(z, z\)"):
        PrecomputedKernel().diag(np.ones((2, 3)))
    numbered = PrecomputedKernel(matrix=[[1.0, 0.0], [0.0, 1.0]])
    for rows, text in (([[2.0]], "no row number"), ([[0.5]], "no row number"), ([[0.0, 1.0]], "one column")):
        with pytest.raises(InvalidData, match=text):
            numbered(np.array(rows))
    with pytest.raises(InvalidParameter) as refused:
        kernel_of({"kernel": "precomputed", "matrix": distances.tolist()})
    assert refused.value.issues[0].pointer == "/matrix"


def test_compiled_sums_are_their_formulas() -> None:
    r = np.random.default_rng(5)
    W, G = r.normal(size=(23, 11)), r.normal(size=(23, 11))
    want = np.einsum("ij,ijc->c", W * G, (X[:, None] - Z) ** 2)
    np.testing.assert_allclose(weighted_gaps(W, G, X, Z, False), want, rtol=1e-11)
    V = r.normal(size=(23, 23))
    V = V + V.T
    want = np.einsum("ij,ijc->c", V * V, (X[:, None] - X) ** 2)
    np.testing.assert_allclose(weighted_gaps(V, V, X, X, True), want, rtol=1e-11)
    P, A = r.normal(size=(150, 150)), r.normal(size=(150, 2))
    P = P + P.T
    low = np.tril(P)
    outer_less(low, A)
    np.testing.assert_allclose(low, A @ A.T - P, rtol=1e-12, atol=1e-12)
