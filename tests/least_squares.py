"""What the tests of least squares share."""

from __future__ import annotations

import numpy as np

KNOWN_X, KNOWN_Y = np.array([[1.0], [2], [3], [4]]), np.array([1.0, 3, 2, 5])


def solution(m):
    w = np.concatenate([[m.intercept_], m.coef_])
    se = m.deviations_ * np.sqrt(m.sigma2_[0])
    return (w, se) if m.fit_intercept else (w[1:], se[1:])


def problem(seed=0, n=40, d=4, offset=0.0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) * 3.0 ** np.arange(d) + offset
    return X, X @ r.normal(size=d) + 2 + r.normal(size=n)


def holds(m, X, y, s=None):
    failed = [c for c in m.diagnostics(X, y, s).certificates if not c.holds]
    return not failed
