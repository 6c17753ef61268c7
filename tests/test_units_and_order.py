"""Scale, shift and order of columns move predictions by rounding only; a duplicated row is a row of weight 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.registry import algorithms, build
from tests.rows import all_rows

FAMILIES = ("ml_core.linear", "ml_core.preprocessing", "ml_core.multiclass")
ROWS = {r.name: r for r in all_rows() if algorithms()[r.name].cls.__module__.startswith(FAMILIES)}
PENALTY = "the penalty counts slopes in the units of the columns"
PRIOR = "the prior is of slopes in the units of the columns"
LENGTHS = "it measures lengths across columns"
DRAWN = "frequencies are drawn for each column in turn"
FREE: dict[str, dict[str, Any]] = {  # parameters with which a penalised algorithm does not see units
    "ridge_regression": {"alpha": 0.0}, "generalized_tikhonov": {"alpha": 0.0}, "logistic_regression": {"alpha": 0.0},
    "softmax_regression": {"alpha": 0.0}, "lasso": {"standardize": True, "alpha_l2": 0.0},
    "penalized_logistic_regression": {"penalty": "firth"}, "bayesian_logistic_regression": {"alpha": 0.0},
    "generalized_linear_model": {"alpha": 0.0}, "epsilon_insensitive_regression": {"alpha_l2": 0.0},
    "one_vs_rest": {"estimator": {"algorithm": "logistic_regression", "params": {}}},
    "one_vs_one": {"estimator": {"algorithm": "logistic_regression", "params": {}}},
}  # fmt: skip
CASES = {name: (name, r.params) for name, r in ROWS.items()} | {
    f"{name}, free": (name, {**ROWS[name].params, **params}) for name, params in FREE.items()
}
SCALE = {name: PENALTY for name in FREE} | {
    "bayesian_linear_regression": PRIOR, "bayesian_logistic_regression": PRIOR, "centroid_classifier": LENGTHS,
    "perceptron": "its steps are rows", "gaussian_taylor_features": "the width is given in units",
    "parabolic_lift": LENGTHS, "random_fourier_features": LENGTHS, "trigonometric_features": "its period is given",
}  # fmt: skip
EXCEPT: dict[str, dict[str, str]] = {
    "scale": SCALE,
    "shift": {
        "perceptron": "its steps are rows", "gaussian_taylor_features": "it is centred at 0",
        "bayesian_linear_regression": "it has no intercept here",
    },
    "order": {"random_fourier_features": DRAWN},
    "weight": {
        "least_mean_squares": "a weight lengthens one step; a repeated row is met in several places of the order",
        "perceptron": "a weight lengthens one step; a repeated row is met in several places of the order",
    },
}  # fmt: skip
ROUNDING = {  # l1 ends by its gap; powers of columns multiply the condition number, so these are shifted less
    "penalized_logistic_regression": 1e-7, "polynomial_features": 1e-9, "polynomial_kernel_features": 1e-6,
}  # fmt: skip
K, C = np.array([1e3, 1e-2, 7.0, 1.0]), np.array([5.0, -200.0, 1e3, 0.0])


def asked(name: str, params: dict[str, Any], X: np.ndarray, y: Any, s: Any = None) -> np.ndarray:
    """Probabilities, scores or predictions for the rows; of a transformer, predictions of least squares on it."""
    spec: dict[str, Any] = {"algorithm": name, "params": params}
    if algorithms()[name].cls.task == "transformation":
        y = X[:, 0] ** 2 / X[:, 0].std() ** 2 + np.sin(np.arange(len(X))) if y is None else y
        last = {"algorithm": "linear_regression", "params": {"exact_powers": False, "decimals": False}}
        spec = {"algorithm": "pipeline", "params": {"steps": [spec, last]}}
    model: Any = build(spec).fit(X, y, **({} if s is None else {"sample_weight": s}))
    for query in ("predict_proba", "decision_function", "predict"):
        if hasattr(model, query):
            return np.asarray(getattr(model, query)(X))
    raise AssertionError(name)


@pytest.mark.parametrize("change", EXCEPT)
@pytest.mark.parametrize("case", CASES)
def test_predictions_do_not_move(case: str, change: str) -> None:
    name, params = CASES[case]
    X, y = ROWS[name].data()
    if y is None:
        y = np.sin(np.arange(len(X))) + X[:, 0]
    d = X.shape[1]
    if change == "weight":
        if not algorithms()[name].cls.weighted:
            pytest.skip("takes no weights")
        s = np.where(np.arange(len(X)) % 3 == 0, 2.0, 1.0)
        again = np.repeat(np.arange(len(X)), s.astype(int))
        one = asked(name, params, X, y, s)
        two = asked(name, params, X[again], y[again])[np.searchsorted(again, np.arange(len(X)))]
    else:
        far = 0.01 if name.startswith("polynomial") else 1.0
        moved = {"scale": X * K[:d], "shift": X + far * C[:d], "order": np.ascontiguousarray(X[:, ::-1])}[change]
        one, two = asked(name, params, X, y), asked(name, params, moved, y)
    off = float(np.abs(one - two).max() / np.abs(one).max())
    reason = EXCEPT[change].get(name) if case == name else None
    assert (off <= ROUNDING.get(name, 1e-9)) == (reason is None), (off, reason)
