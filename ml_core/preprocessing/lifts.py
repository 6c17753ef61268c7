"""What the lifts share: squared distances and quadrics are linear functions of the lifted columns."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.preprocessing.fixed_map import EPS, relative, spread_rows
from ml_core.rng import generator


def quadric_error(lift: Matrix, slopes: Vector, X: Matrix, A: Matrix, c: Vector) -> float:
    """Largest error of lift·slopes as the quadric (x-c)ᵀA(x-c) - cᵀAc, relative to the size of its terms."""
    D = X - c
    want = np.einsum("ij,jk,ik->i", D, A, D) - c @ A @ c
    size = np.abs(lift) @ np.abs(slopes) + np.einsum("ij,jk,ik->i", np.abs(D), np.abs(A), np.abs(D))
    return relative(lift @ slopes, want, size + np.abs(c) @ np.abs(A) @ np.abs(c))


def probe(X: Matrix) -> tuple[Matrix, Vector, Vector, Matrix]:
    """Up to 256 rows, a point among them, weights of columns in 1 … 2, and a symmetric matrix, to try a lift with."""
    rows, d, rng = spread_rows(X), X.shape[1], generator(0)
    G = rng.uniform(-1.0, 1.0, (d, d))
    return rows, np.asarray(rows.mean(axis=0)), np.asarray(rng.uniform(1.0, 2.0, d)), G + G.T


def claims(d: int, what: str) -> list[tuple[str, float, str]]:
    """The certificates of a lift."""
    return [
        ("quadric_error", (8 + 2 * d) * EPS, f"{what} is a linear function of the lift, relative to its terms"),
        ("round_trip_error", 0.0, "inverse_transform(transform(X)) is X"),
    ]
