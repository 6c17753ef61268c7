"""Search of the best split of a node by class counts, compiled.

With class weights c of a set, w = Σ c, each cost has a quality Q that never falls when a set is divided:

gini               cost 1 - Q/w, Q = Σ c²/w
entropy (bits)     cost -Q/w,    Q = Σ c log2 c - w log2 w
misclassification  cost 1 - Q/w, Q = max c

so the decrease of the cost by a split is (Q_left + Q_right - Q)/w and the search maximises Q_left + Q_right. Qualities
that differ by less than 1e-12 w are equal: then the lowest feature wins, then the lowest threshold, whatever the scale
of the weights and the order of the search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ml_core.numerics.jit import merged
from ml_core.tree.borrow import borrowed

GINI, ENTROPY, MISCLASSIFICATION = 0, 1, 2
COSTS = {"gini": GINI, "entropy": ENTROPY, "misclassification": MISCLASSIFICATION}
SMALL = 64
BINS = 256
DENSE = 4
TIE = 1e-12
GOLD = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)
S27, S30, S31, S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
LOW32 = np.uint64(0xFFFFFFFF)


class Rules(NamedTuple):
    """When and how a node may be split."""

    cost: int
    max_features: int
    min_gain: float
    purity: float
    min_samples_split: int
    min_samples_leaf: int
    max_depth: int
    exact: bool


class Work(NamedTuple):
    """Scratch of one growing tree: rows in node order (row, label, weight), stack, and buffers of the search."""

    row: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    spare_row: np.ndarray
    spare_label: np.ndarray
    spare_weight: np.ndarray
    code: np.ndarray
    key: np.ndarray
    counts: np.ndarray
    hist: np.ndarray
    tally: np.ndarray
    features: np.ndarray
    local: np.ndarray
    stack: np.ndarray
    rng: np.ndarray


@merged
def borrow(work):  # type: ignore[no-untyped-def]
    """The same scratch, its arrays without owners."""
    return Work(
        borrowed(work.row), borrowed(work.label), borrowed(work.weight), borrowed(work.spare_row),
        borrowed(work.spare_label), borrowed(work.spare_weight), borrowed(work.code), borrowed(work.key),
        borrowed(work.counts), borrowed(work.hist), borrowed(work.tally), borrowed(work.features),
        borrowed(work.local), borrowed(work.stack), borrowed(work.rng),
    )  # fmt: skip


@merged
def draw(rng, n):  # type: ignore[no-untyped-def]
    """Integer below n < 2³² from a splitmix64 stream; rng is the (1,) uint64 state."""
    rng[0] += GOLD
    z = rng[0]
    z = (z ^ (z >> S30)) * MIX1
    z = (z ^ (z >> S27)) * MIX2
    z = z ^ (z >> S31)
    return np.int64(((z >> S32) * np.uint64(n)) >> S32)


@merged
def quality(cost, c, w):  # type: ignore[no-untyped-def]
    """Q of one set with class weights c (K,) and total w."""
    total = 0.0
    if cost == GINI:
        for k in range(len(c)):
            total += c[k] * c[k]
        return total / w
    if cost == ENTROPY:
        for k in range(len(c)):
            if c[k] > 0:
                total += c[k] * np.log2(c[k])
        return total - w * np.log2(w)
    for k in range(len(c)):
        total = max(total, c[k])
    return total


@merged
def sort_keys(key, n):  # type: ignore[no-untyped-def]
    """Ascending order of key[:n] in place; insertion for short runs, which most nodes are."""
    if n > SMALL:
        key[:n].sort()
        return
    for i in range(1, n):
        v = key[i]
        j = i - 1
        while j >= 0 and key[j] > v:
            key[j + 1] = key[j]
            j -= 1
        key[j + 1] = v


@merged
def scan_sorted(work, rules, start, n, w):  # type: ignore[no-untyped-def]
    """Best cut of one feature by sorting the node's n codes: (Q, cut), code < cut going left; cut -1 if none."""
    code, key, label, weight = work.code, work.key, work.label, work.weight
    for i in range(n):
        key[i] = (np.uint64(code[i]) << S32) | np.uint64(i)
    sort_keys(key, n)
    total, cl, cr = work.counts[0], work.counts[1], work.counts[2]
    sl, sr = 0.0, 0.0
    for k in range(len(total)):
        cl[k] = 0.0
        cr[k] = total[k]
        sr += total[k] * total[k]
    wl, wr, best, cut, tie = 0.0, w, -np.inf, np.int64(-1), TIE * w
    for i in range(n - rules.min_samples_leaf):
        v = key[i]
        at = start + np.int64(v & LOW32)
        k, s = label[at], weight[at]
        sl += s * (2.0 * cl[k] + s)
        sr -= s * (2.0 * cr[k] - s)
        cl[k] += s
        cr[k] -= s
        wl += s
        wr -= s
        after = key[i + 1] >> S32
        if after == v >> S32 or i + 1 < rules.min_samples_leaf or wr <= 0.0:
            continue
        q = sl / wl + sr / wr if rules.cost == GINI else quality(rules.cost, cl, wl) + quality(rules.cost, cr, wr)
        if q > best + tie:
            best, cut = q, np.int64(after)
    return best, cut


