"""Are two samples drawn from one distribution? Statistics from counts, with p-values that err on the safe side.

Every p-value here is for two independent samples of independent rows. Ties make Kolmogorov–Smirnov's conservative.

References
----------
Hodges (1958), The significance probability of the Smirnov two-sample test, Arkiv för Matematik 3(5).
Wei, Dudley (2012), Two-sample Dvoretzky–Kiefer–Wolfowitz inequalities, Statistics & Probability Letters 82(3).
Phipson, Smyth (2010), Permutation p-values should never be zero, Stat. Appl. Genet. Mol. Biol. 9(1).
Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6(2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, gammaln, kolmogorov

from ml_core.arrays import Vector
from ml_core.rng import generator

MAX_LATTICE = 2_000_000
SMALLEST_EXACT = 1e-6
EXPECTED = 5.0
DRAWS = 9_999
MAX_CELLS = 64
MAX_COLORS = 900_000_000


@dataclass(frozen=True)
class TwoSample:
    """Name of the test, its statistic, p-value, and how that was found: exact, asymptotic or permutation."""

    name: str
    statistic: float
    p_value: float
    method: str


def kolmogorov_smirnov(gap: int, m: int, n: int) -> TwoSample:
    """Samples of m and n rows whose distribution functions are at most `gap` / (m n) apart.

    P(D ≥ gap / mn): lattice paths are counted up to m n = 2·10⁶, min(m, n) sums of arrays; beyond that, and below
    10⁻⁶, where the difference from 1 loses digits, it is Kolmogorov's limit, which is larger.
    """
    distance = gap / m / n
    limit = float(kolmogorov(np.sqrt(m * n / (m + n)) * distance))
    if m * n <= MAX_LATTICE:
        p = 1.0 - _inside(gap, min(m, n), max(m, n))
        if p >= SMALLEST_EXACT:
            return TwoSample("kolmogorov_smirnov", distance, min(p, 1.0), "exact")
    return TwoSample("kolmogorov_smirnov", distance, min(limit, 1.0), "asymptotic")


def _inside(gap: int, m: int, n: int) -> float:
    """Share of the lattice paths from (0, 0) to (m, n) with |i n - j m| < gap at each of their points (i, j)."""
    if gap <= 0:
        return 0.0
    paths, scale = np.zeros(n + 1), 0.0
    paths[: min(n, (gap - 1) // m) + 1] = 1.0
    for i in range(1, m + 1):
        low, high = max(0, (i * n - gap) // m + 1), min(n, -((-i * n - gap) // m) - 1)
        if low > high:
            return 0.0
        inside = np.cumsum(paths[low : high + 1])
        largest = float(inside[-1])
        if largest == 0.0:
            return 0.0
        paths[:low] = 0.0
        paths[low : high + 1] = inside / largest
        paths[high + 1 :] = 0.0
        scale += np.log(largest)
    choose = gammaln(m + n + 1) - gammaln(m + 1) - gammaln(n + 1)
    return float(np.exp(np.log(paths[n]) + scale - choose)) if paths[n] > 0 else 0.0


def fisher_exact(a: int, m: int, b: int, n: int) -> TwoSample:
    """Whether a of m and b of n have one probability: Fisher's test, two-sided by probability. O(min(a + b, m))."""
    k = np.arange(max(0, a + b - n), min(m, a + b) + 1)
    logs = _log_choose(m, k) + _log_choose(n, a + b - k)
    chances = np.exp(logs - logs.max())
    here = chances[a - k[0]]
    p = float(chances[chances <= here * (1 + 1e-7)].sum() / chances.sum())
    return TwoSample("fisher_exact", a / m - b / n, min(p, 1.0), "exact")


def _log_choose(n: int, k: np.ndarray) -> Vector:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def homogeneity(counts: np.ndarray, reference: np.ndarray) -> TwoSample | None:
    """Whether counts (K,) of levels in two samples have one distribution; None where there are not two levels.

    Two levels: Fisher. More: Pearson's χ², from its limit where each of the 2K counts is expected to be at least 5,
    else from 9,999 seeded tables with the same margins (the smallest levels pooled to at most 64 cells); that p-value
    is never below 10⁻⁴, and never too small.
    """
    total = counts + reference
    counts, reference = counts[total > 0], reference[total > 0]
    m, n = int(counts.sum()), int(reference.sum())
    if len(counts) < 2 or not m or not n:
        return None
    if len(counts) == 2:
        return fisher_exact(int(counts[0]), m, int(reference[0]), n)
    if (counts + reference).min() * min(m, n) / (m + n) >= EXPECTED:
        value = float(_pearson(counts, counts + reference, m, n))
        return TwoSample("chi_squared", value, float(chdtrc(len(counts) - 1, value)), "asymptotic")
    counts, total = _pooled(counts, counts + reference)
    value = float(_pearson(counts, total, m, n))
    drawn = _pearson(_tables(total, m), total, m, n)
    beyond = int((drawn >= value * (1 - 1e-9)).sum())
    return TwoSample("chi_squared", value, (1 + beyond) / (1 + DRAWS), "permutation")


def _pearson(counts: np.ndarray, total: np.ndarray, m: int, n: int) -> Vector:
    """Pearson's χ² of tables counts (…, K) whose other row is total - counts."""
    expected = total * (m / (m + n))
    return np.asarray(((counts - expected) ** 2 / expected).sum(axis=-1) * ((m + n) / n))


def _pooled(counts: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with the levels of least total put together; which, the margins alone decide, so the test stays exact."""
    if len(total) <= MAX_CELLS:
        return counts, total
    order = np.argsort(-total, kind="stable")
    starts = np.arange(MAX_CELLS)
    return np.add.reduceat(counts[order], starts), np.add.reduceat(total[order], starts)


def _tables(total: np.ndarray, m: int) -> np.ndarray:
    """(DRAWS, K) counts of m rows drawn without replacement from a seeded stream; with, where rows are too many."""
    rng = generator(0)
    if total.sum() > MAX_COLORS:
        return rng.multinomial(m, total / total.sum(), size=DRAWS)
    return rng.multivariate_hypergeometric(total, m, size=DRAWS, method="marginals")


def holm(p_values: Vector) -> Vector:
    """(k,) adjusted p-values: rejecting those up to α makes one false rejection or more with probability ≤ α."""
    k = len(p_values)
    order = np.argsort(p_values, kind="stable")
    out = np.empty(k)
    out[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(k, 0, -1)), 1.0)
    return out
