"""A budget of iterations ends a fit with the best point so far, and the answer says that it is not the optimum."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from ml_core.registry import algorithms, build
from tests.rows import all_rows, data

ROWS = {r.name: r for r in all_rows() if algorithms()[r.name].cls.__module__.startswith("ml_core.linear")}
ITERATIVE = [n for n in ROWS if "max_iter" in inspect.signature(algorithms()[n].cls.__init__).parameters]
FIRST_ORDER = ("gradient_descent", "momentum", "conjugate_gradient", "sgd", "rmsprop", "adam", "amsgrad")


@pytest.mark.parametrize("name", ITERATIVE)
def test_what_is_not_the_optimum_is_told(name: str) -> None:
    X, y = ROWS[name].data()
    model: Any = build({"algorithm": name, "params": {**ROWS[name].params, "max_iter": 1}}).fit(X, y)
    report = model.diagnostics(X, y)
    told = {n.code for n in report.warnings}
    assert report.certificates
    assert all(c.holds for c in report.certificates) or "not_converged" in told
    answer = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    assert np.isfinite(answer).all()


@pytest.mark.parametrize("solver", ["newton", "irls", "lbfgs", *FIRST_ORDER])
def test_the_best_of_the_run_is_returned(solver: str) -> None:
    X, y = data.classification()
    reached = []
    for steps in (1, 2, 5, 12):
        params = {"alpha": 0.5, "solver": solver, "max_iter": steps, "tol": 1e-14}
        model: Any = build({"algorithm": "softmax_regression", "params": params}).fit(X, y)
        report = model.diagnostics(X, y)
        objective = 0.25 * np.square(model.coef_).sum() - float(report.summary["log_likelihood"])
        assert objective <= min(report.traces["objective"]) * (1 + 1e-9)
        reached.append(objective)
    assert (np.diff(reached) <= 1e-9 * reached[0]).all()
    assert reached[-1] < 0.75 * len(y) * np.log(3)


@pytest.mark.parametrize("solver", ["gradient_descent", "sgd"])
def test_least_squares_by_steps_returns_the_best(solver: str) -> None:
    X, y = data.regression()
    reached = []
    for steps in (1, 3, 10, 40):
        params = {"solver": solver, "max_iter": steps}
        model: Any = build({"algorithm": "linear_regression", "params": params}).fit(X, y)
        reached.append(float(np.square(y - model.predict(X)).sum()))
    assert (np.diff(reached) <= 1e-9 * reached[0]).all()
