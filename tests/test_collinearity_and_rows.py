"""Inflation of slopes' errors and what single rows do, of models with a likelihood, against regressions and refits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.registry import build
from ml_core.sums import diagnose_chunks
from tests.rows import data
from tests.test_sums import Cut

R = np.random.default_rng(3)
X = R.normal(size=(150, 4)) @ np.array([[1, 0.8, 0, 0], [0, 1, 0.5, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]) + [0, 5, 0, 0]
ETA = X @ [0.5, -0.3, 0.4, 0.2] + 1.5
TARGETS = {
    "gaussian": ETA + R.normal(size=150), "poisson": R.poisson(np.exp(ETA / 2)).astype(float),
    "gamma": R.gamma(2.0, np.exp(ETA) / 2), "binomial": (R.random(150) < 1 / (1 + np.exp(-ETA))).astype(float),
}  # fmt: skip
LABELS = (R.random((150, 1)) > np.column_stack([0.3 + 0.02 * ETA, 0.6 + 0.02 * ETA])).sum(axis=1)


def model(name: str, y: Any, **params: Any) -> tuple[Any, Any]:
    made: Any = build({"algorithm": name, "params": params}).fit(X, y)
    return made, made.diagnostics(X, y)


def column(report: Any, name: str) -> list[Any]:
    table = report.tables["coefficients"]
    return [row[table.columns.index(name)] for row in table.rows]


def regressed(weight: np.ndarray, j: int, intercept: bool) -> float:
    """1/(1 - R²) of column j on the others, rows weighted."""
    root = np.sqrt(weight)[:, None]
    others = np.delete(X, j, axis=1)
    A = np.column_stack([np.ones(len(X)), others]) if intercept else others
    left = root[:, 0] * X[:, j] - root * A @ np.linalg.lstsq(root * A, root[:, 0] * X[:, j], rcond=None)[0]
    about = X[:, j] - (np.average(X[:, j], weights=weight) if intercept else 0.0)
    return float(weight @ about**2 / (left @ left))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("family", TARGETS)
def test_inflation_is_that_of_a_weighted_regression(family: str, intercept: bool) -> None:
    made, report = model("generalized_linear_model", TARGETS[family], family=family, fit_intercept=intercept)
    mean = made.predict(X)
    weight = {"gaussian": mean * 0 + 1, "gamma": mean * 0 + 1, "poisson": mean, "binomial": mean * (1 - mean)}[family]
    want = [regressed(weight, j, intercept) for j in range(4)]
    vif = column(report, "vif")
    assert vif[: int(intercept)] == [None] * intercept
    np.testing.assert_allclose(vif[int(intercept) :], want, rtol=1e-6)
    if family == "binomial":
        _, again = model("logistic_regression", TARGETS[family].astype(int), fit_intercept=intercept)
        np.testing.assert_allclose(column(again, "vif")[int(intercept) :], want, rtol=1e-6)
    if family == "gaussian":
        _, plain = model("linear_regression", TARGETS[family], fit_intercept=intercept)
        np.testing.assert_allclose(column(plain, "vif")[int(intercept) :], want, rtol=1e-9)


def test_inflation_of_several_scores_is_that_of_determinants() -> None:
    made, report = model("softmax_regression", LABELS, parametrization="reference")
    P, A = made.predict_proba(X)[:, 1:], np.column_stack([X, np.ones(150)])
    V = P[:, :, None] * (np.eye(2) - P[:, None, :])
    H = np.einsum("nkl,nd,ne->dkel", V, A, A).reshape(10, 10)
    C = np.linalg.inv(H)[:8, :8]
    root = np.sqrt(np.diag(C))
    corr = C / root / root[:, None]
    for j in range(4):
        own, rest = [2 * j, 2 * j + 1], [i for i in range(8) if i // 2 != j]
        parts = np.linalg.det(corr[np.ix_(own, own)]) * np.linalg.det(corr[np.ix_(rest, rest)])
        want = np.sqrt(parts / np.linalg.det(corr))
        rows = [r for r in report.tables["coefficients"].rows if r[1] == j and r[-1] is None]
        assert rows
        np.testing.assert_allclose([r[-2] for r in rows], want, rtol=1e-6)


def test_firth_tells_inflation_and_a_penalty_does_not() -> None:
    y = TARGETS["binomial"].astype(int)
    made, report = model("penalized_logistic_regression", y, penalty="firth")
    p = made.predict_proba(X)[:, 1]
    want = [regressed(p * (1 - p), j, True) for j in range(4)]
    np.testing.assert_allclose(column(report, "vif")[1:], want, rtol=1e-6)
    for penalty in ("l1", "l2"):
        _, held = model("penalized_logistic_regression", y, penalty=penalty)
        assert column(held, "vif") == [None] * 5
        assert set(column(held, "reason")) == {"penalised"}


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("parametrization", ["full", "reference"])
def test_softmax_rows_are_one_newton_step_without_each(parametrization: str, alpha: float) -> None:
    made, report = model("softmax_regression", LABELS, parametrization=parametrization, alpha=alpha)
    table = report.tables["influential_rows"]
    P, A = made.predict_proba(X), np.column_stack([X, np.ones(150)])
    V = P[:, :, None] * (np.eye(3) - P[:, None, :])
    each = np.einsum("nkl,nd,ne->ndkel", V, A, A).reshape(150, 15, 15)
    slope = np.einsum("nk,nd->ndk", P - np.eye(3)[LABELS], A).reshape(150, 15)
    ridge = np.diag(np.repeat([alpha] * 4 + [0.0], 3))
    basis = np.eye(3)[:, 1:] if parametrization == "reference" else np.linalg.qr(np.eye(3) - 1 / 3)[0][:, :2]
    B = np.kron(np.eye(5), basis)
    H = B.T @ (each.sum(axis=0) + ridge) @ B
    for row in table.rows:
        i = int(row[0])
        own = B.T @ each[i] @ B
        step = np.linalg.solve(H - own, B.T @ slope[i])
        assert row[table.columns.index("cook_distance")] == pytest.approx(step @ H @ step / len(H), rel=1e-6)
        assert row[table.columns.index("leverage")] == pytest.approx(np.trace(np.linalg.solve(H, own)), rel=1e-6)
        p = P[i, LABELS[i]]
        chi2 = sum((float(k == LABELS[i]) - P[i, k]) ** 2 / P[i, k] for k in range(3))
        assert row[1:5] == pytest.approx([LABELS[i], p, np.sqrt(chi2), np.sqrt(-2 * np.log(p))], rel=1e-9)
    assert "studentized_residual" not in table.columns


def test_rows_come_in_order_of_their_distance() -> None:
    one = np.column_stack([X, np.arange(150) == 7])
    made: Any = build({"algorithm": "softmax_regression", "params": {"alpha": 1e-9}}).fit(one, LABELS)
    table = made.diagnostics(one, LABELS).tables["influential_rows"]
    cook = [row[table.columns.index("cook_distance")] for row in table.rows]
    assert cook == sorted(cook, reverse=True)


@pytest.mark.parametrize("name", ["logistic_regression", "softmax_regression", "generalized_linear_model"])
def test_chunks_say_what_they_cannot_tell(name: str) -> None:
    Z, y = data.counted() if name == "generalized_linear_model" else data.binary()
    made: Any = build({"algorithm": name, "params": {}}).fit(Z, y)
    halves = Cut(Z, y, None, tuple(np.array_split(np.arange(len(Z)), 2)))
    codes = [n.code for n in diagnose_chunks(made, halves).warnings]
    assert codes.count("rows_not_in_memory") == 1
    assert "rows_not_in_memory" not in [n.code for n in made.diagnostics(Z, y).warnings]


@pytest.mark.parametrize("penalty", ["l1", "firth"])
def test_separation_is_told_with_columns_and_remedies(penalty: str) -> None:
    r = np.random.default_rng(0)
    Z = r.normal(size=(60, 3))
    group = np.arange(60) % 10 == 0
    Z[:, 1] = group
    y = np.where(group, True, Z[:, 0] + r.logistic(size=60) > 0)
    made: Any = build({"algorithm": "penalized_logistic_regression", "params": {"penalty": penalty, "alpha": 0.5}})
    report = made.fit(Z, y).diagnostics(Z, y)
    told = [n for n in report.warnings if n.code == "separable"]
    assert len(told) == 1
    assert "columns 1 separate" in told[0].message
    assert "firth" in told[0].advice or "penalty" in told[0].advice
    assert made.separation_ == "quasi"
    direction = np.asarray(report.matrices["separating_direction"])[0]
    np.testing.assert_array_equal(direction != 0, [False, True, False])
    side = np.where(y, 1, -1) * ((Z - Z[~group].mean(axis=0))[:, 1] * direction[1])
    assert side.min() >= -1e-9
    wide: Any = build({"algorithm": "penalized_logistic_regression", "params": {"penalty": penalty}})
    assert not wide.fit(Z, Z[:, 2] > 0).diagnostics(Z, Z[:, 2] > 0).warnings[0].message.startswith("columns 1 ")
    assert wide.separation_ == "complete"
    mixed = data.binary()
    assert wide.fit(*mixed).separation_ == "none"
    assert not [n for n in wide.notices_ if n.code == "separable"]


def test_a_hundred_classes_overflow_no_determinant() -> None:
    r = np.random.default_rng(8)
    Z, y = r.normal(size=(400, 2)) * 1e-9, np.arange(400) % 100
    made: Any = build({"algorithm": "softmax_regression", "params": {"max_iter": 3}}).fit(Z, y)
    vif = [v for v in column(made.diagnostics(Z, y), "vif") if v is not None]
    assert np.isfinite(vif).all()
    assert min(vif) > 0.99
