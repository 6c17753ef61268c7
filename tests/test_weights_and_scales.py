"""Linear models on both scales of the objective, with both kinds of weights, and with a penalised bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from ml_core.certificates import Diagnostics
from ml_core.errors import InvalidParameter
from ml_core.registry import build
from ml_core.sums import diagnose_chunks, fit_chunks

R = np.random.default_rng(5)
N = 60
X = R.normal(size=(N, 3)) * [1.0, 5.0, 0.2] + [0.3, 4.0, -1.0]
SIGNAL = X @ [0.8, -0.1, 1.5] + 0.5 * R.normal(size=N)
TWO = (SIGNAL + R.logistic(size=N) > SIGNAL.mean()).astype(int)
THREE = np.digitize(SIGNAL + R.logistic(size=N), np.quantile(SIGNAL, [0.3, 0.6]))
COUNTS = R.poisson(np.exp(0.5 + 0.3 * SIGNAL)).astype(float)
SIZES = R.gamma(3.0, np.exp(0.3 * SIGNAL) / 3)
K = R.integers(1, 4, N).astype(float)
S = R.uniform(0.3, 3.0, N)
FITS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "logistic": ("logistic_regression", {}, TWO),
    "softmax": ("softmax_regression", {}, THREE),
    "reference": ("softmax_regression", {"parametrization": "reference"}, THREE),
    "l2": ("penalized_logistic_regression", {"alpha": 0.7}, TWO),
    "l1": ("penalized_logistic_regression", {"alpha": 0.7, "penalty": "l1", "path_length": 5}, TWO),
    "elastic net": ("penalized_logistic_regression", {"alpha": 0.7, "penalty": "l1", "alpha_l2": 0.4}, TWO),
    "firth": ("penalized_logistic_regression", {"penalty": "firth"}, TWO),
    "gaussian": ("generalized_linear_model", {"family": "gaussian"}, SIGNAL),
    "poisson": ("generalized_linear_model", {"family": "poisson"}, COUNTS),
    "bernoulli": ("generalized_linear_model", {"family": "bernoulli"}, TWO.astype(float)),
    "gamma": ("generalized_linear_model", {"family": "gamma"}, SIZES),
}
PENALISED = ("logistic", "softmax", "reference", "l2", "l1", "elastic net", "gaussian", "poisson", "gamma")
each = pytest.mark.parametrize("case", FITS)


def fitted(case: str, s: Any = None, rows: Any = slice(None), **params: Any) -> tuple[Any, Diagnostics]:
    name, given, y = FITS[case]
    model: Any = build({"algorithm": name, "params": given | params})
    s = None if s is None else s[rows]
    model.fit(X[rows], y[rows], s)
    return model, model.diagnostics(X[rows], y[rows], s)


def numbers(model: Any) -> np.ndarray:
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def same(a: Diagnostics, b: Diagnostics, *, but: tuple[str, ...] = ()) -> None:
    """Figures, coefficient table and path of two reports."""
    assert a.summary.keys() == b.summary.keys()
    for key, value in a.summary.items():
        if key not in ("rows", "iterations", *but) and value is not None:
            assert value == pytest.approx(b.summary[key], rel=1e-6, abs=1e-9), key
    for one, two in zip(a.tables["coefficients"].rows, b.tables["coefficients"].rows, strict=True):
        assert [v for v in one if not isinstance(v, float)] == [v for v in two if not isinstance(v, float)]
        np.testing.assert_allclose([v for v in one if isinstance(v, float)], [v for v in two if isinstance(v, float)],
                                   rtol=2e-6, atol=1e-9)  # fmt: skip
    for key in ("deviance", "aic", "bic"):
        if "path" in a.curves:
            np.testing.assert_allclose(a.curves["path"][key], b.curves["path"][key], rtol=1e-6)
    assert all(c.holds for c in [*a.certificates, *b.certificates])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", PENALISED)
def test_a_penalty_beside_the_mean_is_one_beside_the_sum_times_the_weight(case: str, weighted: bool) -> None:
    s = S if weighted else None
    total = float(S.sum()) if weighted else float(N)
    one, a = fitted(case, s, alpha=0.02, objective_scale="mean")
    more = {"alpha_l2": 0.4 * total} if case == "elastic net" else {}
    two, b = fitted(case, s, alpha=0.02 * total, **more)
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=1e-9, atol=1e-12)
    assert one.alpha_ == pytest.approx(two.alpha_, rel=1e-14)
    same(a, b)


@pytest.mark.parametrize("case", ["logistic", "softmax"])
def test_the_mean_counts_class_weights(case: str) -> None:
    labels = FITS[case][2]
    factors = {int(c): 1.0 + int(c) for c in np.unique(labels)}
    total = float(sum(factors[int(c)] for c in labels))
    one, _ = fitted(case, alpha=0.01, objective_scale="mean", class_weight=factors)
    two, _ = fitted(case, alpha=0.01 * total, class_weight=factors)
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=1e-9, atol=1e-12)


@each
def test_frequencies_are_repeated_rows_in_every_figure(case: str) -> None:
    again = np.repeat(np.arange(N), K.astype(int))
    one, a = fitted(case, K)
    two, b = fitted(case, rows=again)
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=1e-6, atol=1e-9)
    same(a, b)
    left = {int(r[0]): r[1:] for r in b.tables["influential_rows"].rows} if "influential_rows" in b.tables else {}
    for row in a.tables["influential_rows"].rows if left else []:
        copies = [left[i] for i in np.flatnonzero(again == row[0]) if i in left]
        for copy in copies:
            np.testing.assert_allclose(np.array(row[1:], dtype=float), np.array(copy, dtype=float), rtol=1e-5)


@each
def test_precisions_have_no_unit_and_equal_ones_are_plain_rows(case: str) -> None:
    free = case in ("gaussian", "gamma")
    but = ("objective", "alpha_max", "dispersion", "pearson_dispersion", "deviance", "null_deviance", "pearson_chi2",
           "exposure") if free else ("objective", "alpha_max")  # fmt: skip
    scale = {} if case not in ("l1", "l2", "elastic net") else {"objective_scale": "mean", "alpha": 0.02}
    one, a = fitted(case, S, weight_kind="precision", **scale)
    two, b = fitted(case, 40.0 * S, weight_kind="precision", **scale)
    np.testing.assert_allclose(numbers(one), numbers(two), rtol=1e-6, atol=1e-9)
    same(a, b, but=but)
    _, plain = fitted(case, **scale)
    _, equal = fitted(case, np.full(N, 7.0), weight_kind="precision", **scale)
    same(plain, equal, but=but)


@pytest.mark.parametrize("case", ["logistic", "softmax", "l2", "poisson", "gaussian", "bernoulli", "gamma"])
def test_kinds_of_weights_share_the_fit_and_differ_in_errors(case: str) -> None:
    one, a = fitted(case, S)
    two, b = fitted(case, S, weight_kind="precision")
    np.testing.assert_array_equal(numbers(one), numbers(two))
    assert a.summary["weight"] == pytest.approx(S.sum())
    assert b.summary["weight"] == pytest.approx(N)
    assert a.summary["bic"] != pytest.approx(b.summary["bic"], rel=1e-3)


def test_precisions_of_a_gaussian_are_those_of_least_squares() -> None:
    glm, a = fitted("gaussian", S, weight_kind="precision")
    plain: Any = build({"algorithm": "linear_regression", "params": {"weight_kind": "precision"}}).fit(X, SIGNAL, S)  # type: ignore[attr-defined]
    b = plain.diagnostics(X, SIGNAL, S)
    found = np.array([r[1:4] for r in a.tables["coefficients"].rows], dtype=float)
    known = np.array([r[2:5] for r in b.tables["coefficients"].rows], dtype=float)
    np.testing.assert_allclose(found, known, rtol=1e-9)
    assert a.summary["log_likelihood"] == pytest.approx(b.summary["log_likelihood"], rel=1e-12)
    assert a.summary["dispersion"] == pytest.approx(b.summary["sigma2_unbiased"], rel=1e-12)
    np.testing.assert_allclose(glm.posterior(X).interval(0.9), plain.posterior(X).interval(0.9), rtol=1e-9)
    assert a.summary["largest_leverage"] == pytest.approx(b.summary["largest_leverage"], rel=1e-9)
    assert a.summary["largest_cook_distance"] == pytest.approx(b.summary["largest_cook_distance"], rel=1e-9)


@pytest.mark.parametrize("case", ["gaussian", "gamma"])
def test_precisions_of_free_dispersions_against_statsmodels(case: str) -> None:
    family = sm.families.Gaussian() if case == "gaussian" else sm.families.Gamma(sm.families.links.Log())
    peer = sm.GLM(FITS[case][2], sm.add_constant(X), family=family, var_weights=S).fit(tol=1e-14, maxiter=300)
    _, a = fitted(case, S, weight_kind="precision")
    found = np.array([r[1:3] for r in a.tables["coefficients"].rows], dtype=float)
    np.testing.assert_allclose(found, np.column_stack([peer.params, peer.bse]), rtol=1e-6)
    assert a.summary["dispersion"] == pytest.approx(peer.scale, rel=1e-8)
    assert a.summary["degrees_of_freedom"] == peer.df_resid


def test_the_likelihood_of_gamma_precisions_is_the_largest_over_the_dispersion() -> None:
    model, a = fitted("gamma", S, weight_kind="precision")
    mean = model.predict(X)

    def loss(log_k: float) -> float:
        shape = np.exp(log_k) * S
        return -float(stats.gamma(shape, scale=mean / shape).logpdf(SIZES).sum())

    known = -minimize_scalar(loss, bracket=(0.0, 2.0), tol=1e-10).fun
    assert a.summary["log_likelihood"] == pytest.approx(known, rel=1e-9)


def test_precisions_without_a_dispersion_count_as_one_row_on_average() -> None:
    peer = sm.Logit(TWO, sm.add_constant(X))  # Σ s̃ log p and its information by hand
    _, a = fitted("logistic", S, weight_kind="precision")
    model, _ = fitted("logistic", S)
    share = S / S.mean()
    p = model.predict_proba(X)[:, 1]
    assert a.summary["log_likelihood"] == pytest.approx(share @ stats.bernoulli.logpmf(TWO, p), rel=1e-10)
    H = (peer.exog.T * (share * p * (1 - p))) @ peer.exog
    errors = [r[3] for r in a.tables["coefficients"].rows]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-9)


@pytest.mark.parametrize("case", ["logistic", "softmax", "gamma", "gaussian", "poisson"])
def test_chunks_tell_the_same_of_precisions(case: str) -> None:
    name, given, y = FITS[case]
    params = given | {"alpha": 0.01, "objective_scale": "mean", "weight_kind": "precision", "penalize_bias": True}

    class Cut:
        def __len__(self) -> int:
            return 3

        def read(self, i: int) -> Any:
            some = slice(20 * i, 20 * i + 20)
            return X[some], y[some], S[some]

    whole: Any = build({"algorithm": name, "params": params}).fit(X, y, S)  # type: ignore[attr-defined]
    parts: Any = build({"algorithm": name, "params": params})
    fit_chunks(parts, Cut())
    np.testing.assert_allclose(numbers(parts), numbers(whole), rtol=1e-7, atol=1e-10)
    a, b = diagnose_chunks(parts, Cut()), whole.diagnostics(X, y, S)
    for key in ("log_likelihood", "aic", "bic", "weight"):
        assert a.summary[key] == pytest.approx(b.summary[key], rel=1e-8)
    assert all(c.holds for c in a.certificates)


def loss_of(case: str, w: np.ndarray) -> float:
    """Σ s ℓ at (slopes by column, intercepts) by its definition."""
    if case in ("softmax", "reference"):
        W = w.reshape(4, 3)
        eta = X @ W[:3] + W[3]
        return float(S @ (logsumexp(eta, axis=1) - eta[np.arange(N), THREE]))
    eta = X @ w[:3] + w[3]
    y = FITS[case][2]
    if case in ("logistic", "l2"):
        return float(S @ (np.logaddexp(0, eta) - y * eta))
    each = {"gaussian": 0.5 * (y - eta) ** 2, "poisson": np.exp(eta) - y * eta, "gamma": eta + y * np.exp(-eta)}
    return float(S @ each[case])


@pytest.mark.parametrize("solver", ["newton", "irls", "lbfgs"])
@pytest.mark.parametrize("case", ["logistic", "softmax", "l2", "gaussian", "poisson", "gamma"])
def test_a_penalised_bias_is_one_more_coefficient(case: str, solver: str) -> None:
    alpha = 0.7
    model, report = fitted(case, S, alpha=alpha, penalize_bias=True, solver=solver)
    start = np.zeros(12 if case == "softmax" else 4)
    found = minimize(lambda w: loss_of(case, w) + 0.5 * alpha * float(w @ w), start, method="BFGS",
                     options={"gtol": 1e-7})  # fmt: skip
    at = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)]).T.ravel()
    np.testing.assert_allclose(at, found.x, rtol=2e-5, atol=1e-5)
    assert loss_of(case, at) + 0.5 * alpha * float(at @ at) <= found.fun * (1 + 1e-12)
    assert all(c.holds for c in report.certificates)
    free, _ = fitted(case, S, alpha=alpha)
    assert np.abs(model.intercept_).max() < np.abs(free.intercept_).max()


def test_a_penalised_bias_is_a_column_of_ones() -> None:
    one = np.column_stack([X, np.ones(N)])
    for name, y in (("logistic_regression", TWO), ("softmax_regression", THREE)):
        params = {"alpha": 0.4, "fit_intercept": False}
        column: Any = build({"algorithm": name, "params": params}).fit(one, y)  # type: ignore[attr-defined]
        bias: Any = build({"algorithm": name, "params": {"alpha": 0.4, "penalize_bias": True}}).fit(X, y)  # type: ignore[attr-defined]
        np.testing.assert_allclose(np.column_stack([bias.coef_, bias.intercept_]), column.coef_, rtol=1e-9)
        both: Any = build({"algorithm": name, "params": {"alpha": 0.4, "penalize_bias": True}}).fit(one, y)  # type: ignore[attr-defined]
        np.testing.assert_allclose(both.coef_[:, 3], both.intercept_, rtol=1e-9)
        assert all(c.holds for c in both.diagnostics(one, y).certificates)


@pytest.mark.parametrize("penalty", ["l1", "firth"])
def test_only_l2_penalises_the_bias(penalty: str) -> None:
    model: Any = build({"algorithm": "penalized_logistic_regression",
                        "params": {"penalty": penalty, "penalize_bias": True}})  # fmt: skip
    with pytest.raises(InvalidParameter) as e:
        model.fit(X, TWO)
    assert e.value.issues[0].pointer == "/params/penalize_bias"


SQUARES: dict[str, tuple[str, dict[str, Any]]] = {
    "ridge": ("ridge_regression", {"alpha": 0.02}),
    "penalised bias": ("ridge_regression", {"alpha": 0.02, "penalize_bias": True}),
    "tikhonov": ("generalized_tikhonov", {"alpha": 0.02, "operator": "first_difference"}),
    "lasso": ("lasso", {"alpha": 0.02, "path_length": 5}),
    "huber": ("huber_regression", {"alpha": 0.02}),
    "deviations": ("least_absolute_deviations", {"alpha_l1": 0.02}),
    "tube": ("epsilon_insensitive_regression", {"alpha_l2": 0.02, "epsilon": 0.1}),
    "polynomial": ("polynomial_regression", {"alpha": 0.0}),
    "risk": ("empirical_risk_minimizer", {"penalty": "l2", "alpha": 0.02}),
}
SCALED = {"objective_scale": "mean"}
squares = pytest.mark.parametrize("case", SQUARES)
UNITS = ("rss", "tss", "alpha", "alpha_l2", "alpha_max", "objective", "mallows_cp", "noise_variance", "excess",
         "sum_of_deviations", "dual_bound", "active_rows", "sigma2_unbiased", "sigma2_mle", "largest_singular_value",
         "smallest_singular_value")  # fmt: skip


def solved(case: str, s: Any, rows: Any = slice(None), **more: Any) -> tuple[Any, Diagnostics]:
    name, params = SQUARES[case]
    scale = {} if case in ("polynomial", "risk") else SCALED
    model: Any = build({"algorithm": name, "params": params | scale | more})
    model.fit(X[rows], SIGNAL[rows], s)
    return model, model.diagnostics(X[rows], SIGNAL[rows], s)


def alike(a: Diagnostics, b: Diagnostics, *, but: tuple[str, ...] = ()) -> None:
    for key, value in a.summary.items():
        if not key.startswith("rows") and key not in ("iterations", *but) and value is not None:
            assert value == pytest.approx(b.summary[key], rel=1e-6, abs=1e-9), key


@squares
def test_least_squares_count_frequencies_as_rows(case: str) -> None:
    again = np.repeat(np.arange(N), K.astype(int))
    one, a = solved(case, K)
    two, b = solved(case, None, rows=again)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)
    alike(a, b, but=("active_rows",))


@squares
def test_least_squares_know_no_unit_of_precisions(case: str) -> None:
    one, a = solved(case, S, weight_kind="precision")
    two, b = solved(case, 40.0 * S, weight_kind="precision")
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)
    alike(a, b, but=UNITS)
    _, plain = solved(case, None)
    _, equal = solved(case, np.full(N, 7.0), weight_kind="precision")
    alike(plain, equal, but=UNITS)


@pytest.mark.parametrize("case", ["ridge", "penalised bias", "tikhonov"])
@pytest.mark.parametrize("kind", ["frequency", "precision"])
def test_leaving_out_takes_one_copy_or_all_of_a_precision(case: str, kind: str) -> None:
    name, params = SQUARES[case]
    s = K if kind == "frequency" else S
    _, out = solved(case, s, weight_kind=kind, objective_scale="sum")
    errors = np.zeros(N)
    for i in range(N):
        rest = s.copy()
        rest[i] = s[i] - 1 if kind == "frequency" else 0.0
        left: Any = build({"algorithm": name, "params": params | {"weight_kind": kind}}).fit(X, SIGNAL, rest)  # type: ignore[attr-defined]
        errors[i] = SIGNAL[i] - left.predict(X[i : i + 1])[0]
    assert out.summary["leave_one_out_mse"] == pytest.approx(s @ errors**2 / s.sum(), rel=1e-9)


@pytest.mark.parametrize("kind", ["frequency", "precision"])
def test_criteria_of_no_penalty_are_those_of_least_squares(kind: str) -> None:
    plain: Any = build({"algorithm": "linear_regression", "params": {"weight_kind": kind}}).fit(X, SIGNAL, S)  # type: ignore[attr-defined]
    known = plain.diagnostics(X, SIGNAL, S).summary
    for case in ("ridge", "lasso"):
        _, out = solved(case, S, alpha=0.0, weight_kind=kind)
        assert out.summary["aic"] == pytest.approx(known["aic"], rel=1e-9)
        if kind == "precision":
            assert out.summary["bic"] == pytest.approx(known["bic"], rel=1e-9)
    _, ridge = solved("ridge", S, alpha=0.0, weight_kind=kind)
    assert ridge.summary["leave_one_out_mse"] == pytest.approx(known["leave_one_out_mse"], rel=1e-9)
