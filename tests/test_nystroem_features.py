"""Nyström's features: the projection of a kernel on some rows, and the kernel twins of the linear methods behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.cluster.k_means import KMeans
from ml_core.cluster.kernel_k_means import KernelKMeans
from ml_core.decomposition.kernel_pca import KernelPCA
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis
from ml_core.errors import OverBudget
from ml_core.gp.kernel_logistic_regression import KernelLogisticRegression
from ml_core.gp.kernel_perceptron import KernelPerceptron
from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.gp.nystroem_features import NystroemFeatures
from ml_core.kernels import ExponentialKernel, Kernel, LinearKernel, MaternKernel, PolynomialKernel, RBFKernel
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.numerics import memory
from ml_core.registry import build
from tests.rows import data

KERNELS = [RBFKernel(1.5), ExponentialKernel(0.5), MaternKernel(1.0, 1.5), PolynomialKernel(2), LinearKernel()]


def rows(n: int = 60, d: int = 2) -> np.ndarray:
    """Normal rows."""
    return np.random.default_rng(3).normal(size=(n, d))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_inner_products_are_the_projection_of_the_kernel(kernel: Kernel) -> None:
    X, Q = rows(), rows(80)[60:]
    model = NystroemFeatures(kernel=kernel, n_components=12).fit(X)
    Z, F, G = model.rows_, model.transform(X), model.transform(Q)
    want = kernel(Q, Z) @ np.linalg.lstsq(kernel(Z), kernel(Z, X), rcond=1e-14)[0]
    np.testing.assert_allclose(G @ F.T, want, atol=1e-7 * np.abs(want).max())
    report = model.diagnostics(X)
    assert all(c.holds for c in report.certificates), report.certificates
    assert 0.0 <= report.summary["largest_left"] <= 1.0


def test_the_whole_of_the_rows_gives_the_kernel_and_a_finite_rank_is_found() -> None:
    X = rows()
    F = NystroemFeatures(kernel=ExponentialKernel(1.0), n_components=60).fit(X).transform(X)
    np.testing.assert_allclose(F @ F.T, ExponentialKernel(1.0)(X), atol=1e-12)
    model = NystroemFeatures(kernel=PolynomialKernel(2), n_components=60).fit(X)
    assert model.n_features_out_ == 6, "1, x1, x2, x1², x1x2, x2²"
    assert model.diagnostics(X).summary["explained"] == pytest.approx(1.0, abs=1e-8)


def test_ridge_and_logistic_regression_behind_it_are_their_kernel_twins() -> None:
    X, k = rows(), MaternKernel(1.0, 1.5)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    c, Q = (y + 0.3 * rows(60)[:, 1] > 0).astype(int), rows(90)[60:]
    features = NystroemFeatures(kernel=k, n_components=60).fit(X)
    F, G = features.transform(X), features.transform(Q)
    np.testing.assert_allclose(RidgeRegression(alpha=0.5).fit(F, y).predict(G),
                               KernelRidgeRegression(kernel=k, alpha=0.5).fit(X, y).predict(Q), atol=1e-7)  # fmt: skip
    np.testing.assert_allclose(LogisticRegression(alpha=0.5).fit(F, c).predict_proba(G),
                               KernelLogisticRegression(kernel=k, alpha=0.5).fit(X, c).predict_proba(Q),
                               atol=1e-7)  # fmt: skip
    np.testing.assert_allclose(PrincipalComponentAnalysis(n_components=3).fit(F).explained_variance_ratio_,
                               KernelPCA(kernel=k, n_components=3).fit(X).explained_variance_ratio_,
                               rtol=1e-7)  # fmt: skip


def test_few_rows_come_close_where_the_kernel_is_smooth() -> None:
    X = rows(400)
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    kernel = {"kernel": "rbf", "length_scale": 1.0}
    steps = [{"algorithm": "nystroem_features", "params": {"kernel": kernel, "n_components": 80}},
             {"algorithm": "ridge_regression", "params": {"alpha": 0.1}}]  # fmt: skip
    model = build({"algorithm": "pipeline", "params": {"steps": steps}}).fit(X, y)
    whole = KernelRidgeRegression(kernel=RBFKernel(1.0), alpha=0.1).fit(X, y).predict(X)
    assert np.abs(model.predict(X) - whole).max() < 1e-2


@pytest.mark.parametrize(("model", "target"), [
    (KernelRidgeRegression(), "number"), (KernelLogisticRegression(), "class"), (KernelPerceptron(), "class"),
    (KernelPCA(), None), (KernelKMeans(n_clusters=2), None),
], ids=lambda v: type(v).__name__)  # fmt: skip
def test_methods_of_n_squared_values_refuse_first_and_name_what_would_work(
    model: Any, target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "granted", lambda: 1e5)
    X = rows(100)
    y = {"number": (X[:, 0],), "class": ((X[:, 0] > 0).astype(int),), None: ()}[target]
    with pytest.raises(OverBudget, match="nystroem_features"):
        model.fit(X, *y)
    few = NystroemFeatures(n_components=10).fit(X).transform(X)
    twin = {"number": RidgeRegression(), "class": LogisticRegression(), None: KMeans(n_clusters=2)}[target]
    twin.fit(few, *y)


def test_too_many_columns_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "granted", lambda: 1e3)
    with pytest.raises(OverBudget, match="lower n_components"):
        NystroemFeatures().fit(data.regression()[0])
