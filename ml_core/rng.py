"""The only source of randomness: a seed gives a generator, and a seed with a path gives independent child streams."""

from __future__ import annotations

import numpy as np


def generator(seed: int, *path: int) -> np.random.Generator:
    """PCG64 stream of (seed, path). Equal arguments give equal streams; different paths are independent."""
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=tuple(int(p) for p in path)))


def seeds(seed: int, n: int) -> np.ndarray:
    """(n,) uint64 seeds for compiled loops, a function of `seed` alone, so that worker counts change nothing."""
    return np.random.SeedSequence(int(seed)).generate_state(n, np.uint64)
