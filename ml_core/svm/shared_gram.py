"""Kernel matrices of pairs of classes out of blocks that pairs share."""

from __future__ import annotations

from threading import Lock

import numpy as np

from ml_core.arrays import Codes, Matrix
from ml_core.solvers.kernel_rows import KernelRows

MOST_ROWS = 2400
SLAB_BYTES = 32 << 20
KEPT = 2


class SharedGram:
    """Only small machines get a whole matrix, others work from rows.

    Each class's own block is computed once, and its values with all later classes in one product, which is forgotten
    when pairs of later classes come.
    """

    def __init__(self, rows: KernelRows, y: Codes, pairs: list[tuple[int, int]]) -> None:
        self.rows = rows
        self.whole: Matrix | None = None
        self.own: dict[int, Matrix] = {}
        self.slabs: dict[int, Matrix] = {}
        self.lock = Lock()
        rest = any(a < 0 for a, _ in pairs)
        if len(pairs) == 1 or (rest and rows.n > MOST_ROWS):
            return
        if rest:
            self.whole = rows.square(np.arange(rows.n))
            return
        self.members = [np.flatnonzero(y == k) for k in range(int(y.max()) + 1)]
        self.start = np.concatenate([[0], np.cumsum([len(m) for m in self.members])])
        for k, members in enumerate(self.members):
            if len(members) < MOST_ROWS:
                self.own[k] = rows.square(members)

    def of(self, pair: tuple[int, int], rows: KernelRows) -> Matrix | None:
        """The kernel matrix of the pair's rows, negative class first; None where it would be large."""
        if self.whole is not None or pair[0] not in self.own or pair[1] not in self.own or rows.n > MOST_ROWS:
            return self.whole
        A, B = self.own[pair[0]], self.own[pair[1]]
        n = len(A)
        K = np.empty((rows.n, rows.n))
        K[:n, :n], K[n:, n:] = A, B
        K[:n, n:] = self._across(*pair)
        K[n:, :n] = K[:n, n:].T
        return K

    def _across(self, a: int, b: int) -> Matrix:
        """Values of class a with class b > a."""
        first = self.start[a + 1]
        if 8 * len(self.members[a]) * (self.rows.n - first) > SLAB_BYTES:
            return self.rows.block(self.members[a], self.members[b])
        with self.lock:
            if a not in self.slabs:
                self.slabs = {k: S for k, S in self.slabs.items() if k > a - KEPT}
                self.slabs[a] = self.rows.block(self.members[a], np.concatenate(self.members[a + 1 :]))
            slab = self.slabs[a]
        return slab[:, self.start[b] - first : self.start[b + 1] - first]