@merged
def scan_two(work, rules, start, n, w, low):  # type: ignore[no-untyped-def]
    """The only cut of a column with codes low and low + 1 in the node: (Q, cut); cut -1 when a child is too small."""
    code, label, weight, bank = work.code, work.label, work.weight, work.hist
    total, cl, cr = work.counts[0], work.counts[1], work.counts[2]
    K, rows = len(total), 0
    for i in range(n):
        one = np.int64(code[i]) - low
        rows += one
        bank[(i & 3) * K + label[start + i]] += one * weight[start + i]
    if min(rows, n - rows) < rules.min_samples_leaf:
        bank[: 4 * K] = 0.0
        return -np.inf, np.int64(-1)
    wr = 0.0
    for k in range(K):
        cr[k] = bank[k] + bank[K + k] + bank[2 * K + k] + bank[3 * K + k]
        cl[k] = total[k] - cr[k]
        wr += cr[k]
    bank[: 4 * K] = 0.0
    if wr >= w:
        return -np.inf, np.int64(-1)
    return quality(rules.cost, cl, w - wr) + quality(rules.cost, cr, wr), low + 1


@merged
def fill_bins(work, start, n, low, shift):  # type: ignore[no-untyped-def]
    """Class weights and row counts per bin of the node's codes."""
    K = work.counts.shape[1]
    hist, tally, code, label, weight = work.hist, work.tally, work.code, work.label, work.weight
    for i in range(n):
        b = (np.int64(code[i]) - low) >> shift
        tally[b] += 1
        hist[b * K + label[start + i]] += weight[start + i]


@merged
def scan_bins(work, rules, n, w, low, shift, bins):  # type: ignore[no-untyped-def]
    """Best cut of one feature from its filled bins, which are cleared on the way: (Q, cut); cut -1 if none."""
    hist, tally, total, cl, cr = work.hist, work.tally, work.counts[0], work.counts[1], work.counts[2]
    K = len(total)
    sl, sr = 0.0, 0.0
    for k in range(K):
        cl[k] = 0.0
        cr[k] = total[k]
        sr += total[k] * total[k]
    wl, wr, best, cut, tie, rows = 0.0, w, -np.inf, np.int64(-1), TIE * w, 0
    for b in range(bins):
        if tally[b] == 0:
            continue
        rows += tally[b]
        tally[b] = 0
        for k in range(K):
            h = hist[b * K + k]
            hist[b * K + k] = 0.0
            sl += h * (2.0 * cl[k] + h)
            sr -= h * (2.0 * cr[k] - h)
            cl[k] += h
            cr[k] -= h
            wl += h
            wr -= h
        if min(rows, n - rows) < rules.min_samples_leaf or wr <= 0.0:
            continue
        q = sl / wl + sr / wr if rules.cost == GINI else quality(rules.cost, cl, wl) + quality(rules.cost, cr, wr)
        if q > best + tie:
            best, cut = q, low + (np.int64(b + 1) << shift)
    return best, cut


@merged
def scan_feature(column, work, rules, start, n, w):  # type: ignore[no-untyped-def]
    """Best cut of one column in the node: (Q, cut, whether the column varies there)."""
    code, row = work.code, work.row
    least = column[row[start]]
    most = least
    for i in range(n):
        c = column[row[start + i]]
        code[i] = c
        least = min(least, c)
        most = max(most, c)
    low, high = np.int64(least), np.int64(most)
    if low == high:
        return -np.inf, np.int64(-1), False
    shift = np.int64(0)
    if high - low == 1:
        best, cut = scan_two(work, rules, start, n, w, low)
        return best, cut, True
    if n <= SMALL and high - low >= n // 4:
        best, cut = scan_sorted(work, rules, start, n, w)
        return best, cut, True
    if rules.exact:
        if high - low >= min(DENSE * n + BINS, len(work.tally)):
            best, cut = scan_sorted(work, rules, start, n, w)
            return best, cut, True
    else:
        while (high - low) >> shift >= BINS:
            shift += 1
    bins = ((high - low) >> shift) + 1
    fill_bins(work, start, n, low, shift)
    best, cut = scan_bins(work, rules, n, w, low, shift, bins)
    return best, cut, True


@merged
def best_split(codes, work, rules, start, n, w):  # type: ignore[no-untyped-def]
    """Best split over max_features random columns, more while none varies: (Q, feature, cut); feature -1 if none."""
    features = work.features
    d = len(features)
    best, feature, cut = -np.inf, -1, np.int64(-1)
    varied = False
    for visited in range(d):
        if visited >= rules.max_features and varied:
            break
        at = visited + draw(work.rng, d - visited)
        j = features[at]
        features[at] = features[visited]
        features[visited] = j
        q, c, varies = scan_feature(codes[j], work, rules, start, n, w)
        varied = varied or varies
        if c >= 0 and (q > best + TIE * w or (q >= best - TIE * w and j < feature)):
            best, feature, cut = q, j, c
    return best, feature, cut
