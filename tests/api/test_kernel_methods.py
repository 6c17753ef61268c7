"""Kernel methods and Gaussian processes over HTTP."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "service" / "samples" / "penguins.csv"
PENGUINS = {"dataset": "penguins", "target": "body_mass_g", "encoding": {"missing": "drop_rows"},
            "features": ["bill_length_mm", "flipper_length_mm"]}  # fmt: skip
ROWS = [{"bill_length_mm": 39.1, "flipper_length_mm": 181.0}, {"bill_length_mm": 46.1, "flipper_length_mm": 215.0}]


def fitted(client, algorithm, data=PENGUINS, **params):
    body = {"estimator": {"algorithm": algorithm, "params": params}} | data
    answer = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["state"] == "ready", answer.json()["error"]
    return answer.json()


def test_posterior_joint_and_draws_of_a_gaussian_process(client):
    kernel = {"kernel": "matern", "nu": 1.5, "length_scale": [1.0, 1.0]}
    model = fitted(client, "gaussian_process_regression", kernel=kernel, mean="linear", n_restarts=0)
    url = model["links"]["self"]
    report = client.get(model["links"]["diagnostics"]).json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    assert {"gradient", "marginal_likelihood_error"} <= {c["name"] for c in report["certificates"]}
    assert report["summary"]["leave_one_out_rmse"] < 500
    body = {"rows": ROWS, "joint": True, "samples": 400, "level": 0.9}
    answer = client.post(f"{url}/posterior", json=body)
    assert answer.status_code == 200, answer.text
    got = answer.json()
    first, second = got["distributions"]
    assert first["family"] == "normal"
    assert 3000 < first["mean"] < 4200 < second["mean"] < 5800
    assert first["epistemic_sd"] < first["standard_deviation"]
    assert got["joint"]["family"] == "multivariate_normal"
    draws = np.array(got["samples"])
    assert draws.shape == (400, 2)
    np.testing.assert_allclose(draws.mean(axis=0), [first["mean"], second["mean"]], atol=100)
    drawn = client.post(f"{url}/sample", json={"n": 3, "seed": 1})
    assert drawn.status_code == 200, drawn.text
    with SAMPLE.open(newline="") as text:
        cells = [[row[name] for name in (*PENGUINS["features"], "body_mass_g")] for row in csv.DictReader(text)]
    whole = [row for row in cells if not {"", "NA"} & set(row)]
    assert report["summary"]["rows"] == len(whole)
    assert np.array(drawn.json()["values"]).shape == (3, len({tuple(map(float, row[:2])) for row in whole}))


def test_a_wrong_kernel_is_refused_at_its_place(client):
    spec = {"algorithm": "gaussian_process_regression", "params": {"kernel": {"kernel": "matern", "nu": 2.0}}}
    answer = client.post("/v1/models", json={"estimator": spec} | PENGUINS)
    assert answer.status_code == 422, answer.text
    assert any("nu" in e["pointer"] for e in answer.json()["errors"]), answer.text


@pytest.mark.parametrize("rows", [60_000])
def test_memory_is_asked_for_at_submission(client, rows):
    text = "x,y\n" + "".join(f"{i % 977},{i % 31}\n" for i in range(rows))
    made = client.post("/v1/datasets?name=long", content=text, headers={"content-type": "text/csv"})
    assert made.status_code < 300, made.text
    body = {"estimator": {"algorithm": "gaussian_process_regression", "params": {"method": "exact"}},
            "dataset": made.json()["id"], "target": "y"}  # fmt: skip
    answer = client.post("/v1/models", json=body)
    assert answer.status_code in (413, 422), answer.text
    assert "bytes" in answer.text


def test_classes_by_a_gaussian_process(client):
    data = {"dataset": "penguins", "target": "species", "encoding": {"missing": "drop_rows"},
            "features": ["bill_length_mm", "flipper_length_mm"], "validation": {"method": "none"}}  # fmt: skip
    kernel = {"kernel": "rbf", "length_scale": [4.0, 10.0]}
    model = fitted(client, "gaussian_process_classification", data, kernel=kernel, hyperparameters="given",
                   signal_variance=9.0)  # fmt: skip
    report = client.get(model["links"]["diagnostics"]).json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    answer = client.post(f"{model['links']['self']}/posterior", json={"rows": ROWS})
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["distributions"]
    assert first["family"] == "categorical"
    assert len(first["latent_mean"]) == len(first["latent_sd"]) == len(first["classes"]) == 3
    assert first["classes"][int(np.argmax(first["probabilities"]))] == "Adelie"
    assert second["classes"][int(np.argmax(second["latent_mean"]))] == "Gentoo"


@pytest.mark.parametrize("mean", ["zero", "average", "constant", "linear"])
@pytest.mark.parametrize("method", ["exact", "sparse"])
def test_everything_of_a_gaussian_process_by_either_method(client, method, mean):
    """Leaving one out, joint draws of outcomes and functions, known noise, and draws of the learned prior."""
    r = np.random.default_rng(0)
    x, known = np.sort(r.uniform(0, 6, size=80)), r.uniform(0, 0.2, size=80)
    y = np.sin(x) + np.sqrt(known + 0.01) * r.normal(size=80)
    text = "x,known,y\n" + "".join(f"{a},{b},{c}\n" for a, b, c in zip(x, known, y, strict=True))
    made = client.post("/v1/datasets?name=waves", content=text, headers={"content-type": "text/csv"})
    data = {"dataset": made.json()["id"], "target": "y"}
    model = fitted(client, "gaussian_process_regression", data, method=method, mean=mean, noise_column=1,
                   n_inducing=12, n_restarts=0, kernel={"kernel": "rbf", "length_scale": 1.0})  # fmt: skip
    report = client.get(model["links"]["diagnostics"]).json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    assert len(report["curves"]["leave_one_out"]["y"]) == report["summary"]["rows"]
    assert report["summary"]["leave_one_out_rmse"] < 0.6
    assert (report["summary"]["inducing_rows"] is not None) == (method == "sparse")
    url = model["links"]["self"]
    rows = [{"x": 1.0, "known": 0.0}, {"x": 1.0, "known": 4.0}, {"x": 1.2, "known": 0.0}]
    got = client.post(f"{url}/posterior", json={"rows": rows, "joint": True, "samples": 2000}).json()
    quiet, loud, near = got["distributions"]
    assert loud["standard_deviation"] ** 2 - quiet["standard_deviation"] ** 2 == pytest.approx(4.0)
    assert quiet["mean"] == pytest.approx(np.sin(1.0), abs=0.3)
    assert np.std(np.array(got["samples"])[:, 1]) == pytest.approx(loud["standard_deviation"], rel=0.1)
    drawn = client.post(f"{url}/sample", json={"n": 2, "seed": 1}).json()
    assert (drawn["draws"], np.shape(drawn["values"])) == ("functions", (2, len(drawn["rows"])))
    assert 0 <= min(drawn["rows"]) < max(drawn["rows"]) < report["summary"]["rows"]
    assert near["mean"] == pytest.approx(np.sin(1.2), abs=0.3)
    learned = dict(report["tables"]["hyperparameters"]["rows"])
    kernel = {"kernel": "scale", "factor": learned["signal_variance"],
              "term": {"kernel": "rbf", "length_scale": learned["kernel/length_scale"]}}  # fmt: skip
    prior = client.post("/v1/functions/gaussian_process_prior",
                        json={"points": [[0.0], [1.0]], "kernel": kernel, "samples": 3})  # fmt: skip
    assert prior.status_code == 200, prior.text
    assert np.shape(prior.json()["result"]["draws"]) == (3, 2)
