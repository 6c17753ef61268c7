"""A seeded sample of rows without their table: each row has a key, and those of the smallest keys are the sample."""

from __future__ import annotations

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK = (1 << 64) - 1


def row_keys(seed: int, start: int, stop: int) -> np.ndarray:
    """(stop - start,) keys of the rows start … stop - 1, uint64: SplitMix64 of the row number, beginning at the seed.

    Row numbers map to keys one to one, so no two rows share a key; integers alone make them, the same on any machine.

    References
    ----------
    Steele, Lea, Flood (2014), Fast splittable pseudorandom number generators, OOPSLA.
    """
    first = int(_mixed(np.array([seed & MASK], dtype=np.uint64))[0])
    return _mixed(np.uint64(first) + np.arange(start + 1, stop + 1, dtype=np.uint64) * GOLDEN)


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


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
