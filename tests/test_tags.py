"""Tags of algorithms: a table checked by hand, and what each tag promises, tried on fits."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import httpx
import numpy as np
import pytest

from ml_core.base import Estimator
from ml_core.errors import InvalidData
from ml_core.registry import Algorithm, algorithms, build
from ml_core.tags import AXES, by_question, of_parts
from tests.test_algorithms import ROWS

each = pytest.mark.parametrize("entry", algorithms().values(), ids=lambda a: a.name)
TRIED = ("regression", "classification", "transformation")

KNOWN = {
    "linear_regression": ("parametric", "discriminative", "low_capacity"),
    "ridge_regression": ("parametric", "discriminative", "low_capacity"),
    "lasso": ("parametric", "discriminative", "low_capacity"),
    "bayesian_linear_regression": ("parametric", "discriminative", "low_capacity"),
    "least_absolute_deviations": ("parametric", "discriminative", "low_capacity"),
    "least_mean_squares": ("parametric", "direct", "low_capacity"),
    "huber_regression": ("parametric", "direct", "low_capacity"),
    "tukey_biweight_regression": ("parametric", "direct", "low_capacity"),
    "epsilon_insensitive_regression": ("parametric", "direct", "low_capacity"),
    "minimax_regression": ("parametric", "direct", "low_capacity"),
    "polynomial_regression": ("parametric", "discriminative", "high_capacity"),
    "empirical_risk_minimizer": ("parametric", "direct", "high_capacity"),
    "generalized_linear_model": ("parametric", "discriminative", "low_capacity"),
    "logistic_regression": ("parametric", "discriminative", "low_capacity"),
    "softmax_regression": ("parametric", "discriminative", "low_capacity"),
    "perceptron": ("parametric", "direct", "low_capacity"),
    "centroid_classifier": ("parametric", "direct", "low_capacity"),
    "least_squares_classifier": ("parametric", "direct", "low_capacity"),
    "linear_discriminant_analysis": ("parametric", "generative", "low_capacity"),
    "quadratic_discriminant_analysis": ("parametric", "generative", "low_capacity"),
    "gaussian_naive_bayes": ("parametric", "generative", "low_capacity"),
    "bernoulli_naive_bayes": ("parametric", "generative", "low_capacity"),
    "multinomial_naive_bayes": ("parametric", "generative", "low_capacity"),
    "beta_bernoulli": ("parametric", "generative", "low_capacity"),
    "gaussian_mixture": ("parametric", "generative", "high_capacity"),
    "soft_margin_svm": ("parametric", "direct", "low_capacity"),
    "kernel_svm": ("non_parametric", "direct", "high_capacity"),
    "support_vector_regression": ("non_parametric", "direct", "high_capacity"),
    "kernel_perceptron": ("non_parametric", "direct", "high_capacity"),
    "kernel_logistic_regression": ("non_parametric", "discriminative", "high_capacity"),
    "gaussian_process_regression": ("non_parametric", "discriminative", "high_capacity"),
    "gaussian_process_classification": ("non_parametric", "discriminative", "high_capacity"),
    "kernel_nearest_neighbors": ("non_parametric", "discriminative", "high_capacity"),
    "random_forest_classifier": ("non_parametric", "discriminative", "high_capacity"),
    "k_means": ("parametric", "direct", "high_capacity"),
    "principal_component_analysis": ("parametric", "direct", "low_capacity"),
    "kernel_pca": ("non_parametric", "direct", "high_capacity"),
    "standard_scaler": ("parametric", "direct", "low_capacity"),
    "polynomial_features": ("parametric", "direct", "high_capacity"),
    "calibrated": ("parametric", "discriminative", "low_capacity"),
    "one_vs_rest": ("parametric", "discriminative", "low_capacity"),
    "pipeline": ("parametric", "discriminative", "low_capacity"),
}
NARROW = {"kernel": "rbf", "length_scale": 0.3}
FLEXIBLE: dict[str, dict[str, Any]] = {
    "polynomial_regression": {"degree": 7},
    "empirical_risk_minimizer": {"function": "polynomial", "degree": 7},
    "gaussian_process_regression": {"kernel": NARROW, "noise_variance": 1e-8, "hyperparameters": "given"},
    "gaussian_process_classification": {"kernel": NARROW, "signal_variance": 100.0, "hyperparameters": "given"},
    "kernel_ridge_regression": {"kernel": NARROW, "alpha": 1e-9},
    "kernel_logistic_regression": {"kernel": NARROW, "alpha": 1e-4},
    "kernel_perceptron": {"kernel": NARROW},
    "kernel_nearest_neighbors": {"n_neighbors": 1},
    "kernel_nearest_neighbors_regression": {"n_neighbors": 1},
    "kernel_svm": {"kernel": NARROW, "C": 1e6},
    "nu_svm": {"kernel": NARROW, "nu": 0.1},
    "lifted_svm": {"lift": "polynomial", "degree": 7, "C": 1e9, "scale": True},
    "support_vector_regression": {"kernel": NARROW, "C": 1e6, "epsilon": 1e-6},
    "nu_support_vector_regression": {"kernel": NARROW, "C": 1e6, "nu": 0.1},
    "random_forest_classifier": {},
    "gaussian_basis": {"n_centers": 8},
    "sigmoid_basis": {"n_centers": 8},
    "polynomial_features": {"degree": 7},
    "polynomial_kernel_features": {"degree": 7},
    "trigonometric_features": {"frequencies": 8},
    "gaussian_taylor_features": {"terms": 8, "scale": 2.0},
    "random_fourier_features": {"frequencies": 50},
    "nystroem_features": {"kernel": NARROW, "n_components": 8},
    "one_hot_encoder": {},
}
"""Parameters with which a method of high capacity follows eight targets in one column that alternate."""


def axes(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(found[0] for found in by_question(tags).values())


def test_well_known_methods() -> None:
    assert {name: axes(algorithms()[name].cls.tags) for name in KNOWN} == KNOWN


@each
def test_the_catalogue_shows_the_tags_of_the_example(entry: Algorithm) -> None:
    assert build(entry.example()).tags == entry.cls.tags


@each
def test_the_approach_is_what_the_methods_can_answer(entry: Algorithm) -> None:
    """Distributions over rows: generative; over targets: at least discriminative; a generative one can say both."""
    model = build(entry.example())
    approach = axes(model.tags)[1]
    tells = hasattr(model, "predict_proba") or hasattr(model, "posterior")
    assert approach != "direct" or not tells
    draws_rows = hasattr(model, "sample") and model.draws == "rows"
    assert not draws_rows or approach == "generative"
    assert approach != "generative" or draws_rows or entry.name == "multinomial_naive_bayes"
    assert approach != "discriminative" or model.supervised


KEPT = {"machines_", "support_", "dual_coef_", "dual_", "labels_", "held_out_scores_"}
"""What reports read; no query of a parametric method does."""


def size(value: Any) -> int:
    """Numbers that queries of a fitted attribute may read; traces of the search are none."""
    if isinstance(value, (list, tuple)):
        return sum(size(v) for v in value)
    if isinstance(value, Estimator) or is_dataclass(value):
        return sum(size(v) for k, v in vars(value).items() if k not in KEPT and not k.rstrip("_").endswith("trace"))
    return value.size if isinstance(value, np.ndarray) else 1


@each
def test_rows_make_a_fit_larger_where_it_is_not_parametric(entry: Algorithm) -> None:
    row = ROWS[entry.name]
    X, y = row.data()
    half = np.arange(len(X)) % 2 == 0
    spec = {"algorithm": row.name, "params": row.params}
    large: Any = build(spec).fit(X, y)
    small: Any = build(spec).fit(X[half], None if y is None else y[half])
    parametric = axes(large.tags)[0] == "parametric"
    assert (size(large) <= size(small)) == parametric
    query = next((q for q in ("predict", "transform") if hasattr(large, q)), None)
    if parametric and query:
        before = getattr(large, query)(X)
        for name in KEPT & set(vars(large)):
            setattr(large, name, None)
        np.testing.assert_array_equal(getattr(large, query)(X), before)


ALTERNATING = np.linspace(-3.5, 3.5, 8)[:, None], np.tile([-1.0, 1.0], 4)


def reached(name: str, params: dict[str, Any]) -> bool:
    """Whether a fit gives eight alternating targets back; a transformer's columns go to least squares."""
    X, y = ALTERNATING
    spec: dict[str, Any] = {"algorithm": name, "params": params}
    if algorithms()[name].cls.task == "transformation":
        spec = {"algorithm": "pipeline", "params": {"steps": [spec, {"algorithm": "linear_regression", "params": {}}]}}
    accepts = algorithms()[name].cls.accepts
    X = X if accepts == "real" else X > 0 if accepts == "binary" else X + 3.5
    try:
        model: Any = build(spec).fit(X, y)
    except InvalidData:  # no plane separates them
        return False
    return bool(np.abs(np.asarray(model.predict(X), dtype=float) - y).max() < 0.01)


