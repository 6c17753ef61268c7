"""Coins: closed forms, scipy, enumeration, and the algebra of updates."""

from __future__ import annotations

import itertools
import json
from math import comb

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from ml_core.bayes.beta_bernoulli import BetaBernoulli, log_rising
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.registry import build

TEN = np.array([[1.0]] * 6 + [[0.0]] * 4)
R = np.random.default_rng(0)
FLIPS = (R.random((80, 3)) < [0.1, 0.5, 0.9]).astype(float)


def coin(model: BetaBernoulli, X: np.ndarray, j: int = 0) -> dict[str, float]:
    table = model.diagnostics(X).tables["coins"]
    return dict(zip(table.columns, table.rows[j], strict=True))


def test_known_coin() -> None:
    model = BetaBernoulli(a=2.0, b=2.0).fit(TEN)
    c = coin(model, TEN)
    assert (c["heads"], c["tails"], c["alpha"], c["beta"]) == (6, 4, 8, 6)
    for name, want in {
        "mean": 0.5714286, "mode": 0.5833333, "median": 0.5749233, "variance": 0.0163265,
        "central_low": 0.3157776, "central_high": 0.8077676, "log_evidence": -7.4477513,
    }.items():  # fmt: skip
        np.testing.assert_allclose(c[name], want, atol=5.1e-8, err_msg=name)
    np.testing.assert_allclose(np.exp(c["log_evidence_counts"]), 0.1223776, atol=5e-8)
    np.testing.assert_allclose(model.future(2).masses()[2], 0.3428571, atol=5e-8)
    np.testing.assert_allclose(model.posterior(TEN[:1]).mean, [[8 / 14]], rtol=1e-15)


def test_posterior_is_bayes_rule_by_quadrature() -> None:
    a, b, h, t = 1.7, 3.2, 6, 4

    def joint(p: float) -> float:
        return float(stats.beta(a, b).pdf(p) * p**h * (1 - p) ** t)

    evidence = integrate.quad(joint, 0, 1, epsabs=1e-14)[0]
    model = BetaBernoulli(a=a, b=b).fit(TEN)
    np.testing.assert_allclose(model.log_evidence(), np.log(evidence), rtol=1e-9)
    p = np.array([0.37])
    density = np.exp(model.parameter_posterior()["p"].log_density(p))
    np.testing.assert_allclose(density, joint(0.37) / evidence, rtol=1e-8)


def test_evidence_is_the_chain_of_predictions_and_keeps_digits() -> None:
    total, heads, tails = 0.0, 2.0, 2.0
    for flip in TEN[:, 0]:
        total += np.log((heads if flip else tails) / (heads + tails))
        heads, tails = heads + flip, tails + 1 - flip
    np.testing.assert_allclose(BetaBernoulli(a=2.0, b=2.0).fit(TEN).log_evidence(), total, rtol=1e-14)
    many = BetaBernoulli(a=2.0, b=0.5).fit(np.array([[1.0], [0.0]]), sample_weight=[70_000.0, 31.0])
    with mpmath.workdps(40):
        want = mpmath.log(mpmath.beta(70_002, mpmath.mpf("31.5")) / mpmath.beta(2, 0.5))
    np.testing.assert_allclose(many.log_evidence()[0], float(want), rtol=1e-10)


def test_future_heads_are_enumeration_over_sequences() -> None:
    model = BetaBernoulli(a=2.0, b=2.0).fit(TEN)
    masses = np.zeros(5)
    for flips in itertools.product((0, 1), repeat=4):
        later = BetaBernoulli(a=8.0, b=6.0).fit(np.array(flips, dtype=float)[:, None])
        masses[sum(flips)] += np.exp(later.log_evidence()[0])
    np.testing.assert_allclose(model.future(4).masses(), masses, rtol=1e-12)
    curve = model.diagnostics(TEN).curves["future_heads"]
    assert len(curve["x"]) == 11
    np.testing.assert_allclose(np.sum(curve["column_0"]), 1.0, rtol=1e-12)


def test_columns_are_independent_coins() -> None:
    together = BetaBernoulli(a=0.5, b=3.0).fit(FLIPS)
    for j in range(3):
        alone = BetaBernoulli(a=0.5, b=3.0).fit(FLIPS[:, [j]])
        assert together.alpha_[j] == alone.alpha_[0]
        assert coin(together, FLIPS, j) | {"column": 0} == coin(alone, FLIPS[:, [j]])
    summed = sum(BetaBernoulli().fit(FLIPS[:, [j]]).score_samples(FLIPS[:, [j]]) for j in range(3))
    np.testing.assert_allclose(BetaBernoulli().fit(FLIPS).score_samples(FLIPS), summed, rtol=1e-13)


