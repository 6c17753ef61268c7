"""Every kernel: one list of instances, every property below runs over all of them."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from sklearn.metrics import pairwise

from ml_core import params
from ml_core.bundle import load_bundle, save_bundle
from ml_core.errors import InvalidData, InvalidParameter, OverBudget
from ml_core.kernels import (
    KERNELS,
    ExpKernel,
    ExponentialKernel,
    Kernel,
    LinearKernel,
    MapKernel,
    MaternKernel,
    PeriodicKernel,
    PolynomialKernel,
    PowerSeriesKernel,
    ProductKernel,
    QuadraticFormKernel,
    RationalQuadraticKernel,
    RBFKernel,
    ScaleKernel,
    SubsetKernel,
    SumKernel,
    TrigonometricKernel,
    WarpKernel,
    kernel_of,
    kernel_schemas,
)
from ml_core.kernels.distances import fast_squared_distances, median_distance, squared_distances
from ml_core.kernels.kernel_functions import gaussian_kernel, linear_kernel
from ml_core.kernels.weighted import weighted_sums
from ml_core.parallel import use_threads
from ml_core.registry import functions

EVERY: dict[str, Kernel] = {
    "linear": LinearKernel(),
    "polynomial": PolynomialKernel(degree=3, coef0=0.5),
    "homogeneous polynomial": PolynomialKernel(degree=2, coef0=0.0),
    "quadratic_form": QuadraticFormKernel(matrix=((2.0, 1.0, 0.0), (1.0, 2.0, 0.0), (0.0, 0.0, 0.0))),  # type: ignore[arg-type]
    "rbf": RBFKernel(length_scale=0.7),
    "rbf with a length per column": RBFKernel(length_scale=(0.7, 1.0, 3.0)),
    "exponential": ExponentialKernel(theta=0.5),
    "trigonometric": TrigonometricKernel(),
    "sum": LinearKernel() + RBFKernel() + TrigonometricKernel(),
    "product": RBFKernel() * PolynomialKernel(degree=2),
    "scale": 3.0 * ExponentialKernel(),
    "exp": ExpKernel(term=0.1 * LinearKernel()),
    "power_series": PowerSeriesKernel(coefficients=(1.0, 0.0, 2.5), term=RBFKernel()),
    "subset": SubsetKernel(columns=(0, 2), term=RBFKernel()) + SubsetKernel(columns=(1, 2), term=LinearKernel()),
    "matern 1/2": MaternKernel(0.7, nu=0.5),
    "matern 3/2": MaternKernel((0.7, 1.0, 3.0), nu=1.5),
    "matern 5/2": MaternKernel(1.3),
    "rational_quadratic": RationalQuadraticKernel((0.7, 1.0, 3.0), alpha=0.4),
    "periodic": PeriodicKernel((1.0, 0.8, 2.0), period=(1.5, 0.7, 4.0)),
    "periodic, one period": 2.0 * PeriodicKernel(0.7, period=1.3),
    "warp": WarpKernel("gaussian", RBFKernel(0.7), 1.5) + WarpKernel("column", 0.5 * LinearKernel(), 2.0),
    "map": MapKernel("monomials", RBFKernel((1.0,) * 9 + (2.0,)), 2),
    "warp of a map": SubsetKernel((0,), MapKernel("norm", WarpKernel("constant", LinearKernel(), 2.0), 1)),
}
every = pytest.mark.parametrize("k", EVERY.values(), ids=EVERY)
X = np.random.default_rng(0).normal(size=(37, 3))
Z = np.random.default_rng(1).normal(size=(11, 3))


def test_every_kernel_stands_in_the_list() -> None:
    def names(k: Any) -> set[str]:
        parts = [*getattr(k, "terms", ()), *([k.term] if hasattr(k, "term") else [])]
        return {k.name}.union(*map(names, parts))

    apart = {"white", "precomputed"}  # rows are not all there is to them: tests of their own
    assert set().union(*map(names, EVERY.values())) | apart == set(KERNELS) == set(kernel_schemas())


@every
def test_gram_matrix_is_symmetric_and_positive_semidefinite_with_the_diagonal(k: Kernel) -> None:
    K = k(X)
    assert np.array_equal(K, K.T)
    assert np.array_equal(np.diag(K), k.diag(X))
    spectrum = np.linalg.eigvalsh(K)
    assert spectrum[0] >= -1e-10 * spectrum[-1]


@every
def test_gram_is_cross_and_blocks_agree(k: Kernel) -> None:
    np.testing.assert_allclose(k(X, X.copy()), k(X), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(k(X, Z), k(Z, X).T, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(k(X[5:9], Z), k(X, Z)[5:9], rtol=1e-11, atol=1e-12)
    assert k(X[:0], Z).shape == (0, 11)


@every
def test_sums_of_many_rows_are_those_of_the_matrix_on_any_threads(k: Kernel) -> None:
    many = np.random.default_rng(2).normal(size=(40_000, 3))
    W = np.random.default_rng(3).normal(size=(37, 2))
    want = k(many, X) @ W
    np.testing.assert_allclose(k.against(X)(Z), k(Z, X), rtol=1e-12, atol=1e-12)
    with use_threads(1):
        once = weighted_sums(k, many, X, W)
    with use_threads(3):
        np.testing.assert_array_equal(weighted_sums(k, many, X, W), once)
    np.testing.assert_allclose(once, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize("kernel", [RBFKernel(7.0), MaternKernel(3.0), RationalQuadraticKernel((7.0, 11.0))])
def test_rows_far_from_the_origin_are_compared_to_rounding(kernel):
    seconds = np.column_stack([1.7e9 + 3.0 * np.arange(40), -1e12 + np.arange(40)])
    near = seconds - seconds[20]
    for rows in (slice(None), slice(0, 1), slice(5, 9)):
        np.testing.assert_allclose(kernel(seconds[rows], seconds), kernel(near[rows], near), rtol=0, atol=4e-15)
    np.testing.assert_allclose(kernel(seconds), kernel(near), rtol=0, atol=4e-15)
    K, pull = kernel.traced(seconds)
    W = np.ones_like(K)
    np.testing.assert_allclose(pull(W), kernel.traced(near)[1](W), rtol=1e-12)
    mixed = np.vstack([seconds, near])
    np.testing.assert_allclose(kernel(mixed, near[:3])[40:], kernel(near, near[:3]), rtol=0, atol=4e-15)


@pytest.mark.parametrize("away", [0.0, 10.0, 1e4, 1e8])
@pytest.mark.parametrize("k", [RBFKernel(2.0), 1e3 * RBFKernel(tuple(np.linspace(1.0, 3.0, 30)))])
def test_values_against_many_rows_keep_their_digits_far_from_the_origin_and_from_each_other(
    k: Kernel, away: float
) -> None:
    rng = np.random.default_rng(4)
    B = rng.normal(size=(50, 30))
    A = np.vstack([B[:20] + 0.01, rng.normal(size=(20, 30))])
    for rows, others in ((A, B), (A + away, B + away), (np.vstack([A, A[:1] + away]), B)):
        gap, factor = rows[:, None] - others, getattr(k, "factor", 1.0)
        want = factor * np.exp(-0.5 * ((gap / np.asarray(getattr(k, "term", k).length_scale)) ** 2).sum(axis=-1))
        np.testing.assert_allclose(k.against(others)(rows), want, rtol=1e-12, atol=1e-12 * factor)


@every
def test_json_pickle_and_bundle_round_trips(k: Kernel) -> None:
    assert kernel_of(json.loads(json.dumps(k.to_json()))) == k
    assert hash(kernel_of(k.to_json())) == hash(k)
    buffer = io.BytesIO()
    save_bundle(k, buffer)
    for copy in (pickle.loads(pickle.dumps(k)), load_bundle(buffer)):
        assert copy == k
        assert np.array_equal(copy(X), k(X))


@every
def test_flags_tell_the_truth(k: Kernel) -> None:
    shift = np.array([3.0, -1.0, 0.5])
    moved = np.allclose(k(X + shift, Z + shift), k(X, Z), rtol=1e-9)
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    turned = np.allclose(k(X @ turn, Z @ turn), k(X, Z), rtol=1e-9)
    assert moved or not k.stationary
    assert (moved and turned) or not k.homogeneous


@every
def test_read_only_rows_are_accepted_and_untouched(k: Kernel) -> None:
    frozen = X.copy()
    frozen.flags.writeable = False
    k(frozen)
    k(frozen, frozen)
    assert np.array_equal(frozen, X)


def test_kernels_are_scikit_learns() -> None:
    np.testing.assert_allclose(RBFKernel(0.7)(X, Z), pairwise.rbf_kernel(X, Z, gamma=1 / (2 * 0.49)), rtol=1e-12)
    np.testing.assert_allclose(
        PolynomialKernel(4, 0.5)(X, Z), pairwise.polynomial_kernel(X, Z, degree=4, gamma=1, coef0=0.5), rtol=1e-10
    )
    np.testing.assert_allclose(LinearKernel()(X, Z), pairwise.linear_kernel(X, Z), rtol=1e-12)
    np.testing.assert_allclose(
        ExponentialKernel(0.5)(X, Z), np.exp(-0.5 * pairwise.euclidean_distances(X, Z)), rtol=1e-12
    )


def test_known_values() -> None:
    x, z = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    np.testing.assert_allclose(RBFKernel(2.0)(x, z), 0.1969117, atol=5e-8)
    np.testing.assert_allclose(ExponentialKernel(0.5)(x, z), 0.1648407, atol=5e-8)
    assert PolynomialKernel(2, 1.0)(x, z).item() == 4.0
    assert PolynomialKernel(2, 3.0)(x, z).item() == 16.0
    for gap, want in ((0.25, 4.0), (0.5, 0.0), (1.3, 0.7315820), (0.0, 2 * np.pi)):
        got = TrigonometricKernel()(np.array([[gap]]), np.array([[0.0]])).item()
        np.testing.assert_allclose(got, want, atol=5e-8)


def test_trigonometric_is_its_integral() -> None:
    x, z = np.array([0.3, -1.1]), np.array([-0.4, 0.9])
    want = sum(integrate.quad(lambda t, g=g: np.cos(t * g), 0, 2 * np.pi)[0] for g in x - z)
    np.testing.assert_allclose(TrigonometricKernel()(x[None], z[None]), want, rtol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e4, -3e8])
def test_trigonometric_is_sinc_near_far_and_across_blocks(shift: float) -> None:
    r = np.random.default_rng(8)
    A = np.concatenate([r.normal(size=(90, 2)), r.normal(scale=1e-6, size=(60, 2))]) + shift
    want = 2 * np.pi * np.sinc(2 * (A[:, None] - A)).sum(axis=2)
    np.testing.assert_allclose(TrigonometricKernel()(A), want, rtol=1e-11, atol=1e-11)
    assert np.array_equal(TrigonometricKernel()(A), TrigonometricKernel()(A).T)


def test_closure_rules_act_entry_by_entry() -> None:
    a, b = RBFKernel(0.7), PolynomialKernel(2)
    np.testing.assert_allclose((a + b)(X, Z), a(X, Z) + b(X, Z))
    np.testing.assert_allclose((a * b)(X, Z), a(X, Z) * b(X, Z))
    np.testing.assert_allclose((2.5 * a)(X, Z), 2.5 * a(X, Z))
    np.testing.assert_allclose(ExpKernel(a)(X, Z), np.exp(a(X, Z)))
    np.testing.assert_allclose(PowerSeriesKernel((1.0, 2.0, 3.0), a)(X, Z), 1 + 2 * a(X, Z) + 3 * a(X, Z) ** 2)
    np.testing.assert_allclose(SubsetKernel((2, 0), a)(X, Z), a(X[:, [2, 0]], Z[:, [2, 0]]))


def test_sums_and_products_flatten_only_their_own_kind() -> None:
    a, b, c = LinearKernel(), RBFKernel(), ExponentialKernel()
    assert (a + b + c) == SumKernel((a, b, c))
    assert (a + b) * c == ProductKernel((SumKernel((a, b)), c))
    assert (a * b) + c == SumKernel((ProductKernel((a, b)), c))
    np.testing.assert_allclose(((a + b) * c)(X, Z), (a(X, Z) + b(X, Z)) * c(X, Z))


def test_distances_keep_their_digits_far_from_the_origin() -> None:
    x, z = np.array([[1e8, 1.0]]), np.array([[1e8, 2.0]])
    assert squared_distances(x, z).item() == 1.0
    np.testing.assert_allclose(RBFKernel(1.0)(x, z), np.exp(-0.5), rtol=1e-14)
    wide = np.random.default_rng(3).normal(size=(20, 40))
    near = squared_distances
    for far in (wide + 1e8, np.concatenate([wide, wide + 1e6])):
        np.testing.assert_allclose(fast_squared_distances(far, far), near(far, far), rtol=1e-12, atol=1e-12)


def test_expansion_is_symmetric_and_never_negative() -> None:
    A = np.repeat(np.random.default_rng(5).normal(size=(150, 30)), 2, axis=0)
    r2 = fast_squared_distances(A, A)
    assert np.array_equal(r2, r2.T)
    assert r2.min() >= 0
    np.testing.assert_allclose(r2, squared_distances(A, A), atol=1e-12)
    assert np.array_equal(RBFKernel()(A), RBFKernel()(A).T)


def test_lengths_left_to_the_data_are_medians() -> None:
    middle = np.median([np.linalg.norm(X[i] - X[j]) for i in range(37) for j in range(i)])
    np.testing.assert_allclose(median_distance(X), middle, rtol=1e-14)
    assert median_distance(np.ones((5, 2))) == 1.0
    assert median_distance(X[:1]) == 1.0
    k = (RBFKernel(None) + 2.0 * ExponentialKernel(None)).resolved(X)
    assert k == RBFKernel(median_distance(X)) + 2.0 * ExponentialKernel(1 / median_distance(X))
    inner = SubsetKernel((1,), RBFKernel(None)).resolved(X)
    assert inner == SubsetKernel((1,), RBFKernel(median_distance(X[:, [1]])))
    with pytest.raises(InvalidParameter, match="resolved"):
        RBFKernel(None)(X)


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"kernel": "nope"}, "/kernel"),
        ({"kernal": "rbf"}, "/kernel"),
        ("rbf", "/kernel"),
        (None, "/kernel"),
        ({"kernel": ["rbf"]}, "/kernel"),
        ({"kernel": "rbf", "length_scale": 0}, "/length_scale"),
        ({"kernel": "rbf", "length_scale": "1"}, "/length_scale"),
        ({"kernel": "rbf", "length_scale": True}, "/length_scale"),
        ({"kernel": "rbf", "length_scale": float("nan")}, "/length_scale"),
        ({"kernel": "rbf", "length_scale": []}, "/length_scale"),
        ({"kernel": "rbf", "sigma": 1.0}, "/sigma"),
        ({"kernel": "polynomial", "degree": 11}, "/degree"),
        ({"kernel": "polynomial", "degree": 2.5}, "/degree"),
        ({"kernel": "polynomial", "coef0": -1.0}, "/coef0"),
        ({"kernel": "exponential", "theta": float("inf")}, "/theta"),
        ({"kernel": "sum", "terms": []}, "/terms"),
        ({"kernel": "sum", "terms": [{"kernel": "linear"}, {"kernel": "rbf", "x": -1}]}, "/terms/1/x"),
        ({"kernel": "scale", "factor": -2.0, "term": {"kernel": "linear"}}, "/factor"),
        ({"kernel": "scale", "factor": 2.0, "term": {"kernel": "linear", "x": 1}}, "/term/x"),
        ({"kernel": "power_series", "coefficients": [1.0, -1.0], "term": {"kernel": "linear"}}, "/coefficients/1"),
        ({"kernel": "subset", "columns": [-1], "term": {"kernel": "linear"}}, "/columns/0"),
        ({"kernel": "quadratic_form", "matrix": [[1.0, 0.0], [0.0, -1.0]]}, "/matrix"),
        ({"kernel": "quadratic_form", "matrix": [[1.0, 2.0], [0.0, 5.0]]}, "/matrix"),
        ({"kernel": "quadratic_form", "matrix": [["1"]]}, "/matrix"),
    ],
)
def test_wrong_json_is_refused_at_its_place(spec: Any, pointer: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        kernel_of(spec)
    assert pointer in [i.pointer for i in refused.value.issues]


def test_wrong_rows_are_refused() -> None:
    with pytest.raises(InvalidData, match="columns"):
        LinearKernel()(X, Z[:, :2])
    with pytest.raises(InvalidData, match="rows"):
        LinearKernel()(X[0])
    with pytest.raises(InvalidParameter, match="lengths"):
        RBFKernel((1.0, 2.0))(X)
    with pytest.raises(InvalidParameter, match="column 5"):
        SubsetKernel((5,), LinearKernel())(X)
    with pytest.raises(InvalidParameter, match="2 × 2"):
        QuadraticFormKernel(((1.0, 0.0), (0.0, 1.0)))(X)  # type: ignore[arg-type]


def test_overflow_is_an_error_not_an_infinity() -> None:
    huge = np.array([[1e80]])
    with pytest.raises(InvalidData, match="overflows"):
        PolynomialKernel(degree=3)(huge)
    with pytest.raises(InvalidData, match="overflows"):
        ExpKernel(LinearKernel())(np.array([[100.0]]))


def test_gaussian_is_another_name_of_rbf_and_construction_is_checked() -> None:
    assert kernel_of({"kernel": "gaussian", "length_scale": 2}) == RBFKernel(2.0)
    with pytest.raises(InvalidParameter):
        ScaleKernel(factor=0.0, term=LinearKernel())
    with pytest.raises(InvalidParameter):
        params.validate(RBFKernel, {"length_scale": None, "more": 1})


NAMED = {
    "linear_kernel": (LinearKernel(), {}),
    "polynomial_kernel": (PolynomialKernel(2, 0.5), {"degree": 2, "coef0": 0.5}),
    "gaussian_kernel": (RBFKernel(0.7), {"length_scale": 0.7}),
    "exponential_kernel": (ExponentialKernel(0.5), {"theta": 0.5}),
    "trigonometric_kernel": (TrigonometricKernel(), {}),
    "quadratic_form_kernel": (EVERY["quadratic_form"], {"matrix": [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]}),
    "composite_kernel": (EVERY["product"], {"kernel": EVERY["product"].to_json()}),
}


@pytest.mark.parametrize("name", NAMED)
def test_each_kernel_is_a_function_of_points(name: str) -> None:
    k, arguments = NAMED[name]
    f = functions()[name]
    gram = f({"points": X.tolist(), **arguments})
    cross = f({"points": X.tolist(), "others": Z.tolist(), **arguments})
    np.testing.assert_allclose(gram["result"]["matrix"], k(X), rtol=1e-13)
    np.testing.assert_allclose(cross["result"]["matrix"], k(X, Z), rtol=1e-13)
    assert kernel_of(gram["result"]["kernel"]) == k
    assert (gram["result"]["stationary"], gram["result"]["homogeneous"]) == (k.stationary, k.homogeneous)
    assert all(c["holds"] for c in gram["certificates"] + cross["certificates"])
    estimate = f.estimate({"points": X.tolist(), **arguments})
    assert estimate is not None
    assert estimate.flops == 30 * 37 * 37 * 3


def test_functions_refuse_what_is_too_large_or_empty() -> None:
    with pytest.raises(OverBudget, match="GB"):
        linear_kernel(points=np.zeros((10_000, 1)))
    with pytest.raises(InvalidData, match="at least one"):
        linear_kernel(points=np.zeros((0, 1)))
    auto = gaussian_kernel(points=X).value
    assert auto.kernel["length_scale"] == median_distance(X)


@pytest.mark.parametrize(
    "spec",
    [
        {"kernel": "power_series", "coefficients": [0, 1e300], "term": {"kernel": "linear"}},
        {"kernel": "scale", "factor": 1e300, "term": {"kernel": "linear"}},
        {"kernel": "product", "terms": [{"kernel": "linear"}] * 3},
        {"kernel": "sum", "terms": [{"kernel": "scale", "factor": 1e308, "term": {"kernel": "rbf"}}] * 2},
        {"kernel": "warp", "function": "norm", "value": 1e200, "term": {"kernel": "linear"}},
        {"kernel": "quadratic_form", "matrix": [[1e300, 0.0], [0.0, 1e300]]},
    ],
)
def test_no_kernel_gives_an_infinity(spec: Any) -> None:
    rows = np.array([[1e90, 2.0], [3.0, -1e90]])
    for others in (None, rows.copy()):
        with pytest.raises(InvalidData, match="overflow"):
            kernel_of(spec)(rows, others)


@pytest.mark.parametrize("name", ["rbf", "matern", "rational_quadratic"])
def test_lengths_far_below_the_gaps_leave_the_unit_matrix_or_are_refused(name: str) -> None:
    k = kernel_of({"kernel": name, "length_scale": 1e-250})
    np.testing.assert_array_equal(k(np.array([[0.0], [1.0], [3.0]])), np.eye(3))
    with pytest.raises(InvalidParameter, match="longer length"):
        k(np.array([[0.0], [1e90]]))


@pytest.mark.parametrize("depth", [33, 300, 2000])
def test_kernels_nested_too_deep_are_refused(depth: int) -> None:
    spec: dict[str, Any] = {"kernel": "rbf", "length_scale": 1.0}
    for _ in range(20):
        spec = {"kernel": "scale", "factor": 2.0, "term": spec}
    assert kernel_of(spec)(np.zeros((1, 1)))[0, 0] == 2.0**20
    for _ in range(depth):
        spec = {"kernel": "sum", "terms": [spec]}
    with pytest.raises(InvalidParameter, match="nested deeper"):
        kernel_of(spec)


@pytest.mark.parametrize(
    "spec",
    [
        {"kernel": "quadratic_form", "matrix": [[2.0, 1.0], [1.0, 2.0]]},
        {"kernel": "subset", "columns": [0], "term": {"kernel": "linear"}},
        {"kernel": "subset", "columns": [1, 0], "term": {"kernel": "rbf", "length_scale": 64.0}},
        {"kernel": "map", "features": "powers", "degree": 1, "term": {"kernel": "linear"}},
    ],
)
def test_distances_of_rows_far_away_are_those_of_the_same_rows_near_the_origin(spec: Any) -> None:
    near = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, -1.0]])
    k = kernel_of(spec)
    expected = k(near).diagonal()[:, None] + k(near).diagonal() - 2 * k(near)
    found = k.squared_distances(near + 2.0**27, near + 2.0**27)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert (found.diagonal() == 0).all()
