"""generalized_linear_model against certified digits, statsmodels, reported failures, closed forms and its theorems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import digamma

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.gamma_shape import best_shape
from ml_core.linear.generalized_linear_model import GeneralizedLinearModel as Model
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.solvers.recession import recession
from ml_core.sums import fit_chunks

CASES: list[tuple[dict[str, Any], Any]] = [
    ({"family": "gaussian"}, sm.families.Gaussian()),
    ({"family": "poisson"}, sm.families.Poisson()),
    ({"family": "binomial"}, sm.families.Binomial()),
    ({"family": "gamma"}, sm.families.Gamma(sm.families.links.Log())),
    ({"family": "gamma", "link": "inverse"}, sm.families.Gamma(sm.families.links.InversePower())),
]
pytestmark = pytest.mark.filterwarnings("ignore:The InversePower link")
each = pytest.mark.parametrize(("params", "peer"), CASES, ids=["-".join(params.values()) for params, _ in CASES])


def drawn(params: dict[str, Any], n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.uniform(-1, 1, size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 2.0]
    eta = 0.4 + X @ np.array([0.5, -0.05, 1.0])
    if params["family"] == "gaussian":
        return X, eta + 0.3 * r.normal(size=n)
    if params["family"] == "poisson":
        return X, r.poisson(np.exp(eta)).astype(float)
    if params["family"] == "binomial":
        return X, (r.random(n) < 1 / (1 + np.exp(2 - eta))).astype(float)
    mean = 1 / eta if params.get("link") == "inverse" else np.exp(eta)
    return X, r.gamma(4.0, mean / 4)


def table(model: Model, X: Any, y: Any, s: Any = None) -> dict[Any, list[Any]]:
    rows = model.diagnostics(X, y, s).tables["coefficients"].rows
    return {row[0]: row[1:] for row in rows}


@each
@pytest.mark.parametrize("solver", ["newton", "irls", "lbfgs"])
def test_against_statsmodels_with_weights_as_repetitions(params: dict[str, Any], peer: Any, solver: str) -> None:
    X, y = drawn(params)
    s = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = Model(**params, solver=solver).fit(X, y, s)
    known = sm.GLM(y, sm.add_constant(X), family=peer, freq_weights=s).fit(tol=1e-14, maxiter=300)
    np.testing.assert_allclose([model.intercept_, *model.coef_], known.params, rtol=2e-7)
    out = model.diagnostics(X, y, s)
    found = np.array([row[1:5] for row in out.tables["coefficients"].rows], dtype=float)
    np.testing.assert_allclose(found[:, 1], known.bse, rtol=1e-6)
    for name, value in (
        ("deviance", known.deviance), ("null_deviance", known.null_deviance), ("pearson_chi2", known.pearson_chi2),
        ("dispersion", known.scale), ("degrees_of_freedom", known.df_resid),
    ):  # fmt: skip
        assert out.summary[name] == pytest.approx(value, rel=1e-7), name
    assert all(c.holds for c in out.certificates), out.certificates


@each
def test_the_minimum_is_that_of_the_likelihood(params: dict[str, Any], peer: Any) -> None:
    X, y = drawn(params)
    model = Model(**params).fit(X, y)
    out = model.diagnostics(X, y)

    def loglik(shift: np.ndarray) -> float:
        moved = Model(**params).fit(X, y)
        moved.coef_, moved.offset_ = model.coef_ + shift[:3], model.offset_ + shift[3]
        moved.intercept_ = moved.offset_ - moved.center_ @ moved.coef_
        return float(moved.diagnostics(X, y).summary["log_likelihood"])  # type: ignore[arg-type]

    r = np.random.default_rng(0)
    best = float(out.summary["log_likelihood"])  # type: ignore[arg-type]
    assert all(loglik(1e-3 * r.normal(size=4) * [1, 0.1, 10, 1]) < best for _ in range(5))


def test_gaussian_is_least_squares() -> None:
    X, y = drawn({"family": "gaussian"})
    one, two = Model().fit(X, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-11)
    mine = table(one, X, y)
    theirs = two.diagnostics(X, y).tables["coefficients"]
    at = theirs.columns.index("standard_error")
    np.testing.assert_allclose(mine["intercept"][1], theirs.rows[0][at], rtol=1e-9)


def test_binomial_is_logistic_regression_also_with_trials() -> None:
    X, y = drawn({"family": "binomial"})
    one, two = Model(family="binomial", alpha=0.7).fit(X, y), LogisticRegression(alpha=0.7).fit(X, y)
    np.testing.assert_allclose(one.coef_, two.coef_[0], rtol=1e-9)
    np.testing.assert_allclose(one.predict(X), two.predict_proba(X)[:, 1], rtol=1e-9)
    r = np.random.default_rng(2)
    trials = r.integers(1, 9, len(y)).astype(float)
    won = r.binomial(trials.astype(int), 0.3 + 0.4 * y).astype(float)
    wide = np.column_stack([X[:, :1], trials, X[:, 1:]])
    three = Model(family="binomial", exposure=1).fit(wide, won)
    rows = np.repeat(X, 2, axis=0)
    four = LogisticRegression().fit(rows, np.tile([1, 0], len(y)), np.column_stack([won, trials - won]).ravel())
    np.testing.assert_allclose(three.coef_[[0, 2, 3]], four.coef_[0], rtol=1e-8)
    assert three.coef_[1] == 0
    np.testing.assert_allclose(three.predict(wide), trials * four.predict_proba(X)[:, 1], rtol=1e-8)
    known = stats.binom.logpmf(won, trials, three.predict(wide) / trials).sum()
    assert three.diagnostics(wide, won).summary["log_likelihood"] == pytest.approx(known, rel=1e-12)


def test_poisson_likelihood_and_exposure() -> None:
    X, _ = drawn({"family": "poisson"})
    r = np.random.default_rng(3)
    E = r.uniform(0.5, 20, len(X))
    y = r.poisson(E * np.exp(0.2 * X[:, 0])).astype(float)
    wide = np.column_stack([X, E])
    model = Model(family="poisson", exposure=3).fit(wide, y)
    known = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson(), exposure=E).fit(tol=1e-14)
    np.testing.assert_allclose([model.intercept_, *model.coef_[:3]], known.params, rtol=1e-8)
    np.testing.assert_allclose(model.predict(wide), known.fittedvalues, rtol=1e-9)
    out = model.diagnostics(wide, y).summary
    assert out["log_likelihood"] == pytest.approx(stats.poisson.logpmf(y, model.predict(wide)).sum(), rel=1e-12)
    assert out["null_deviance"] == pytest.approx(known.null_deviance, rel=1e-9)
    assert out["deviance"] == pytest.approx(known.deviance, rel=1e-9)
    assert set(table(model, wide, y)) == {"intercept", 0, 1, 2}


def test_reported_failures_of_others() -> None:
    x = np.array([[0.0], [1000], [2000], [3000]])
    steep = Model(family="poisson").fit(x, [1, 3, 7, 20])
    assert steep.coef_[0] == pytest.approx(0.000985876064144419, rel=1e-12)
    assert steep.intercept_ == pytest.approx(0.0289417291983317, rel=1e-10)

    group, y = np.array([[1.0], [1], [1], [0], [0], [0]]), [0, 0, 0, 2, 3, 1]
    empty = Model(family="poisson").fit(group, y)
    np.testing.assert_allclose(empty.predict(group), [0, 0, 0, 2, 2, 2], atol=1e-9)
    assert [n.code for n in empty.notices_] == ["unbounded"]
    assert empty.unbounded_direction_[0] < 0
    assert table(empty, group, y)[0][-1] == "unbounded"

    times = np.array([[10.0, 1], [20, 1], [30, 1]])
    rate = Model(family="poisson", exposure=0).fit(times, [2, 4, 9])
    assert rate.intercept_ == pytest.approx(-1.386294361120, abs=1e-12)

    steps = np.arange(1.0, 6)[:, None]
    y = [1, 2, 4, 8, 40]
    log = Model(family="gamma").fit(steps, y)
    np.testing.assert_allclose([log.intercept_, log.coef_[0]], [-1.069711640372, 0.890787113679], atol=1e-11)
    np.testing.assert_allclose(log.predict([[6.0], [7.0]]), [71.880932993, 175.177221430], rtol=1e-10)
    inverse = Model(family="gamma", link="inverse").fit(steps, y)
    assert inverse.predict(steps).min() > 0
    with pytest.raises(InvalidData, match="row 1"):
        inverse.predict([[1.0], [6.0], [7.0]])
    with pytest.raises(InvalidData, match="first: -2"):
        Model(family="poisson").fit(steps[:3], [1, -2, 3])


def test_known_two_group_rates() -> None:
    x, y = np.array([[0.0], [0], [0], [1], [1], [1]]), [1, 2, 3, 4, 6, 8]
    model = Model(family="poisson").fit(x, y)
    np.testing.assert_allclose([model.intercept_, model.coef_[0]], [np.log(2), np.log(3)], rtol=1e-12)


@each
def test_units_offsets_order_and_repetition_change_nothing(params: dict[str, Any], peer: Any) -> None:
    X, y = drawn(params)
    s = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
    one = Model(**params).fit(X, y, s)
    moved = (X * [1e-6, 1e4, 3.0] + [1.0, -1e5, 40.0])[:, ::-1]
    two = Model(**params).fit(moved, y, s)
    np.testing.assert_allclose(two.predict(moved), one.predict(X), rtol=1e-8)
    three = Model(**params).fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    np.testing.assert_allclose(three.coef_, one.coef_, rtol=1e-8)
    assert three.dispersion_ == pytest.approx(one.dispersion_, rel=1e-9)


@each
def test_chunks_give_the_same_answer(params: dict[str, Any], peer: Any) -> None:
    X, y = drawn(params)

    class Three:
        def __len__(self) -> int:
            return 3

        def read(self, i: int) -> tuple[Any, Any, Any]:
            return X[40 * i : 40 * i + 40], y[40 * i : 40 * i + 40], None

    one, two = Model(**params).fit(X, y), fit_chunks(Model(**params), Three())
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-9)
    assert two.dispersion_ == pytest.approx(one.dispersion_, rel=1e-9)
    np.testing.assert_allclose(two.spread_, one.spread_, rtol=1e-6, atol=1e-12)


@each
def test_predictive_posterior_has_the_mean_and_covers(params: dict[str, Any], peer: Any) -> None:
    X, y = drawn(params, 4000)
    model = Model(**params).fit(X, y)
    fresh, truth = drawn(params, 4000, 5)
    found = model.posterior(fresh)
    np.testing.assert_allclose(found.mean, model.predict(fresh), rtol=2e-2)
    if params["family"] != "binomial":
        low, high = found.interval(0.9).T
        assert 0.88 < np.mean((truth >= low) & (truth <= high)) < 0.97
    assert len(found.to_json()) == 4000


def test_few_rows_are_less_certain() -> None:
    X, y = drawn({"family": "poisson"}, 4000)
    many, few = Model(family="poisson").fit(X, y), Model(family="poisson").fit(X[:30], y[:30])
    spread = [m.posterior(X[:50]).variance / m.posterior(X[:50]).mean for m in (many, few)]
    assert (spread[1] > spread[0]).all()
    assert (spread[0] > 1).all()


@each
def test_parameter_posterior_is_the_inverse_information(params: dict[str, Any], peer: Any) -> None:
    X, y = drawn(params)
    found = Model(**params).fit(X, y)
    known = sm.GLM(y, sm.add_constant(X), family=peer).fit(tol=1e-14, maxiter=300)
    posterior = found.parameter_posterior()["coefficients"]
    order = [3, 0, 1, 2]
    mine = posterior.covariance[0][np.ix_(order, order)]
    theirs = np.asarray(known.cov_params())
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-12)


def test_most_probable_coefficients_under_a_normal_prior() -> None:
    X, y = drawn({"family": "poisson"})
    model = Model(family="poisson", alpha=3.0).fit(X, y)
    g = X.T @ (model.predict(X) - y) + 3.0 * model.coef_
    np.testing.assert_allclose(g, 0, atol=1e-8)
    assert {row[-1] for row in table(model, X, y).values()} == {"penalised"}


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"family": "poisson", "link": "inverse"}, "poisson has the link log"),
        ({"family": "gamma", "link": "logit"}, "links log and inverse"), ({"exposure": 0}, "gaussian has no exposure"),
        ({"family": "poisson", "exposure": 3}, "column 3 of 3"),
    ],
)  # fmt: skip
def test_wrong_parameters_say_what_there_is(params: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        Model(**params).fit(*drawn({"family": "poisson"}))


def test_bernoulli_is_the_binomial_of_one_trial_and_takes_nothing_between() -> None:
    X, y = drawn({"family": "binomial"})
    one, two = Model(family="bernoulli").fit(X, y), Model(family="binomial").fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.posterior(X).mean, two.posterior(X).mean)
    assert one.diagnostics(X, y).summary == two.diagnostics(X, y).summary
    with pytest.raises(InvalidData, match="are 0 or 1; not so are those of rows 1"):
        Model(family="bernoulli").fit(X[:3], [0, 0.5, 1])
    with pytest.raises(InvalidParameter, match="bernoulli has no exposure"):
        Model(family="bernoulli", exposure=0).fit(X, y)
    apart = Model(family="bernoulli").fit([[0.0], [1], [2], [3]], [0, 0, 1, 1])
    assert "unbounded" in [n.code for n in apart.notices_]


def test_wrong_targets_and_exposures_say_which() -> None:
    X = np.ones((3, 2)) * [[1.0], [2], [3]]
    with pytest.raises(InvalidData, match="shares from 0 to 1"):
        Model(family="binomial").fit(X, [0, 1, 2])
    with pytest.raises(InvalidData, match="numbers above 0"):
        Model(family="gamma").fit(X, [0, 1, 2])
    with pytest.raises(InvalidData, match="successes among so many trials"):
        Model(family="binomial", exposure=0).fit(X, [2, 1, 2])
    with pytest.raises(InvalidData, match="row 1 has -2"):
        Model(family="poisson", exposure=0).fit(X * [[1], [-1], [1]], [2, 1, 2])
    notices = Model(family="poisson").fit(np.arange(4.0)[:, None], [0.5, 1, 2, 4]).notices_
    assert [n.code for n in notices] == ["fractional_counts"]


def test_extremes() -> None:
    x = np.arange(8.0)[:, None]
    zero = Model(family="poisson").fit(x, np.zeros(8))
    assert "unbounded" in {n.code for n in zero.notices_} or zero.predict(x).max() < 1e-9
    large = Model(family="poisson").fit(x, np.round(1e9 * np.exp(0.3 * x[:, 0])))
    assert large.coef_[0] == pytest.approx(0.3, rel=1e-6)
    tiny = Model(family="gamma").fit(x, 1e-200 * np.exp(0.3 * x[:, 0]) * (1 + 0.1 * np.cos(x[:, 0])))
    assert np.isfinite(tiny.posterior(x).mean).all()
    short = Model().fit(x[:2], [1.0, 2.0])
    assert "no_degrees_of_freedom" in {n.code for n in short.notices_}
    assert table(short, x[:2], [1.0, 2.0])[0][-1] == "no_degrees_of_freedom"


def test_best_shape_solves_its_equation() -> None:
    for k in (1e-3, 0.5, 3.0, 1e4):
        assert best_shape(float(np.log(k) - digamma(k))) == pytest.approx(k, rel=1e-6)


def test_recession_needs_rows_that_may_leave() -> None:
    Z = np.array([[1.0, 1], [1, 1], [0, 1], [0, 1]])
    found = recession(Z, np.array([-1.0, -1, 0, 0]), np.zeros(2))
    assert found is not None
    np.testing.assert_allclose(Z[2:] @ found, 0, atol=1e-9)
    assert (Z[:2] @ found < 0).all()
    assert recession(Z, np.array([-1.0, 0, 0, 0]), np.zeros(2)) is None
    assert recession(Z, np.zeros(4), np.zeros(2)) is None


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "gamma"])
@pytest.mark.parametrize("intercept", [True, False])
def test_constant_columns_and_single_rows_are_diagnosed(family: Any, intercept: bool) -> None:
    y = np.array([1.0, 0.5, 0.25, 1.0, 1.0]) if family == "binomial" else np.array([1.0, 2.0, 4.0, 3.0, 5.0])
    for X in (np.ones((5, 2)), np.column_stack([np.zeros(5), np.arange(5.0)])):
        model = Model(family=family, fit_intercept=intercept).fit(X, y)
        rows = table(model, X, y)
        assert rows[0][-1] == "collinear"
        assert model.diagnostics(X, y).certificates[0].holds
    one = Model(family=family, fit_intercept=intercept).fit([[2.0, 3.0]], y[2:3])
    assert one.predict([[2.0, 3.0]])[0] == pytest.approx(y[2], rel=1e-6)
    assert {row[-1] for row in table(one, [[2.0, 3.0]], y[2:3]).values()} == {"no_degrees_of_freedom"}


def test_the_multinomial_family_says_where_it_is() -> None:
    with pytest.raises(InvalidParameter, match="softmax_regression"):
        Model(family="multinomial").fit(np.eye(3), np.arange(3.0))
