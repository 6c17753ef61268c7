"""bayesian_logistic_regression: the penalised fit, its curvature, averages of probabilities by other means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.special import softmax as plain_softmax
from sklearn.datasets import load_iris

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.bayesian_logistic_regression import BayesianLogisticRegression as Model
from ml_core.linear.generalized_linear_model import GeneralizedLinearModel
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.losses.softmax import Softmax
from ml_core.numerics.logistic_normal import mean_logistic, mean_softmax, normal_lattice
from ml_core.sums import fit_chunks
from tests.test_sums import Cut

IRIS, SPECIES = load_iris(return_X_y=True)


def table(n: int = 300, d: int = 4, K: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(-2, 2, d) + np.arange(d) * 10
    scores = (X - X.mean(0)) / X.std(0) @ rng.normal(size=(d, K))
    return X, (scores + rng.gumbel(size=(n, K))).argmax(axis=1)


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("parametrization", ["full", "reference"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_most_probable_weights_are_the_penalised_fit(K: int, parametrization: Any, fit_intercept: bool) -> None:
    X, y = table(K=K)
    options = {"alpha": 0.7, "parametrization": parametrization, "fit_intercept": fit_intercept}
    a, b = Model(**options).fit(X, y), LogisticRegression(**options).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_two_classes_are_the_binomial_model(alpha: float) -> None:
    """The generalised linear model's posterior, which was fitted by other sums."""
    X, y = table()
    one, other = Model(alpha=alpha).fit(X, y), GeneralizedLinearModel(family="binomial", alpha=alpha).fit(X, 1.0 * y)
    np.testing.assert_allclose(one.posterior(X).probabilities[:, 1], other.posterior(X).p, rtol=1e-9)
    a, b = one.parameter_posterior()["coefficients"], other.parameter_posterior()["coefficients"]
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9)
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-7)


