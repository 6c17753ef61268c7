"""The E and M steps of Gaussian mixtures, with maximisers in closed form under a floor of the variances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.gaussian import EPS, Moments, Spectrum, whitening
from ml_core.solvers.base import Steps
from ml_core.solvers.em import Unbounded
from ml_core.solvers.gaussian_sums import Expect, Expected, Rare, Rarest, Scatter, Statistics, Theta, of_all

Kind = Literal["full", "tied", "diagonal", "isotropic", "identity"]
EMPTY = 1e-10
VANISHED = 1e-28
RESETS_PER_COMPONENT = 10


@dataclass(frozen=True)
class GaussianEM:
    """The form of the covariances, and the floor (d,): every S_k - diag(floor) is PSD. It holds no rows.

    `spread` (d,) are the variances of the columns, the yardstick for "no variance left".

    The floor makes the likelihood bounded. The M-step maximises exactly under it, by raising the eigenvalues of
    diag(floor)^-½ S diag(floor)^-½ that lie below 1, so that EM stays monotone and a floor that is not reached changes
    nothing. `log_volume` is subtracted from each row's log-density when X was rescaled.
    """

    kind: Kind
    floor: Vector
    spread: Vector
    log_volume: float = 0.0

    @property
    def diagonal(self) -> bool:
        """Whether covariances are stored as diagonals."""
        return self.kind in ("diagonal", "isotropic", "identity")

    def e_step(self, theta: Theta) -> Steps[tuple[Statistics, float]]:
        """Expected statistics under the responsibilities of theta, and its log-likelihood; asks for `Expect`."""
        total: Expected = yield Expect(theta, theta.means)
        found = total.statistics
        delta = found.first / np.maximum(found.mass, EMPTY)[:, None]
        square = np.einsum("kjj->kj", found.second) if not self.diagonal else found.second[:, :, 0]
        # About the old means a far jump of a narrow component would cancel its variance: take that pass about the new.
        if (square - delta**2 * found.mass[:, None] < 1e-6 * square).any():
            total = yield Expect(theta, theta.means + delta)
        return total.statistics, total.value - self.log_volume * total.weight

    def m_step(self, theta: Theta, found: Statistics) -> Steps[Theta]:
        """Weights, means and covariances of highest expected likelihood; an empty one restarts at the worst row."""
        new = self.maximise(found, theta)
        empty = np.flatnonzero(found.mass <= EMPTY * found.mass.sum())
        if len(empty) == 0 or theta.resets >= RESETS_PER_COMPONENT * len(theta.weights):
            return new
        return (yield from self._revive(new, theta, empty))

    def maximise(self, found: Statistics, old: Theta | None = None) -> Theta:
        """The closed form; components without mass keep what they had in `old` and get weight 0."""
        live = found.mass > EMPTY * found.mass.sum()
        mass = np.where(live, found.mass, 1.0)
        delta = found.first / mass[:, None]
        S = found.second / mass[:, None, None]
        S = S - (delta[:, :, None] ** 2 if self.diagonal else delta[:, :, None] * delta[:, None, :])
        means, weights = found.about + delta, np.where(live, found.mass, 0.0) / found.mass[live].sum()
        if old is not None and not live.all():
            means[~live], S[~live] = old.means[~live], old.covariances[~live]
        return self.theta(weights, means, S, 0 if old is None else old.resets)

    def theta(self, weights: Vector, means: Matrix, S: np.ndarray, resets: int = 0) -> Theta:
        """Parameters whose covariances have the chosen form and respect the floor."""
        S, floored = self._structured(S, weights)
        whiten, log_scale = self._factor(S, weights)
        return Theta(weights, means, S, whiten, log_scale, floored, resets)

    def _structured(self, S: np.ndarray, weights: Vector) -> tuple[np.ndarray, tuple[int, ...]]:
        """Covariances of the chosen form and above the floor, and the components that the floor raised."""
        if self.kind == "identity":
            return np.ones_like(S), ()
        if self.kind == "isotropic":
            S = np.repeat(S.mean(axis=1, keepdims=True), S.shape[1], axis=1)
        if self.kind == "tied":
            S = np.einsum("k,kij->ij", weights, S)[None]
        low = self.floor.max() if self.kind == "isotropic" else self.floor
        if self.diagonal:
            below = np.flatnonzero((S[:, :, 0] < low).any(axis=1))
            S = np.maximum(S, np.reshape(low, (-1, 1)))
        else:
            S, below = _raised(S, self.floor)
        if self.kind == "tied":
            S, below = np.repeat(S, len(weights), axis=0), np.arange(len(weights) if len(below) else 0)
        return np.ascontiguousarray(S), tuple(int(k) for k in below if weights[k] > 0)

    def _factor(self, S: np.ndarray, weights: Vector) -> tuple[np.ndarray, Vector]:
        """W and log|W| of each component; Unbounded where a variance has vanished."""
        variances = S[:, :, 0] if self.diagonal else np.einsum("kjj->kj", S)
        gone = np.flatnonzero((variances <= VANISHED * self.spread).any(axis=1)).tolist()
        if gone:
            raise Unbounded(_collapsed(gone[0], weights[gone[0]]))
        if self.diagonal:
            return 1 / np.sqrt(S), np.asarray(-0.5 * np.log(variances).sum(axis=1))
        weak = bool((self.floor <= 64 * len(self.floor) * EPS * self.spread).any())
        parts = []
        for k in range(1 if self.kind == "tied" else len(S)):
            try:
                if weak and Spectrum.of(S[k]).rank < len(self.floor):
                    raise np.linalg.LinAlgError("rank")
                parts.append(whitening(S[k]))
            except np.linalg.LinAlgError as e:
                raise Unbounded(_collapsed(k, weights[k])) from e
        times = len(S) // len(parts)
        return np.repeat(np.stack([w for w, _ in parts]), times, axis=0), np.repeat([v for _, v in parts], times)

    def _revive(self, new: Theta, old: Theta, empty: Codes) -> Steps[Theta]:
        """Move each empty component to a row of least density under `old`, with the covariance of all rows."""
        worst: Rare = yield Rarest(old, len(empty))
        scatter: Moments = yield Scatter()
        whole = self.maximise(of_all(scatter, diagonal=self.diagonal))
        means, S, W, logs = new.means.copy(), new.covariances.copy(), new.whiten.copy(), new.log_scale.copy()
        weights = new.weights.copy()
        for k, row in zip(empty, worst.rows, strict=False):
            means[k], S[k], W[k], logs[k] = row, whole.covariances[0], whole.whiten[0], whole.log_scale[0]
            weights[k] = 1 / (2 * len(weights))
        return replace(new, weights=weights / weights.sum(), means=means, covariances=S, whiten=W, log_scale=logs,
                       resets=old.resets + len(empty))  # fmt: skip


def _raised(S: np.ndarray, floor: Vector) -> tuple[np.ndarray, Codes]:
    """S (K, d, d) with eigenvalues of diag(floor)^-½ S diag(floor)^-½ below 1 raised to 1, and which k had any."""
    if not floor.all():
        return S, np.empty(0, dtype=np.int64)
    t = np.sqrt(floor)
    A = S / np.outer(t, t)
    try:
        np.linalg.cholesky(A - np.eye(len(t)))
        return S, np.empty(0, dtype=np.int64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(A)
    below = np.flatnonzero(values[:, 0] < 1)
    out = S.copy()
    for k in below:
        B = (vectors[k] * np.maximum(values[k], 1.0)) @ vectors[k].T
        out[k] = 0.5 * (B + B.T) * np.outer(t, t)
    return out, below


def _collapsed(k: int, weight: float) -> str:
    return f"component {k} (weight {weight:.3g}) has collapsed onto rows without spread: the likelihood has no bound"
