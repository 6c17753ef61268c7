"""Where EM for a Gaussian mixture starts, in the units it works in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.solvers.base import Solution
from ml_core.solvers.em import Run, Unbounded
from ml_core.solvers.gaussian_em import GaussianEM, Kind, Theta
from ml_core.solvers.lloyd import lloyd, plus_plus

AUTO_FLOOR = 1e-6
LLOYD_STEPS = 100
LLOYD_TOL = 1e-4


def rescaled(X: Matrix, s: Vector, kind: Kind, floor: float | None) -> tuple[GaussianEM, Vector, Vector]:
    """The problem in units where its columns have mean 0 and variance 1, and the centre (d,) and scale (d,) of those.

    isotropic: one factor for all columns; identity: none, for there the unit is part of the model. A constant column
    takes the root of the mean variance of the others. `floor` None is 1e-6 of the variances.
    """
    n, d = float(s.sum()), X.shape[1]
    centre = X[0] + (s @ (X - X[0])) / n
    Z = X - centre
    variance = s @ Z**2 / n
    variance[np.ptp(X, axis=0) == 0] = 0.0
    mean = float(variance.mean()) or 1.0
    if kind == "identity":
        scale = np.ones(d)
    elif kind == "isotropic":
        scale = np.full(d, np.sqrt(mean))
    else:
        scale = np.sqrt(np.where(variance > 0, variance, variance[variance > 0].mean() if variance.any() else 1.0))
    Z /= scale
    least = np.full(d, AUTO_FLOOR) if floor is None else floor / scale**2
    spread = np.where(variance > 0, variance / scale**2, 1.0)
    return GaussianEM(Z, s, kind, least, spread, float(np.log(scale).sum())), centre, scale


def with_units(theta: Theta, centre: Vector, scale: Vector) -> Theta:
    """Parameters of Z = (X - centre) / scale → parameters of X."""
    wide = theta.covariances.shape[2] == len(scale)
    S = theta.covariances * (scale[:, None] * (scale if wide else scale[:, None]))
    return replace(
        theta,
        means=centre + scale * theta.means,
        covariances=S,
        whiten=theta.whiten / scale[:, None],
        log_scale=theta.log_scale - float(np.log(scale).sum()),
    )


def start_at(problem: GaussianEM, means: Matrix, weights: Vector, covariances: np.ndarray | None) -> Theta:
    """Parameters with the given covariances (K, d, d) put into the problem's form, or with that of all rows."""
    K = len(means)
    if covariances is None:
        whole = problem.from_labels(np.zeros(len(problem.X), dtype=np.int64), 1)
        covariances = np.repeat(whole.second / whole.mass[0], K, axis=0)
    elif problem.diagonal:
        covariances = np.einsum("kjj->kj", covariances)[:, :, None]
    return problem.theta(weights, means, covariances)


def k_means_start(problem: GaussianEM, K: int, rng: np.random.Generator) -> Theta | Run[Theta]:
    """The M-step from the clusters of k-means++ and Lloyd's alternation."""
    X, s = problem.X, problem.s
    labels = lloyd(X, s, plus_plus(X, s, K, rng), max_iter=LLOYD_STEPS, tol=LLOYD_TOL).labels
    try:
        old = start_at(problem, np.repeat((s @ X / s.sum())[None], K, axis=0), np.full(K, 1 / K), None)
        return problem.maximise(problem.from_labels(labels, K), old)
    except Unbounded as e:
        return _broken(K, e)


def random_start(problem: GaussianEM, K: int, rng: np.random.Generator) -> Theta | Run[Theta]:
    """Means at K different rows drawn by weight, equal π, the covariance of all rows."""
    rows = rng.choice(len(problem.X), size=K, replace=False, p=problem.s / problem.s.sum())
    try:
        return start_at(problem, problem.X[rows], np.full(K, 1 / K), None)
    except Unbounded as e:
        return _broken(K, e)


def given_start(
    problem: GaussianEM, centre: Vector, scale: Vector, means: Any, weights: Any, covariances: Any
) -> Theta | Run[Theta]:
    """The caller's parameters, in the problem's units."""
    m = (np.asarray(means, dtype=np.float64) - centre) / scale
    w = np.full(len(m), 1 / len(m)) if weights is None else np.asarray(weights, dtype=np.float64)
    S = None if covariances is None else np.asarray(covariances, dtype=np.float64) / np.outer(scale, scale)
    try:
        return start_at(problem, m, w, S)
    except Unbounded as e:
        return _broken(len(m), e)


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


def _broken(K: int, error: Unbounded) -> Run[Theta]:
    """A start that could not be made: it counts as a run without likelihood."""
    empty = np.empty(0)
    theta = Theta(empty, empty, empty, empty, empty)
    return Run(theta, Solution(empty, 0, False, "diverged", [float("-inf")]), str(error))
