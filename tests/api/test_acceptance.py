"""Certified and reference results reached over HTTP, by the names of the columns that were sent."""

from __future__ import annotations

import csv
import json
import math
from fractions import Fraction

import pytest

from tests.api.test_models import fit, spec
from tests.conftest import DATA

NIST = DATA / "nist"
CERTIFIED = json.loads((NIST / "certified.json").read_text())
DIGITS = {"Norris": 13, "Pontius": 12.8, "NoInt1": 14, "NoInt2": 14, "Filip": 8.5, "Longley": 13, "Wampler1": 14,
          "Wampler2": 13, "Wampler3": 13.5, "Wampler4": 11, "Wampler5": 10.5}  # fmt: skip


def digits(estimate: float, exact: str) -> float:
    """Correct significant digits, at most 15; of the absolute value where the truth is 0."""
    truth = Fraction(exact)
    off = abs(Fraction(estimate) - truth) / (abs(truth) or 1)
    return 15.0 if off == 0 else min(15.0, -math.log10(off))


def coefficients(client, model):
    table = client.get(model["links"]["diagnostics"]).json()["tables"]["coefficients"]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


@pytest.mark.parametrize("name", sorted(DIGITS))
def test_certified_regressions(name, client):
    truth = CERTIFIED[name]
    with (NIST / f"{name}.csv").open(newline="") as f:
        rows = list(csv.DictReader(f))
    powers = range(2, truth["degree"] + 1)
    given = [c for c in rows[0] if c != "y"]
    lines = [",".join(["y", *given, *(f"x{k}" for k in powers)])]
    lines += [",".join([r["y"], *(r[c] for c in given), *(repr(float(r["x"]) ** k) for k in powers)]) for r in rows]
    dataset = client.post("/v1/datasets", content="\n".join(lines).encode()).json()["id"]
    estimator = spec("linear_regression", fit_intercept=truth["intercept"])
    found = coefficients(client, fit(client, estimator=estimator, dataset=dataset, target="y"))
    named = (["intercept"] if truth["intercept"] else []) + given + [f"x{k}" for k in powers]
    assert [row["term"] for row in found] == named
    best = min(digits(row["estimate"], exact) for row, exact in zip(found, truth["exact_coef"], strict=True))
    errors = min(digits(row["standard_error"], exact) for row, exact in zip(found, truth["exact_se"], strict=True))
    assert best >= DIGITS[name]
    assert errors >= 8


def test_unpenalised_logistic_regression_on_an_imbalanced_table(client):
    """Reference of 30-digit arithmetic; agrees with the published table of ISLR."""
    dataset = client.post("/v1/datasets", content=(DATA / "default.csv").read_bytes()).json()["id"]
    model = fit(client, estimator=spec("logistic_regression"), dataset=dataset, target="default",
                features=["student", "balance", "income"])  # fmt: skip
    found = {row["term"]: row for row in coefficients(client, model)}
    truth = {
        "intercept": ("-10.869045212744661963", "0.49227264974809437135"),
        "student=Yes": ("-0.64677580824402742292", "0.23625692638330069831"),
        "balance": ("0.005736505265799080028", "0.00023190442571314233143"),
        "income": ("3.0334501193333577459e-6", "8.2027656191947785517e-6"),
    }
    assert set(found) == set(truth)
    for term, (estimate, error) in truth.items():
        assert digits(found[term]["estimate"], estimate) >= 11
        assert digits(found[term]["standard_error"], error) >= 11


def test_area_under_the_curve_is_the_exact_fraction(client):
    with (DATA / "default.csv").open(newline="") as f:
        rows = list(csv.DictReader(f))
    body = {"y": [r["default"] for r in rows], "scores": [float(r["balance"]) for r in rows], "positive": "Yes"}
    assert client.post("/v1/functions/roc_curve", json=body).json()["result"]["auc"] == pytest.approx(
        339072 / 357679, rel=1e-15
    )


def test_epoch_seconds_keep_their_slope(client):
    rows = zip(range(0, 300, 60), (1, 2, 3, 4, 6), strict=True)
    text = "x,y\n" + "\n".join(f"{1_700_000_000 + x},{y}" for x, y in rows)
    dataset = client.post("/v1/datasets", content=text.encode()).json()["id"]
    model = fit(client, estimator=spec("linear_regression"), dataset=dataset, target="y")
    slope = coefficients(client, model)[1]
    assert slope["estimate"] == pytest.approx(0.02, rel=1e-12)
    assert slope["standard_error"] == pytest.approx(0.0019245008973, rel=1e-11)
    answer = client.post(f"/v1/models/{model['id']}/predict", json={"rows": [{"x": 1_700_000_300}]})
    assert answer.json()["predictions"] == pytest.approx([6.8], rel=1e-12)


def test_a_target_of_many_classes_is_fitted_in_bounded_time(client):
    """The search for separation is a linear program, left out where it has more than a thousand unknowns."""
    text = (DATA / "diabetes_raw.tsv").read_bytes()
    dataset = client.post("/v1/datasets", content=text).json()["id"]
    body = {"estimator": spec("logistic_regression", max_iter=3), "dataset": dataset, "target": "progression",
            "rows": {"sample": 125}}  # fmt: skip
    model = fit(client, **body)
    assert len(model["target"]["classes"]) > 91
