"""What textbooks say of linear models and losses, asked over HTTP on tables small enough to know the answer."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from tests.api.rows import upload
from tests.api.test_models import fit, spec

x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 5.0])
PLAIN = {"encoding": {"scale": "none"}}


@pytest.fixture
def known(client):
    return upload(client, pa.table({"x": x, "y": y, "z": -2 * y, "s": [1.0, 1.0, 1.0, 3.0], "share": [0.0, 1, 0, 1]}))


def asked(client, data, name, target: Any = "y", **more: Any) -> tuple[Any, Any]:
    """The model and its diagnostics."""
    params = more.pop("params", {})
    model = fit(client, estimator=spec(name, **params), dataset=data, target=target, features=["x"], **PLAIN, **more)
    return model, client.get(f"/v1/models/{model['id']}/diagnostics").json()


def predicted(client, model, at):
    body = {"rows": [{"x": v} for v in at]}
    return np.array(client.post(f"/v1/models/{model['id']}/predict", json=body).json()["predictions"])


LINES: list[Any] = [  # algorithm, parameters, intercept, slope
    ("linear_regression", {}, 0, 1.1), ("ridge_regression", {}, 0.4583333333333, 0.9166666666667),
    ("ridge_regression", {"penalize_bias": True}, 0.2, 1.0),
    ("ridge_regression", {"objective_scale": "mean"}, 1.2222222222222, 0.6111111111111),
    ("ridge_regression", {"noise_variance": 0.5, "prior_variance": 0.125}, 1.2222222222222, 0.6111111111111),
    ("ridge_regression", {"noise_variance": 0.5, "prior_variance": 0.125, "objective_scale": "mean"},
     1.2222222222222, 0.6111111111111),
    ("lasso", {"noise_variance": 2.0, "prior_scale": 1.0, "objective_scale": "mean"}, 1.0, 0.7),
    ("lasso", {"alpha": 4.0}, 1.0, 0.7), ("lasso", {"alpha": 1.0, "objective_scale": "mean"}, 1.0, 0.7),
    ("lasso", {"noise_variance": 2.0, "prior_scale": 1.0}, 1.0, 0.7),
    ("generalized_tikhonov", {"penalties": [2.0]}, 0.7857142857143, 0.7857142857143),
    ("least_absolute_deviations", {}, -1 / 3, 4 / 3), ("minimax_regression", {}, 0, 1),
    ("empirical_risk_minimizer", {"aggregation": "max", "loss": "absolute"}, 0, 1),
    ("bayesian_linear_regression", {"alpha": 1.0, "noise_variance": 0.25}, 0.0962801, 1.0590810),
]  # fmt: skip


def test_known_lines(client, known):
    for name, params, intercept, slope in LINES:
        model, report = asked(client, known, name, params=params)
        np.testing.assert_allclose(predicted(client, model, [0, 1]), [intercept, intercept + slope], atol=6e-8)
        assert all(c["holds"] for c in report["certificates"]), name
    weighted, _ = asked(client, known, "weighted_least_squares", weights="s")
    np.testing.assert_allclose(predicted(client, weighted, [0, 1]), [-0.25, 1.0], atol=1e-12)
    several, _ = asked(client, known, "multi_output_regression", target=["y", "z"])
    np.testing.assert_allclose(predicted(client, several, [0, 1]), [[0, 0], [1.1, -2.2]], atol=1e-12)


def test_criteria_and_both_variances(client, known):
    told = asked(client, known, "linear_regression")[1]["summary"]
    n, k, rss = 4, 2, 2.7
    known_log = stats.norm(0, np.sqrt(rss / n)).logpdf(y - 1.1 * x).sum()
    want = {"log_likelihood": known_log, "aic": 2 * k - 2 * known_log, "bic": k * np.log(n) - 2 * known_log,
            "adjusted_r2": 1 - (rss / (n - k)) / y.var(ddof=1), "sigma2_mle": rss / n, "sigma2_unbiased": rss / (n - k),
            "leave_one_out_mse": np.mean(((y - 1.1 * x) / (1 - np.array([0.7, 0.3, 0.3, 0.7]))) ** 2)}  # fmt: skip
    assert {key: told[key] for key in want} == pytest.approx(want, rel=1e-9)


def test_yesterdays_posterior_is_todays_prior(client):
    whole = upload(client, pa.table({"x": x, "y": y}))
    first = upload(client, pa.table({"x": x[:1], "y": y[:1]}))
    params = {"alpha": 1.0, "noise_variance": 0.25}
    model, _ = asked(client, first, "bayesian_linear_regression", params=params)
    for a, b in zip(x[:0:-1], y[:0:-1], strict=True):
        body = {"rows": [{"x": a, "y": b}]}
        answer = client.post(f"/v1/models/{model['id']}/update", json=body, headers={"Prefer": "wait=60"})
        assert answer.status_code in (200, 201), answer.text
        model = answer.json()
    once, _ = asked(client, whole, "bayesian_linear_regression", params=params)
    body = {"rows": [{"x": 5.0}]}
    ours, theirs = (client.post(f"/v1/models/{m['id']}/posterior", json=body).json()["distributions"][0]
                    for m in (model, once))  # fmt: skip
    assert (ours["mean"], ours["variance"]) == pytest.approx((5.3916849, 0.5694748), abs=6e-8)
    assert (theirs["mean"], theirs["variance"]) == pytest.approx((ours["mean"], ours["variance"]), rel=1e-12)


GRID = product(("linear", "polynomial", "logistic"), ("squared", "absolute", "logistic"),
               ("mean", "max", "weighted_sum"), ("none", "l2", "l1"))  # fmt: skip


def test_every_cell_of_the_grid_of_risks_is_fitted_or_refused_with_its_reason(client, known):
    for function, loss, aggregation, penalty in GRID:
        params = {"function": function, "loss": loss, "aggregation": aggregation, "penalty": penalty, "n_starts": 2}
        body = {"estimator": spec("empirical_risk_minimizer", **params), "dataset": known, "target": "share",
                "features": ["x"], **PLAIN}  # fmt: skip
        answer = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"})
        if loss == "logistic" and function != "logistic":
            assert "needs the logistic function" in answer.text
            continue
        assert answer.status_code == 201, answer.text
        report = client.get(f"/v1/models/{answer.json()['id']}/diagnostics").json()
        assert all(c["holds"] for c in report["certificates"]), (params, report["certificates"])


def test_mistakes_of_every_mode_stay_below_the_bound(client):
    points = np.array([[4.0, 1.0], [3.0, 2.0], [1.0, 3.0], [0.5, 4.0]])
    data = upload(client, pa.table({"a": points[:, 0], "b": points[:, 1], "side": ["+", "+", "-", "-"]}))
    for mode in ("cyclic", "stochastic", "batch"):
        model = fit(client, estimator=spec("perceptron", mode=mode, fit_intercept=False), dataset=data, target="side",
                    features=["a", "b"], **PLAIN)  # fmt: skip
        table = client.get(f"/v1/models/{model['id']}/diagnostics").json()["tables"]["mistakes"]
        row = dict(zip(table["columns"], table["rows"][0], strict=True))
        assert (row["radius2"], row["bound"]) == pytest.approx((17, 17 * 41 / 49))
        assert row["mistakes"] <= row["bound"]
        assert model["metrics"]["train"]["accuracy"] == 1


def test_a_far_row_spoils_least_squares_and_not_logistic_regression(client):
    data = upload(client, pa.table({"x": [0.0, 1, 2, 3, 20], "side": ["a", "a", "b", "b", "b"]}))
    bent = fit(client, estimator=spec("least_squares_classifier"), dataset=data, target="side", features=["x"], **PLAIN)
    fine = fit(client, estimator=spec("logistic_regression", alpha=0.01), dataset=data, target="side", features=["x"],
               **PLAIN)  # fmt: skip
    assert predicted(client, bent, [2.23, 2.24]).tolist() == ["a", "b"]
    assert predicted(client, bent, [2.0]).tolist() == ["a"]
    assert predicted(client, fine, [1.0, 2.0]).tolist() == ["a", "b"]


def test_errors_of_training_and_held_out_rows_stand_apart(client):
    r = np.random.default_rng(0)
    t = np.sort(r.uniform(-1, 1, 24))
    data = upload(client, pa.table({"x": t, "y": np.sin(3 * t) + 0.2 * r.normal(size=24),
                                    "part": ["fit"] * 12 + ["held"] * 12}))  # fmt: skip
    split = {"method": "split_column", "column": "part", "validation": ["held"]}
    model, _ = asked(client, data, "polynomial_regression", params={"degree": 9}, validation=split)
    metrics = model["metrics"]
    assert (metrics["train"]["rows"], metrics["validation"]["rows"]) == (12, 12)
    assert metrics["validation"]["root_mean_squared_error"] > 10 * metrics["train"]["root_mean_squared_error"]
    assert metrics["verdict"]["code"] == "over_fitting"
    assert "held-out rows" in metrics["verdict"]["message"]
    alone = asked(client, data, "linear_regression")[0]["metrics"]
    assert (alone["verdict"], alone["verdict_reason"]) == (None, "no rows were held out: ask for a validation")


def test_folds_of_labels_have_a_verdict(client, penguins):
    model = fit(client, estimator=spec("linear_discriminant_analysis"), dataset=penguins, target="species",
                features=["bill_length_mm", "bill_depth_mm"], encoding={"missing": "drop_rows"},
                validation={"method": "k_fold", "k": 5})  # fmt: skip
    assert model["metrics"]["verdict"]["code"] == "fitting"


ODDS = [float(np.log(p / (1 - p))) for p in (0.8, 0.3, 0.6)]
LOSSES: list[Any] = [  # function, arguments, part of the answer, value
    ("tukey_loss", {"prediction": [2.0, 9.0], "y": [0.0, 0.0], "c": 4.685}, "value", [1.6576631, 3.6582042]),
    ("huber_loss", {"prediction": [2.0], "y": [0.0], "delta": 1.345}, "value", [1.7854875]),
    ("huber_loss", {"prediction": [2.0, -3.0], "y": [0.0, 0.0], "delta": 1e9}, "value", [2.0, 4.5]),
    ("logistic_loss", {"scores": [0.8, 0.3, 0.6], "y": [1, 0, 1], "given": "probabilities"}, "mean", 0.3635480),
    ("logistic_loss", {"scores": ODDS, "y": [1, 0, 1]}, "mean", 0.3635480),
    ("probability_rmse", {"prediction": [0.8, 0.3, 0.6], "y": [1.0, 0.0, 1.0]}, "value", 0.3109126),
    ("epsilon_insensitive_loss", {"prediction": [2.0, -0.5], "y": [0.0, 0.0], "epsilon": 0.0}, "value", [2.0, 0.5]),
    ("perceptron_loss", {"scores": [-2.0, 1.0], "y": [1, 1], "positive": 1}, "value", [2.0, 0.0]),
    ("zero_one_loss", {"prediction": ["a", "b", "a"], "y": ["a", "a", "b"]}, "mean", 2 / 3),
    ("p_norm_loss", {"prediction": [[3.0, -4.0]], "y": [[0.0, 0.0]], "p": "inf"}, "value", [4.0]),
    ("residual_sum_of_squares", {"prediction": [1.0, 3.0], "y": [0.0, 1.0]}, "value", 5.0),
    ("sum_of_squared_errors", {"prediction": [1.0, 3.0], "y": [0.0, 1.0]}, "value", 2.5),
    ("max_cost", {"loss": "absolute", "prediction": [1.0, 3.0], "y": [0.0, 1.0]}, "gradient", [0.0, 1.0]),
    ("l2_penalty", {"w": [1.0, -2.0, 5.0], "intercept": 2}, "value", 5.0),
]


@pytest.mark.parametrize(("name", "arguments", "part", "value"), LOSSES)
def test_known_losses_costs_and_penalties(name, arguments, part, value, client):
    answer = client.post(f"/v1/functions/{name}", json=arguments)
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"][part] == pytest.approx(value, abs=5e-8)
