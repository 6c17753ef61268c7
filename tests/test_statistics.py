"""Sums over rows that merge and subtract, against NumPy in one pass."""

from __future__ import annotations

import numpy as np
import pytest

from ml_core.errors import InvalidData
from ml_core.statistics import Moments, merged


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_moments_merge_and_subtract(offset):
    r = np.random.default_rng(0)
    A, s = r.normal(size=(5000, 3)) + offset, r.integers(1, 4, 5000).astype(float)
    whole = Moments.of(A, s)
    mean = np.average(A, axis=0, weights=s)
    C = (A - mean) * np.sqrt(s)[:, None]
    np.testing.assert_allclose(whole.scatter, C.T @ C, rtol=1e-6, atol=1e-6 * s.sum())
    np.testing.assert_allclose(whole.finish()[1], np.cov(A.T, fweights=s.astype(int), ddof=0), rtol=1e-6, atol=1e-6)
    parts = [Moments.of(A[i::4], s[i::4]) for i in range(4)]
    np.testing.assert_allclose(merged(parts[::-1]).scatter, whole.scatter, rtol=1e-8, atol=1e-6)
    less = whole.subtract(parts[2])
    again = merged([parts[0], parts[1], parts[3]])
    np.testing.assert_allclose(less.mean, again.mean, rtol=1e-12)
    np.testing.assert_allclose(less.scatter, again.scatter, rtol=1e-6, atol=1e-4)
    assert (less.rows, less.total) == (again.rows, again.total)
    with pytest.raises(InvalidData, match="none would be left"):
        whole.subtract(whole)
    np.testing.assert_allclose(Moments.of(A).mean, A.mean(axis=0), rtol=1e-12)
