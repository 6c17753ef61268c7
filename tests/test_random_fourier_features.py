"""Random Fourier features: unbiased, converging, and an approximation of the kernel twin behind a linear method."""

from __future__ import annotations

import numpy as np

from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import RBFKernel
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.preprocessing.random_fourier_features import RandomFourierFeatures
from tests.rows import data


def test_inner_products_estimate_the_kernel() -> None:
    X, _ = data.regression()
    K = RBFKernel(2.0)(X)
    errors = []
    for m in (100, 1600, 25_600):
        model = RandomFourierFeatures(frequencies=m, scale=2.0, random_state=1).fit(X)
        Z = model.transform(X)
        np.testing.assert_allclose((Z**2).sum(axis=1), 1.0, rtol=1e-12)
        errors.append(np.abs(Z @ Z.T - K).max())
        report = model.diagnostics(X).to_json()
        assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.04
    many = [RandomFourierFeatures(frequencies=5, scale=2.0, random_state=i).fit(X[:3]).transform(X[:3])
            for i in range(3000)]  # fmt: skip
    np.testing.assert_allclose(np.mean([Z @ Z.T for Z in many], axis=0), K[:3, :3], atol=0.02)


def test_ridge_behind_it_is_kernel_ridge() -> None:
    X, y = data.regression()
    kernel = KernelRidgeRegression(kernel=RBFKernel(2.0), alpha=0.5).fit(X, y)
    model = RandomFourierFeatures(frequencies=20_000, scale=2.0).fit(X)
    linear = RidgeRegression(alpha=0.5).fit(model.transform(X), y)
    Q = X + 0.1
    np.testing.assert_allclose(linear.predict(model.transform(Q)), kernel.predict(Q), atol=0.15)


def test_seed_decides() -> None:
    X, _ = data.regression()
    one, two, three = (RandomFourierFeatures(random_state=i).fit(X).transform(X) for i in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.allclose(one, three)
