"""The finaliser of SplitMix64: keys that look random and are the same on any machine.

References
----------
Steele, Lea, Flood (2014), Fast splittable pseudorandom number generators, OOPSLA.
"""

from __future__ import annotations

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""What the numbers of a stream are apart."""
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mixed(z: np.ndarray) -> np.ndarray:
    """Of 64-bit integers, one to one."""
    z = (z ^ (z >> np.uint64(30))) * MIX[0]
    z = (z ^ (z >> np.uint64(27))) * MIX[1]
    return np.asarray(z ^ (z >> np.uint64(31)))
