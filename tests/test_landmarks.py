"""Kernel methods through landmark rows: with every row a landmark the exact answer, with few a told approximation."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from ml_core.bundle import load_bundle, save_bundle
from ml_core.cluster.kernel_k_means import KernelKMeans
from ml_core.decomposition.kernel_pca import KernelPCA
from ml_core.errors import OverBudget
from ml_core.gp import landmarks
from ml_core.gp.kernel_logistic_regression import KernelLogisticRegression
from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import MaternKernel, RBFKernel
from ml_core.numerics import memory
from ml_core.registry import build

X = np.random.default_rng(0).normal(size=(80, 2))
TARGET = np.sin(2 * X[:, 0]) + X[:, 1]
WEIGHT = np.random.default_rng(1).integers(1, 4, size=80).astype(float)
CLASSES = np.digitize(TARGET + 0.3 * np.random.default_rng(2).normal(size=80), [-0.5, 0.5])
QUERY = np.random.default_rng(3).normal(size=(20, 2))
ROUGH = MaternKernel(1.0, 1.5)
ALL: dict[str, Any] = {"kernel": ROUGH, "approximation": "nystroem", "n_landmarks": 80}
METHODS: list[Any] = [
    (KernelRidgeRegression, {"alpha": 0.5}, TARGET), (KernelRidgeRegression, {"intercept": "penalised"}, TARGET),
    (KernelRidgeRegression, {"intercept": "none"}, np.column_stack([TARGET, X[:, 0] ** 2])),
    (KernelLogisticRegression, {"alpha": 0.5}, CLASSES > 0), (KernelLogisticRegression, {}, CLASSES),
    (KernelPCA, {"n_components": 3}, None), (KernelKMeans, {"n_clusters": 3}, None),
]  # fmt: skip
IDS = ["ridge", "ridge-penalised", "ridge-two-outputs", "logistic", "softmax", "pca", "k_means"]


def answer(model: Any, Q: np.ndarray) -> np.ndarray:
    if hasattr(model, "transform"):
        Z = model.transform(Q)
        return np.asarray(Z * np.sign(model.transform(X[:1])))
    return np.asarray(model.predict_proba(Q) if hasattr(model, "predict_proba") else model.predict(Q))


@pytest.mark.parametrize(("method", "how", "y"), METHODS, ids=IDS)
def test_with_every_row_a_landmark_it_is_the_exact_method(method: Any, how: dict[str, Any], y: Any) -> None:
    whole = method(kernel=ROUGH, **how).fit(X, y, sample_weight=WEIGHT)
    model = method(**ALL, **how).fit(X, y, sample_weight=WEIGHT)
    if method is KernelKMeans:  # starts are drawn otherwise, so that the best local optima may differ
        assert model.inertia_ == pytest.approx(whole.inertia_, rel=0.02)
        assert (answer(model, QUERY) == answer(whole, QUERY)).mean() > 0.9
    else:
        np.testing.assert_allclose(answer(model, QUERY), answer(whole, QUERY), atol=1e-6)
    assert not [n for n in whole.notices_ if n.code == "nystroem"]
    assert "80 landmark rows stand for 80 (as asked)" in next(n for n in model.notices_ if n.code == "nystroem").message


@pytest.mark.parametrize(("method", "how", "y"), METHODS, ids=IDS)
def test_few_landmarks_certify_their_own_problem_and_store(method: Any, how: dict[str, Any], y: Any) -> None:
    model = method(**ALL | {"n_landmarks": 15}, **how).fit(X, y, sample_weight=WEIGHT)
    report = model.diagnostics(X, y, WEIGHT)
    assert report.summary["landmarks"] == 15
    assert 0.0 < report.summary["explained_by_landmarks"] < 1.0
    names = [c.name for c in report.certificates]
    assert {"kernel_error", "length_excess"} < set(names)
    assert all(c.holds for c in report.certificates), report.certificates
    file = io.BytesIO()
    save_bundle(model, file)
    file.seek(0)
    again = load_bundle(file)
    np.testing.assert_array_equal(answer(again, QUERY), answer(model, QUERY))


@pytest.mark.parametrize(("method", "how", "y"), METHODS, ids=IDS)
def test_auto_switches_where_memory_forbids_all_values_and_none_refuses(
    method: Any, how: dict[str, Any], y: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"kernel": RBFKernel(1.0), "n_landmarks": 10} | how
    assert method(approximation="auto", **own).fit(X, y).twin_ is None
    monkeypatch.setattr(memory, "granted", lambda: 1.2e5)
    monkeypatch.setattr(landmarks, "granted", lambda: 1.2e5)
    auto = method(approximation="auto", **own)
    assert auto.cost(80, 2).memory_bytes < method(**own).cost(80, 2).memory_bytes
    note = next(n for n in auto.fit(X, y).notices_ if n.code == "nystroem")
    assert "more than the memory granted" in note.message
    with pytest.raises(OverBudget, match="approximation"):
        method(**own).fit(X, y)


def test_left_out_and_the_pipeline_it_stands_for() -> None:
    own = {"kernel": {"kernel": "rbf", "length_scale": 1.0}}
    model = KernelRidgeRegression(approximation="nystroem", n_landmarks=20, alpha=0.3, **own).fit(X, TARGET)
    steps = [{"algorithm": "nystroem_features", "params": own | {"n_components": 20}},
             {"algorithm": "ridge_regression", "params": {"alpha": 0.3}}]  # fmt: skip
    pipe = build({"algorithm": "pipeline", "params": {"steps": steps}}).fit(X, TARGET)
    np.testing.assert_allclose(model.predict(QUERY), pipe.predict(QUERY), atol=1e-9)
    F = model.features_.transform(X)
    keep = np.arange(80) != 7
    alone = type(model.twin_)(alpha=0.3).fit(F[keep], TARGET[keep]).predict(F[7:8])
    marks = [bool((row == model.features_.rows_).all(axis=1).any()) for row in X]
    assert sum(marks) == 20
    assert not marks[7]
    found = model.left_out(X, TARGET)
    np.testing.assert_allclose(found[7], alone[0], rtol=1e-8)
    np.testing.assert_array_equal(np.isnan(found), marks)  # without such a row the features are others
    assert "leave_one_out_mse" not in model.diagnostics(X, TARGET).summary


def test_cost_through_landmarks_counts_the_twin() -> None:
    model = KernelLogisticRegression(approximation="nystroem", n_landmarks=300)
    assert model.cost(5000, 4, 10).memory_bytes > model._linear_twin().cost(5000, 300, 10).memory_bytes


def test_more_components_than_landmarks_are_told() -> None:
    model = KernelPCA(approximation="nystroem", n_landmarks=10, n_components=50).fit(X)
    assert model.transform(X).shape == (80, 10)
    assert "fewer_components" in {n.code for n in model.notices_}


def test_a_grant_inside_another_never_gives_more():
    with memory.grant(1e6), memory.grant(1e9):
        assert memory.granted() == 1e6
    with memory.grant(1e9), memory.grant(1e6):
        assert memory.granted() == 1e6
    assert memory.granted() > 1e6
