"""A budget of time ends a fit with the best point so far, as a budget of iterations does, and the answer says so."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from ml_core import progress
from ml_core.certificates import FAILED
from ml_core.gp import search
from ml_core.notices import MORE_TIME, TIME
from ml_core.parallel import ordered_map, use_threads
from ml_core.registry import algorithms, build
from ml_core.solvers.base import Solution
from ml_core.solvers.separation import Margins, program, separation
from ml_core.sums import fit_chunks
from tests.checks import answers, fresh, same_answers
from tests.rows import all_rows, data

BUDGETS = {"max_iter", "max_epochs", "epochs"}
ROWS = {r.name: r for r in all_rows()}
ITERATIVE = [n for n in ROWS if BUDGETS & set(inspect.signature(algorithms()[n].cls.__init__).parameters)]
ENDS_AT_ONCE = {
    "empirical_risk_minimizer": "the row's risk has a direct solver",
    "kernel_k_means": "no row moves in the second sweep",
    "lasso": "the row's columns are one working set",
    "linear_regression": "the row is solved directly",
    "multi_output_regression": "the row is solved directly",
    "perceptron": "all epochs of so small a table are one compiled piece",
    "principal_component_analysis": "the row is decomposed directly",
}
RBF = {"kernel": "rbf", "length_scale": 1.0}


def wide() -> tuple[np.ndarray, np.ndarray]:
    """120 × 80, dependent columns, few of which count."""
    r = np.random.default_rng(11)
    X = r.normal(size=(120, 80)) + 3.0 * r.normal(size=(120, 1))
    return X, X[:, :5].sum(axis=1) + r.normal(size=120)


def noise() -> tuple[np.ndarray, np.ndarray]:
    """1500 × 4, labels that the columns hardly tell."""
    r = np.random.default_rng(12)
    X = r.normal(size=(1500, 4))
    return X, np.where(X[:, 0] + 2.0 * r.normal(size=1500) > 0, "yes", "no")


def shares() -> tuple[np.ndarray, np.ndarray]:
    """200 × 3, targets from 0 to 1."""
    r = np.random.default_rng(16)
    X = r.normal(size=(200, 3))
    return X, np.clip(0.5 + 0.3 * X[:, 0] + 0.2 * r.normal(size=200), 0.0, 1.0)


def cloud() -> tuple[np.ndarray, None]:
    """400 × 5 without groups."""
    return np.random.default_rng(13).normal(size=(400, 5)), None


def wave() -> tuple[np.ndarray, np.ndarray]:
    """650 × 1, more rows than a search without a sample takes."""
    r = np.random.default_rng(14)
    X = np.sort(r.uniform(0, 10, size=(650, 1)), axis=0)
    return X, np.sin(X[:, 0]) + 0.1 * r.normal(size=650)


def heavy() -> tuple[np.ndarray, np.ndarray]:
    """500 × 3, linear with errors of a Student distribution."""
    r = np.random.default_rng(15)
    X = r.normal(size=(500, 3))
    return X, X.sum(axis=1) + r.standard_t(2, size=500)


VARIANTS: list[tuple[str, dict[str, Any], Any]] = [
    *(("softmax_regression", {"alpha": 0.01, "solver": s, "tol": 1e-12}, data.classification)
      for s in ("newton", "irls", "lbfgs", "gradient_descent", "momentum", "conjugate_gradient", "sgd", "rmsprop",
                "adam", "amsgrad")),
    *(("linear_regression", {"solver": s, "tol": 1e-15}, data.regression) for s in ("gradient_descent", "sgd")),
    *(("soft_margin_svm", {"solver": s, "C": 100.0, **({"loss": "squared_hinge"} if s == "newton" else {})}, noise)
      for s in ("newton", "interior_point", "decomposition", "dual_coordinate_descent")),
    ("bayesian_logistic_regression", {"hyperparameters": "evidence"}, data.classification),
    ("calibrated", {"estimator": {"algorithm": "kernel_svm", "params": {"C": 100.0, "kernel": RBF}}}, data.binary),
    ("crammer_singer_svm", {"C": 1e4, "tol": 1e-9}, noise),
    ("empirical_risk_minimizer", {"function": "logistic", "loss": "logistic", "penalty": "l1"}, shares),
    ("empirical_risk_minimizer", {"loss": "squared", "aggregation": "max"}, heavy),
    ("gaussian_mixture", {"n_components": 3, "n_init": 3}, cloud),
    ("gaussian_process_classification", {"n_restarts": 2}, data.binary),
    ("gaussian_process_regression", {"n_restarts": 2}, wave),
    ("k_means", {"n_clusters": 8, "n_init": 20}, cloud),
    ("kernel_k_means", {"n_clusters": 5, "kernel": RBF}, cloud),
    ("kernel_svm", {"C": 100.0, "kernel": RBF}, noise),
    ("lasso", {"alpha": 1e-4, "objective_scale": "mean"}, wide),
    ("lasso", {"choose_alpha": "cross_validation"}, wide),
    ("minimax_regression", {}, heavy),
    ("one_vs_rest", {"estimator": {"algorithm": "logistic_regression", "params": {"tol": 1e-12}}}, data.classification),
    ("penalized_logistic_regression", {"alpha": 0.1}, noise),
    ("perceptron", {"max_epochs": 100_000}, noise),
    ("principal_component_analysis", {"solver": "randomized", "n_components": 3}, cloud),
    ("pipeline", {"steps": [{"algorithm": "standard_scaler"},
                            {"algorithm": "logistic_regression", "params": {"tol": 1e-12}}]}, data.binary),
]  # fmt: skip


def late(name: str, params: dict[str, Any], X: Any, y: Any) -> Any:
    """The model of a fit whose time is over when it begins."""
    with progress.deadline(0.0):
        return build({"algorithm": name, "params": params}).fit(X, y)


def told_and_consistent(model: Any, X: Any, y: Any) -> bool:
    """Whether time ended the fit; its answers are finite, and no certificate fails in silence."""
    for value in answers(model, X).values():
        assert np.asarray(value).dtype.kind not in "f" or not np.isnan(value).any()
    report = model.diagnostics(X, y)
    codes = [n.code for n in report.warnings]
    assert all(c.holds for c in report.certificates) or FAILED in codes
    assert all(n.advice == MORE_TIME for n in report.warnings if n.code == "not_converged" and TIME in codes)
    found = getattr(model, "solution_", None)
    if isinstance(found, Solution) and TIME in codes:
        assert (found.reason, found.converged) == ("time", False) or not found.trace
    return TIME in codes


@pytest.mark.parametrize("name", ROWS)
def test_an_algorithm_that_is_late_gives_its_best_so_far(name: str) -> None:
    X, y = ROWS[name].data()
    cut = told_and_consistent(late(name, ROWS[name].params, X, y), X, y)
    assert cut or name not in ITERATIVE or name in ENDS_AT_ONCE


@pytest.mark.parametrize("name", ITERATIVE)
def test_a_deadline_that_is_not_met_changes_nothing(name: str) -> None:
    X, y = ROWS[name].data()
    with progress.deadline(1e6):
        model = fresh(ROWS[name]).fit(X, y)
    assert TIME not in {n.code for n in model.notices_}
    same_answers(model, fresh(ROWS[name]).fit(X, y), X)


@pytest.mark.parametrize(("name", "params", "rows"), VARIANTS, ids=[v[0] for v in VARIANTS])
def test_every_solver_looks_at_the_time(name: str, params: dict[str, Any], rows: Any) -> None:
    X, y = rows()
    assert told_and_consistent(late(name, params, X, y), X, y)


class Pieces:
    """Chunks of rows in memory."""

    def __init__(self, X: np.ndarray, y: np.ndarray | None, count: int) -> None:
        self.rows = np.array_split(np.arange(len(X)), count)
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, i: int) -> tuple[Any, Any, Any]:
        at = self.rows[i]
        return self.X[at], None if self.y is None else self.y[at], None


@pytest.mark.parametrize(("name", "params", "rows"), [
    ("softmax_regression", {"alpha": 0.01, "tol": 1e-12}, data.classification),
    ("softmax_regression", {"alpha": 0.01, "tol": 1e-12, "solver": "lbfgs"}, data.classification),
    ("gaussian_mixture", {"n_components": 3}, cloud), ("k_means", {"n_clusters": 8}, cloud),
])  # fmt: skip
def test_fits_from_chunks_look_at_the_time(name: str, params: dict[str, Any], rows: Any) -> None:
    X, y = rows()
    with progress.deadline(0.0):
        model = fit_chunks(build({"algorithm": name, "params": params}), Pieces(X, y, 3))
    assert {TIME, "not_converged"} <= {n.code for n in model.notices_}
    for value in answers(model, X).values():
        assert np.asarray(value).dtype.kind not in "f" or np.isfinite(value).all()


def test_deadlines_nest_and_pieces_share_what_is_left() -> None:
    assert progress.left() is None
    with progress.deadline(100.0), progress.deadline(1e6), progress.share(4):
        assert 20.0 < (progress.left() or 0.0) <= 25.0
    with progress.deadline(100.0), use_threads(1):
        first, *_, last = list(ordered_map(lambda _: progress.left() or 0.0, range(4)))
    assert 20.0 < first <= 25.0
    assert 80.0 < last <= 100.0
    with progress.deadline(100.0), use_threads(2):
        assert 40.0 < next(ordered_map(lambda _: progress.left() or 0.0, range(4))) <= 50.0
    assert progress.left() is None


def test_a_block_hears_what_time_ended_in_it() -> None:
    with progress.cut_short() as outer:
        with progress.cut_short() as inner, progress.deadline(0.0):
            progress.tick(3, 10, "rounds")
            assert progress.late()
        assert [str(t) for t in inner] == ["3 of 10 rounds"]
        assert progress.was_cut()
        with progress.cut_short() as calm:
            assert not progress.late()
        assert not calm
    assert outer == inner


def test_threads_tell_the_block_that_started_them() -> None:
    with progress.cut_short() as cut, progress.deadline(0.0), use_threads(2):
        list(ordered_map(lambda _: progress.late(), range(4)))
    assert len(cut) == 4


def test_late_fits_are_no_worse_than_where_they_began() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    y = X @ np.arange(5.0) + rng.standard_t(2, 5000)
    w = late("minimax_regression", {}, X, y)
    least = np.linalg.lstsq(np.column_stack([np.ones(5000), X]), y, rcond=None)[0]
    begun = np.abs(y - least[0] - X @ least[1:]).max()
    assert np.abs(y - w.predict(X)).max() <= begun * (1 + 1e-9)
    X = rng.normal(size=(40_000, 10))
    t = (rng.random(40_000) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    p = late("logistic_regression", {}, X, t).predict_proba(X)[np.arange(40_000), t]
    assert -np.log(p).mean() < 0.7 * np.log(2)  # the step on the sample is kept


def test_the_climb_over_all_rows_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def climb(task: Any, space: Any, start: Any, *rest: Any) -> Any:
        left.append(progress.left() or 0.0)
        return search.Run(start, start, 0.0, len(task.y), True, 1), Solution(start, 1, True, "gradient", [0.0])

    monkeypatch.setattr(search, "climb", climb)
    X = np.random.default_rng(0).normal(size=(700, 1))
    with progress.deadline(80.0):
        build({"algorithm": "gaussian_process_regression", "params": {"n_restarts": 2}}).fit(X, X[:, 0])
    assert left[0] <= 80 / 4


def labels(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n × d normal columns, and labels that they do not tell."""
    r = np.random.default_rng(seed)
    return r.normal(size=(n, d)), r.integers(0, 2, n)


