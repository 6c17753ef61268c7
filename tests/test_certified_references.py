"""Every certified reference of linear, logistic and generalised linear models, with the settings a user gets."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_iris

from ml_core.registry import build
from tests.conftest import DATA
from tests.test_least_squares_digits import CERTIFIED, nist

CHECKED: dict[str, Any] = json.loads((DATA / "references.json").read_text())["results"]
OTHERS = {  # of other families
    "lda_iris_ml", "lda_iris_unbiased", "gnb_iris_ml", "errors_iris_resub", "knn_iris_loo", "cart_iris_root",
    "pca_wine_std", "auc_default_balance", "kmeans_iris_k3", "kmeans_digits_k10", "gp_co2", "svc_rbf_breast_cancer",
    "svc_hard_margin_iris_sv", "gmm_full_iris_k3", "bn_asia", "hclust_statecrime",
}  # fmt: skip
Pairs = list[tuple[Any, Any, float]]  # found, certified, least digits


def fit(name: str, X: np.ndarray, y: np.ndarray, **params: Any) -> tuple[Any, Any]:
    """Model and report, whose certificates hold."""
    model: Any = build({"algorithm": name, "params": params}).fit(X, y)
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    return model, report


def line(model: Any) -> np.ndarray:
    """Intercept and slopes."""
    return np.append(model.intercept_, model.coef_)


def column(report: Any, name: str) -> list[Any]:
    """Of the coefficient table."""
    table = report.tables["coefficients"]
    return [row[table.columns.index(name)] for row in table.rows]


def worst(found: Any, certified: Any) -> float:
    """Correct digits of the worst entry; where the certified one is 0, the found one must be."""
    found, certified = np.ravel(found), np.ravel(np.asarray(certified, dtype=object))
    assert len(found) == len(certified)
    with mp.workdps(40):
        off = [abs(mp.mpf(float(a)) - mp.mpf(b)) / (abs(mp.mpf(b)) or mp.mpf("1e-15"))
               for a, b in zip(found, certified, strict=True)]  # fmt: skip
        return float(-mp.log10(max(*off, mp.mpf("1e-16"))))


def likelihood(ref: Any, name: str, X: np.ndarray, y: np.ndarray, **params: Any) -> Pairs:
    model, report = fit(name, X, y, **params)
    return [(line(model), ref["coef"], 12), (column(report, "standard_error"), ref["se"], 12),
            (report.summary["log_likelihood"], ref["loglik"], 13)]  # fmt: skip


def shipped(name: str, features: list[str], target: str) -> tuple[np.ndarray, np.ndarray]:
    data = getattr(sm.datasets, name).load_pandas().data
    return data[features].to_numpy(float), data[target].to_numpy()


def default() -> tuple[np.ndarray, np.ndarray]:
    with (DATA / "default.csv").open() as f:
        rows = list(csv.DictReader(f))
    X = np.array([[r["student"] == "Yes", float(r["balance"]), float(r["income"])] for r in rows], dtype=float)
    return X, np.array([r["default"] for r in rows])


def diabetes(standard: bool = False) -> tuple[np.ndarray, np.ndarray]:
    A = np.loadtxt(DATA / "diabetes_raw.tsv", skiprows=1)
    X, y = A[:, :-1], A[:, -1]
    return ((X - X.mean(axis=0)) / X.std(axis=0) if standard else X), y


def anes(ref: Any) -> Pairs:
    return likelihood(ref, "logistic_regression", *shipped("anes96", ref["features"][1:], "vote"))


def poisson(ref: Any) -> Pairs:
    X, y = shipped("randhie", ref["features"][1:], "mdvis")
    return likelihood(ref, "generalized_linear_model", X, y.astype(float), family="poisson")


def spector(ref: Any) -> Pairs:
    return likelihood(ref, "logistic_regression", *shipped("spector", ref["features"][1:], "GRADE"))


def ols(ref: Any) -> Pairs:
    model, report = fit("linear_regression", *diabetes())
    found = [(line(model), [ref["intercept_raw"], *ref["coef_raw"]], 12.0),
             (column(report, "standard_error")[1:], ref["se_raw"], 12.0)]  # fmt: skip
    return found + [(report.summary[k], ref[k], 12.0) for k in ("rss", "r2")]


def ridge(ref: Any) -> Pairs:
    model, report = fit("ridge_regression", *diabetes(True), alpha=1.0)
    free = report.summary["effective_parameters"] - 1
    return [(model.coef_, ref["coef_std"], 12), (model.intercept_, ref["intercept"], 14),
            (free, ref["effective_dof_without_intercept"], 13),
            (report.summary["leave_one_out_mse"], ref["loo_mse"], 13)]  # fmt: skip


def lasso(ref: Any) -> Pairs:
    X, y = diabetes(True)
    model, _ = fit("lasso", X, y, alpha=2 * ref["alpha"], objective_scale="mean")
    return [(model.coef_, ref["coef_std"], 12)]


def largest_penalty(ref: Any) -> Pairs:
    X, y = diabetes(True)
    model, _ = fit("lasso", X, y, objective_scale="mean")
    return [(model.alpha_max_ / 2 / len(y), ref["value"], 13)]


def bayes(ref: Any) -> Pairs:
    X, y = diabetes(True)
    t = y - y.mean()
    model, _ = fit("bayesian_linear_regression", X, t, alpha=0.01, noise_variance=1 / 0.0003, fit_intercept=False)
    posterior = model.parameter_posterior()["coefficients"]
    sd = np.sqrt(np.diag(posterior.covariance[0]))
    row = model.posterior(X[:1])
    return [(model.coef_, ref["post_mean"], 11), (sd, ref["post_sd"], 12), (model.log_evidence_, ref["log_evidence"],
            13), (row.mean + y.mean(), ref["pred_row0_mean"], 13), (row.sd, ref["pred_row0_sd"], 13)]  # fmt: skip


def penalised(ref: Any) -> Pairs:
    X, y = load_breast_cancer(return_X_y=True)
    model, _ = fit("penalized_logistic_regression", (X - X.mean(axis=0)) / X.std(axis=0), y)
    return [(model.coef_, ref["coef"], 12), (model.intercept_, ref["intercept"], 12),
            (model.solution_.trace[-1], ref["objective"], 13)]  # fmt: skip


def softmax(ref: Any) -> Pairs:
    X, y = load_iris(return_X_y=True)
    model, _ = fit("softmax_regression", X, y, alpha=1.0)
    return [(model.coef_, ref["coef"], 12), (model.intercept_, ref["intercepts"], 12),
            (model.solution_.trace[-1], ref["objective"], 13)]  # fmt: skip


OURS: dict[str, Callable[[Any], Pairs]] = {
    "logit_anes96_vote": anes, "poisson_randhie": poisson, "logit_spector(not shipped)": spector,
    "logit_default": lambda ref: likelihood(ref, "logistic_regression", *default()),
    "ols_diabetes": ols, "ridge_diabetes_alpha1": ridge, "lasso_diabetes_0.1": lasso,
    "lasso_diabetes_alpha_max": largest_penalty, "bayes_lr_diabetes": bayes, "logit_l2_breast_cancer": penalised,
    "softmax_l2_iris": softmax,
}  # fmt: skip


def test_no_reference_is_left_out() -> None:
    assert set(OURS) | OTHERS == set(CHECKED)
    assert {p.stem for p in (DATA / "nist").glob("*.csv")} == set(CERTIFIED)


@pytest.mark.parametrize("name", OURS)
def test_certified_digits(name: str) -> None:
    got = [(worst(found, certified), least) for found, certified, least in OURS[name](CHECKED[name])]
    assert all(digits >= least for digits, least in got), got


LEAST_SQUARES: dict[str, tuple[dict[str, Any], float]] = {  # parameters, digits; those of the rest are ridge's to tell
    "linear_regression": ({}, 15), "weighted_least_squares": ({}, 15), "multi_output_regression": ({}, 15),
    "empirical_risk_minimizer": ({}, 15), "generalized_linear_model": ({"family": "gaussian"}, 12),
}  # fmt: skip


@pytest.mark.parametrize("algorithm", LEAST_SQUARES)
@pytest.mark.parametrize("name", CERTIFIED)
def test_every_way_to_least_squares_has_nist_digits(name: str, algorithm: str) -> None:
    X, y = nist(name)
    params, least = LEAST_SQUARES[algorithm]
    intercept = bool(CERTIFIED[name]["intercept"])
    model, _ = fit(algorithm, X, y, **params, fit_intercept=intercept)
    found = line(model) if intercept else np.ravel(model.coef_)
    assert worst(found, CERTIFIED[name]["exact_coef"]) >= least


HELD_OUT: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian": ("generalized_linear_model", {"family": "gaussian"}),
    "bernoulli": ("generalized_linear_model", {"family": "bernoulli"}),
    "binomial": ("generalized_linear_model", {"family": "binomial", "exposure": 3}),
    "poisson": ("generalized_linear_model", {"family": "poisson"}),
    "poisson-exposure": ("generalized_linear_model", {"family": "poisson", "exposure": 3}),
    "gamma": ("generalized_linear_model", {"family": "gamma"}),
    "gamma-inverse": ("generalized_linear_model", {"family": "gamma", "link": "inverse"}),
    "logistic": ("logistic_regression", {}),
    "softmax": ("softmax_regression", {"parametrization": "reference"}),
}


def drawn(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of columns in units far apart, targets of the family, exposures."""
    r = np.random.default_rng(seed)
    Z = r.uniform(-1, 1, size=(40, 3))
    X, eta, E = Z * [1.0, 1e3, 1e-3] + [0.0, 5e4, 2.0], 0.5 + Z @ [0.6, -0.4, 0.3], r.integers(1, 9, 40).astype(float)
    if name.startswith("poisson"):
        return X, r.poisson(np.exp(eta) * (E if "exposure" in name else 1.0)).astype(float), E
    if name == "binomial":
        return X, r.binomial(E.astype(int), 1 / (1 + np.exp(-eta))).astype(float), E
    if name == "gaussian":
        return X, eta + r.normal(size=40), E
    if name.startswith("gamma"):
        return X, r.gamma(3.0, (1 / (2 + eta) if "inverse" in name else np.exp(eta)) / 3), E
    if name == "softmax":
        return X, (r.random((40, 1)) > [0.3, 0.7]).sum(axis=1).astype(float), E
    return X, (r.random(40) < 1 / (1 + np.exp(-eta))).astype(float), E


