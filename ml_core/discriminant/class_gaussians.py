"""What the Gaussian classifiers share: moments of each class, priors, known distributions, losses, all checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidParameter, Issue
from ml_core.numerics.gaussian import EPS
from ml_core.statistics import Moments


@portable
@dataclass(frozen=True)
class ByClass:
    """Moments of the rows of each class, in the order of the labels; a class may still be without rows."""

    parts: tuple[Moments, ...]

    @classmethod
    def of(cls, X: Matrix, y: Codes, s: Vector, K: int) -> ByClass:
        """Of the rows of X (n, d) with codes y (n,) and weights s (n,); O(n d²)."""
        even = bool((s == 1).all())
        groups = [np.flatnonzero(y == c) for c in range(K)]
        return cls(tuple(Moments.of(X[rows], None if even else s[rows]) for rows in groups))

    def merge(self, other: ByClass) -> ByClass:
        """Of both sets of rows."""
        return ByClass(tuple(a.merge(b) for a, b in zip(self.parts, other.parts, strict=True)))

    def subtract(self, other: ByClass) -> ByClass:
        """Without the rows of `other`; InvalidData when they cannot have been there, or leave a class empty."""
        return ByClass(tuple(a.subtract(b) for a, b in zip(self.parts, other.parts, strict=True)))


def class_priors(given: Any, weight: Vector) -> Vector:
    """(K,) the given probabilities, or the shares of the class weights (K,)."""
    if given is None:
        return np.asarray(weight / weight.sum())
    p = np.asarray(given, dtype=np.float64)
    if p.shape != weight.shape or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise InvalidParameter(
            f"priors must be {len(weight)} probabilities that sum to 1, got {p.tolist()}",
            [Issue("/params/priors", "probabilities", f"sum {p.sum():.12g}, least {p.min(initial=0.0):g}")],
        )
    return p


def check_loss(loss: Any, K: int) -> None:
    """InvalidParameter unless the loss matrix is missing or K × K."""
    if loss is not None and np.shape(loss) != (K, K):
        issue = Issue("/params/loss", "shape", f"expected ({K}, {K})")
        raise InvalidParameter(f"loss must be {K} × {K}, one row per decision, got {np.shape(loss)}", [issue])


def known(means: Any, covariances: Any, K: int, d: int) -> tuple[Matrix, list[Matrix]]:
    """The given means (K, d) and covariances (K, d, d), checked: shapes, symmetry, no negative eigenvalue."""
    if means is None or covariances is None:
        missing = "means" if means is None else "covariances"
        issue = Issue(f"/params/{missing}", "missing", "give both or neither")
        raise InvalidParameter(f"known distributions need means and covariances; {missing} is missing", [issue])
    m, S = np.asarray(means, dtype=np.float64), np.asarray(covariances, dtype=np.float64)
    if m.shape != (K, d) or S.shape != (K, d, d):
        raise InvalidParameter(
            f"{K} classes and {d} columns need means {(K, d)} and covariances {(K, d, d)}; got {m.shape} and {S.shape}"
        )
    for c, A in enumerate(S):
        least = float(np.linalg.eigvalsh(A)[0])
        if not np.allclose(A, A.T, rtol=1e-9, atol=0) or least < -64 * d * EPS * np.abs(A).max():
            issue = Issue(f"/params/covariances/{c}", "covariance", f"least eigenvalue {least:g}")
            raise InvalidParameter(f"covariances[{c}] must be symmetric with eigenvalues of at least 0", [issue])
    return m, list(0.5 * (S + S.transpose(0, 2, 1)))