def test_densities_sum_to_one_over_all_rows() -> None:
    cells = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    np.testing.assert_allclose(np.exp(BetaBernoulli().fit(FLIPS).score_samples(cells)).sum(), 1.0, rtol=1e-13)


def test_updates_are_associative_and_equal_one_fit() -> None:
    whole = BetaBernoulli(a=2.0, b=2.0).fit(FLIPS)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        parts = [FLIPS[:11], FLIPS[11:50], FLIPS[50:]]
        model = BetaBernoulli(a=2.0, b=2.0).fit(parts[order[0]])
        for i in order[1:]:
            model.update(parts[i])
        np.testing.assert_array_equal(model.alpha_, whole.alpha_)
        np.testing.assert_array_equal(model.beta_, whole.beta_)
    posterior_as_prior = BetaBernoulli(a=8.0, b=6.0).fit(TEN)
    np.testing.assert_array_equal(BetaBernoulli(a=2.0, b=2.0).fit(TEN).update(TEN).alpha_, posterior_as_prior.alpha_)


def test_forgetting_is_a_refit_without_the_rows() -> None:
    model = BetaBernoulli(a=2.0, b=2.0).fit(FLIPS)
    assert model.forget(FLIPS[50:]) is model
    np.testing.assert_array_equal(model.alpha_, BetaBernoulli(a=2.0, b=2.0).fit(FLIPS[:50]).alpha_)
    model.update(FLIPS[50:])
    np.testing.assert_array_equal(model.beta_, BetaBernoulli(a=2.0, b=2.0).fit(FLIPS).beta_)
    thirds = BetaBernoulli().fit(FLIPS, sample_weight=np.full(80, 1 / 3))
    thirds.forget(FLIPS[:70], sample_weight=np.full(70, 1 / 3))
    np.testing.assert_allclose(thirds.heads_, FLIPS[70:].sum(axis=0) / 3, atol=1e-12)


def test_rows_that_were_never_seen_cannot_be_forgotten() -> None:
    model = BetaBernoulli().fit(TEN)
    before = model.alpha_.copy()
    for rows in (np.ones((7, 1)), np.concatenate([TEN, TEN]), TEN):
        with pytest.raises(InvalidData, match="seen"):
            model.forget(rows)
    np.testing.assert_array_equal(model.alpha_, before)


@pytest.mark.parametrize("seed", range(5))
def test_mean_lies_between_prior_and_frequency_and_every_certificate_holds(seed: int) -> None:
    r = np.random.default_rng(seed)
    X = (r.random((int(r.integers(1, 40)), 4)) < r.random(4)).astype(float)
    model = BetaBernoulli(a=float(r.gamma(1.0) + 0.05), b=float(r.gamma(1.0) + 0.05)).fit(X)
    report = model.diagnostics(X)
    assert all(c.holds for c in report.certificates), report.certificates
    prior, frequency, mean = model.a / (model.a + model.b), X.mean(axis=0), model.alpha_ / (model.alpha_ + model.beta_)
    assert (mean >= np.minimum(prior, frequency) - 1e-15).all()
    assert (mean <= np.maximum(prior, frequency) + 1e-15).all()
    json.dumps(report.to_json(), allow_nan=False)


def test_certificates_break_for_other_rows() -> None:
    model = BetaBernoulli().fit(TEN)
    assert [c.name for c in model.diagnostics(1 - TEN).certificates if not c.holds] == ["count_error"]
    model.update(TEN)
    assert all(c.holds for c in model.diagnostics(np.concatenate([TEN, TEN])).certificates)


def test_mode_is_null_unless_both_counts_exceed_one() -> None:
    assert coin(BetaBernoulli().fit(TEN[:1]), TEN[:1])["mode"] is None
    both = np.array([[1.0], [0.0]])
    assert coin(BetaBernoulli().fit(both), both)["mode"] == 0.5
    spread = coin(BetaBernoulli(a=0.1, b=0.1).fit(both, sample_weight=[0.2, 0.3]), both)
    assert spread["densest_low"] is None
    assert spread["central_low"] < spread["central_high"]


def test_densest_interval_is_the_shorter() -> None:
    c = coin(BetaBernoulli(level=0.8).fit(TEN), TEN)
    assert c["densest_high"] - c["densest_low"] < c["central_high"] - c["central_low"]
    d = stats.beta(7, 5)
    np.testing.assert_allclose(d.cdf(c["densest_high"]) - d.cdf(c["densest_low"]), 0.8, rtol=1e-12)
    np.testing.assert_allclose(d.pdf(c["densest_high"]), d.pdf(c["densest_low"]), rtol=1e-9)


