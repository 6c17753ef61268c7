"""Over- and under-fitting: constructed cases, their rates under chance, and nothing where figures do not suffice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.metrics.summary import metrics
from ml_core.metrics.verdict import outside_largest, verdict
from ml_core.registry import build


def judged(spec: str, params: dict[str, Any], A: Any, y: Any, B: Any, z: Any) -> str:
    model: Any = build({"algorithm": spec, "params": params}).fit(A, y)
    constant = outside_largest(y) if model.task == "classification" else None
    found = verdict(metrics(model, A, y), metrics(model, B, z), constant)
    assert found is not None
    return found.code


def wave(r: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = r.uniform(-1, 1, n)
    return x[:, None], np.sin(4 * x) + 0.2 * r.normal(size=n)


@pytest.mark.parametrize("seed", range(5))
def test_degrees_of_a_polynomial(seed: int) -> None:
    r = np.random.default_rng(seed)
    (A, y), (B, z) = wave(r, 14), wave(r, 200)
    assert judged("polynomial_regression", {"degree": 10}, A, y, B, z) == "over_fitting"
    (A, y), (B, z) = wave(r, 200), wave(r, 200)
    assert judged("polynomial_regression", {"degree": 5}, A, y, B, z) == "fitting"
    even = np.column_stack([A[:, 0] ** 2])
    assert judged("linear_regression", {}, even, y, B**2, z) == "under_fitting"


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_of_noise_and_of_groups(seed: int) -> None:
    r = np.random.default_rng(seed)
    A, B = r.normal(size=(200, 3)), r.normal(size=(200, 3))
    y, z = r.integers(0, 2, 200), r.integers(0, 2, 200)
    assert judged("kernel_nearest_neighbors", {"n_neighbors": 1}, A, y, B, z) == "over_fitting"
    many, more = r.normal(size=(4000, 3)), r.normal(size=(4000, 3))
    shell, other = (many**2).sum(axis=1) > 3, (more**2).sum(axis=1) > 3
    assert judged("logistic_regression", {}, many, shell, more, other) == "under_fitting"
    apart = judged("linear_discriminant_analysis", {}, A + 2 * y[:, None], y, B + 2 * z[:, None], z)
    assert apart == "fitting"


def test_rows_of_one_kind_are_rarely_called_different() -> None:
    """The right model with few columns on 400 draws: at most a few of a hundred by chance."""
    over = 0
    for seed in range(400):
        r = np.random.default_rng(seed)
        A, B = r.normal(size=(60, 2)), r.normal(size=(60, 2))
        y, z = (X @ [1.0, -1.0] + r.normal(size=60) for X in (A, B))
        over += judged("linear_regression", {}, A, y, B, z) == "over_fitting"
    assert over <= 20


def test_an_exact_fit_of_the_training_rows_is_judged_too() -> None:
    exact = {"rows": 5, "r2": 1.0, "mean_squared_error": 0.0}
    bad = {"rows": 50, "r2": -0.5, "mean_squared_error": 3.0}
    found = verdict(exact, bad)
    assert found is not None
    assert found.code == "over_fitting"
    assert found.message.startswith("training rows miss 0.0% of what the best constant misses, held-out rows 150.0%")
    assert verdict(exact, exact) is None


@pytest.mark.parametrize(
    ("train", "held", "constant"),
    [
        ({"rows": 9}, {"rows": 9}, None),
        ({"rows": 9, "error_rate": 0.1}, {"rows": 9, "error_rate": 0.5}, None),
        ({"rows": 9, "error_rate": 0.0}, {"rows": 9, "error_rate": 0.0}, 0.0),
        ({"rows": 9, "r2": None, "mean_squared_error": 0.1}, {"rows": 1, "r2": None, "mean_squared_error": 0.1}, None),
        ({"rows": 9, "r2": 0.5, "mean_squared_error": 0.1}, {"rows": 9, "mean_squared_error": None}, None),
    ],
)
def test_figures_that_do_not_suffice_give_none(train: Any, held: Any, constant: float | None) -> None:
    assert verdict(train, held, constant) is None


def test_the_share_outside_the_largest_class() -> None:
    assert outside_largest(["a", "b", "b", "c"]) == 0.5
    assert outside_largest([1.0, 0.0, 1.0], [1.0, 3.0, 1.0]) == pytest.approx(0.4)
