"""What the Gaussian classifiers share: moments of each class, priors, known distributions, losses, all checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidParameter, Issue
from ml_core.numerics.column_sums import ColumnSums
from ml_core.numerics.gaussian import EPS
from ml_core.numerics.totals import Total
from ml_core.statistics import Moments


@portable
@dataclass(frozen=True)
class ByClass(Total):
    """`Moments` or `ColumnSums` of the rows of each class, in the order of the labels; a class may be without rows."""

    parts: tuple[Any, ...]

    @classmethod
    def of(cls, X: Matrix, y: Codes, s: Vector, K: int) -> ByClass:
        """Means and scatters of the rows of X (n, d) with codes y (n,) and weights s (n,); O(n d²)."""
        even = bool((s == 1).all())
        groups = [np.flatnonzero(y == c) for c in range(K)]
        return cls(tuple(Moments.of(X[rows], None if even else s[rows]) for rows in groups))

    @classmethod
    def columns(cls, X: Matrix, y: Codes, s: Vector, K: int) -> ByClass:
        """Means and variances of the columns, each by itself; O(n d)."""
        groups = [np.flatnonzero(y == c) for c in range(K)]
        return cls(tuple(ColumnSums.of(X[rows], s[rows]) for rows in groups))

    @property
    def weight(self) -> Vector:
        """(K,) the weight of each class."""
        return np.array([g.total for g in self.parts])

    @property
    def rows(self) -> Codes:
        """(K,) the rows of each class."""
        return np.array([g.rows for g in self.parts], dtype=np.int64)

    def subtract(self, other: ByClass) -> ByClass:
        """Without the rows of `other`; InvalidData when they cannot have been there, or leave a class empty."""
        return ByClass(tuple(a.subtract(b) for a, b in zip(self.parts, other.parts, strict=True)))


def pooled(groups: ByClass) -> Matrix:
    """Σ_c of the scatters (d, d) of the classes about their own means."""
    return np.asarray(sum(g.scatter for g in groups.parts))


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


def both(means: Any, spreads: Any, key: str) -> bool:
    """Whether the distributions are known: means and the parameter `key` are given together, or neither is."""
    if (means is None) != (spreads is None):
        missing = "means" if means is None else key
        issue = Issue(f"/params/{missing}", "missing", "give both or neither")
        raise InvalidParameter(f"known distributions need means and {key}; {missing} is missing", [issue])
    return means is not None


def known_means(means: Any, K: int, d: int) -> Matrix:
    """The given class means (K, d), or InvalidParameter."""
    m = np.asarray(means, dtype=np.float64)
    if m.shape != (K, d):
        issue = Issue("/params/means", "shape", f"expected {(K, d)}")
        raise InvalidParameter(f"{K} classes and {d} columns need means {(K, d)}; got {m.shape}", [issue])
    return m


def known_covariance(covariance: Any, d: int, at: str) -> Matrix:
    """The given covariance (d, d), found at parameter `at`, checked: shape, symmetry, no negative eigenvalue."""
    S, pointer = np.asarray(covariance, dtype=np.float64), "/params/" + at.replace("[", "/").rstrip("]")
    if S.shape != (d, d):
        issue = Issue(pointer, "shape", f"expected {(d, d)}")
        raise InvalidParameter(f"{d} columns need {at} {(d, d)}; got {S.shape}", [issue])
    least = float(np.linalg.eigvalsh(S)[0])
    if not np.allclose(S, S.T, rtol=1e-9, atol=0) or least < -64 * d * EPS * np.abs(S).max():
        issue = Issue(pointer, "covariance", f"least eigenvalue {least:g}")
        raise InvalidParameter(f"{at} must be symmetric with eigenvalues of at least 0", [issue])
    return np.asarray(0.5 * (S + S.T))


def known(means: Any, covariances: Any, K: int, d: int) -> tuple[Matrix, list[Matrix]]:
    """The given means (K, d) and covariances (K, d, d), checked."""
    m, S = known_means(means, K, d), np.asarray(covariances, dtype=np.float64)
    if S.shape != (K, d, d):
        issue = Issue("/params/covariances", "shape", f"expected {(K, d, d)}")
        raise InvalidParameter(f"{K} classes and {d} columns need covariances {(K, d, d)}; got {S.shape}", [issue])
    return m, [known_covariance(A, d, f"covariances[{c}]") for c, A in enumerate(S)]
