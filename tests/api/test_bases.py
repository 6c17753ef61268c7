"""Bases over HTTP: named columns, the way back, inside a pipeline, and widths that are refused at submission."""

from __future__ import annotations

import numpy as np
import pytest

from tests.api.test_models import DROP, MEASURES, fit, spec

ROWS = [{"bill_length_mm": 40.0, "bill_depth_mm": 18.0, "flipper_length_mm": 190.0, "body_mass_g": 3500.0},
        {"bill_length_mm": 50.5, "bill_depth_mm": 15.0, "flipper_length_mm": 220.0, "body_mass_g": 5500.0}]  # fmt: skip


def transformed(client, estimator):
    model = fit(client, estimator=estimator, dataset="penguins", features=MEASURES, **DROP)
    answer = client.post(f"/v1/models/{model['id']}/transform", json={"rows": ROWS})
    assert answer.status_code == 200, answer.text
    return model, answer.json()


@pytest.mark.parametrize(("estimator", "width", "name"), [
    (spec("polynomial_features"), 14, "bill_length_mm bill_depth_mm"),
    (spec("quadric_lift"), 14, "bill_length_mm^2"),
    (spec("axis_aligned_quadric_lift"), 8, "body_mass_g^2"),
    (spec("parabolic_lift"), 5, "squared_length"),
], ids=lambda v: v["algorithm"] if isinstance(v, dict) else "")  # fmt: skip
def test_columns_are_named_and_come_back(client, estimator, width, name):
    model, out = transformed(client, estimator)
    assert len(out["columns"]) == len(set(out["columns"])) == width
    assert name in out["columns"]
    back = client.post(f"/v1/models/{model['id']}/inverse_transform", json={"values": out["values"]}).json()
    assert back["columns"] == MEASURES
    np.testing.assert_array_equal(back["values"], [[r[c] for c in MEASURES] for r in ROWS])


def test_kernel_features_over_http_are_the_kernel(client):
    steps = [spec("standard_scaler"), spec("polynomial_kernel_features", degree=3, coef0=2.0)]
    _, out = transformed(client, spec("pipeline", steps=steps))
    _, plain = transformed(client, spec("standard_scaler"))
    Z, X = np.array(out["values"]), np.array(plain["values"])
    np.testing.assert_allclose(Z @ Z.T, (X @ X.T + 2.0) ** 3, rtol=1e-12)


def test_a_basis_before_a_model_is_one_model(client):
    steps = [spec("gaussian_basis", n_centers=6), spec("ridge_regression", alpha=0.1)]
    model = fit(client, estimator=spec("pipeline", steps=steps), dataset="penguins", target="body_mass_g",
                features=MEASURES[:3], **DROP)  # fmt: skip
    assert model["metrics"]["train"]["r2"] > 0.75
    tables = client.get(model["links"]["diagnostics"]).json()["tables"]
    assert tables["steps"]["rows"][0][2:] == [3, 18]


def test_categories_as_codes_are_encoded_and_unknown_ones_refused(client):
    rows = "\n".join(["level,y", *(f"{k % 3},{k}" for k in range(30))])
    dataset = client.post("/v1/datasets", content=rows.encode()).json()["id"]
    model = fit(client, estimator=spec("one_hot_encoder"), dataset=dataset, features=["level"])
    url = f"/v1/models/{model['id']}/transform"
    assert client.post(url, json={"rows": [{"level": 2}]}).json()["columns"] == ["level=0", "level=1", "level=2"]
    assert client.post(url, json={"rows": [{"level": 2}]}).json()["values"] == [[0.0, 0.0, 1.0]]
    refused = client.post(url, json={"rows": [{"level": 1}, {"level": 7}]})
    assert refused.status_code == 422
    assert "never seen" in refused.json()["detail"]


def test_an_absurd_width_is_refused_at_submission_with_its_count(client):
    body = {"estimator": spec("trigonometric_features", frequencies=100_000), "dataset": "penguins",
            "features": MEASURES, **DROP}  # fmt: skip
    answer = client.post("/v1/models", json=body)
    assert answer.status_code == 422, answer.text
    assert "800,008 columns of 4" in answer.text
    assert "/estimator/params/frequencies" in answer.text
