"""The encoding `reference`: a category beside an intercept, with standard errors of its levels, against statsmodels."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.genmod.families import Poisson

from ml_core.bundle import load_bundle
from tests.api.test_models import spec

RNG = np.random.default_rng(5)
N = 240
TABLE = pd.DataFrame({
    "colour": RNG.choice(["blue", "green", "red"], N), "side": RNG.choice(["left", "right"], N),
    "x": RNG.normal(size=N),
})  # fmt: skip
TABLE["y"] = TABLE.x + (TABLE.colour == "red") + RNG.normal(size=N)
TABLE["z"] = np.where(TABLE.y + 2 * RNG.normal(size=N) > 0.5, "yes", "no")
TABLE["hit"] = (TABLE.z == "yes") * 1
TABLE["k"] = RNG.poisson(np.exp(0.3 * TABLE.x + 0.4 * (TABLE.colour == "green")))
TERMS = {"colour[T.green]": "colour=green", "colour[T.red]": "colour=red", "side[T.right]": "side=right"}
CASES = [
    ("linear_regression", {}, "y", lambda f: smf.ols(f, TABLE)),
    ("logistic_regression", {}, "z", lambda f: smf.logit(f.replace("z", "hit", 1), TABLE)),
    ("generalized_linear_model", {"family": "poisson"}, "k", lambda f: smf.glm(f, TABLE, family=Poisson())),
]


def ask(algorithm, params, target, dataset):
    encoding = {"categorical": "reference", "unknown_level": "ignore"}
    return {"estimator": spec(algorithm, **params), "dataset": dataset, "target": target, "name": "it",
            "features": ["colour", "side", "x"], "encoding": encoding}  # fmt: skip


@pytest.fixture
def dataset(client):
    return client.post("/v1/datasets", content=TABLE.to_csv(index=False).encode()).json()["id"]


@pytest.mark.parametrize(("algorithm", "params", "target", "peer"), CASES, ids=[c[0] for c in CASES])
def test_levels_have_the_standard_errors_of_treatment_coding(client, dataset, algorithm, params, target, peer):
    made = client.post("/v1/models", json=ask(algorithm, params, target, dataset))
    assert made.status_code == 201, made.text
    colour = made.json()["features"][0]
    assert colour["columns"] == ["colour=green", "colour=red"]
    assert colour["levels"] == ["blue", "green", "red"]
    assert colour["encoding"]["categorical"] == "reference"
    assert made.json()["warnings"] == []
    table = client.get("/v1/models/it/diagnostics").json()["tables"]["coefficients"]
    place = {name: i for i, name in enumerate(table["columns"])}
    ours = {row[place["term"]]: row for row in table["rows"]}
    theirs = peer(f"{target} ~ colour + side + x").fit(**({"disp": 0, "tol": 1e-12} if target == "z" else {}))
    for name, value in theirs.params.items():
        row = ours[{"Intercept": "intercept"}.get(name, TERMS.get(name.replace("True", ""), name))]
        assert row[place["estimate"]] == pytest.approx(value, rel=1e-6, abs=1e-8)
        assert row[place["standard_error"]] == pytest.approx(theirs.bse[name], rel=1e-5)


def test_the_first_level_and_unknown_ones_have_zeros_and_every_level_survives_a_bundle(client, dataset):
    client.post("/v1/models", json=ask("linear_regression", {}, "y", dataset))
    rows = [{"colour": c, "side": "left", "x": 0.5} for c in ("blue", "green", "red", "mauve")]
    blue, green, red, unknown = client.post("/v1/models/it/predict", json={"rows": rows}).json()["predictions"]
    means = TABLE.groupby("colour").y.mean()
    assert blue == unknown
    assert abs(red - blue - (means.red - means.blue)) < 0.5
    assert green != blue
    stored = load_bundle(io.BytesIO(client.get("/v1/models/it/bundle").content))
    assert stored.encoder.features[0].names == ["colour=green", "colour=red"]
