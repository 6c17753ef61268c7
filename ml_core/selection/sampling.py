"""A seeded sample of rows without their table: each row has a key, and those of the smallest keys are the sample."""

from __future__ import annotations

import numpy as np

from ml_core.numerics.splitmix import GOLDEN, mixed

MASK = (1 << 64) - 1


def row_keys(seed: int, start: int, stop: int) -> np.ndarray:
    """(stop - start,) keys of the rows start … stop - 1, uint64: SplitMix64 of the row number, beginning at the seed.

    Row numbers map to keys one to one, so no two rows share a key; integers alone make them, the same on any machine.
    """
    first = int(mixed(np.array([seed & MASK], dtype=np.uint64))[0])
    return mixed(np.uint64(first) + np.arange(start + 1, stop + 1, dtype=np.uint64) * GOLDEN)


class SmallestKeys:
    """The largest of the n smallest keys, found in one pass with O(n) numbers in memory."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.kept = np.empty(0, dtype=np.uint64)

    def add(self, keys: np.ndarray) -> None:
        """See some more keys."""
        both = np.concatenate([self.kept, keys])
        self.kept = np.partition(both, self.n - 1)[: self.n] if len(both) > self.n else both

    @property
    def limit(self) -> int:
        """The largest key of the sample; a row belongs to the sample when its key is not beyond it."""
        return int(self.kept.max())
