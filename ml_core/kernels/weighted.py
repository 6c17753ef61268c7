"""Weighted sums of a kernel's values: what every kernel method predicts."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix
from ml_core.kernels.base import Kernel
from ml_core.parallel import ordered_map

BLOCK_BYTES = 1 << 21


def weighted_sums(kernel: Kernel, X: Matrix, rows: Matrix, W: Matrix) -> Matrix:
    """(n, q) Σᵢ k(x, rowsᵢ) Wᵢ with rows (r, d) and W (r, q), or (n,) with W (r,); O(n r d).

    In blocks of 2 MB of values, which depend on the sizes alone, on the thread budget.
    """
    step = max(16, BLOCK_BYTES // (8 * max(len(rows), 1)))
    if len(X) <= step:
        return np.asarray(kernel(X, rows) @ W)
    values = kernel.against(rows)
    return np.concatenate(list(ordered_map(lambda i: values(X[i : i + step]) @ W, range(0, len(X), step))))
