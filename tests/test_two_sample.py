"""Two-sample tests against scipy and full enumeration, and that their p-values are never too small."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ml_core.metrics import two_sample
from ml_core.metrics.two_sample import fisher_exact, holm, homogeneity, kolmogorov_smirnov


def gap_of(a, b):
    """max |m F n - n G m| in whole numbers."""
    at = np.concatenate([a, b])
    upto = [np.searchsorted(np.sort(v), at, side="right") for v in (a, b)]
    return int(np.abs(upto[0] * len(b) - upto[1] * len(a)).max())


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 40), (2, 3), (7, 5), (25, 150), (120, 120), (300, 90)])
def test_exact_p_values_are_those_of_scipy(m, n):
    r = np.random.default_rng(m * n)
    for shift in (0.0, 0.4, 0.8):
        a, b = r.normal(size=m), r.normal(shift, 1.0, n)
        got, want = kolmogorov_smirnov(gap_of(a, b), m, n), stats.ks_2samp(a, b, method="exact")
        assert got.statistic == pytest.approx(want.statistic, rel=1e-12)
        if got.method == "exact":
            assert got.p_value == pytest.approx(want.pvalue, rel=1e-6)
        else:
            assert want.pvalue < two_sample.SMALLEST_EXACT
            assert got.p_value >= want.pvalue


@pytest.mark.parametrize(("m", "n"), [(10, 200), (40, 41), (100, 1000), (300, 300), (1500, 1500), (1450, 1453)])
def test_the_limit_is_never_below_the_exact_p_value_where_it_matters(m, n, monkeypatch):
    monkeypatch.setattr(two_sample, "MAX_LATTICE", m * n)
    gaps = [int(z * np.sqrt((m + n) / m / n) * m * n) for z in (0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0)]
    exact = [kolmogorov_smirnov(gap, m, n).p_value for gap in gaps]
    monkeypatch.setattr(two_sample, "MAX_LATTICE", 0)
    limit = [kolmogorov_smirnov(gap, m, n) for gap in gaps]
    assert {t.method for t in limit} == {"asymptotic"}
    assert all(t.p_value >= p * (1 - 1e-9) for t, p in zip(limit, exact, strict=True)), (limit, exact)


def test_paths_are_counted_as_by_enumeration():
    m, n = 4, 6
    gaps = []
    for places in combinations(range(m + n), m):
        steps = np.isin(np.arange(m + n), places)
        gaps.append(int(np.abs(np.cumsum(steps) * n - np.cumsum(~steps) * m).max()))
    for gap in range(m * n + 1):
        p = np.mean(np.array(gaps) >= gap)
        assert kolmogorov_smirnov(gap, m, n).p_value == pytest.approx(p, abs=1e-12)


@given(st.integers(1, 60), st.integers(1, 80), st.data())
@settings(max_examples=60, deadline=None)
def test_fisher_is_that_of_scipy(m, n, data):
    a, b = data.draw(st.integers(0, m)), data.draw(st.integers(0, n))
    want = stats.fisher_exact([[a, m - a], [b, n - b]]).pvalue
    assert fisher_exact(a, m, b, n).p_value == pytest.approx(want, rel=1e-6)


def test_chi_squared_of_large_counts_is_that_of_scipy():
    a, b = np.array([20, 31, 44, 0, 12]), np.array([210, 250, 390, 0, 100])
    want = stats.chi2_contingency([a[a + b > 0], b[a + b > 0]], correction=False)
    got = homogeneity(a, b)
    assert (got.method, got.name) == ("asymptotic", "chi_squared")
    assert (got.statistic, got.p_value) == (pytest.approx(want.statistic), pytest.approx(want.pvalue))


def test_small_counts_are_compared_with_tables_of_the_same_margins():
    a, b = np.array([3, 0, 1, 1]), np.array([4, 9, 6, 0])
    total, m = a + b, int(a.sum())
    cells = np.repeat(np.arange(4), total)
    expected = total * m / total.sum()
    values = []
    for chosen in combinations(range(len(cells)), m):
        counts = np.bincount(cells[list(chosen)], minlength=4)
        values.append(((counts - expected) ** 2 / expected).sum())
    observed = ((a - expected) ** 2 / expected).sum()
    exact = np.mean(np.array(values) >= observed - 1e-9)
    got = homogeneity(a, b)
    assert got.method == "permutation"
    assert got.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / two_sample.DRAWS) + 2e-4)
    assert homogeneity(a, b) == got, "seeded"


def test_many_rare_levels_are_pooled_and_one_level_is_no_test():
    r = np.random.default_rng(0)
    a, b = r.multinomial(40, np.ones(900) / 900), r.multinomial(3000, np.ones(900) / 900)
    assert 0.01 < homogeneity(a, b).p_value <= 1
    assert homogeneity(np.array([5, 0]), np.array([9, 0])) is None
    assert homogeneity(np.array([0, 0]), np.array([9, 3])) is None
    huge = np.array([10**9, 10**9, 3], dtype=np.int64)
    assert homogeneity(np.array([5, 6, 0]), huge).p_value > 0.5


@pytest.mark.parametrize("draw", [
    lambda r: homogeneity(r.multinomial(12, [0.5, 0.3, 0.15, 0.05]), r.multinomial(60, [0.5, 0.3, 0.15, 0.05])).p_value,
    lambda r: homogeneity(r.multinomial(300, [0.5, 0.3, 0.2]), r.multinomial(900, [0.5, 0.3, 0.2])).p_value,
    lambda r: fisher_exact(r.binomial(20, 0.2), 20, r.binomial(90, 0.2), 90).p_value,
    lambda r: kolmogorov_smirnov(gap_of(r.normal(size=15), r.normal(size=70)), 15, 70).p_value,
    lambda r: kolmogorov_smirnov(gap_of(r.integers(0, 4, 15), r.integers(0, 4, 70)), 15, 70).p_value,
], ids=["permutation", "chi_squared", "fisher", "smirnov", "ties"])  # fmt: skip
def test_equal_distributions_are_rejected_at_most_as_often_as_stated(draw):
    n = 400
    p = np.array([draw(np.random.default_rng([7, i])) for i in range(n)])
    for level in (0.01, 0.05, 0.1, 0.2, 0.5):
        assert (p <= level).sum() <= stats.binom.ppf(0.9999, n, level), level


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_holm_is_the_step_down_procedure(values):
    p = np.array(values)
    adjusted = holm(p)
    assert ((adjusted >= p) & (adjusted <= 1)).all()
    for level in (0.01, 0.05, 0.3):
        rejected, left = set(), sorted(range(len(p)), key=lambda i: p[i])
        while left and p[left[0]] * len(left) <= level:
            rejected.add(left.pop(0))
        assert {i for i in range(len(p)) if adjusted[i] <= level} == rejected
