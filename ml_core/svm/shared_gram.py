"""Kernel matrices of pairs of classes out of blocks that pairs share."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix
from ml_core.kernels.base import Kernel
from ml_core.solvers.kernel_rows import KernelRows

MOST_ROWS = 2400


class SharedGram:
    """Each class's own block is computed once; only small machines get a whole matrix, others work from rows."""

    def __init__(self, kernel: Kernel, X: Matrix, y: Codes, pairs: list[tuple[int, int]]) -> None:
        self.rest = any(a < 0 for a, _ in pairs)
        self.whole: Matrix | None = None
        self.own: dict[int, Matrix] = {}
        if len(pairs) == 1 or (self.rest and len(X) > MOST_ROWS):
            return
        self.rows = KernelRows(kernel, X)
        if self.rest:
            self.whole = self.rows.block(np.arange(len(X)))
            return
        self.members = [np.flatnonzero(y == k) for k in range(int(y.max()) + 1)]
        for k, members in enumerate(self.members):
            if len(members) < MOST_ROWS:
                self.own[k] = self.rows.block(members, members)

    def of(self, pair: tuple[int, int], rows: KernelRows) -> Matrix | None:
        """The kernel matrix of the pair's rows, negative class first; None where it would be large."""
        if self.whole is not None or pair[0] not in self.own or pair[1] not in self.own or rows.n > MOST_ROWS:
            return self.whole
        A, B = self.own[pair[0]], self.own[pair[1]]
        n = len(A)
        K = np.empty((rows.n, rows.n))
        K[:n, :n], K[n:, n:] = A, B
        K[:n, n:] = self.rows.block(self.members[pair[0]], self.members[pair[1]])
        K[n:, :n] = K[:n, n:].T
        return K