def parts(name: str, eta: Any, y: Any, e: Any) -> tuple[list[Any], list[list[Any]], list[list[Any]]]:
    """Slope of the loss in the scores, its curvature and the expected one, of a row in extended precision."""
    if name == "softmax":
        z = [mp.exp(v) for v in eta]
        p = [v / (1 + sum(z)) for v in z]
        C = [[p[i] * ((i == j) - p[j]) for j in range(2)] for i in range(2)]
        return [p[i] - (y == i + 1) for i in range(2)], C, C
    eta = eta[0]
    if name.startswith("poisson"):
        mean = (e if "exposure" in name else 1) * mp.exp(eta)
        g, c, expected = mean - y, mean, mean
    elif name == "gaussian":
        g, c, expected = eta - y, mp.mpf(1), mp.mpf(1)
    elif name == "gamma":
        g, c, expected = 1 - y * mp.exp(-eta), y * mp.exp(-eta), mp.mpf(1)
    elif name == "gamma-inverse":
        g, c, expected = y - 1 / eta, eta**-2, eta**-2
    else:
        n, p = (e if name == "binomial" else 1), 1 / (1 + mp.exp(-eta))
        g, c, expected = n * p - y, n * p * (1 - p), n * p * (1 - p)
    return [g], [[c]], [[expected]]


