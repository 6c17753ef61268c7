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


def columns_of(client, data, estimator):
    """The transformed rows of a table of x and z, and the names of their columns."""
    model = fit(client, estimator=estimator, dataset=data, features=["x", "z"])
    answer = client.post(f"/v1/models/{model['id']}/transform", json={"dataset": data}).json()
    return np.array(answer["values"]), answer["columns"]


def test_known_products_of_the_exact_maps(client):
    """(x·z + c)² of (1, 2) and (3, -1), with its map's constants, and the widths that books print."""
    data = client.post("/v1/datasets", content=b"x,z\n1.0,2.0\n3.0,-1.0\n").json()["id"]
    for c, product in ((1.0, 4.0), (3.0, 16.0)):
        Z, names = columns_of(client, data, spec("polynomial_kernel_features", degree=2, coef0=c))
        assert Z[0] @ Z[1] == pytest.approx(product, rel=1e-14)
        row = dict(zip(names, Z[0], strict=True))
        assert sorted(row.values()) == pytest.approx(
            sorted([1.0, 4.0, 2.0**0.5 * 2.0, (2 * c) ** 0.5, (2 * c) ** 0.5 * 2.0, c]), rel=1e-14)  # fmt: skip
    for name, params, width in (("polynomial_features", {"degree": 3}, 9), ("quadric_lift", {}, 5),
                                ("polynomial_features", {"degree": 2, "include_bias": True}, 6),
                                ("axis_aligned_quadric_lift", {}, 4), ("parabolic_lift", {}, 3),
                                ("trigonometric_features", {"frequencies": 4}, 20)):  # fmt: skip
        assert columns_of(client, data, spec(name, **params))[0].shape == (2, width)


def test_known_terms_of_the_gaussian_series(client):
    """exp(-(0.8 + 0.3)²/2) by ten terms and by three, and the factor exp(-x²/2) x^m/√m! of each column."""
    data = client.post("/v1/datasets", content=b"x\n0.8\n-0.3\n").json()["id"]
    for terms, product in ((10, 0.54607442664), (3, 0.5475823)):
        model = fit(client, estimator=spec("gaussian_taylor_features", terms=terms), dataset=data, features=["x"])
        Z = np.array(client.post(f"/v1/models/{model['id']}/transform", json={"dataset": data}).json()["values"])
        assert Z[0] @ Z[1] == pytest.approx(product, abs=1e-11 if terms == 10 else 5e-8)
        assert Z[0, 2] == pytest.approx(np.exp(-0.32) * 0.64 / 2**0.5)