@pytest.mark.parametrize("entry", [a for a in algorithms().values() if a.cls.task in TRIED], ids=lambda a: a.name)
def test_high_capacity_follows_any_targets_and_low_capacity_does_not(entry: Algorithm) -> None:
    high = axes(entry.cls.tags)[2] == "high_capacity"
    assert high == (entry.name in FLEXIBLE)
    assert reached(entry.name, FLEXIBLE.get(entry.name, entry.cls.example_params)) == high


def test_compositions_are_what_they_are_composed_of() -> None:
    steps = [{"algorithm": name} for name in ("polynomial_features", "linear_discriminant_analysis")]
    widened: Any = build({"algorithm": "pipeline", "params": {"steps": steps}})
    assert widened.tags == ("composition", "parametric", "generative", "high_capacity")
    near = {"algorithm": "kernel_nearest_neighbors", "params": {}}
    for name, own in (("one_vs_rest", ("composition", "multiclass")),
                      ("calibrated", ("composition", "discriminative", "probabilistic"))):  # fmt: skip
        whole: Any = build({"algorithm": name, "params": {"estimator": near}})
        assert set(whole.tags) == {*own, "non_parametric", "discriminative", "high_capacity"}
        assert type(whole).tags != whole.tags
    assert of_parts(("x",), [object()]) == ("x",)


