"""Estimates of a fit's operations grow with rows and columns as textbooks say; the queue decides by them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from ml_core.registry import find

PLAIN: dict[str, Any] = {}
TALL = [  # powers of n and of d where rows are many, a function of the parameters' own size beside them
    ("linear_regression", PLAIN, 1, 2), ("multi_output_regression", PLAIN, 1, 2),
    ("weighted_least_squares", PLAIN, 1, 2), ("ridge_regression", PLAIN, 1, 2), ("generalized_tikhonov", PLAIN, 1, 2),
    ("bayesian_linear_regression", PLAIN, 1, 2), ("least_absolute_deviations", PLAIN, 1, 2),
    ("huber_regression", PLAIN, 1, 2), ("logistic_regression", PLAIN, 1, 2), ("softmax_regression", PLAIN, 1, 2),
    ("generalized_linear_model", PLAIN, 1, 2), ("least_squares_classifier", PLAIN, 1, 2),
    ("polynomial_regression", {"degree": 2}, 1, 4), ("polynomial_features", {"degree": 3}, 1, 3),
    ("perceptron", PLAIN, 1, 1), ("centroid_classifier", PLAIN, 1, 1), ("standard_scaler", PLAIN, 1, 1),
    ("empirical_risk_minimizer", PLAIN, 1, 1), ("trigonometric_features", PLAIN, 1, 1),
    ("random_fourier_features", PLAIN, 1, 1), ("nystroem_features", PLAIN, 1, 1), ("parabolic_lift", PLAIN, 1, 1),
    ("quadric_lift", PLAIN, 1, 2), ("linear_discriminant_analysis", PLAIN, 1, 2),
    ("principal_component_analysis", PLAIN, 1, 2), ("k_means", {"n_clusters": 5}, 1, 1),
    ("kernel_svm", PLAIN, 2, 1), ("kernel_perceptron", PLAIN, 2, 1), ("kernel_ridge_regression", PLAIN, 3, 0),
]  # fmt: skip


def power(few: float, many: float) -> float:
    """The exponent of a growth from doubling."""
    return float(np.log2(many / few))


@pytest.mark.parametrize(("name", "params", "rows", "columns"), TALL, ids=lambda v: v if isinstance(v, str) else "")
def test_operations_grow_as_rows_and_columns_do(name: str, params: dict[str, Any], rows: int, columns: int) -> None:
    model = find(name).cls(**params)
    n, d = 10**8, 200
    assert power(model.cost(n, d).flops, model.cost(2 * n, d).flops) == pytest.approx(rows, abs=0.1)
    assert power(model.cost(n, d).flops, model.cost(n, 2 * d).flops) == pytest.approx(columns, abs=0.2)


def test_wide_tables_pay_for_their_factorisations() -> None:
    """O(n d² + d³)."""
    bayes = find("bayesian_linear_regression").cls()
    assert power(bayes.cost(100, 10_000).flops, bayes.cost(100, 20_000).flops) == pytest.approx(3, abs=0.1)


def test_members_and_parts_are_counted() -> None:
    whole, each = find("one_vs_rest").cls(), find("logistic_regression").cls(alpha=1.0)
    assert whole.cost(10_000, 20, 7).flops == pytest.approx(7 * each.cost(10_000, 20, 2).flops, rel=0.2)
    pairs = find("one_vs_one").cls()
    assert pairs.cost(10_000, 20, 8).flops == pytest.approx(28 * each.cost(2500, 20, 2).flops, rel=0.2)
    starts = [find("empirical_risk_minimizer").cls(function="logistic", n_starts=k).cost(100, 3) for k in (1, 10)]
    assert starts[1].flops == pytest.approx(10 * starts[0].flops)


def test_exposures_pay_for_the_copy_without_their_column() -> None:
    """What a fit allocates at its peak, beside the estimate."""
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (100_000, 30))
    y = rng.poisson(2.0, len(X)).astype(float)
    plain, exposed = (find("generalized_linear_model").cls(family="poisson", exposure=e) for e in (None, 29))
    peaks = []
    for model in (plain, exposed):
        model.fit(X, y)
        tracemalloc.start()
        model.fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    extra = exposed.cost(*X.shape).memory_bytes - plain.cost(*X.shape).memory_bytes
    assert extra == X.nbytes
    assert 0.9 * extra < peaks[1] - peaks[0] < extra + 8e6  # blocks of rows beside it


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_machines_grow_as_columns_once_these_are_few_and_as_their_square_when_many(loss: str) -> None:
    """What was measured on 20,000 rows: passes over the rows are most of a step until the product outgrows them."""
    svm, n = find("soft_margin_svm").cls(loss=loss), 20_000
    grows = [power(svm.cost(n, d).flops, svm.cost(n, 2 * d).flops) for d in (5, 20, 40, 150)]
    assert grows == sorted(grows)
    assert grows[0] < 0.7
    assert 0.5 < grows[1] < 1.2
    assert 1.5 < grows[3] < 2
    assert power(svm.cost(n, 2000).flops, svm.cost(n, 4000).flops) == pytest.approx(1)
    assert power(svm.cost(n, 50).flops, svm.cost(2 * n, 50).flops) == pytest.approx(1)
    assert svm.cost(n, 20, 5).flops == pytest.approx(5 * svm.cost(n, 20, 2).flops)


@pytest.mark.parametrize(("rows", "columns"), [(200, 3), (2000, 3), (2000, 40), (500, 150)])
def test_an_interior_point_takes_about_twenty_steps(rows: int, columns: int) -> None:
    r = np.random.default_rng(0)
    X = r.normal(size=(rows, columns))
    model: Any = find("soft_margin_svm").cls().fit(X, X[:, 0] + r.normal(size=rows) > 0)
    assert 8 <= model.machines_[0].n_iter <= 30
