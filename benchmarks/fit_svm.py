"""Support vector machines against libsvm and liblinear: the objective at our answer and at theirs, fit time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.svm import SVC, SVR, LinearSVC

from ml_core.kernels import RBFKernel
from ml_core.svm.crammer_singer_svm import CrammerSingerSVM
from ml_core.svm.kernel_svm import KernelSVM
from ml_core.svm.soft_margin_svm import SoftMarginSVM
from ml_core.svm.support_vector_regression import SupportVectorRegression

Rows = tuple[np.ndarray, np.ndarray]


def binary(n: int, d: int) -> Rows:
    """Correlated columns, a curved boundary and noise; labels -1 and 1."""
    r = np.random.default_rng(0)
    X = r.normal(size=(n, d // 2)) @ r.normal(size=(d // 2, d)) / np.sqrt(d / 2) + 0.7 * r.normal(size=(n, d))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    score = X @ r.normal(size=d) / np.sqrt(d) + 0.4 * X[:, 0] * X[:, 1] + 0.5 * r.normal(size=n)
    return X, np.where(score > 0, 1, -1)


def glyphs(n: int, d: int, k: int = 10) -> Rows:
    """Noisy prototypes of k classes."""
    r = np.random.default_rng(0)
    y = r.integers(0, k, n)
    return r.normal(size=(k, d))[y] + 1.6 * r.normal(size=(n, d)), y


def waves(n: int, d: int) -> Rows:
    """A smooth function of the columns and noise."""
    r = np.random.default_rng(0)
    X = r.normal(size=(n, d))
    return X, 3 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + r.normal(size=n)


def machine_objective(C: float, gamma: float) -> Callable[[Any, np.ndarray, np.ndarray], float]:
    """Minus the primal per row of a two-class kernel machine, from its coefficients and scores."""

    def quality(model: Any, X: np.ndarray, y: np.ndarray) -> float:
        S, beta = np.asarray(model.support_vectors_), np.asarray(model.dual_coef_)[0]
        square = beta @ RBFKernel(length_scale=float(np.sqrt(0.5 / gamma)))(S) @ beta
        return -float(0.5 * square + C * np.maximum(0, 1 - y * model.decision_function(X)).sum()) / len(y)

    return quality


def tube_objective(C: float, eps: float, gamma: float) -> Callable[[Any, np.ndarray, np.ndarray], float]:
    """The same of regression."""

    def quality(model: Any, X: np.ndarray, y: np.ndarray) -> float:
        S, beta = np.asarray(model.support_vectors_), np.ravel(model.dual_coef_)
        square = beta @ RBFKernel(length_scale=float(np.sqrt(0.5 / gamma)))(S) @ beta
        return -float(0.5 * square + C * np.maximum(0, np.abs(y - model.predict(X)) - eps).sum()) / len(y)

    return quality


def hinge(power: int) -> Callable[[Any, np.ndarray, np.ndarray], float]:
    """Minus ½‖w‖² + Σ ξ^power per row: the intercept, which liblinear penalises, is left out for both."""

    def quality(model: Any, X: np.ndarray, y: np.ndarray) -> float:
        slack = np.maximum(0, 1 - y * model.decision_function(X))
        return -float(0.5 * (np.asarray(model.coef_) ** 2).sum() + (slack**power).sum()) / len(y)

    return quality


def common_margin(C: float) -> Callable[[Any, np.ndarray, np.ndarray], float]:
    """Minus Crammer and Singer's objective per row, intercepts penalised."""

    def quality(model: Any, X: np.ndarray, y: np.ndarray) -> float:
        F, rows = model.decision_function(X), np.arange(len(y))
        ahead = F + 1.0
        ahead[rows, y] -= 1.0
        half = 0.5 * ((np.asarray(model.coef_) ** 2).sum() + (np.asarray(model.intercept_) ** 2).sum())
        return -float(half + C * (ahead.max(axis=1) - F[rows, y]).sum()) / len(y)

    return quality


def case(name: str, rows: Rows, ours: Any, peer: Any, quality: Any) -> dict[str, Any]:
    """One workload."""
    X, y = rows
    return {"name": name, "X": X, "y": y, "make_ours": ours, "make_peer": peer, "quality": lambda m: quality(m, X, y)}


def kernel_cases() -> list[dict[str, Any]]:
    """libsvm with its default tolerance, which leaves a relative gap near 1e-5; ours ends at rounding."""
    out = []
    for size, n, d in (("small", 568, 30), ("medium", 5000, 20)):
        gamma = 1.0 / d
        ours = lambda gamma=gamma: KernelSVM(kernel=RBFKernel(length_scale=float(np.sqrt(0.5 / gamma))))  # noqa: E731
        out.append(case(f"svc_rbf_{size}", binary(n, d), ours, lambda gamma=gamma: SVC(gamma=gamma, cache_size=500),
                        machine_objective(1.0, gamma)))  # fmt: skip
    for size, n in (("small", 1200), ("medium", 5000)):
        ours = lambda: KernelSVM(C=5.0, kernel=RBFKernel(length_scale=float(np.sqrt(100.0))))  # noqa: E731
        out.append(case(f"svc_multi_{size}", glyphs(n, 64), ours, lambda: SVC(C=5.0, gamma=0.005, cache_size=500),
                        lambda m, X, y: float(m.score(X, y))))  # fmt: skip
    for size, n in (("small", 500), ("medium", 5000)):
        kernel = RBFKernel(length_scale=float(np.sqrt(5.0)))
        ours = lambda k=kernel: SupportVectorRegression(C=10.0, epsilon=0.5, kernel=k, scale_target=False)  # noqa: E731
        out.append(case(f"svr_rbf_{size}", waves(n, 8), ours,
                        lambda: SVR(C=10.0, epsilon=0.5, gamma=0.1, cache_size=500),
                        tube_objective(10.0, 0.5, 0.1)))  # fmt: skip
    return out


def linear_cases() -> list[dict[str, Any]]:
    """liblinear stops its rounds for the hinge unconverged, as it does by default on tables of this size."""
    out = []
    for size, n, d in (("small", 568, 30), ("medium", 50_000, 50)):
        out.append(case(f"linear_svm_hinge_{size}", binary(n, d), SoftMarginSVM,
                        lambda: LinearSVC(loss="hinge", max_iter=2000), hinge(1)))  # fmt: skip
        out.append(case(f"linear_svm_squared_{size}", binary(n, d), lambda: SoftMarginSVM(loss="squared_hinge"),
                        lambda: LinearSVC(dual=False, max_iter=2000), hinge(2)))  # fmt: skip
    for size, n in (("small", 1800), ("medium", 10_000)):
        out.append(case(f"crammer_singer_{size}", glyphs(n, 64), lambda: CrammerSingerSVM(C=0.1, tol=1e-3),
                        lambda: LinearSVC(C=0.1, multi_class="crammer_singer", max_iter=2000, tol=1e-3),
                        common_margin(0.1)))  # fmt: skip
    return out


def cases() -> list[dict[str, Any]]:
    """Kernel and linear machines."""
    return kernel_cases() + linear_cases()
