"""Newton on a sample first: a Hessian that follows the rows that move is made of each row's part at its own point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.errors import Cancelled
from ml_core.losses.gamma import InverseGamma
from ml_core.losses.logistic import Logistic
from ml_core.losses.softmax import Softmax
from ml_core.solvers.leverage_sample import systematic
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.newton import newton
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


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Rows of each pass, and whether it formed a Hessian."""
    made = []
    sums = LinearObjective._sum

    def counted(self: LinearObjective, v: Vector, *, second: bool) -> Any:
        made.append((len(self.X), second))
        return sums(self, v, second=second)

    monkeypatch.setattr(LinearObjective, "_sum", counted)
    return made


def test_a_rare_level_needs_no_hessian_of_all_rows(passes: list[tuple[int, bool]]) -> None:
    """Its few rows bend the objective in their direction; a new Hessian of everything would be for these alone."""
    problem = table(THIN * MIN_ROWS * 2, 6, d=40)
    found = thinned_newton(problem, tol=1e-8, max_iter=100)
    assert found.converged
    assert (len(problem.X), True) not in passes
    f, g, H = problem.second(found.w)
    step = np.linalg.solve(H, g)
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


def test_the_sample_may_miss_the_rows_that_tell_two_columns_apart() -> None:
    """Its Hessian is singular there: shortest steps along it do not see the slope that all rows have."""
    n, d, classes, few = 40_000, 20, 6, 12
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(n, d))
    scores = np.column_stack([np.zeros(n), Z @ rng.normal(size=(d, classes - 1)) / d**0.5])
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(float)
    held = systematic(1.0 + np.square(Z).sum(axis=1), n // THIN)[0]
    rows = np.setdiff1d(np.arange(n), [i for at in held for i in (at - 1, at, at + 1)])[:few]
    twin = Z[:, 0].copy()
    twin[rows] += rng.normal(size=few)
    y[rows] = np.arange(few) % classes
    problem = LinearObjective(np.column_stack([Z, twin]), y, np.ones(n), Softmax(classes))
    few_rows = problem.thin(THIN)
    values = np.linalg.eigvalsh(few_rows.second(few_rows.zero())[2])
    assert values[0] < 1e-13 * values[-1]
    found = thinned_newton(problem, tol=1e-10, max_iter=100)
    _, g, H = problem.second(found.w)
    assert found.converged
    assert np.sqrt(g @ np.linalg.solve(H, g)) < 1e-8


def test_a_row_outside_the_sample_may_have_no_finite_loss_at_its_minimum() -> None:
    rng = np.random.default_rng(5)
    n = THIN * MIN_ROWS
    x = rng.uniform(size=(n, 1))
    y = rng.gamma(2.0, 0.5 / (0.2 + x[:, 0]))
    for row in range(n):
        far = x.copy()
        far[row] = -0.5
        problem = LinearObjective(far, y, np.ones(n), InverseGamma())
        few = problem.thin(THIN)
        if -0.5 not in few.X:
            break
    start = np.array([0.0, 1.0 / y.mean()])
    assert problem.value_gradient(newton(few, start, tol=1e-8, max_iter=100).w)[0] == np.inf
    found = thinned_newton(problem, start, tol=1e-8, max_iter=100)
    assert found.converged
    _, g, H = problem.second(found.w)
    assert np.sqrt(g @ np.linalg.solve(H, g)) < 1e-7


def test_no_start_without_a_finite_value() -> None:
    problem = LinearObjective(np.ones((3, 1)), np.ones(3), np.ones(3), InverseGamma())
    found = newton(problem, np.array([0.0, -1.0]), tol=1e-8, max_iter=10)
    assert (found.reason, found.converged, found.n_iter) == ("diverged", False, 0)


def test_time_that_ends_on_the_sample_takes_no_hessian_of_all_rows(passes: list[tuple[int, bool]]) -> None:
    problem = table(THIN * MIN_ROWS * 2, 6, d=40)
    with progress.deadline(0.0):
        found = thinned_newton(problem, tol=1e-8, max_iter=100)
    assert found.reason == "time"
    assert (len(problem.X), True) not in passes
    assert found.trace[-1] < problem.value_gradient(problem.zero())[0]
    assert problem.value_gradient(found.w)[0] == found.trace[-1]


def test_the_fit_of_the_sample_can_be_cancelled(passes: list[tuple[int, bool]]) -> None:
    problem = table(THIN * MIN_ROWS * 2, 3)

    def stop(tick: progress.Tick) -> None:
        raise Cancelled("enough")

    with pytest.raises(Cancelled), progress.listen(stop):
        thinned_newton(problem, tol=1e-8, max_iter=100)
    assert {rows for rows, _ in passes} == {len(problem.thin(THIN).X)}
