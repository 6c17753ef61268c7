"""logistic_regression against certified digits, closed forms, scikit-learn, reported failures and its theorems."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import brentq
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression as Peer

from ml_core import progress
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.logistic_regression import LogisticRegression as Model
from ml_core.parallel import use_threads
from ml_core.registry import build
from ml_core.solvers.linear_objective import LinearObjective
from tests.conftest import DATA

ANES = (
    [-2.2521556973694493092, 0.01655718710122712109, 0.59221176158158949091, -0.86577356201754801247,
     -0.43411695433060167826, 1.0265558955686343961, 0.0022556265134434690949, 0.044397633288205778759,
     0.022617453639460205562],
    [1.0426569887819106228, 0.051063297258964017619, 0.11630872860375621379, 0.11438714257847651745,
     0.10520465871105842627, 0.080205506288899372213, 0.0085620035948156276132, 0.089031031199810987406,
     0.024085165566582680358],
    -212.48534177968048507,
)  # fmt: skip
DEFAULT = (
    [-10.869045212744661963, -0.64677580824402742292, 0.005736505265799080028, 3.0334501193335777459e-6],
    [0.49227264974809437135, 0.23625692638330069831, 0.00023190442571314233143, 8.2027656191947785517e-6],
    -785.77241378947982153,
)  # fmt: skip
STOCHASTIC = ("sgd", "rmsprop", "adam", "amsgrad")
SOLVERS = ("newton", "irls", "lbfgs", "gradient_descent", "momentum", "conjugate_gradient", *STOCHASTIC)


def digits(got: Any, want: Any) -> float:
    """Least number of correct digits."""
    got, want = np.ravel(got), np.ravel(want)
    return float(-np.log10(max(np.max(np.abs(got - want) / np.abs(want)), 1e-16)))


def mixed(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 3)) * [1, 10, 0.1] + [5, 0, 1]
    return X, (X @ [1, 0.1, 2] - 7 + r.logistic(size=n) > 0).astype(int)


def default() -> tuple[np.ndarray, np.ndarray]:
    with (DATA / "default.csv").open() as f:
        rows = list(csv.DictReader(f))
    X = np.array([[r["student"] == "Yes", float(r["balance"]), float(r["income"])] for r in rows], dtype=float)
    return X, np.array([r["default"] for r in rows])


def anes() -> tuple[np.ndarray, np.ndarray]:
    data = sm.datasets.anes96.load_pandas().data
    columns = ["TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "educ", "income"]
    return data[columns].to_numpy(), data["vote"].to_numpy()


@pytest.mark.parametrize(("load", "certified"), [(anes, ANES), (default, DEFAULT)], ids=["anes96", "default"])
@pytest.mark.parametrize("solver", ["newton", "irls"])
def test_certified_coefficients_errors_and_likelihood(load: Any, certified: Any, solver: str) -> None:
    X, y = load()
    model = Model(solver=solver).fit(X, y)
    report = model.diagnostics(X, y)
    assert digits(np.append(model.intercept_, model.coef_), certified[0]) >= 12
    assert digits([r[3] for r in report.tables["coefficients"].rows], certified[1]) >= 12
    assert digits(report.summary["log_likelihood"], certified[2]) >= 13
    assert all(c.holds for c in report.certificates)


def test_raw_breast_cancer_converges() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = Model(alpha=1e-3).fit(X, y)
    assert model.solution_.converged
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


def test_two_by_two_table() -> None:
    x, y = np.repeat([0.0, 1.0], 4)[:, None], [0, 0, 0, 1, 1, 1, 1, 0]
    model = Model().fit(x, y)
    np.testing.assert_allclose([model.intercept_[0], model.coef_[0, 0]], [-np.log(3), 2 * np.log(3)], rtol=1e-13)
    assert model.solution_.trace[-1] == pytest.approx(4.4986812, abs=5e-8)
    pen = Model(alpha=1.0).fit(x, y)
    np.testing.assert_allclose([pen.intercept_[0], pen.coef_[0, 0]], [-0.33436, 0.66872], atol=5e-6)
    assert pen.solution_.trace[-1] == pytest.approx(5.2113304, abs=5e-8)


def test_first_newton_step() -> None:
    x, y = np.repeat([0.0, 1.0], 4)[:, None], np.array([0, 0, 0, 1, 1, 1, 1, 0.0])
    from ml_core.losses.logistic import Logistic

    problem = LinearObjective(x, y, np.ones(8), Logistic())
    _, g, H = problem.second(problem.zero())
    W, b = problem.unpack(-np.linalg.solve(H, g))
    np.testing.assert_allclose([b[0], W[0, 0]], [-1, 2], rtol=1e-13)


def test_penalised_separable_pair() -> None:
    model = Model(alpha=1.0).fit([[-1.0], [1.0]], [0, 1])
    w = brentq(lambda w: w - 2 / (1 + np.exp(w)), 0, 2, xtol=1e-15)
    assert model.coef_[0, 0] == pytest.approx(w, rel=1e-13)
    assert model.intercept_[0] == pytest.approx(0, abs=1e-14)
    assert model.solution_.trace[-1] == pytest.approx(1.0509141, abs=5e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_separable_pairs_are_told(solver: str) -> None:
    x, y = np.array([[1.0], [2], [3], [4]]), [0, 0, 1, 1]
    model = Model(solver=solver).fit(x, y)
    assert model.separation_ == "complete"
    assert model.separating_direction_[0, 0] > 0
    assert [n.code for n in model.notices_] == ["separable"]
    assert np.isfinite(model.predict_proba(x)).all()
    report = json.loads(json.dumps(model.diagnostics(x, y).to_json(), allow_nan=False))
    assert all(r[3] is None and r[-1] == "separable" for r in report["tables"]["coefficients"]["rows"])
    assert report["warnings"][0]["code"] == "separable"


def test_separable_three_classes() -> None:
    X = np.array([[0, 0], [1, 0], [5, 0], [6, 1], [0, 5], [1, 6.0]])
    y = np.array(list("aabbcc"))
    model = Model().fit(X, y)
    assert model.separation_ == "complete"
    np.testing.assert_array_equal(model.predict(X), y)
    assert np.abs(model.coef_).max() < 100


def test_quasi_separation_and_near_misses() -> None:
    assert Model().fit([[1.0], [2], [2], [4]], [0, 0, 1, 1]).separation_ == "quasi"
    fit = Model().fit([[1.0], [2], [2.5], [4]], [0, 1, 0, 1])
    assert fit.separation_ == "none"
    assert fit.solution_.converged
    r = np.random.default_rng(0)
    X = r.normal(size=(200, 3))
    group = (np.arange(200) < 20).astype(float)
    y = np.where(group == 1, 1, (X[:, 0] + r.logistic(size=200) > 0))
    assert Model().fit(np.column_stack([X, group]), y).separation_ == "quasi"


def test_penalised_values_of_the_separable_case() -> None:
    model = Model(alpha=1.0).fit([[1.0], [2], [3], [4]], [0, 0, 1, 1])
    assert model.coef_[0, 0] == pytest.approx(0.958285949849, abs=1e-12)
    assert model.intercept_[0] == pytest.approx(-2.395714874623, abs=1e-12)
    assert model.separation_ == "none"


def test_the_intercept_is_not_penalised() -> None:
    x = np.tile([-1.0, 1.0], 50)[:, None]
    model = Model(alpha=1e3).fit(x, (np.arange(100) < 10).astype(int))
    assert model.intercept_[0] == pytest.approx(-2.197224577336, abs=1e-12)


def test_one_class_is_refused_by_name() -> None:
    with pytest.raises(InvalidData, match="'a'"):
        Model().fit(np.arange(4.0)[:, None], ["a"] * 4)


def test_extreme_scores() -> None:
    model = Model(fit_intercept=False, alpha=1.0).fit([[-1.0], [1.0]], [0, 1])
    model.coef_ = np.array([[5.0]])
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(model.predict_log_proba([[1e4], [-1e4]]), [[-50000, 0], [0, -50000]])
    np.testing.assert_array_equal(model.predict_proba([[1e4], [-1e4]]), [[0, 1], [1, 0]])


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree(solver: str) -> None:
    X, y = mixed()
    want = Model().fit(X, y)
    steps, tol = (200, 1e-4) if solver in STOCHASTIC else (3000, 1e-9)
    got = Model(solver=solver, tol=tol, max_iter=steps).fit(X, y)
    np.testing.assert_allclose(got.predict_proba(X), want.predict_proba(X), atol=0.02 if solver in STOCHASTIC else 1e-6)
    assert min(got.solution_.trace) >= want.solution_.trace[-1] * (1 - 1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree_on_three_classes(solver: str) -> None:
    X, y = load_iris(return_X_y=True)
    want = Model(alpha=1.0).fit(X, y)
    steps, tol = (1500 if solver == "sgd" else 300, 1e-4) if solver in STOCHASTIC else (20000, 1e-8)
    got = Model(alpha=1.0, solver=solver, tol=tol, max_iter=steps).fit(X, y)
    np.testing.assert_allclose(got.predict_proba(X), want.predict_proba(X), atol=0.1 if solver in STOCHASTIC else 1e-5)


def test_stopping_early_is_a_notice() -> None:
    X, y = mixed()
    model = Model(solver="gradient_descent", max_iter=2).fit(X, y)
    assert [n.code for n in model.notices_] == ["not_converged"]
    assert not all(c.holds for c in model.diagnostics(X, y).certificates)


def test_parametrizations_agree_and_contain_the_binary_case() -> None:
    r = np.random.default_rng(1)
    X = r.normal(size=(150, 2))
    y = np.argmax(X @ r.normal(size=(2, 3)) + r.gumbel(size=(150, 3)), axis=1)
    full, reference = Model().fit(X, y), Model(parametrization="reference").fit(X, y)
    np.testing.assert_allclose(full.predict_proba(X), reference.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(full.coef_.sum(axis=0), 0, atol=1e-13)
    np.testing.assert_array_equal(reference.coef_[0], 0)
    rows = reference.diagnostics(X, y).tables["coefficients"].rows
    assert [r[-1] for r in rows[:3]] == ["reference"] * 3
    peer = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0, method="newton", maxiter=100)
    np.testing.assert_allclose(np.array([r[3] for r in rows[3:]]).reshape(2, 3), peer.bse.T, rtol=1e-6)


def test_known_shares() -> None:
    y = np.repeat([0, 1, 2], [2, 3, 5])
    model = Model(parametrization="reference", alpha=1.0).fit(np.zeros((10, 1)), y)
    np.testing.assert_allclose(model.intercept_, [0, 0.4054651, 0.9162907], atol=5e-8)
    np.testing.assert_allclose(model.predict_proba([[0.0]]), [[0.2, 0.3, 0.5]], rtol=1e-12)


def test_wald_table_and_information_criteria_against_statsmodels() -> None:
    X, y = mixed()
    report = Model().fit(X, y).diagnostics(X, y)
    peer = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-14)
    rows = report.tables["coefficients"].rows
    for at, want in ((2, peer.params), (3, peer.bse), (4, peer.tvalues), (5, peer.pvalues)):
        np.testing.assert_allclose([r[at] for r in rows], want, rtol=1e-8)
    np.testing.assert_allclose([r[6:8] for r in rows], peer.conf_int(), rtol=1e-8)
    s = report.summary
    np.testing.assert_allclose([s["aic"], s["bic"], s["log_likelihood"], s["null_log_likelihood"]],
                               [peer.aic, peer.bic, peer.llf, peer.llnull], rtol=1e-9)  # fmt: skip


def test_whole_weights_repeat_rows() -> None:
    X, y = mixed(80)
    k = np.random.default_rng(0).integers(0, 4, 80)
    one, two = Model().fit(X, y, k.astype(float)), Model().fit(np.repeat(X, k, axis=0), np.repeat(y, k))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-11)
    a, b = one.diagnostics(X, y, k.astype(float)), two.diagnostics(np.repeat(X, k, axis=0), np.repeat(y, k))
    np.testing.assert_allclose([r[3] for r in a.tables["coefficients"].rows],
                               [r[3] for r in b.tables["coefficients"].rows], rtol=1e-10)  # fmt: skip
    assert a.summary["bic"] == pytest.approx(b.summary["bic"], rel=1e-13)


@pytest.mark.parametrize("weight", ["balanced", {0: 3.0, 1: 0.5}, {"0": 3.0, "1": 0.5}])
def test_class_weights(weight: Any) -> None:
    X, y = mixed()
    peer = Peer(C=1.0, class_weight=weight if "0" not in weight else {0: 3.0, 1: 0.5}, tol=1e-12, max_iter=2000,
                solver="newton-cholesky").fit(X, y)  # fmt: skip
    model = Model(alpha=1.0, class_weight=weight).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-7)
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


def test_class_weight_of_no_class() -> None:
    with pytest.raises(InvalidParameter) as e:
        Model(class_weight={"x": 1.0}).fit(*mixed())
    assert e.value.issues[0].pointer == "/params/class_weight"


def test_threshold_moves_decisions_and_scores_together() -> None:
    X, y = mixed()
    model = Model(threshold=0.8).fit(X, y)
    want = (model.predict_proba(X)[:, 1] >= 0.8).astype(int)
    np.testing.assert_array_equal(model.predict(X), want)
    np.testing.assert_array_equal(model.decision_function(X) >= 0, want == 1)


def test_affine_maps_of_columns_change_nothing() -> None:
    X, y = mixed()
    A = np.array([[2.0, 0.1, 0], [0, 1e4, 0], [1, 0, 1e-5]])
    one, two = Model().fit(X, y), Model().fit(X @ A + [1e6, -3, 7], y)
    np.testing.assert_allclose(two.predict_proba(X @ A + [1e6, -3, 7]), one.predict_proba(X), atol=1e-6)


def test_far_offsets_keep_their_digits() -> None:
    X, y = mixed()
    offset = np.array([1.7e9, 0, 0])
    far = X + offset
    near = Model().fit(far - offset, y)
    np.testing.assert_allclose(Model().fit(far, y).coef_, near.coef_, rtol=1e-8)


def test_collinear_and_constant_columns() -> None:
    X, y = mixed()
    wide = np.column_stack([X, X[:, 0] + X[:, 1], np.full(len(X), 3.0)])
    model = Model().fit(wide, y)
    np.testing.assert_allclose(model.predict_proba(wide), Model().fit(X, y).predict_proba(X), atol=1e-10)
    assert model.coef_[0, 4] == 0
    assert [n.code for n in model.notices_] == ["constant_column"]
    assert {r[-1] for r in model.diagnostics(wide, y).tables["coefficients"].rows} == {None, "collinear"}


@pytest.mark.parametrize("scale", [1e-200, 1e-80, 1e80, 1e150])
def test_extreme_units(scale: float) -> None:
    X, y = mixed()
    one, two = Model().fit(X, y), Model().fit(X * [scale, 1, 1], y)
    np.testing.assert_allclose(two.predict_proba(X * [scale, 1, 1]), one.predict_proba(X), rtol=1e-8)


def test_large_problem_starts_on_few_rows_and_ends_exactly() -> None:
    r = np.random.default_rng(2)
    X = r.normal(size=(40_000, 4))
    y = (X @ [1, -1, 0.5, 0] + r.logistic(size=40_000) > 1).astype(int)
    with use_threads(1):
        one = Model().fit(X, y)
    with use_threads(3):
        two = Model().fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert all(c.holds for c in one.diagnostics(X, y).certificates)
    np.testing.assert_allclose(one.coef_, Model(solver="irls").fit(X, y).coef_, rtol=1e-10)


def test_many_unknowns_change_the_solver_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_core.linear.logistic_regression.NEWTON_UNKNOWNS", 3)
    X, y = mixed()
    model = Model(alpha=1.0).fit(X, y)
    assert [n.code for n in model.notices_] == ["solver_changed"]
    monkeypatch.undo()
    np.testing.assert_allclose(model.coef_, Model(alpha=1.0).fit(X, y).coef_, rtol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_ticks(solver: str) -> None:
    ticks: list[progress.Tick] = []
    with progress.listen(ticks.append):
        Model(solver=solver, max_iter=5).fit(*mixed(60))
    assert ticks


def test_spec_with_class_weights_round_trips() -> None:
    spec = {"algorithm": "logistic_regression", "params": {"class_weight": {"0": 2.0}, "alpha": 1.0}}
    assert build(spec).class_weight == {"0": 2.0}
    with pytest.raises(InvalidParameter):
        build({"algorithm": "logistic_regression", "params": {"threshold": 1.0}})