def test_weights_are_repeated_flips_of_any_fraction() -> None:
    s = R.integers(0, 4, size=80).astype(float)
    weighted = BetaBernoulli().fit(FLIPS, sample_weight=s)
    repeated = BetaBernoulli().fit(np.repeat(FLIPS, s.astype(int), axis=0))
    np.testing.assert_array_equal(weighted.alpha_, repeated.alpha_)
    part = BetaBernoulli(a=2.0, b=2.0).fit(TEN, sample_weight=np.full(10, 0.5))
    np.testing.assert_array_equal([part.alpha_[0], part.beta_[0]], [5.0, 4.0])
    assert all(c.holds for c in part.diagnostics(TEN, sample_weight=np.full(10, 0.5)).certificates)


def test_samples_have_the_predictive_frequencies_and_the_seed() -> None:
    model = BetaBernoulli().fit(FLIPS)
    rows, labels = model.sample(20_000, random_state=4)
    assert labels is None
    assert set(np.unique(rows)) == {0.0, 1.0}
    mean = model.alpha_ / (model.alpha_ + model.beta_)
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=5 * 0.5 / np.sqrt(20_000))
    np.testing.assert_array_equal(rows, model.sample(20_000, random_state=4)[0])


def test_binarize_turns_numbers_into_flips_and_null_refuses_them() -> None:
    X = R.normal(size=(40, 2))
    model = BetaBernoulli(binarize=0.3).fit(X)
    np.testing.assert_array_equal(model.heads_, (X > 0.3).sum(axis=0))
    flips = np.where(X > 0.3, 1.0, 0.0)
    np.testing.assert_allclose(model.score_samples(X), BetaBernoulli().fit(flips).score_samples(flips))
    assert model.accepts == "real"
    assert BetaBernoulli.accepts == BetaBernoulli().accepts == "binary"
    for bad in (X, np.array([[2.0]]), np.array([[0.5]])):
        with pytest.raises(InvalidData, match="0 or 1"):
            BetaBernoulli().fit(bad)
    with pytest.raises(InvalidData, match="0 or 1"):
        BetaBernoulli().fit(TEN).update(np.array([[0.5]]))
    with pytest.raises(InvalidData, match="0 or 1"):
        BetaBernoulli().fit(TEN).posterior(np.array([[7.0]]))


def test_booleans_and_integers_are_flips() -> None:
    np.testing.assert_array_equal(BetaBernoulli().fit(TEN == 1).alpha_, BetaBernoulli().fit(TEN.astype(int)).alpha_)


@pytest.mark.parametrize(
    "params",
    [
        {"a": 0.0}, {"b": -1.0}, {"a": "1"}, {"a": True}, {"a": float("nan")}, {"b": float("inf")}, {"level": 1.0},
        {"level": 0.0}, {"future_flips": -1}, {"future_flips": 2.5}, {"future_flips": 10_001}, {"binarize": "0"},
        {"c": 1.0},
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        build({"algorithm": "beta_bernoulli", "params": params})


def test_extreme_counts_stay_finite() -> None:
    model = BetaBernoulli(a=1e-3, b=1e6).fit(np.array([[1.0], [0.0]]), sample_weight=[1e12, 1.0])
    report = model.diagnostics(np.array([[1.0], [0.0]]), sample_weight=[1e12, 1.0])
    json.dumps(report.to_json(), allow_nan=False)
    assert {c.name for c in report.certificates if not c.holds} == set()


def test_no_future_flips_is_a_certain_zero() -> None:
    model = BetaBernoulli(future_flips=0).fit(TEN)
    np.testing.assert_allclose(model.diagnostics(TEN).curves["future_heads"]["column_0"], [1.0], rtol=1e-13)


@pytest.mark.parametrize(("start", "steps"), [(2.0, 6), (0.3, 2.5), (7.0, 0), (1.5, 0.25)])
def test_log_rising_is_the_pochhammer_symbol(start: float, steps: float) -> None:
    np.testing.assert_allclose(log_rising(start, steps), np.log(special.poch(start, steps)), rtol=1e-12, atol=1e-14)


def test_choose_of_counts_is_the_binomial_coefficient() -> None:
    c = coin(BetaBernoulli().fit(TEN), TEN)
    np.testing.assert_allclose(c["log_evidence_counts"] - c["log_evidence"], np.log(comb(10, 6)), rtol=1e-12)
    np.testing.assert_allclose(np.exp(c["log_evidence_counts"]), 1 / 11, rtol=1e-12)  # uniform prior: every count alike