def curvature(m: Model, X: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Precision of (slopes, intercept) of the independent scores in the units of X, written out; and their basis."""
    B = np.ones((1, 1)) if len(m.classes_) == 2 else Softmax(len(m.classes_), m.parametrization).basis
    P = m.predict_proba(X)
    Z = np.hstack([X, np.ones((len(X), 1))])
    D, q = Z.shape[1], B.shape[1]
    H = np.zeros((D * q, D * q))
    for z, p in zip(Z, P, strict=True):
        C = np.array([[p[0] * p[1]]]) if len(p) == 2 else B.T @ (np.diag(p) - np.outer(p, p)) @ B
        H += np.kron(np.outer(z, z), C)
    H += np.kron(np.diag([alpha] * (D - 1) + [0.0]), np.eye(q))
    return H, B


@pytest.mark.parametrize("parametrization", ["full", "reference"])
@pytest.mark.parametrize("K", [2, 3])
def test_the_covariance_is_the_inverse_of_the_curvature(parametrization: Any, K: int) -> None:
    X, y = table(80, 3, K)
    m = Model(alpha=0.2, parametrization=parametrization).fit(X, y)
    H, B = curvature(m, X, 0.2)
    C = np.linalg.inv(H).reshape(4, B.shape[1], 4, B.shape[1])
    for k, block in enumerate(m.parameter_posterior().values()):
        row = B[k + (parametrization == "reference" and K > 2)]
        np.testing.assert_allclose(block.covariance[0], np.einsum("a,daeb,b->de", row, C, row), rtol=1e-7, atol=1e-12)


def test_probabilities_of_many_classes_are_averages_over_the_weights() -> None:
    X, y = IRIS[::3], SPECIES[::3]
    m = Model(alpha=0.1).fit(X, y)
    query = np.array([[6.0, 2.8, 4.9, 1.7], [5.0, 3.0, 3.0, 0.8], [9.0, 1.0, 9.0, 4.0]])
    slopes, intercepts = m.sample(200_000, random_state=3)
    eta = query @ slopes.reshape(-1, 3, 4).transpose(0, 2, 1) + intercepts[:, None, :]
    np.testing.assert_allclose(m.posterior(query).probabilities, plain_softmax(eta, axis=2).mean(axis=0), atol=3e-3)


def test_draws_have_the_moments_of_the_posterior() -> None:
    X, y = table(60, 2, 3)
    m = Model(alpha=1.0).fit(X, y)
    slopes, intercepts = m.sample(100_000, random_state=1)
    found = np.stack([d.sd[0] for d in m.parameter_posterior().values()])
    assert (np.abs(slopes.mean(axis=0).reshape(3, 2) - m.coef_) < 5 * found[:, :2] / 100_000**0.5).all()
    np.testing.assert_allclose(slopes.std(axis=0).reshape(3, 2), found[:, :2], rtol=0.02)
    np.testing.assert_allclose(intercepts.std(axis=0), found[:, 2], rtol=0.02)
    np.testing.assert_allclose(intercepts.sum(axis=1), 0, atol=1e-9 * np.abs(intercepts).max())
    again = m.sample(5, random_state=1)[0]
    np.testing.assert_array_equal(again, m.sample(5, random_state=1)[0])


def test_averages_lie_between_the_plug_in_and_one_half_and_meet_it_as_rows_grow() -> None:
    X, y = table(40)
    few, many = Model(alpha=0.1).fit(X, y), Model(alpha=0.1).fit(X, y, np.full(40, 1e6))
    plain, averaged = few.predict_proba(X)[:, 1], few.posterior(X).probabilities[:, 1]
    assert (np.abs(averaged - 0.5) < np.abs(plain - 0.5)).all()
    assert (np.sign(averaged - 0.5) == np.sign(plain - 0.5)).all()
    np.testing.assert_allclose(many.posterior(X).probabilities, many.predict_proba(X), atol=1e-4)


def test_far_from_the_rows_nothing_is_certain() -> None:
    X, y = table(40, 2)
    far = X.mean(axis=0) + np.array([[1e9, 0.0], [0.0, 1e9]])
    m = Model(alpha=1.0).fit(X, y)
    assert (m.predict_proba(far).max(axis=1) > 1 - 1e-9).all()
    assert (m.posterior(far).probabilities.max(axis=1) < 1 - 1e-6).all()
    three = Model(alpha=1.0).fit(IRIS, SPECIES)
    odd = np.array([[-1e7, 1e7, 0.0, 0.0]])
    assert three.predict_proba(odd).max() > 1 - 1e-9
    assert three.posterior(odd).probabilities.max() < 0.999


@pytest.mark.parametrize("mean", [0.0, 0.5, 2.0, 6.0, -3.0])
@pytest.mark.parametrize("variance", [0.0, 0.1, 1.0, 9.0, 100.0])
def test_mackays_approximation_is_within_two_hundredths(mean: float, variance: float) -> None:
    t = np.linspace(-12, 12, 40_001)
    exact = np.trapezoid(expit(mean + np.sqrt(variance) * t) * np.exp(-t * t / 2) / np.sqrt(2 * np.pi), t)
    assert abs(mean_logistic(np.array([mean]), np.array([variance]))[0] - exact) < 0.02


@pytest.mark.parametrize("K", [2, 3, 5, 25])
def test_the_lattice_averages_softmax(K: int) -> None:
    rng = np.random.default_rng(K)
    B, q = Softmax(K).basis, K - 1
    A = rng.normal(size=(6, q, q)) / np.sqrt(q)
    mean, C = rng.normal(size=(6, q)), A @ A.transpose(0, 2, 1)
    drawn = mean[:, None] + rng.normal(size=(6, 60_000, q)) @ A.transpose(0, 2, 1)
    np.testing.assert_allclose(mean_softmax(mean, C, B, 0), plain_softmax(drawn @ B.T, axis=2).mean(axis=1), atol=6e-3)
    assert normal_lattice(q, 0).shape == (1024, q)
    np.testing.assert_allclose(mean_softmax(mean, 0 * C, B, 5), plain_softmax(mean @ B.T, axis=1), rtol=1e-12)


def test_the_evidence_of_one_slope_is_its_integral() -> None:
    """Without an intercept one integral remains, which many rows make normal."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = (rng.random(400) < expit(0.8 * x)).astype(int)
    m = Model(alpha=2.0, fit_intercept=False).fit(x[:, None], y)
    w = np.linspace(-1, 3, 8001)
    logs = -np.logaddexp(0, np.where(y == 1, -1, 1)[:, None] * np.outer(x, w)).sum(axis=0)
    logs += -w * w + 0.5 * np.log(2 / (2 * np.pi))
    exact = logs.max() + np.log(np.trapezoid(np.exp(logs - logs.max()), w))
    found = m.diagnostics(x[:, None], y)
    assert found.summary["log_evidence"] == pytest.approx(exact, abs=5e-3)
    assert 0 < found.summary["effective_parameters"] < 1
    again = Model(alpha=2e12, fit_intercept=False).fit(1e6 * x[:, None], y).diagnostics(1e6 * x[:, None], y)
    assert again.summary["log_evidence"] == pytest.approx(found.summary["log_evidence"], rel=1e-9)


def test_a_flat_prior_is_refused_where_nothing_bounds_the_weights() -> None:
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    with pytest.raises(InvalidData, match=r"columns? 0 separate.*set alpha > 0"):
        Model(alpha=0.0).fit(x, [0, 0, 1, 1])
    proper = Model(alpha=0.01).fit(x, [0, 0, 1, 1])
    assert np.isfinite(proper.posterior(x).probabilities).all()
    X, y = table(100, 2)
    twice = np.column_stack([X, X[:, 1] + X[:, 0], np.arange(100) % 7])
    with pytest.raises(InvalidData, match="do not tell columns 0, 1, 2 apart"):
        Model(alpha=0.0).fit(twice, y)
    assert np.isfinite(Model(alpha=1.0).fit(twice, y).posterior(twice).probabilities).all()
    with pytest.raises(InvalidData, match="do not tell column"):
        Model(alpha=0.0).fit(np.column_stack([X, np.ones(100)]), y)
    with pytest.raises(InvalidData, match="at most 4000"):
        Model().fit(np.zeros((2, 4000)), [0, 1])


def test_a_constant_column_keeps_its_prior() -> None:
    X, y = table(100, 2)
    m = Model(alpha=4.0).fit(np.column_stack([X, np.full(100, 7.0)]), y)
    assert m.parameter_posterior()["coefficients"].sd[0, 2] == pytest.approx(0.5)


@pytest.mark.parametrize("K", [2, 3])
def test_units_and_repeated_rows_do_not_matter(K: int) -> None:
    X, y = table(90, 3, K)
    unit = np.array([1e-3, 1.0, 1e4])
    s = np.arange(90) % 3 + 1
    plain, other = Model(alpha=0.0).fit(X, y, s), Model(alpha=0.0).fit(X * unit, y, s)
    np.testing.assert_allclose(plain.posterior(X).probabilities, other.posterior(X * unit).probabilities, rtol=1e-7)
    rows = np.repeat(np.arange(90), s)
    repeated = Model(alpha=0.0).fit(X[rows], y[rows])
    np.testing.assert_allclose(plain.posterior(X).probabilities, repeated.posterior(X).probabilities, rtol=1e-7)


@pytest.mark.parametrize("K", [2, 3])
def test_diagnostics_recompute_the_precision(K: int) -> None:
    X, y = table(90, 3, K)
    m = Model(alpha=0.5).fit(X, y)
    found = m.diagnostics(X, y)
    assert all(c.holds for c in found.certificates), found.certificates
    rows = found.tables["coefficients"].rows
    assert len(rows) == (4 if K == 2 else 12)
    assert rows[0][1] == "intercept"
    assert rows[0][6] is None
    assert rows[1][6] == pytest.approx(0.5**-0.5 * (1 if K == 2 else (2 / 3) ** 0.5))
    less = m.diagnostics(X[:60], y[:60])
    assert not next(c for c in less.certificates if c.name == "posterior_precision").holds


@pytest.mark.parametrize(("K", "parametrization"), [(2, "full"), (3, "full"), (3, "reference")])
def test_evidence_chooses_alpha_from_any_start(K: int, parametrization: Any) -> None:
    X, y = table(n=120, d=3, K=K)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options: dict[str, Any] = {"parametrization": parametrization, "hyperparameters": "evidence"}
    models = [Model(alpha=alpha, **options).fit(X, y) for alpha in (1e-3, 1.0, 300.0)]
    alpha = models[0].alpha_
    np.testing.assert_allclose([m.alpha_ for m in models], alpha, rtol=1e-6)
    report = models[0].diagnostics(X, y)
    assert {c.name for c in report.certificates} >= {"evidence_fixed_point", "posterior_precision"}
    assert all(c.holds for c in report.certificates), report.certificates
    plain = Model(alpha=alpha, parametrization=parametrization).fit(X, y)
    np.testing.assert_allclose(models[0].coef_, plain.coef_, rtol=1e-8)

    H = curvature(plain, X, alpha)[0]
    q = 1 if K == 2 else K - 1
    C = np.linalg.inv(H)
    told = 3 * q - alpha * np.trace(C[: 3 * q, : 3 * q])
    size = np.square(plain._independent()[0]).sum()
    assert alpha == pytest.approx(told / size, rel=1e-6)

    def evidence(a: float) -> float:
        summary = Model(alpha=a, parametrization=parametrization).fit(X, y).diagnostics(X, y).summary
        return float(summary["log_evidence"])  # type: ignore[arg-type]

    best = max(evidence(alpha * f) for f in np.geomspace(0.05, 20, 25))
    assert evidence(alpha) == pytest.approx(best, abs=0.1)


def test_evidence_from_chunks_without_slopes_and_without_a_start() -> None:
    X, y = table(n=80, d=3)
    pieces = Cut(X, y, None, tuple(np.array_split(np.arange(80), 3)))
    one, two = fit_chunks(Model(hyperparameters="evidence"), pieces), Model(hyperparameters="evidence").fit(X, y)
    np.testing.assert_allclose(one.alpha_, two.alpha_, rtol=1e-6)
    none = Model(hyperparameters="evidence").fit(np.zeros((10, 2)), np.arange(10) % 2)
    assert "no_slope" in [n.code for n in none.notices_]
    with pytest.raises(InvalidParameter, match="alpha > 0"):
        Model(alpha=0.0, hyperparameters="evidence").fit(X, y)


def test_evidence_of_noise_ends_at_a_maximum_or_says_that_no_slope_is_told() -> None:
    told = []
    for seed in range(25):
        r = np.random.default_rng(seed)
        n = int(r.integers(10, 80))
        X, y = r.normal(size=(n, 3)), r.permutation(np.arange(n) % 2)
        m = Model(hyperparameters="evidence").fit(X, y)
        assert all(c.holds for c in m.diagnostics(X, y).certificates), seed
        told += [n.code for n in m.notices_]
    assert set(told) == {"no_slope"}
    assert len(told) < 20
