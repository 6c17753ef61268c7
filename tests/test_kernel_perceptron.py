"""The kernel perceptron: the textbook loop, its linear twin, its bound, and classes that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.errors import OverBudget
from ml_core.gp.kernel_perceptron import KernelPerceptron
from ml_core.gp.perceptron_pass import perceptron_pass
from ml_core.kernels import LinearKernel, PolynomialKernel, PrecomputedKernel, RBFKernel


def apart(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 3))
    score = X @ np.array([1.0, -2.0, 0.5]) + 0.3
    far = np.abs(score) > 0.3
    return X[far], score[far] > 0


def textbook(K: np.ndarray, t: np.ndarray, epochs: int) -> tuple[np.ndarray, int]:
    a = np.zeros(len(t))
    for epoch in range(epochs):
        mistakes = 0
        for i in range(len(t)):
            if t[i] * (K[i] @ a) <= 0:
                a[i] += t[i]
                mistakes += 1
        if not mistakes:
            return a, epoch + 1
    return a, epochs


def report(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    out = model.diagnostics(X, y)
    assert all(c.holds for c in out.certificates), out.certificates
    return out


@pytest.mark.parametrize("k", [LinearKernel(), PolynomialKernel(2), RBFKernel(1.0)], ids=lambda k: k.name)
def test_weights_are_the_textbooks(k: Any) -> None:
    X, y = apart()
    m = KernelPerceptron(kernel=k).fit(X, y)
    a, epochs = textbook(k(X) + 1.0, np.where(y, 1.0, -1.0), 1000)
    np.testing.assert_allclose(m.dual_coef_[:, 0], a, rtol=1e-12)
    assert m.n_iter_ == epochs
    assert m.corrections_ == [int(np.abs(a).sum())]
    assert (m.predict(X) == y).all()
    assert report(m, X, y).summary["training_errors"] == 0


def test_linear_kernel_is_the_perceptron_of_weights() -> None:
    X, y = apart()
    w = np.zeros(4)
    T = np.column_stack([X, np.ones(len(X))])
    for _ in range(1000):
        mistakes = 0
        for x, label in zip(T, np.where(y, 1.0, -1.0), strict=True):
            if label * (w @ x) <= 0:
                w += label * x
                mistakes += 1
        if not mistakes:
            break
    m = KernelPerceptron(kernel=LinearKernel()).fit(X, y)
    np.testing.assert_allclose(m.decision_function(X + 0.5), (X + 0.5) @ w[:3] + w[3], rtol=1e-9)


def test_corrections_stay_below_the_bound_of_a_known_margin() -> None:
    X, y = apart()
    truth = np.array([1.0, -2.0, 0.5, 0.3])
    T = np.column_stack([X, np.ones(len(X))])
    gamma = (np.where(y, 1, -1) * (T @ truth)).min() / np.linalg.norm(truth)
    bound = (T**2).sum(axis=1).max() / gamma**2
    for shuffle in (False, True):
        m = KernelPerceptron(kernel=LinearKernel(), shuffle=shuffle, eta=0.01).fit(X, y)
        assert 0 < m.corrections_[0] <= bound


def test_exclusive_or() -> None:
    X = np.array([[1.0, 1.0], [1, -1], [-1, 1], [-1, -1]])
    y = np.array(["x", "o", "o", "x"])
    bent = KernelPerceptron(kernel=PolynomialKernel(2, 1.0)).fit(X, y)
    assert (bent.predict(X) == y).all()
    assert not bent.notices_
    straight = KernelPerceptron(kernel=LinearKernel(), max_epochs=50).fit(X, y)
    assert [n.code for n in straight.notices_] == ["not_separated"]
    assert straight.n_iter_ == 50
    assert straight.score(X, y) == 0.75
    report(straight, X, y)


def test_exclusive_or_of_zeros_and_ones() -> None:
    """PER-1: in the order given the linear one only repeats itself, so other orders are tried."""
    X, y = np.array([[0.0, 0.0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])
    straight = KernelPerceptron(kernel=LinearKernel()).fit(X, y)
    assert straight.score(X, y) == 0.75
    assert [n.code for n in straight.notices_] == ["not_separated"]
    assert KernelPerceptron().fit(X, y).score(X, y) == 1.0


def test_labels_are_only_names() -> None:
    X, y = apart()
    named = (y, y.astype(int), np.where(y, 1, -1), np.where(y, "b", "a"))
    fits = [KernelPerceptron().fit(X, labels) for labels in named]
    for m in fits[1:]:
        assert np.array_equal(m.dual_coef_, fits[0].dual_coef_)


def test_several_classes_are_separated_one_against_the_rest() -> None:
    r = np.random.default_rng(3)
    X = r.normal(size=(90, 2))
    y = r.integers(0, 4, size=90)
    m = KernelPerceptron(kernel=RBFKernel(0.1)).fit(X, y)
    assert (m.predict(X) == y).all()
    assert m.errors_ == [0, 0, 0, 0]
    assert m.decision_function(X).shape == (90, 4)
    assert len(report(m, X, y).tables["scores"].rows) == 4


def test_only_rows_with_weight_are_kept_unless_they_are_values() -> None:
    X, y = apart()
    k = LinearKernel()
    m = KernelPerceptron(kernel=k).fit(X, y)
    assert len(m.expansion_.rows) == (m.dual_coef_ != 0).sum() < len(X)
    valued = KernelPerceptron(kernel=PrecomputedKernel()).fit(k(X), y)
    np.testing.assert_allclose(valued.decision_function(k(X + 1, X)), m.decision_function(X + 1), rtol=1e-9)


def test_pocket_is_the_best_seen() -> None:
    r = np.random.default_rng(4)
    X, y = r.normal(size=(40, 2)), r.integers(0, 2, size=40)
    t = np.where(y == 1, 1.0, -1.0)
    K = LinearKernel()(X) + 1.0
    a, f, best = np.zeros(40), np.zeros(40), np.zeros(40)
    _, least = perceptron_pass(K, t, np.ones(40), np.arange(40), a, f, best, 41)
    seen, a2 = [], np.zeros(40)
    for i in range(40):
        if t[i] * (K[i] @ a2) <= 0:
            a2[i] += t[i]
            seen.append((t * (K @ a2) <= 0).sum())
    assert least == min(seen) == (t * (K @ best) <= 0).sum()
    np.testing.assert_allclose(a, a2)
    m = KernelPerceptron(kernel=LinearKernel(), max_epochs=30).fit(X, y)
    assert m.errors_[0] <= least
    report(m, X, y)


def test_memory_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_core.numerics.memory.granted", lambda: 1e3)
    with pytest.raises(OverBudget):
        KernelPerceptron().fit(*apart())
