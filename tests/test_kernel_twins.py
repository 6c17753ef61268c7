"""Every kernel method: equal to its linear twin under the linear kernel, and taking tables of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.cluster.k_means import KMeans
from ml_core.cluster.kernel_k_means import KernelKMeans
from ml_core.decomposition.kernel_pca import KernelPCA
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.gp.gaussian_process_classification import GaussianProcessClassification
from ml_core.gp.gaussian_process_regression import GaussianProcessRegression
from ml_core.gp.kernel_logistic_regression import KernelLogisticRegression
from ml_core.gp.kernel_nearest_neighbors import KernelNearestNeighbors, KernelNearestNeighborsRegression
from ml_core.gp.kernel_perceptron import KernelPerceptron
from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import LinearKernel, PrecomputedKernel, RBFKernel
from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.perceptron import Perceptron
from ml_core.linear.ridge_regression import RidgeRegression
from tests.rows import data

GIVEN = {"hyperparameters": "given"}
NUMBERS = data.regression
LABELS = data.binary
METHODS: list[tuple[Any, dict[str, Any], Any]] = [
    (KernelRidgeRegression, {"alpha": 0.5}, NUMBERS),
    (KernelNearestNeighborsRegression, {"n_neighbors": 4}, NUMBERS),
    (GaussianProcessRegression, {"noise_variance": 0.3, **GIVEN}, NUMBERS),
    (GaussianProcessRegression, {"noise_variance": 0.3, "method": "sparse", "n_inducing": 20, **GIVEN}, NUMBERS),
    (GaussianProcessClassification, GIVEN, LABELS),
    (KernelLogisticRegression, {"alpha": 0.5}, LABELS),
    (KernelPerceptron, {}, LABELS),
    (KernelNearestNeighbors, {"n_neighbors": 3}, LABELS),
    (KernelPCA, {"n_components": 3}, NUMBERS),
    (KernelKMeans, {"n_clusters": 3, "n_init": 3}, NUMBERS),
]
NAMES = [f"{m.__name__}-{p.get('method', '')}" for m, p, _ in METHODS]


def answers(model: Any, X: np.ndarray, *, variance: bool = True) -> list[np.ndarray]:
    if isinstance(model, KernelKMeans):  # numbers of clusters follow the cells, which are others in other tables
        return [model.expansion_.at(X).min(axis=1)]
    names = ("predict", "predict_proba", "transform", "decision_function")
    out = [getattr(model, n)(X) for n in names if hasattr(model, n)]
    return out + ([model.posterior(X).variance] if variance and isinstance(model, GaussianProcessRegression) else [])


@pytest.mark.parametrize(("method", "params", "table"), METHODS, ids=NAMES)
def test_a_matrix_over_all_rows_serves_as_the_kernel(method: Any, params: dict[str, Any], table: Any) -> None:
    """Row numbers as the only feature; new rows too."""
    X, y = table()
    kernel = RBFKernel(1.5)
    K = kernel(X)
    n = len(X) - 10
    numbers = np.arange(len(X), dtype=float)[:, None]
    one = method(kernel=kernel, **params).fit(X[:n], y[:n])
    two = method(kernel=PrecomputedKernel(tuple(map(tuple, K))), **params).fit(numbers[:n], y[:n])
    for a, b in zip(answers(one, X), answers(two, numbers), strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
        else:
            np.testing.assert_array_equal(a, b)
    report = two.diagnostics(numbers[:n], y[:n]).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


@pytest.mark.parametrize(("method", "params", "table"), [m for m in METHODS if m[1].get("method") != "sparse"],
                         ids=[n for n in NAMES if "sparse" not in n])  # fmt: skip
def test_rows_of_values_serve_as_the_kernel(method: Any, params: dict[str, Any], table: Any) -> None:
    """The training table is the Gram matrix, new rows hold their values with the training rows."""
    X, y = table()
    n, kernel = len(X) - 10, RBFKernel(1.5)
    K, Q = kernel(X[:n]), kernel(X[n:], X[:n])
    one = method(kernel=kernel, **params).fit(X[:n], y[:n])
    two = method(kernel=PrecomputedKernel(), **params).fit(K, y[:n])
    if method in (KernelNearestNeighbors, KernelNearestNeighborsRegression, GaussianProcessClassification):
        with pytest.raises(InvalidData, match=r"k\(z, z\)"):
            two.predict(Q)
        return
    a, b = answers(one, X[n:], variance=False)[0], answers(two, Q, variance=False)[0]
    if a.dtype.kind == "f":
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)
    else:
        np.testing.assert_array_equal(a, b)


def test_linear_twins() -> None:
    X, y = NUMBERS()
    Q = X + 0.2
    ridge = KernelRidgeRegression(kernel=LinearKernel(), alpha=0.7).fit(X, y)
    np.testing.assert_allclose(ridge.predict(Q), RidgeRegression(alpha=0.7).fit(X, y).predict(Q), rtol=1e-9)
    gp = GaussianProcessRegression(kernel=LinearKernel(), noise_variance=0.3, **GIVEN).fit(X, y)
    twin = BayesianLinearRegression(alpha=1.0, noise_variance=0.3, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(gp.predict(Q), twin.predict(Q), rtol=1e-8)
    pca = KernelPCA(kernel=LinearKernel()).fit(X).transform(Q)
    np.testing.assert_allclose(np.abs(pca), np.abs(PrincipalComponentAnalysis().fit(X).transform(Q)), atol=1e-9)
    k = KernelKMeans(kernel=LinearKernel(), n_clusters=2, n_init=20).fit(X)
    np.testing.assert_allclose(k.inertia_, KMeans(n_clusters=2, n_init=20).fit(X).inertia_, rtol=1e-8)


def test_linear_twins_of_classes() -> None:
    X, y = LABELS()
    ours = KernelLogisticRegression(kernel=LinearKernel(), alpha=0.5).fit(X, y)
    twin = LogisticRegression(alpha=0.5).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), twin.predict_proba(X), rtol=1e-7)
    A, t = data.separable()
    assert KernelPerceptron(kernel=LinearKernel()).fit(A, t).score(A, t) == Perceptron().fit(A, t).score(A, t) == 1.0


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("a", "b")])
def test_names_of_labels_change_nothing_of_a_kernel_perceptron(labels: tuple[Any, Any]) -> None:
    X, y = LABELS()
    want = KernelPerceptron(kernel=RBFKernel(1.0)).fit(X, y == "yes")
    got = KernelPerceptron(kernel=RBFKernel(1.0)).fit(X, np.array(labels)[(y == "yes").astype(int)])
    np.testing.assert_array_equal(want.dual_coef_, got.dual_coef_)


def test_exclusive_or_stops_and_keeps_the_best_weights() -> None:
    X, y = np.array([[0.0, 0.0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])
    linear = KernelPerceptron(kernel=LinearKernel(), shuffle=True).fit(X, y)
    assert linear.score(X, y) == 0.75
    assert linear.notices_
    assert KernelPerceptron(kernel=RBFKernel(0.5)).fit(X, y).score(X, y) == 1.0


def test_logistic_regression_without_penalty_is_refused() -> None:
    X, y = LABELS()
    with pytest.raises(InvalidParameter, match="alpha"):
        KernelLogisticRegression(alpha=0.0).fit(X, y)
