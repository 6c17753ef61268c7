"""Where EM for a Gaussian mixture starts, in the units it works in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.numerics.gaussian import Moments
from ml_core.solvers.base import Solution
from ml_core.solvers.em import Run, Unbounded
from ml_core.solvers.gaussian_em import GaussianEM, Kind
from ml_core.solvers.gaussian_sums import InUnits, Theta, of_all, of_labels
from ml_core.solvers.lloyd import lloyd, plus_plus

AUTO_FLOOR = 1e-6
LLOYD_STEPS = 100
LLOYD_TOL = 1e-4


@dataclass(frozen=True)
class Frame:
    """The form of a problem in units where its columns have mean 0 and variance 1, and these units (d,)."""

    form: GaussianEM
    centre: Vector
    scale: Vector

    @classmethod
    def of(cls, centre: Vector, variance: Vector, kind: Kind, floor: float | None) -> Frame:
        """From the means and variances of the columns, 0 of constant ones.

        isotropic: one factor for all columns; identity: none, for there the unit is part of the model. A constant
        column takes the root of the mean variance of the others. `floor` None is 1e-6 of the variances.
        """
        d, mean = len(variance), float(variance.mean()) or 1.0
        if kind == "identity":
            scale = np.ones(d)
        elif kind == "isotropic":
            scale = np.full(d, np.sqrt(mean))
        else:
            scale = np.sqrt(np.where(variance > 0, variance, variance[variance > 0].mean() if variance.any() else 1.0))
        least = np.full(d, AUTO_FLOOR) if floor is None else floor / scale**2
        spread = np.where(variance > 0, variance / scale**2, 1.0)
        return cls(GaussianEM(kind, least, spread, float(np.log(scale).sum())), centre, scale)

    @classmethod
    def of_rows(cls, X: Matrix, s: Vector, kind: Kind, floor: float | None) -> Frame:
        """From the rows themselves."""
        n = float(s.sum())
        centre = X[0] + (s @ (X - X[0])) / n
        variance = s @ (X - centre) ** 2 / n
        variance[np.ptp(X, axis=0) == 0] = 0.0
        return cls.of(centre, variance, kind, floor)

    def part(self, part: Callable[..., Any]) -> InUnits:
        """The part, to be shown rows in the units of the caller."""
        return InUnits(part, self.centre, self.scale)

    def rows(self, X: Matrix) -> Matrix:
        """Z = (X - centre) / scale."""
        Z = X - self.centre
        Z /= self.scale
        return Z

    def outside(self, theta: Theta) -> Theta:
        """Parameters of Z → parameters of X."""
        scale, wide = self.scale, theta.covariances.shape[2] == len(self.scale)
        return replace(
            theta,
            means=self.centre + scale * theta.means,
            covariances=theta.covariances * (scale[:, None] * (scale if wide else scale[:, None])),
            whiten=theta.whiten / scale[:, None],
            log_scale=theta.log_scale - float(np.log(scale).sum()),
        )


def k_means_start(form: GaussianEM, Z: Matrix, s: Vector, whole: Moments, K: int, rng: Generator) -> Theta:
    """The M-step from the clusters of k-means++ and Lloyd's alternation."""
    labels = lloyd(Z, s, plus_plus(Z, s, K, rng), max_iter=LLOYD_STEPS, tol=LLOYD_TOL).labels
    old = _start_at(form, np.repeat((s @ Z / s.sum())[None], K, axis=0), np.full(K, 1 / K), whole)
    return form.maximise(of_labels(Z, s, labels, K, diagonal=form.diagonal), old)


def random_start(form: GaussianEM, Z: Matrix, s: Vector, whole: Moments, K: int, rng: Generator) -> Theta:
    """Means at K different rows drawn by weight, equal π, the covariance of all rows."""
    rows = rng.choice(len(Z), size=K, replace=len(Z) < K, p=s / s.sum())
    return _start_at(form, Z[rows], np.full(K, 1 / K), whole)


def given_start(frame: Frame, whole: Moments, means: Any, weights: Any, covariances: Any) -> Theta:
    """The caller's parameters, in the problem's units."""
    form, scale = frame.form, frame.scale
    m = (np.asarray(means, dtype=np.float64) - frame.centre) / scale
    w = np.full(len(m), 1 / len(m)) if weights is None else np.asarray(weights, dtype=np.float64)
    if covariances is None:
        return _start_at(form, m, w, whole)
    S = np.asarray(covariances, dtype=np.float64) / np.outer(scale, scale)
    return form.theta(w, m, np.einsum("kjj->kj", S)[:, :, None] if form.diagonal else S)


def _start_at(form: GaussianEM, means: Matrix, weights: Vector, whole: Moments) -> Theta:
    """Parameters with the covariance of all rows."""
    one = of_all(whole, diagonal=form.diagonal)
    return form.theta(weights, means, np.repeat(one.second / one.mass[0], len(means), axis=0))


def check_given(init: str, means: Any, weights: Any, covariances: Any, K: int, d: int) -> None:
    """InvalidParameter unless a given start is there, has the right shapes, and is a mixture."""
    if init != "given":
        return
    given: dict[str, tuple[Any, tuple[int, ...]]] = {
        "means_init": (means, (K, d)), "weights_init": (weights, (K,)), "covariances_init": (covariances, (K, d, d)),
    }  # fmt: skip
    for name, (value, shape) in given.items():
        if (value is None and name == "means_init") or (value is not None and np.shape(value) != shape):
            issue = Issue(f"/params/{name}", "shape", f"expected {shape}")
            raise InvalidParameter(f"a given start needs {name} of shape {shape}, got {value!r:.80}", [issue])
    if weights is not None and ((np.asarray(weights) < 0).any() or abs(np.sum(weights) - 1) > 1e-9):
        issue = Issue("/params/weights_init", "probabilities", f"sum {np.sum(weights):.12g}")
        raise InvalidParameter("weights_init must be probabilities that sum to 1", [issue])
    for k, A in enumerate([] if covariances is None else np.asarray(covariances, dtype=np.float64)):
        if not np.allclose(A, A.T, rtol=1e-9, atol=0) or not np.linalg.eigvalsh(A)[0] > 0:
            issue = Issue(f"/params/covariances_init/{k}", "covariance", "expected positive definite")
            raise InvalidParameter(f"covariances_init[{k}] must be symmetric and positive definite", [issue])


def broken(error: Unbounded) -> Run[Theta]:
    """A start that could not be made: it counts as a run without likelihood."""
    empty = np.empty(0)
    theta = Theta(empty, empty, empty, empty, empty)
    return Run(theta, Solution(empty, 0, False, "diverged", [float("-inf")]), str(error))