def test_no_tag_is_a_question_spelled_otherwise() -> None:
    known = {tag for tags in AXES.values() for tag in tags}
    squeezed = {tag.replace("_", ""): tag for tag in known}
    for name, entry in algorithms().items():
        for tag in entry.cls.tags:
            assert squeezed.get(tag.replace("_", "").replace("-", ""), tag) == tag, name


def test_the_catalogue_is_searched_by_tags_and_models_show_their_own(client: httpx.Client, penguins: str) -> None:
    def named(**query: Any) -> set[str]:
        return {i["name"] for i in client.get("/v1/algorithms", params=query).json()["items"]}

    every = {i["name"]: i for i in client.get("/v1/algorithms").json()["items"]}
    assert {name: axes(tuple(every[name]["tags"])) for name in KNOWN} == KNOWN
    assert sum(len(named(tag=tag)) for tag in AXES["approach"]) == len(every)
    found = named(tag=["generative", "low_capacity"], task="classification")
    assert {"linear_discriminant_analysis", "gaussian_naive_bayes"} <= found
    assert not found & {"logistic_regression", "beta_bernoulli", "gaussian_mixture"}
    assert named(tag="no such") == set()
    assert client.get("/v1/algorithms/perceptron").json()["tags"] == every["perceptron"]["tags"]
    near = {"algorithm": "kernel_nearest_neighbors", "params": {}}
    model = client.post("/v1/models", json={
        "estimator": {"algorithm": "one_vs_one", "params": {"estimator": near}}, "dataset": penguins,
        "target": "species", "features": ["bill_length_mm", "body_mass_g"], "encoding": {"missing": "drop_rows"},
    }).json()  # fmt: skip
    assert set(model["tags"]) == {"composition", "multiclass", "non_parametric", "discriminative", "high_capacity"}
