"""Linear classifiers and wrappers over HTTP: nested specs, probabilities where members have them, updates."""

from __future__ import annotations

import pytest

from tests.api.test_models import DROP, MEASURES, fit, spec

BIRD = {"bill_length_mm": 39.1, "bill_depth_mm": 18.7, "flipper_length_mm": 181.0, "body_mass_g": 3750.0}


def species(client, estimator, **more):
    steps = [spec("standard_scaler"), estimator]
    return fit(client, estimator=spec("pipeline", steps=steps), dataset="penguins", target="species",
               features=MEASURES, **DROP, **more)  # fmt: skip


@pytest.mark.parametrize(("estimator", "proba"), [
    (spec("centroid_classifier"), False),
    (spec("least_squares_classifier"), False),
    (spec("perceptron", max_epochs=50), False),
    (spec("one_vs_rest", estimator=spec("perceptron", max_epochs=50)), False),
    (spec("one_vs_one", estimator=spec("logistic_regression", alpha=0.5)), True),
    (spec("one_vs_rest", estimator=spec("linear_discriminant_analysis"), k_minus_1=True), True),
], ids=lambda v: v["algorithm"] if isinstance(v, dict) else "")  # fmt: skip
def test_penguins(client, estimator, proba):
    model = species(client, estimator)
    assert model["metrics"]["train"]["accuracy"] > 0.9
    assert ("predict_proba" in model["capabilities"]) == proba
    out = client.post(f"/v1/models/{model['id']}/predict", json={"rows": [BIRD]}).json()
    assert out["predictions"] == ["Adelie"]
    assert ("probabilities" in out) == proba
    report = client.get(model["links"]["diagnostics"]).json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


def test_a_member_that_is_no_classifier_is_refused_with_its_place(client):
    body = {"estimator": spec("one_vs_one", estimator=spec("lasso")), "dataset": "penguins", "target": "species",
            "features": MEASURES, **DROP}  # fmt: skip
    answer = client.post("/v1/models", json=body)
    assert answer.status_code == 422, answer.text
    assert "/estimator/params/estimator" in answer.text
    assert "classifier" in answer.text


def test_a_perceptron_learns_from_more_rows(client):
    rows = "\n".join(["x,z,label", *(f"{k % 7},{k % 5},{str(k % 7 > 3).lower()}" for k in range(60))])
    dataset = client.post("/v1/datasets", content=rows.encode()).json()["id"]
    model = fit(client, estimator=spec("perceptron"), dataset=dataset, target="label", features=["x", "z"])
    assert "update" in model["capabilities"]
    answer = client.post(f"/v1/models/{model['id']}/update", json={"rows": [{"x": 3, "z": 0, "label": True}]},
                         headers={"Prefer": "wait=60"})  # fmt: skip
    assert answer.status_code in (200, 201, 202), answer.text
    newer = answer.json()
    codes = [w["code"] if isinstance(w, dict) else w for w in newer.get("warnings", [])]
    assert "updated" in str(codes), newer


def test_scores_come_where_they_are_asked_for(client):
    model = species(client, spec("least_squares_classifier"))
    url = f"/v1/models/{model['id']}/predict"
    out = client.post(url, json={"rows": [BIRD, BIRD], "scores": True}).json()
    assert out["scores"]["classes"] == ["Adelie", "Chinstrap", "Gentoo"]
    first, second = out["scores"]["values"]
    assert first == pytest.approx(second, abs=1e-12)
    assert sum(first) == pytest.approx(1, abs=1e-10)
    assert max(range(3), key=first.__getitem__) == 0
    assert "scores" not in client.post(url, json={"rows": [BIRD]}).json()
    lenient = client.post(url, json={"rows": [BIRD | {"body_mass_g": "x"}, BIRD], "scores": True},
                          headers={"Prefer": "handling=lenient"}).json()  # fmt: skip
    none, same = lenient["scores"]["values"]
    assert none is None
    assert same == pytest.approx(first, abs=1e-12)
    text = ",".join(BIRD) + "\n" + ",".join(map(str, BIRD.values())) + "\n"
    table = client.post(url + "?scores=true", content=text.encode(),
                        headers={"Content-Type": "text/csv", "Accept": "text/csv"}).text  # fmt: skip
    head, row = table.splitlines()[:2]
    assert head.replace('"', "").split(",") == ["prediction", "score_Adelie", "score_Chinstrap", "score_Gentoo"]
    assert float(row.split(",")[1]) == pytest.approx(first[0], rel=1e-12)


def test_two_classes_have_one_score_and_regressions_none(client):
    rows = "\n".join(["x,label,y", *(f"{k % 7},{str(k % 7 > 3).lower()},{k}" for k in range(60))])
    dataset = client.post("/v1/datasets", content=rows.encode()).json()["id"]
    model = fit(client, estimator=spec("centroid_classifier"), dataset=dataset, target="label", features=["x"])
    out = client.post(f"/v1/models/{model['id']}/predict", json={"rows": [{"x": 0}, {"x": 6}], "scores": True}).json()
    assert out["predictions"] == [False, True]
    low, high = out["scores"]["values"]
    assert low < 0 < high
    line = fit(client, estimator=spec("ridge_regression"), dataset=dataset, target="y", features=["x"])
    refused = client.post(f"/v1/models/{line['id']}/predict", json={"rows": [{"x": 0}], "scores": True})
    assert refused.status_code == 409, refused.text
    assert "no scores" in refused.json()["detail"]


def test_a_predicted_dataset_has_the_scores(client):
    model = species(client, spec("centroid_classifier"))
    dataset = client.post("/v1/datasets", content=(",".join(BIRD) + "\n" + ",".join(map(str, BIRD.values()))).encode())
    body = {"dataset": dataset.json()["id"], "output": "dataset", "scores": True}
    job = client.post(f"/v1/models/{model['id']}/predict", json=body, headers={"Prefer": "wait=60"}).json()
    assert job["state"] == "succeeded", job
    stored = client.get(job["links"]["resource"]).json()
    assert [c["name"] for c in stored["columns"]] == ["prediction", "score_Adelie", "score_Chinstrap", "score_Gentoo"]
