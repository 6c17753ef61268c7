"""penalty firth of penalized_logistic_regression: published values, the table with ½ added, plain minimisation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from ml_core.errors import InvalidParameter
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.penalized_logistic_regression import PenalizedLogisticRegression
from ml_core.solvers.firth import Firth

# urinary tract infections (controls, cases) by age, oc, vic, vicl, vis, dia: the data set sex2 of the R package logistf
SEX2 = {
    "000010": (1, 1), "001000": (2, 14), "001010": (1, 3), "001100": (8, 10), "001110": (18, 12), "001111": (0, 1),
    "010000": (42, 44), "010001": (0, 3), "010010": (1, 0), "011000": (1, 15), "011001": (0, 1), "011010": (0, 2),
    "011100": (5, 7), "011110": (6, 3), "101000": (0, 2), "101010": (0, 1), "101011": (0, 1), "101100": (2, 1),
    "101110": (4, 0), "101111": (0, 1), "110000": (14, 5), "110010": (1, 0), "111000": (1, 3), "111110": (2, 0),
}  # fmt: skip
COEFFICIENTS = [0.12025405, -1.10598131, -0.06881673, 2.26887464, -2.11140817, -0.78831694, 3.09601166]
INTERVALS = [
    [-0.8185591, 1.07315122], [-1.9737884, -0.30742514], [-0.9414363, 0.78920202], [1.2730216, 3.43543273],
    [-3.2608611, -1.11773495], [-1.6080879, 0.01518468], [0.7745682, 8.03029352],
]  # fmt: skip


def model(**options: bool) -> PenalizedLogisticRegression:
    return PenalizedLogisticRegression(penalty="firth", **options)  # type: ignore[arg-type]


def sex2() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = np.array([[float(c) for c in pattern] for pattern in SEX2 for _ in (0, 1)])
    return X, np.tile([0, 1], len(SEX2)), np.array(list(SEX2.values()), dtype=float).ravel()


def test_published_estimates_and_profile_intervals() -> None:
    X, y, s = sex2()
    m = model().fit(X, y, s)
    np.testing.assert_allclose([m.intercept_[0], *m.coef_[0]], COEFFICIENTS, rtol=1e-6)
    found = m.diagnostics(X, y, s)
    assert all(c.holds for c in found.certificates)
    rows = found.tables["coefficients"].rows
    np.testing.assert_allclose([r[6:8] for r in rows], INTERVALS, rtol=1e-6)
    np.testing.assert_allclose(rows[1][3:6:2], [0.4236601, 0.006143472], rtol=1e-6)
    repeated = model().fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    np.testing.assert_allclose(repeated.coef_, m.coef_, rtol=1e-8)


def test_separated_rows_have_an_estimate() -> None:
    x, y = [[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]
    m = model().fit(x, y)
    assert m.coef_[0, 0] == pytest.approx(1.30990296553675, rel=1e-9)
    assert m.intercept_[0] == pytest.approx(-3.27475741384187, rel=1e-9)
    notice = next(n for n in LogisticRegression().fit(x, y).notices_ if n.code == "separable")
    assert "firth" in notice.advice


@pytest.mark.parametrize("cells", [(3, 5, 7, 2), (0, 6, 4, 3), (0, 5, 9, 0), (1, 0, 0, 1)])
def test_two_groups_are_their_table_with_a_half_added(cells: tuple[int, ...]) -> None:
    """Controls and cases of group 0, then of group 1."""
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 1, 0, 1])
    m = model().fit(X, y, np.array(cells, dtype=float))
    a, b, c, d = np.array(cells) + 0.5
    assert m.intercept_[0] == pytest.approx(np.log(b / a), abs=1e-8)
    assert m.coef_[0, 0] == pytest.approx(np.log(d / c) - np.log(b / a), abs=1e-8)


def table(n: int = 60, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    return X, (X[:, 0] + r.logistic(size=n) > 0.3).astype(int)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_minimises_the_written_out_objective(fit_intercept: bool) -> None:
    X, y = table()
    m = model(fit_intercept=fit_intercept).fit(X, y)
    Z = np.hstack([X, np.ones((60, int(fit_intercept)))])

    def f(v: np.ndarray) -> float:
        eta = Z @ v
        p = 1 / (1 + np.exp(-eta))
        return float(np.sum(np.logaddexp(0, eta) - y * eta) - 0.5 * np.linalg.slogdet((Z.T * (p * (1 - p))) @ Z)[1])

    peer = minimize(f, np.zeros(Z.shape[1]), method="Nelder-Mead",
                    options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 20_000, "maxfev": 20_000})  # fmt: skip
    np.testing.assert_allclose(np.append(m.coef_[0], m.intercept_)[: len(peer.x)], peer.x, atol=1e-6)
    F, v = Firth(Z, y.astype(float), np.ones(60)), peer.x + 0.1
    step = 1e-6 * np.eye(len(v))
    slopes = [(F.value_gradient(v + e)[0] - F.value_gradient(v - e)[0]) / 2e-6 for e in step]
    np.testing.assert_allclose(F.value_gradient(v)[1], slopes, atol=1e-7)
    assert F.leverages(v).sum() == pytest.approx(Z.shape[1])


def test_units_offsets_and_the_order_of_columns_change_nothing() -> None:
    X, y = table()
    plain = model().fit(X, y)
    A, b = np.array([1e5, 1e-4, 3.0]), np.array([1e6, -3.0, 0.0])
    other = model().fit((X * A + b)[:, ::-1], y)
    np.testing.assert_allclose(other.coef_[0, ::-1] * A, plain.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(other.predict_proba((X * A + b)[:, ::-1]), plain.predict_proba(X), rtol=1e-6)
    one = plain.diagnostics(X, y).tables["coefficients"].rows
    two = other.diagnostics((X * A + b)[:, ::-1], y).tables["coefficients"].rows
    np.testing.assert_allclose(np.array([r[4] for r in two[:0:-1]], float), [r[4] for r in one[1:]], rtol=1e-5)


def test_columns_that_tell_nothing_apart_are_named() -> None:
    X, y = table()
    Z = np.column_stack([X, X[:, 0] - X[:, 1], np.full(60, 4.0)])
    m = model().fit(Z, y)
    np.testing.assert_allclose(m.predict_proba(Z), model().fit(X, y).predict_proba(X), rtol=1e-7)
    assert m.coef_[0, 4] == 0
    assert "0, 1, 3, 4" in next(n.message for n in m.notices_ if n.code == "collinear")
    rows = m.diagnostics(Z, y).tables["coefficients"].rows
    assert [r[-1] for r in rows] == [None, "collinear", "collinear", None, "collinear", "collinear"]
    flat = model().fit(np.ones((10, 1)), np.arange(10) < 3)
    np.testing.assert_allclose(flat.predict_proba(np.ones((1, 1)))[0, 1], 3.5 / 11, rtol=1e-9)
    assert flat.diagnostics(np.ones((10, 1)), np.arange(10) < 3).tables["coefficients"].rows[0][-1] is None


def test_large_tables_have_intervals_by_the_information() -> None:
    X, y = table(20_000, 4)
    m = model().fit(X, y)
    found = m.diagnostics(X, y)
    assert "wald" in [w.code for w in found.warnings]
    np.testing.assert_allclose(m.coef_, LogisticRegression().fit(X, y).coef_, atol=1e-3)


def test_what_it_cannot_do_is_said() -> None:
    X, _ = table()
    with pytest.raises(InvalidParameter, match="two classes, not for 3"):
        model().fit(X, np.arange(60) % 3)
