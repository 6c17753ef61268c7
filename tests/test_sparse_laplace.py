"""Gaussian process classification through inducing rows: dense formulas of the projected prior, the exact answer."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from ml_core.bundle import load_bundle, save_bundle
from ml_core.errors import OverBudget
from ml_core.gp.curvature import Evidence
from ml_core.gp.gaussian_process_classification import GaussianProcessClassification
from ml_core.gp.laplace import Labelled, mode
from ml_core.gp.laplace_report import dense_logdet
from ml_core.gp.sparse_laplace import Projection, SparseEvidence
from ml_core.kernels import ExponentialKernel, LinearKernel, RBFKernel, log_parameters, with_log_parameters
from ml_core.numerics import memory
from tests.test_gaussian_process_classification import certified, labelled, rows_of

KERNEL = 3.0 * RBFKernel((0.8, 1.7)) + 0.4 * LinearKernel()
SPARSE: dict[str, Any] = {"method": "sparse", "hyperparameters": "given"}


def projection(rows: Labelled, Z: np.ndarray) -> Projection:
    return Projection.of(KERNEL(Z), KERNEL(Z, rows.X), KERNEL.diag(rows.X))


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_with_every_row_inducing_it_is_the_exact_evidence(classes: int) -> None:
    rows = rows_of(classes)
    (value, gradient), (want, slope) = SparseEvidence(rows.X)(rows, KERNEL), Evidence()(rows, KERNEL)
    np.testing.assert_allclose(value, want, rtol=1e-8)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_gradient_is_the_derivative(classes: int) -> None:
    rows, Z = rows_of(classes), rows_of(classes).X[:7] + 0.05
    logs = log_parameters(KERNEL)[1]
    gradient = SparseEvidence(Z)(rows, KERNEL)[1]
    for i in range(len(logs)):
        step = 1e-5 * np.eye(len(logs))[i]
        high, low = (SparseEvidence(Z)(rows, with_log_parameters(KERNEL, logs + t * step))[0] for t in (1, -1))
        np.testing.assert_allclose(gradient[i], (high - low) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_evidence_is_the_dense_one_of_the_projected_prior_less_half_the_trace(classes: int) -> None:
    rows = rows_of(classes)
    Z = rows.X[:7]
    Q = KERNEL(rows.X, Z) @ np.linalg.solve(KERNEL(Z), KERNEL(Z, rows.X))
    at = mode(rows, projection(rows, Z))
    np.testing.assert_allclose(at.f, Q @ rows.residual(at.f), atol=1e-7)
    p = rows.chances(at.f)
    curved = rows.weight * (p * (1 - p)).sum(axis=1)
    a = rows.residual(at.f)
    want = rows.log_likelihood(at.f) - 0.5 * np.vdot(a, Q @ a) - 0.5 * dense_logdet(rows, Q, at.f)
    want -= 0.5 * curved @ (KERNEL.diag(rows.X) - np.diag(Q))
    np.testing.assert_allclose(SparseEvidence(Z)(rows, KERNEL)[0], want, rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_covariances_are_the_dense_ones(classes: int) -> None:
    X, y = labelled(classes, 40)
    m = GaussianProcessClassification(kernel=KERNEL, n_inducing=9, **SPARSE).fit(X, y)
    certified(m, X, y)
    Z, A = m.surface_.rows, np.random.default_rng(3).normal(size=(6, 2))
    rows = m._labelled(X, np.searchsorted(m.classes_, y), np.ones(len(y)))
    f = m.surface_.at(X)
    n, C = f.shape
    p, W = rows.chances(f), np.zeros((C, n, C, n))
    for c in range(C):
        for e in range(C):
            W[c, :, e] = np.diag(p[:, c] * ((c == e) - p[:, e]))
    both = np.vstack([X, A])
    Q = KERNEL(both, Z) @ np.linalg.solve(KERNEL(Z), KERNEL(Z, both))
    Qff, Qaf = (np.kron(np.eye(C), part) for part in (Q[:n, :n], Q[n:, :n]))
    flat = W.reshape(C * n, C * n)
    want = np.kron(np.eye(C), KERNEL(A)) - Qaf @ flat @ np.linalg.solve(np.eye(C * n) + Qff @ flat, Qaf.T)
    mean, joint = m.surface_.joint(A)
    np.testing.assert_allclose(joint, want, atol=1e-7)
    means, spread = m.surface_.spread(A)
    np.testing.assert_allclose(mean.reshape(C, len(A)).T, means)
    each = want.reshape(C, len(A), C, len(A))
    np.testing.assert_allclose(spread, np.array([each[:, i, :, i] for i in range(len(A))]), atol=1e-7)
    assert m.draw(A, 5).shape == (5, C, len(A))


def test_it_is_taken_beyond_exact_rows_says_so_and_is_close_to_the_exact_answer() -> None:
    X, y = labelled(2, 300)
    exact = GaussianProcessClassification(kernel=RBFKernel(1.0), n_restarts=0).fit(X, y)
    m = GaussianProcessClassification(kernel=RBFKernel(1.0), n_restarts=0, exact_rows=100, n_inducing=60).fit(X, y)
    assert (exact.method_, m.method_) == ("exact", "sparse")
    assert len(m.surface_.rows) <= 60
    note = next(w for w in m.notices_ if w.code == "sparse")
    assert "inducing rows stand for 300" in note.message
    assert not [w for w in exact.notices_ if w.code == "sparse"]
    assert abs(m.log_marginal_likelihood_ - exact.log_marginal_likelihood_) < 0.5
    np.testing.assert_allclose(m.predict_proba(X), exact.predict_proba(X), atol=0.03)
    report = certified(m, X, y)
    assert report["summary"]["inducing_rows"] == len(m.surface_.rows)
    assert {"gradient", "gradient_error", "evidence_error"} <= {c["name"] for c in report["certificates"]}


def test_it_is_taken_where_memory_forbids_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = labelled(2, 300)
    how: dict[str, Any] = {"hyperparameters": "given", "n_inducing": 20}
    monkeypatch.setattr("ml_core.gp.gaussian_process_classification.granted", lambda: 4e6)
    assert GaussianProcessClassification(**how).fit(X, y).method_ == "sparse"
    monkeypatch.setattr(memory, "granted", lambda: 4e6)
    with pytest.raises(OverBudget, match="method='sparse'"):
        GaussianProcessClassification(method="exact", **how).fit(X, y)
    with pytest.raises(OverBudget, match="nystroem_features"):
        GaussianProcessClassification(**how | {"n_inducing": 300}).fit(X, y)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_repeat_rows_and_classes_have_no_order(classes: int) -> None:
    X, y = labelled(classes, 40)
    s = np.random.default_rng(4).integers(1, 4, size=len(y))
    often = np.repeat(np.arange(len(y)), s)
    how = SPARSE | {"kernel": ExponentialKernel(0.8), "signal_variance": 2.0, "n_inducing": 12}
    one = GaussianProcessClassification(**how).fit(X, y, s.astype(float))
    two = GaussianProcessClassification(**how).fit(X[often], y[often])
    np.testing.assert_allclose(one.log_marginal_likelihood_, two.log_marginal_likelihood_, rtol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-8)
    certified(one, X, y, s.astype(float))
    turned = np.array(["c", "a", "b"])[np.searchsorted(["a", "b", "c"], y)]
    other = GaussianProcessClassification(**how).fit(X, turned, s.astype(float))
    np.testing.assert_allclose(other.log_marginal_likelihood_, one.log_marginal_likelihood_, rtol=1e-10)


def test_a_stored_model_answers_as_it_did() -> None:
    X, y = labelled(3, 60)
    m = GaussianProcessClassification(n_inducing=10, **SPARSE).fit(X, y)
    file = io.BytesIO()
    save_bundle(m, file)
    file.seek(0)
    np.testing.assert_array_equal(load_bundle(file).predict_proba(X), m.predict_proba(X))


@pytest.mark.parametrize("signal", [1e-8, 1e6])
def test_huge_and_tiny_variances(signal: float) -> None:
    X, y = labelled(2, 60)
    m = GaussianProcessClassification(kernel=RBFKernel(1.0), signal_variance=signal, n_inducing=15, **SPARSE).fit(X, y)
    certified(m, X, y)
    np.testing.assert_allclose(m.predict_proba(X).sum(axis=1), 1.0)