def extended(name: str, X: np.ndarray, y: np.ndarray, E: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Coefficients, intercept first, and the inverse information's diagonal, by Newton's method with 40 digits."""
    middle, unit, q = X.mean(axis=0), X.std(axis=0), 2 if name == "softmax" else 1
    A = [[mp.mpf(1), *[(mp.mpf(v) - mp.mpf(m)) / mp.mpf(u) for v, m, u in zip(row, middle, unit, strict=True)]]
         for row in X.tolist()]  # fmt: skip
    p = len(A[0])
    v = mp.matrix(p * q, 1)
    v[0] = mp.mpf(float(1 / y.mean())) if name == "gamma-inverse" else mp.mpf(0)
    for _ in range(12 if name != "gamma" else 20):
        g, H, information = mp.matrix(p * q, 1), mp.matrix(p * q), mp.matrix(p * q)
        for a, t, e in zip(A, map(mp.mpf, y.tolist()), map(mp.mpf, E.tolist()), strict=True):
            slope, C, expected = parts(name, [sum(a[j] * v[k * p + j] for j in range(p)) for k in range(q)], t, e)
            for i in range(p * q):
                g[i] += slope[i // p] * a[i % p]
                for j in range(p * q):
                    H[i, j] += C[i // p][j // p] * a[i % p] * a[j % p]
                    information[i, j] += expected[i // p][j // p] * a[i % p] * a[j % p]
        v -= mp.lu_solve(H, g)
    assert max(abs(x) for x in g) < mp.mpf(10) ** -25
    T = mp.matrix(p * q)
    for k in range(q):
        T[k * p, k * p] = 1
        for j in range(1, p):
            T[k * p, k * p + j] = -mp.mpf(float(middle[j - 1])) / mp.mpf(float(unit[j - 1]))
            T[k * p + j, k * p + j] = 1 / mp.mpf(float(unit[j - 1]))
    cov = T * information**-1 * T.T
    return list(T * v), [cov[i, i] for i in range(p * q)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_references_in_extended_precision(name: str, seed: int) -> None:
    algorithm, params = HELD_OUT[name]
    X, y, E = drawn(name, seed)
    with mp.workdps(40):
        coef, variance = extended(name, X, y, E)
        model, report = fit(algorithm, np.column_stack([X, E]) if "exposure" in params else X, y, **params)
        rows = 1 if name != "softmax" else 2
        slopes = np.reshape(model.coef_, (-1, np.shape(model.coef_)[-1]))[-rows:, :3]
        found = np.column_stack([np.reshape(model.intercept_, (-1, 1))[-rows:], slopes]).ravel()
        spread = mp.mpf(float(report.summary.get("dispersion", 1.0)))
        errors = [mp.sqrt(v * spread) for v in variance]
        assert worst(found, coef) >= 11
        assert worst(column(report, "standard_error")[-4 * rows :], errors) >= 11


KEPT: dict[str, Any] = json.loads((DATA / "held_out_references.json").read_text())["results"]
TARGETS: dict[str, tuple[str, dict[str, Any], Callable[[Any], Any]]] = {
    "logit_fair": ("logistic_regression", {}, lambda data: data["affairs"] > 0),
    "binomial_star98": (
        "generalized_linear_model", {"family": "binomial", "exposure": 20}, lambda data: data["NABOVE"]),
    "poisson_cpunish": ("generalized_linear_model", {"family": "poisson"}, lambda data: data["EXECUTIONS"]),
    "gamma_scotland": ("generalized_linear_model", {"family": "gamma"}, lambda data: data["YES"]),
    "gamma_inverse_scotland": (
        "generalized_linear_model", {"family": "gamma", "link": "inverse"}, lambda data: data["YES"]),
    "softmax_anes96": ("softmax_regression", {"parametrization": "reference"}, lambda data: data["PID"]),
    "logit_spector_weighted": ("logistic_regression", {}, lambda data: data["GRADE"]),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_held_out_data_sets_have_certified_digits_with_default_settings(name: str) -> None:
    ref, (algorithm, params, target) = KEPT[name], TARGETS[name]
    data = getattr(sm.datasets, ref["data"]).load_pandas().data
    X, y = data[ref["features"]].to_numpy(float), target(data).to_numpy()
    if "exposure" in params:
        X = np.column_stack([X, data["NABOVE"] + data["NBELOW"]])
    s = 1.0 + np.arange(len(X)) % 3 if name.endswith("weighted") else None
    model: Any = build({"algorithm": algorithm, "params": params}).fit(X, y, s)
    report = model.diagnostics(X, y, s)
    assert all(c.holds for c in report.certificates), report.certificates
    found, errors = column(report, "estimate"), column(report, "standard_error")
    at = len(found) - len(ref["coef"])  # those of the reference class are 0
    assert worst(found[at:], ref["coef"]) >= 10
    assert worst(errors[at:], ref["se"]) >= 10
    if "loglik" in ref:
        assert worst(report.summary["log_likelihood"], ref["loglik"]) >= 12
