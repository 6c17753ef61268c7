"""What the file said: the decimal behind a double, so that 0.1 in a table means one tenth."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix

MOST_DECIMALS = 12
PROBE = 16
SPLIT = 2.0**27 + 1


def decimal_tails(A: Matrix) -> Matrix:
    """(n, d) differences between the decimals of at most 12 places that round to the entries of A, and A.

    For each entry the least k with rint(A 10ᵏ) / 10ᵏ = A gives the decimal m / 10ᵏ, and the remainder m - A 10ᵏ is
    formed exactly (Dekker 1971). Zero where the first rows are no short decimals. O(n d).
    """
    if _search(A[:PROBE])[1].any():
        return np.zeros_like(A)
    return _search(A)[0]


def _search(A: Matrix) -> tuple[Matrix, Matrix]:
    """Tails of the entries that are short decimals, and the mask of those that are not."""
    tails = np.zeros_like(A)
    todo = np.rint(A) != A
    for k in range(1, MOST_DECIMALS + 1):
        if not todo.any():
            break
        x, ten = A[todo], 10.0**k
        m = np.rint(x * ten)
        found = (np.abs(m) < 2.0**53) & (m / ten == x)
        tails[todo] = np.where(found, _remainder(x, ten, m) / ten, 0.0)
        todo[todo] = ~found
    return tails, todo


def _remainder(x: Matrix, ten: float, m: Matrix) -> Matrix:
    """m - x·ten without rounding: the product is split into its rounded value and its error."""
    product = x * ten
    a, b = _halves(x), _halves(np.asarray(ten))
    error = ((a[0] * b[0] - product) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]
    return (m - product) - error


def _halves(x: Matrix) -> tuple[Matrix, Matrix]:
    """x as a sum of two numbers of at most 26 bits."""
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high
