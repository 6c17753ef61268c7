"""Figures over chunks against those of all rows at once; column scales merge."""

from __future__ import annotations

import numpy as np
import pytest

from ml_core.errors import InvalidData
from ml_core.metrics.chunked import metrics_chunks
from ml_core.metrics.summary import metrics
from ml_core.preprocessing.column_scale import ColumnScale
from ml_core.registry import build


class Cut:
    """Rows cut at places; an empty piece and one without weight are among them."""

    def __init__(self, X, y, s, ends):
        bounds = zip([0, *ends], [*ends, None], strict=True)
        self.parts = [tuple(None if v is None else v[a:b] for v in (X, y, s)) for a, b in bounds]

    def __len__(self):
        return len(self.parts)

    def read(self, i):
        return self.parts[i]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["linear_regression", "logistic_regression", "gaussian_mixture", "k_means"])
def test_figures_of_chunks_are_those_of_all_rows(name, weighted):
    r = np.random.default_rng(1)
    X = r.normal(size=(200, 3))
    truth = {"linear_regression": 1e6 + X @ [1.0, 2.0, 3.0] + r.normal(size=200),
             "logistic_regression": np.where(X[:, 0] + r.normal(size=200) > 0, "yes", "no")}  # fmt: skip
    y, s = truth.get(name), r.integers(1, 4, 200).astype(float) if weighted else None
    model = build({"algorithm": name, "params": {}}).fit(X, y)
    if s is not None:
        s[40:90] = 0.0
    found = metrics_chunks(model, Cut(X, y, s, [40, 40, 90, 150]))
    want = metrics(model, X, y, s)
    assert set(found) == set(want)
    for figure, value in want.items():
        assert found[figure] == pytest.approx(value, rel=1e-9), figure


def test_r2_of_a_constant_truth_has_no_meaning():
    X, y = np.arange(10.0)[:, None], np.ones(10)
    model = build({"algorithm": "linear_regression", "params": {}}).fit(X, np.arange(10.0))
    assert metrics_chunks(model, Cut(X, y, None, [5]))["r2"] is None


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_scales_of_parts_merge_to_that_of_all(unit):
    X = np.random.default_rng(3).normal(size=(100, 4)) * unit + [0.0, 1e3 * unit, 0.0, 0.0]
    X[:, 3] = 7.0
    names = list("abcd")
    parts = [ColumnScale.of(X[a:b], names) for a, b in ((0, 1), (1, 30), (30, 100))]
    merged, whole = parts[0].merge(parts[1]).merge(parts[2]), ColumnScale.of(X, names)
    for kinds in (np.full(4, "standard"), np.array(["min_max", "whiten", "min_max", "standard"])):
        for got, want in zip(merged.affine(kinds), whole.affine(kinds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13 * unit)
    with pytest.raises(InvalidData, match="'b' exceeds"):
        ColumnScale.of(np.array([[0.0, 1e301]]), ["a", "b"])
