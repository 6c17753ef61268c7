"""What textbooks argue about, compared over HTTP on the same held-out rows: each wins where its assumption holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.api.rows import upload
from tests.api.test_models import fit, spec

CHOSEN = {"choose_alpha": "cross_validation"}
RIDGE, LASSO = spec("ridge_regression", **CHOSEN), spec("lasso", **CHOSEN)
COMPONENTS = spec("pipeline", steps=[spec("principal_component_analysis", n_components=3), spec("linear_regression")])
LDA, LOGISTIC = spec("linear_discriminant_analysis"), spec("logistic_regression")


def held_out(client, X, target, rows, *models):
    """Figures of each model on all rows but the first `rows`, of which it learned."""
    columns = {f"x{j}": x for j, x in enumerate(X.T)}
    part = np.where(np.arange(len(X)) < rows, "fit", "held")
    data = upload(client, pa.table({**columns, "target": target, "part": part.tolist()}))
    split = {"method": "split_column", "column": "part", "validation": ["held"]}
    found = [fit(client, estimator=m, dataset=data, target="target", features=list(columns), validation=split)
             for m in models]  # fmt: skip
    assert all(m["metrics"]["train"]["rows"] == rows for m in found)
    return [m["metrics"]["validation"] for m in found]


@pytest.mark.parametrize("few", [True, False])
def test_few_strong_columns_are_the_lassos_and_many_weak_ones_ridges(client, few):
    r = np.random.default_rng(3)
    X = r.normal(size=(1060, 40))
    w = np.append([3.0, -2.0, 2.0], np.zeros(37)) if few else np.full(40, 0.4)
    ridge, lasso = held_out(client, X, X @ w + r.normal(size=1060), 60, RIDGE, LASSO)
    assert (lasso["mean_squared_error"] < ridge["mean_squared_error"]) == few


@pytest.mark.parametrize("normal", [True, False])
def test_normal_classes_are_the_discriminants_and_far_rows_spoil_it(client, normal):
    """Equal covariances: the normal model needs fewer rows than the regression, which is right for more tables."""
    r = np.random.default_rng(5)
    d, n = (8, 40) if normal else (2, 300)
    y = r.integers(0, 2, n + 3000)
    X = r.normal(size=(len(y), d))
    X[:, 0] += 2.0 * y
    if not normal:  # of one class a tenth lies far on its own side: it moves the mean and not the boundary
        far = (y == 1) & (r.random(len(y)) < 0.1)
        X[far, 0] += 60.0
    labels = np.where(y == 1, "yes", "no").tolist()
    lda, logistic = held_out(client, X, labels, n, LDA, LOGISTIC)
    assert (lda["log_loss"] < logistic["log_loss"]) == normal
    if not normal:
        assert lda["error_rate"] > logistic["error_rate"] + 0.05


@pytest.mark.parametrize("common", [True, False])
def test_directions_of_variance_are_the_components_and_single_columns_the_lassos(client, common):
    """Thirty columns that follow three causes: the target follows these causes, or a quiet column of its own."""
    r = np.random.default_rng(7)
    causes = r.normal(size=(1040, 3))
    X = causes @ r.normal(size=(3, 30)) + 0.5 * r.normal(size=(1040, 30))
    quiet = 0.3 * r.normal(size=1040)
    X[:, 17] = quiet
    target = causes.sum(axis=1) if common else 10.0 * quiet
    components, lasso = held_out(client, X, target + 0.3 * r.normal(size=1040), 40, COMPONENTS, LASSO)
    assert (components["mean_squared_error"] < lasso["mean_squared_error"]) == common


@pytest.mark.parametrize("rings", [True, False])
def test_rings_are_the_kernels_and_heaps_of_any_of_both(client, rings):
    r = np.random.default_rng(9)
    truth, angle = np.repeat([0, 1], 100), r.uniform(0, 2 * np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(truth == 1, 6.0, 1.0)[:, None]
    if not rings:
        X = np.column_stack([8.0 * truth, np.zeros(200)])
    X += 0.1 * r.normal(size=X.shape)
    data = upload(client, pa.table({"a": X[:, 0], "b": X[:, 1]}))
    rows = {"rows": [{"a": a, "b": b} for a, b in X.tolist()]}

    def agreement(name: str, **params: Any) -> float:
        model = fit(client, estimator=spec(name, n_clusters=2, **params), dataset=data, features=["a", "b"])
        found = client.post(f"{model['links']['self']}/predict", json=rows).json()["predictions"]
        same = float(np.mean(np.array(found) == truth))
        return max(same, 1.0 - same)

    assert agreement("kernel_k_means", kernel={"kernel": "rbf", "length_scale": 2.0}, n_init=20) > 0.99
    assert (agreement("k_means") > 0.99) != rings
