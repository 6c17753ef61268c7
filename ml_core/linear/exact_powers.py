"""Finds columns that are whole powers of another column, up to the rounding of the client that computed them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.compensated import power

EPS = float(np.finfo(float).eps)
HIGHEST = 64


@dataclass(frozen=True)
class Power:
    """Column `column` is column `base` to the power `exponent`."""

    column: int
    base: int
    exponent: int


def find_powers(X: Matrix) -> list[Power]:
    """Powers among the columns of X (n, d).

    One probe row per base proposes exponents (O(d²)); a proposal stands when every row agrees within (k+1)/2 units of
    2⁻⁵², which covers a correctly rounded power, the ≤ 1 ulp of `pow`, and k - 1 successive roundings of repeated
    multiplication. Where several bases fit, the highest exponent wins: x⁴ is traced to x and not to a rounded x².
    """
    d = X.shape[1]
    best: dict[int, Power] = {}
    with np.errstate(divide="ignore"):
        logs = np.log2(np.abs(X))
    for i in range(d):
        row = _probe(logs[:, i])
        if row is None:
            continue
        with np.errstate(invalid="ignore"):
            ratio = logs[row] / logs[row, i]
        ratio[~np.isfinite(ratio)] = 0.0
        k = np.rint(ratio)
        likely = (k >= 2) & (k <= HIGHEST) & (np.abs(ratio - k) <= 1e-10 * np.maximum(1, k))
        for j in map(int, np.flatnonzero(likely)):
            exponent = int(k[j])
            if (j not in best or best[j].exponent < exponent) and _agrees(X[:, i], X[:, j], exponent):
                best[j] = Power(j, i, exponent)
    return [best[j] for j in sorted(best)]


def _probe(logs: Vector) -> int | None:
    """The row whose |log₂ x| is largest: a small relative error moves its ratio of logs least."""
    size = np.where(np.isfinite(logs), np.abs(logs), 0.0)
    row = int(size.argmax())
    return row if size[row] > 1e-3 else None


def _agrees(base: Vector, column: Vector, k: int) -> bool:
    mantissa, shift = np.frexp(base)
    hi, lo = power(mantissa, k)
    given = np.ldexp(column, -k * shift)
    return bool(np.all(np.abs((given - hi) - lo) <= 0.505 * (k + 1) * EPS * np.abs(hi)))