def test_the_search_for_separation_ends_when_time_is_over() -> None:
    X, codes = labels(40, 60, 17)
    hint = np.zeros((60, 1))
    assert separation(X, codes, 2, hint).kind == "complete"
    with progress.cut_short() as cut, progress.deadline(0.0):
        assert separation(X, codes, 2, hint).kind == "none"
    assert cut
    assert cut[0] is not None
    assert cut[0].unit == "separation checks"


def test_a_program_that_separates_is_itself_cut_short() -> None:
    """1000 rows in 550 columns can be separated, which takes the simplex method several seconds to find."""
    X, codes = labels(1000, 550, 18)
    margins = Margins(X, codes, 2)
    with progress.deadline(0.02):
        assert program(margins.constraints(np.arange(1000)), np.zeros(550), common=True) is None


def test_a_perceptron_out_of_time_does_not_say_that_nothing_separates() -> None:
    X, codes = labels(200, 3, 19)
    params = {"max_epochs": 3}
    mixed = build({"algorithm": "perceptron", "params": params}).fit(X, codes)
    assert "not_separable" in {n.code for n in mixed.notices_}
    cut = late("perceptron", params, X, codes)
    assert {n.code for n in cut.notices_} == {"not_converged", TIME}
    assert told_and_consistent(cut, X, codes)


def test_a_late_logistic_fit_of_many_columns_does_not_search_on() -> None:
    X, codes = labels(600, 200, 20)
    told_and_consistent(late("logistic_regression", {}, X, codes), X, codes)
    with progress.cut_short() as cut, progress.deadline(0.0):
        build({"algorithm": "logistic_regression", "params": {}}).fit(X, codes)
    assert [t.unit for t in cut if t is not None][-1] == "separation checks"
