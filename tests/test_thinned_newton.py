"""Newton on a sample first: a Hessian that follows the rows that move is made of each row's part at its own point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ml_core.arrays import Matrix, Vector
from ml_core.losses.logistic import Logistic
from ml_core.losses.softmax import Softmax
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.thinned_newton import MIN_ROWS, MOVED, THIN, MovedRows, thinned_newton

RARE = 12


def table(n: int, classes: int, offset: float = 0.0, d: int = 3) -> LinearObjective:
    """d normal columns about `offset` and a level of `RARE` rows in units of its deviation, all of one class."""
    rng = np.random.default_rng(n)
    Z, rare = rng.normal(size=(n, d)), np.zeros(n)
    rows = rng.choice(n, RARE, replace=False)
    rare[rows] = np.sqrt(n / RARE)
    scores = np.column_stack([np.zeros(n), Z @ rng.normal(size=(d, classes - 1)) / d**0.5])
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(float)
    y[rows] = 1.0
    loss: Any = Logistic() if classes == 2 else Softmax(classes)
    return LinearObjective(np.column_stack([Z + offset, rare]), y, rng.uniform(0.5, 2.0, n), loss, alpha=0.5)


def of_parts(problem: LinearObjective, eta: Matrix) -> Matrix:
    """∇²f whose rows have the predictors eta, by the definition."""
    Z = problem.standardised()
    C = problem.loss.all(eta, problem.y)[2] * problem.s[:, None, None]
    H = np.einsum("ijk,ia,ib->ajbk", C, Z, Z, optimize=True).reshape(problem.size, problem.size)
    return H + np.diag(np.repeat(problem.l2, problem.loss.width))


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_only_rows_that_moved_are_exchanged(classes: int, offset: float) -> None:
    problem = table(3000, classes, offset)
    assert problem.columns.direct == (offset == 0.0)
    rng = np.random.default_rng(1)
    v = 0.3 * rng.normal(size=problem.size)
    curve = MovedRows(problem)
    curve.take(v, problem.second(v)[2])
    eta = problem.predictor(v)
    assert curve.price(v) == 0.0
    for size in (0.02, 0.05, 3.0):
        v = v + size * rng.normal(size=problem.size)
        to = problem.predictor(v)
        moved = np.abs(to - eta).max(axis=1) > MOVED
        eta = np.where((moved | (moved.mean() > 0.5))[:, None], to, eta)
        assert curve.price(v) == pytest.approx(problem.hessian_cost * moved.mean())
        want = of_parts(problem, eta)
        np.testing.assert_allclose(curve.follow(), want, rtol=1e-9, atol=1e-10 * np.abs(want).max())
        assert curve.price(v) == 0.0


@pytest.mark.parametrize("classes", [2, 4])
def test_the_price_of_a_sample_is_its_share(classes: int) -> None:
    whole = table(4000, classes)
    few = whole.thin(4)
    curve = MovedRows(few)
    v, far = few.zero(), few.zero() + 1e3
    far[-few.loss.width:] = 1e6
    curve.take(v, few.second(v)[2])
    curve.stand_for(whole)
    assert curve.price(far) == pytest.approx(whole.hessian_cost * len(few.X) / len(whole.X))
    curve.take(v, whole.second(v)[2])
    assert curve.price(far) == pytest.approx(whole.hessian_cost)


def test_a_rare_level_needs_no_hessian_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its few rows bend the objective in their direction; a new Hessian of everything would be for these alone."""
    problem = table(THIN * MIN_ROWS * 2, 6, d=40)
    wholes = 0
    second = LinearObjective.second

    def counted(self: LinearObjective, v: Vector) -> tuple[float, Vector, Matrix]:
        nonlocal wholes
        wholes += len(self.X) == len(problem.X)
        return second(self, v)

    monkeypatch.setattr(LinearObjective, "second", counted)
    found = thinned_newton(problem, tol=1e-8, max_iter=100)
    assert found.converged
    assert wholes == 0
    f, g = problem.value_gradient(found.w)
    step = np.linalg.solve(second(problem, found.w)[2], g)
    assert np.sqrt(g @ step) < 1e-7

    Z, Y = problem.standardised(), np.eye(6)[problem.y.astype(int)]
    B, l2 = Softmax(6).basis, np.repeat(problem.l2, 5)

    def plain(v: Vector) -> tuple[float, Vector]:
        U = Z @ v.reshape(problem.shape) @ B.T
        r = (softmax(U, axis=1) - Y) * problem.s[:, None]
        value = -float(problem.s @ (log_softmax(U, axis=1) * Y).sum(axis=1)) + 0.5 * float(l2 @ v**2)
        return value, (Z.T @ r @ B).ravel() + l2 * v

    other = minimize(plain, problem.zero(), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15})
    assert f <= other.fun * (1 + 1e-14)
    np.testing.assert_allclose(f, other.fun, rtol=1e-9)


def test_a_start_is_kept_where_the_sample_has_no_minimum() -> None:
    """Separable rows: the sample's Newton method does not end, the whole's reports it as before."""
    problem = table(THIN * MIN_ROWS, 2)
    apart = LinearObjective(problem.X, (problem.X[:, 0] > 0).astype(float), problem.s, Logistic())
    found = thinned_newton(apart, tol=1e-8, max_iter=100, slow=lambda v: True)
    assert found.reason == "separable"
