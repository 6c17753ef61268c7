"""The sums over rows that EM for Gaussian mixtures asks for, as parts whose values merge over chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.gaussian import LOG_2PI, Moments, log_densities, moments
from ml_core.numerics.stable import logsumexp
from ml_core.numerics.totals import Total
from ml_core.solvers.gaussian_pass import expected


@dataclass(frozen=True)
class Theta:
    """Weights (K,), means (K, d), covariances S (K, d, d) or diagonals (K, d, 1), W with S⁻¹ = W Wᵀ alike, log|W|."""

    weights: Vector
    means: Matrix
    covariances: np.ndarray
    whiten: np.ndarray
    log_scale: Vector
    floored: tuple[int, ...] = ()
    resets: int = 0

    def joint(self, X: Matrix) -> Matrix:
        """(n, K) log π_k N(xᵢ | m_k, S_k)."""
        with np.errstate(divide="ignore"):
            return log_densities(X, self.means, self.whiten, self.log_scale) + np.log(self.weights)


@dataclass(frozen=True)
class Statistics:
    """Expected mass Σr (K,) and, about points a (K, d), first Σr(x - a) and second moments Σr(x - a)(x - a)ᵀ."""

    mass: Vector
    about: Matrix
    first: Matrix
    second: np.ndarray

    def merge(self, other: Statistics) -> Statistics:
        """Of both sets of rows, about the same points."""
        first, second = self.first + other.first, self.second + other.second
        return Statistics(self.mass + other.mass, self.about, first, second)


@dataclass(frozen=True)
class Expected(Total):
    """The statistics under the responsibilities of a mixture, Σ s log p(x), and Σ s."""

    statistics: Statistics
    value: float
    weight: float


@dataclass(frozen=True)
class Expect:
    """The part of an E-step, with moments about the points (K, d); O(n K d²)."""

    theta: Theta
    about: Matrix

    def __call__(self, X: Matrix, s: Vector) -> Expected:
        """Of rows."""
        theta, about = self.theta, self.about
        with np.errstate(divide="ignore"):
            base = np.log(theta.weights) + theta.log_scale - 0.5 * about.shape[1] * LOG_2PI
        mass, first, second, value = expected(X, s, base, theta.means, theta.whiten, about)
        return Expected(Statistics(mass, about, first, second), value, float(s.sum()))


@dataclass(frozen=True)
class Scatter:
    """The part whose total is the weight, mean and scatter of all rows."""

    def __call__(self, X: Matrix, s: Vector) -> Moments:
        """Of rows."""
        return moments(X, s)


@dataclass(frozen=True)
class Rare:
    """The rows (m, d) of least density, by rising logarithm (m,)."""

    rows: Matrix
    value: Vector
    most: int

    def merge(self, other: Rare) -> Rare:
        """Of both sets of rows; the earlier of equals first."""
        value = np.concatenate([self.value, other.value])
        least = np.argsort(value, kind="stable")[: self.most]
        return Rare(np.concatenate([self.rows, other.rows])[least], value[least], self.most)


@dataclass(frozen=True)
class Rarest:
    """The part that looks for the rows of least density."""

    theta: Theta
    most: int

    def __call__(self, X: Matrix, s: Vector) -> Rare:
        """Of rows."""
        value = logsumexp(self.theta.joint(X), axis=1)
        least = np.argsort(value, kind="stable")[: self.most]
        return Rare(X[least], value[least], self.most)


@dataclass(frozen=True)
class InUnits:
    """The part as it sees rows less `centre` (d,), over `scale` (d,)."""

    part: Callable[[Matrix, Vector], Any]
    centre: Vector
    scale: Vector

    def __call__(self, X: Matrix, s: Vector) -> Any:
        """Of rows."""
        Z = X - self.centre
        Z /= self.scale
        return self.part(Z, s)


def of_labels(X: Matrix, s: Vector, labels: Codes, K: int, *, diagonal: bool) -> Statistics:
    """Statistics of known components: responsibilities 0 or 1."""
    about = np.repeat((s @ X / s.sum())[None], K, axis=0)
    mass, second = np.zeros(K), np.zeros((*about.shape, 1 if diagonal else X.shape[1]))
    for k in np.unique(labels):
        mine = np.flatnonzero(labels == k)
        g = moments(X[mine], s[mine])
        mass[k], about[k], second[k] = g.total, g.mean, _stored(g, diagonal)
    return Statistics(mass, about, np.zeros_like(about), second)


def of_all(whole: Moments, *, diagonal: bool) -> Statistics:
    """Statistics of one component that has all rows."""
    about = whole.mean[None]
    return Statistics(np.array([whole.total]), about, np.zeros_like(about), _stored(whole, diagonal)[None])


def _stored(g: Moments, diagonal: bool) -> Matrix:
    return np.diag(g.scatter)[:, None] if diagonal else g.scatter
