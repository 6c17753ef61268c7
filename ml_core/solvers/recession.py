"""Directions along which a likelihood rises for ever: rows at the edge of their range may leave, the others may not."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.solvers.separation import MOST_UNKNOWNS, separation

FLAT = 1e-10


def recession(Z: Matrix, side: Vector, hint: Vector) -> Vector | None:
    """(D,) a direction v with side zᵀv ≥ 0 for rows of side ±1, > 0 for some, and zᵀv = 0 for rows of side 0; or None.

    Along it a log-likelihood that rises with the predictor of rows of side 1, and falls with that of rows of side -1,
    never falls. Z (n, D) well scaled, `hint` a fit so far. The rows of side 0 leave a null space, in which separation
    of the two sides is looked for; None also where that has too many dimensions.

    References
    ----------
    Correia, Guimarães, Zylkin (2019), Verifying the existence of maximum likelihood estimates for generalized linear
    models, arXiv:1903.01633.
    """
    held, free = Z[side == 0], side != 0
    values, Q = np.linalg.eigh(held.T @ held)
    N = Q[:, values <= FLAT * max(float(values[-1]), float(len(held)))]
    if not N.shape[1] or N.shape[1] > MOST_UNKNOWNS or not free.any():
        return None
    found = separation(Z[free] @ N, (side[free] > 0).astype(np.int64), 2, (N.T @ hint)[:, None])
    if found.kind == "none":
        return None
    return np.asarray(N @ found.direction[:, 0])
