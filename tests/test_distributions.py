"""Every distribution against scipy.stats: one list of instances, every property below runs over all of them."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from ml_core.bundle import load_bundle, save_bundle
from ml_core.distributions.base import FAMILIES, Distribution
from ml_core.distributions.bernoulli import Bernoulli
from ml_core.distributions.beta import Beta
from ml_core.distributions.beta_binomial import BetaBinomial
from ml_core.distributions.categorical import Categorical
from ml_core.distributions.dirichlet import Dirichlet
from ml_core.distributions.empirical import Empirical
from ml_core.distributions.gamma import Gamma
from ml_core.distributions.inverse_gamma import InverseGamma
from ml_core.distributions.laplace import Laplace
from ml_core.distributions.mixture import Mixture
from ml_core.distributions.negative_binomial import NegativeBinomial
from ml_core.distributions.normal import MultivariateNormal, Normal
from ml_core.distributions.normal_inverse_gamma import NormalInverseGamma
from ml_core.distributions.poisson import Poisson
from ml_core.distributions.student import MultivariateStudentT, StudentT


def V(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class Scalar:
    """A scalar family: our batch, the frozen scipy batch, points where both are compared, and points of no density."""

    ours: Distribution
    scipy: Any
    x: np.ndarray
    outside: np.ndarray | None = None

    @property
    def log_density(self) -> Callable[..., Any]:
        return self.scipy.logpdf if hasattr(self.scipy.dist, "logpdf") else self.scipy.logpmf


SCALARS = {
    "normal": Scalar(
        Normal(V(0, 1, -50), V(1, 2.5, 0.01)), stats.norm(V(0, 1, -50), V(1, 2.5, 0.01)), V(0.3, -4, -50.02)
    ),
    "student_t": Scalar(
        StudentT(V(0, 1, 2), V(1, 3, 0.5), V(2.5, 5, 30)),
        stats.t(V(2.5, 5, 30), V(0, 1, 2), V(1, 3, 0.5)),
        V(0.3, -9, 2.4),
    ),
    "beta": Scalar(
        Beta(V(1, 8, 0.5), V(1, 6, 3)), stats.beta(V(1, 8, 0.5), V(1, 6, 3)), V(0.2, 0.6, 0.01), V(-0.1, 1.1, 7)
    ),
    "gamma": Scalar(
        Gamma(V(0.5, 2, 40), V(1, 0.25, 8)),
        stats.gamma(V(0.5, 2, 40), scale=1 / V(1, 0.25, 8)),
        V(0.1, 9, 5),
        V(-1, -0.1, -9),
    ),
    "inverse_gamma": Scalar(
        InverseGamma(V(2.5, 3, 40), V(1, 0.25, 8)),
        stats.invgamma(V(2.5, 3, 40), scale=V(1, 0.25, 8)),
        V(0.1, 0.4, 0.2),
        V(-1, 0, -9),
    ),
    "laplace": Scalar(
        Laplace(V(0, 4, -1), V(1, 3.2, 0.1)), stats.laplace(V(0, 4, -1), V(1, 3.2, 0.1)), V(0.3, -9, -1)
    ),
    "poisson": Scalar(Poisson(V(0.3, 4, 250)), stats.poisson(V(0.3, 4, 250)), V(0, 3, 260), V(-1, 2.5, -3)),
    "negative_binomial": Scalar(
        NegativeBinomial(V(0.5, 4, 20), V(0.3, 0.5, 0.04)),
        stats.nbinom(V(0.5, 4, 20), V(0.3, 0.5, 0.04)),
        V(0, 3, 460),
        V(-1, 2.5, -3),
    ),
    "beta_binomial": Scalar(
        BetaBinomial(V(1, 10, 60), V(2, 8, 0.5), V(3, 6, 0.7)),
        stats.betabinom(np.array([1, 10, 60]), V(2, 8, 0.5), V(3, 6, 0.7)),
        V(0, 6, 59),
        V(-1, 11, 2.5),
    ),
    "bernoulli": Scalar(
        Bernoulli(V(0.3, 0.5, 0.98)), stats.bernoulli(V(0.3, 0.5, 0.98)), V(0, 1, 0), V(-1, 2, 0.5)
    ),
}
COVARIANCES = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 4.0]]])
OTHERS: dict[str, Distribution] = {
    "bernoulli_rows": Bernoulli(np.array([[0.2, 0.9], [0.5, 0.1]])),
    "dirichlet": Dirichlet(np.array([[1.0, 2.0, 3.0], [8.0, 2.0, 2.0]])),
    "multivariate_normal": MultivariateNormal(np.array([[0.0, 1.0], [2.0, -1.0]]), COVARIANCES),
    "multivariate_student_t": MultivariateStudentT(np.array([[0.0, 1.0], [2.0, -1.0]]), COVARIANCES, V(4, 6)),
    "normal_inverse_gamma": NormalInverseGamma(np.array([[0.0, 1.0], [2.0, -1.0]]), COVARIANCES, V(4, 6), V(2, 3)),
    "empirical": Empirical(np.array([[3.0, 1.0, 2.0, 2.0], [0.0, 0.0, 5.0, -1.0]])),
    "categorical": Categorical(["a", "b", "c"], np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])),
    "mixture": Mixture(np.array([[0.3, 0.7], [0.5, 0.5]]), [Normal(V(0, 1), V(1, 1)), Normal(V(3, -2), V(0.5, 2))]),
}
EVERY = {k: s.ours for k, s in SCALARS.items()} | OTHERS
HAS_MOMENTS = [k for k in EVERY if k != "categorical"]
scalar = pytest.mark.parametrize("case", SCALARS.values(), ids=SCALARS)
every = pytest.mark.parametrize("ours", EVERY.values(), ids=EVERY)
moments = pytest.mark.parametrize("ours", [EVERY[k] for k in HAS_MOMENTS], ids=HAS_MOMENTS)


def test_every_family_stands_in_the_list() -> None:
    assert set(FAMILIES) <= {d.family for d in EVERY.values()}


@scalar
def test_log_density_mean_and_variance_are_scipys(case: Scalar) -> None:
    np.testing.assert_allclose(case.ours.log_density(case.x), case.log_density(case.x), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(case.ours.mean, case.scipy.mean(), rtol=1e-13)
    np.testing.assert_allclose(case.ours.variance, case.scipy.var(), rtol=1e-12)
    np.testing.assert_allclose(case.ours.sd, case.scipy.std(), rtol=1e-12)


@scalar
@pytest.mark.parametrize("p", [0.0005, 0.05, 0.3, 0.5, 0.77, 0.95, 0.9999])
def test_quantile_is_scipys(case: Scalar, p: float) -> None:
    np.testing.assert_allclose(case.ours.quantile(p), case.scipy.ppf(p), rtol=1e-9, atol=1e-12)


@scalar
def test_cdf_is_scipys(case: Scalar) -> None:
    if not hasattr(case.ours, "cdf"):
        assert case.ours.family in {"normal", "student_t"}
        return
    for x in (case.x, case.x - 1, case.x + 0.5):
        np.testing.assert_allclose(case.ours.cdf(x), case.scipy.cdf(x), rtol=1e-11, atol=1e-14)


@scalar
def test_no_density_outside_the_support(case: Scalar) -> None:
    if case.outside is None:
        assert np.isfinite(case.ours.log_density(np.array([-1e3, 0.0, 1e3]))).all()
    else:
        assert (case.ours.log_density(case.outside) == -np.inf).all()


@scalar
def test_discrete_quantile_is_the_least_value_that_reaches_p(case: Scalar) -> None:
    if hasattr(case.scipy.dist, "logpdf"):
        assert np.all(np.diff([case.ours.quantile(p) for p in (0.1, 0.5, 0.9)], axis=0) > 0)
        return
    for p in np.linspace(0.01, 0.99, 37):
        k = case.ours.quantile(p)
        assert (case.scipy.cdf(k) >= p - 1e-12).all()
        assert (case.scipy.cdf(k - 1) < p).all()


@moments
def test_samples_have_the_moments(ours: Distribution) -> None:
    n = 40_000
    draws = np.asarray(ours.sample(n, np.random.default_rng(7)), dtype=np.float64)
    assert draws.shape[:2] == (n, len(ours))
    error = np.abs(draws.mean(axis=0) - ours.mean)
    assert (error <= 6 * ours.sd / np.sqrt(n) + 1e-12).all()
    np.testing.assert_allclose(draws.var(axis=0), ours.variance, rtol=0.35)


@every
def test_equal_seeds_give_equal_draws(ours: Distribution) -> None:
    a, b = (ours.sample(5, np.random.default_rng(3)) for _ in range(2))
    assert (a == b).all()


@every
def test_pickle_and_bundle_round_trips(ours: Distribution) -> None:
    buffer = io.BytesIO()
    save_bundle(ours, buffer)
    for copy in (pickle.loads(pickle.dumps(ours)), load_bundle(buffer)):
        assert type(copy) is type(ours)
        assert copy.to_json(0.8) == ours.to_json(0.8)


@every
def test_json_is_finite_and_has_one_object_per_member(ours: Distribution) -> None:
    rows = json.loads(json.dumps(ours.to_json(0.9), allow_nan=False))
    assert len(rows) == len(ours)
    assert all(r["family"] == ours.family for r in rows)
    assert all(r["level"] == 0.9 for r in rows if "interval" in r)


@moments
def test_interval_is_equal_tailed(ours: Distribution) -> None:
    interval = ours.interval(0.8)
    assert interval is not None
    np.testing.assert_array_equal(interval[..., 0], ours.quantile(0.5 - 0.4))
    assert (interval[..., 0] <= interval[..., 1]).all()


def test_moments_that_do_not_exist_are_nan_then_null() -> None:
    d = InverseGamma(V(0.9, 1.5), V(1, 1))
    assert np.isnan(d.mean).tolist() == [True, False]
    assert np.isnan(d.variance).all()
    assert d.to_json()[0]["mean"] is None
    nig = NormalInverseGamma(np.zeros((1, 1)), np.ones((1, 1, 1)), V(0.4), V(1))
    assert np.isnan(nig.mean).all()


def test_beta_mode_median_and_densest_interval() -> None:
    d = Beta(V(8, 0.5, 1, 3, 1, 0.4), V(6, 0.5, 3, 1, 1, 1))
    np.testing.assert_allclose(d.mode[0], 7 / 12, rtol=1e-14)
    assert np.isnan(d.mode[1:]).all()
    np.testing.assert_allclose(d.median[0], 0.5749233, atol=5e-8)
    low, high = d.highest_density_interval(0.9).T
    np.testing.assert_allclose(d.cdf(high)[[0, 2, 3, 4, 5]] - d.cdf(low)[[0, 2, 3, 4, 5]], 0.9, atol=1e-13)
    assert np.isnan([low[1], high[1]]).all()
    assert low[2] == 0.0
    assert high[3] == 1.0
    assert low[5] == 0.0
    np.testing.assert_allclose([low[4], high[4]], [0.05, 0.95], atol=1e-14)
    ends = Beta(V(8, 8), V(6, 6)).log_density(V(low[0], high[0]))
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-10)


@pytest.mark.parametrize(("a", "b"), [(2, 5), (1.5, 1.01), (1.001, 1.002), (900, 3), (5e4, 7e4), (2, 1e6)])
def test_densest_interval_is_no_longer_than_any_other(a: float, b: float) -> None:
    low, high = Beta(V(a), V(b)).highest_density_interval(0.95)[0]
    peer = stats.beta(a, b)
    widths = [peer.ppf(q + 0.95) - peer.ppf(q) for q in np.linspace(0, 0.05, 201)]
    assert high - low <= min(widths) * (1 + 1e-9)
    np.testing.assert_allclose(peer.cdf(high) - peer.cdf(low), 0.95, atol=1e-11)


def test_dirichlet_is_scipys_and_has_beta_marginals() -> None:
    d = OTHERS["dirichlet"]
    x = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    for i, a in enumerate([[1, 2, 3], [8, 2, 2]]):
        np.testing.assert_allclose(d.log_density(x)[i], stats.dirichlet(a).logpdf(x[i]), rtol=1e-13)
        np.testing.assert_allclose(d.mean[i], stats.dirichlet(a).mean(), rtol=1e-14)
        np.testing.assert_allclose(d.variance[i], stats.dirichlet(a).var(), rtol=1e-14)
        np.testing.assert_allclose(d.quantile(0.3)[i], stats.beta(a, sum(a) - np.array(a)).ppf(0.3), rtol=1e-12)
    assert (d.log_density(np.array([[0.5, 0.4, 0.2], [-0.1, 0.6, 0.5]])) == -np.inf).all()
    np.testing.assert_allclose(Dirichlet(np.array([[8.0, 2.0, 2.0]])).mode[0], [7 / 9, 1 / 9, 1 / 9])
    assert np.isnan(Dirichlet(np.array([[1.0, 2.0]])).mode).all()


def test_multivariate_normal_is_scipys() -> None:
    x = np.array([[0.5, 0.5], [1.0, 3.0]])
    want = [stats.multivariate_normal(m, C).logpdf(v)
            for m, C, v in zip([[0, 1], [2, -1]], COVARIANCES, x, strict=True)]  # fmt: skip
    np.testing.assert_allclose(OTHERS["multivariate_normal"].log_density(x), want, rtol=1e-13)


def test_normal_inverse_gamma_is_the_product_and_its_marginals() -> None:
    d = OTHERS["normal_inverse_gamma"]
    x = np.array([[0.5, 0.5, 0.7], [1.0, 3.0, 2.0]])
    for i in range(2):
        want = stats.invgamma((4, 6)[i], scale=(2, 3)[i]).logpdf(x[i, 2])
        want += stats.multivariate_normal([[0, 1], [2, -1]][i], x[i, 2] * COVARIANCES[i]).logpdf(x[i, :2])
        np.testing.assert_allclose(d.log_density(x)[i], want, rtol=1e-12)
    assert (d.log_density(np.array([[0, 0, 0.0], [0, 0, -1.0]])) == -np.inf).all()
    np.testing.assert_allclose(d.quantile(0.9)[0, 0], stats.t(8, 0, np.sqrt(2 / 4 * 2)).ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(d.quantile(0.9)[1, 2], stats.invgamma(6, scale=3).ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(d.variance[0, 0], stats.t(8, 0, np.sqrt(2 / 4 * 2)).var(), rtol=1e-12)


def test_empirical_counts_its_draws() -> None:
    d = OTHERS["empirical"]
    np.testing.assert_allclose(np.exp(d.log_density(V(2, 0))), [0.5, 0.5])
    assert d.log_density(V(9, 9)).tolist() == [-np.inf, -np.inf]
    np.testing.assert_allclose(d.cdf(V(2, -0.5)), [0.75, 0.25])
    assert d.quantile(0.5).tolist() == [2.0, 0.0]
    np.testing.assert_allclose(d.mean, [2.0, 1.0])


def test_mixture_density_integrates_to_its_cdf() -> None:
    d = OTHERS["mixture"]
    q = d.quantile(0.3)
    for i in range(2):
        def density(x: float, i: int = i) -> float:
            return float(np.exp(d.log_density(np.full(2, x))[i]))

        np.testing.assert_allclose(integrate.quad(density, -30, q[i], limit=200)[0], 0.3, atol=1e-8)


def test_gamma_poisson_mixture_is_the_negative_binomial() -> None:
    shape, rate, k = 3.5, 0.8, 6.0

    def joint(r: float) -> float:
        return float(np.exp(Poisson(V(r)).log_density(V(k))[0] + Gamma(V(shape), V(rate)).log_density(V(r))[0]))

    want = integrate.quad(joint, 0, np.inf)[0]
    got = np.exp(NegativeBinomial(V(shape), V(rate / (1 + rate))).log_density(V(k))[0])
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_beta_binomial_masses_sum_to_one_and_know_the_coin() -> None:
    d = BetaBinomial(V(10, 2), V(2, 8), V(2, 6))  # before ten flips, and after six heads of ten
    np.testing.assert_allclose(d.masses(0).sum(), 1.0, rtol=1e-13)
    np.testing.assert_allclose(d.masses(0)[6], 0.1223776, atol=5e-8)
    np.testing.assert_allclose(d.masses(1)[2], 0.3428571, atol=5e-8)


def test_bernoulli_rows_add_their_flips() -> None:
    d = OTHERS["bernoulli_rows"]
    np.testing.assert_allclose(np.exp(d.log_density(np.array([[1, 1], [0, 1]]))), [0.18, 0.05])
    assert Bernoulli(V(0, 1)).log_density(V(0, 1)).tolist() == [0.0, 0.0]
    assert Bernoulli(V(0, 1)).log_density(V(1, 0)).tolist() == [-np.inf, -np.inf]
