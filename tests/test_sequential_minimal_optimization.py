"""sequential_minimal_optimization against a general program, libsvm and its own certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.registry import functions

CALL = functions()["sequential_minimal_optimization"]


def drawn(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    X = r.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.7 * r.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"kernel": "rbf", "length_scale": 1.5}])
def test_multipliers_solve_the_dual(kernel: dict[str, Any]) -> None:
    X, y = drawn()
    out = CALL({"points": X.tolist(), "labels": y.tolist(), "C": 2.0, "kernel": kernel, "tol": 1e-10})
    found, alpha = out["result"], np.array(out["result"]["alpha"])
    K = X @ X.T if kernel["kernel"] == "linear" else np.exp(-((X[:, None] - X) ** 2).sum(-1) / (2 * 1.5**2))
    Q = K * np.outer(y, y)
    best = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(), np.zeros(len(y)), jac=lambda a: Q @ a - 1, bounds=[(0, 2.0)] * len(y),
        constraints={"type": "eq", "fun": lambda a: a @ y, "jac": lambda a: y}, method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    assert found["dual"] == pytest.approx(-best.fun, rel=1e-7)
    assert found["dual"] >= -best.fun - 1e-9
    assert found["primal"] == pytest.approx(found["dual"], rel=1e-8)
    assert (alpha >= 0).all()
    assert (alpha <= 2.0).all()
    assert alpha @ y == pytest.approx(0, abs=1e-12)
    assert found["converged"]
    assert found["violating_pair_gap"] <= 1e-9
    peer = SVC(C=2.0, kernel="precomputed", tol=1e-10).fit(K, y)
    assert found["bias"] == pytest.approx(peer.intercept_[0], abs=1e-6)
    assert set(found["support"]) == set(peer.support_.tolist())
    assert all(c["holds"] for c in out["certificates"])


def test_two_points_by_hand() -> None:
    found = CALL({"points": [[0.0], [2.0]], "labels": [-1, 1], "C": 10.0})["result"]
    np.testing.assert_allclose(found["alpha"], 0.5, rtol=1e-12)
    assert (found["bias"], found["primal"]) == (pytest.approx(-1.0), pytest.approx(0.5))


def test_too_few_steps_are_said() -> None:
    X, y = drawn(200)
    out = CALL({"points": X.tolist(), "labels": y.tolist(), "C": 1e4, "tol": 1e-12, "max_iter": 3})
    assert not out["result"]["converged"]
    assert [w["code"] for w in out["warnings"]] == ["not_converged", "certificate_fails"]
    assert not all(c["holds"] for c in out["certificates"])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"labels": [1, 1, 1, 1]}, InvalidData), ({"labels": [0, 1, 1, 0]}, InvalidData),
        ({"labels": [1, -1]}, InvalidData),
        ({"C": 0.0}, InvalidParameter), ({"kernel": {"kernel": "no"}}, InvalidParameter),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        CALL(CALL.example | change)
