"""Diagnostics of a Gaussian mixture from sums over rows at the fitted parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.numerics.stable import log_softmax, logsumexp
from ml_core.numerics.totals import Total
from ml_core.solvers.base import Steps, together
from ml_core.solvers.em import Unbounded
from ml_core.solvers.gaussian_em import GaussianEM
from ml_core.solvers.gaussian_sums import Theta
from ml_core.sums import Passes

if TYPE_CHECKING:
    from ml_core.mixture.gaussian_mixture import GaussianMixture


@dataclass(frozen=True)
class Fitted(Total):
    """How a mixture fits rows: Σs, rows, Σ s log p(x), Σ s r (K,), and the entropy -Σ s Σ_k r log r."""

    weight: float
    rows: int
    value: float
    mass: Vector
    entropy: float


@dataclass(frozen=True)
class Fit:
    """The part whose total is `Fitted`."""

    theta: Theta

    def __call__(self, X: Matrix, s: Vector) -> Fitted:
        """Of rows."""
        joint = self.theta.joint(X)
        r = np.exp(log_softmax(joint))
        bits = np.where(r > 0, r * np.log(np.where(r > 0, r, 1.0)), 0.0).sum(axis=1)
        return Fitted(float(s.sum()), len(X), float(s @ logsumexp(joint, axis=1)), s @ r, float(-(s @ bits)))


def audit(model: GaussianMixture, theta: Theta) -> Passes:
    """The diagnostics, from two passes over the rows, three after a far jump."""
    form = GaussianEM(model.covariance_type, model.floor_, _variances(theta))
    asked: list[Steps[Any]] = [_fitted(theta), _one_more_step(form, theta)]
    fitted, (value, gain) = yield from together(asked)
    return report(model, theta, fitted, _certificates(value / fitted.weight, gain / fitted.weight, model.tol))


def _variances(theta: Theta) -> Vector:
    """(d,) of the mixture: within the components and between them."""
    S, p = theta.covariances, theta.weights
    within = S[:, :, 0] if S.shape[2] == 1 else np.einsum("kjj->kj", S)
    away = theta.means - theta.means[0]
    return np.asarray(p @ (within + (away - p @ away) ** 2))


def _fitted(theta: Theta) -> Steps[Fitted]:
    found: Fitted = yield Fit(theta)
    return found


def _one_more_step(form: GaussianEM, theta: Theta) -> Steps[tuple[float, float]]:
    """The log-likelihood, and what one more E-step and M-step from the answer add to it."""
    found, value = yield from form.e_step(theta)
    try:
        _, after = yield from form.e_step((yield from form.m_step(theta, found)))
    except Unbounded:
        return value, float("inf")
    return value, after - value


def _certificates(value: float, gain: float, tol: float) -> list[Certificate]:
    slack = 1e-10 * (1 + abs(value))
    return [
        Certificate("em_step_loss", max(-gain, 0.0), slack, "one more EM step does not lower the likelihood"),
        Certificate("em_step_gain", gain, max(tol, slack), "nor raise it by more than tol, nats per sample"),
    ]


def report(model: GaussianMixture, theta: Theta, fitted: Fitted, certificates: list[Certificate]) -> Diagnostics:
    """Statistics of the fit, the table of components, the starts."""
    K, d = theta.means.shape
    n, value, S, free = fitted.weight, fitted.value, theta.covariances, _free_parameters(K, d, model.covariance_type)
    sd = np.sqrt(S[:, :, 0] if S.shape[2] == 1 else np.einsum("kjj->kj", S))
    columns = ("component", "weight", "mass", "at_floor", "log_determinant", *(f"sd_{j}" for j in range(d)))
    held, log_det = [k in theta.floored for k in range(K)], -2 * theta.log_scale
    rows = [list(row) for row in zip(range(K), theta.weights, fitted.mass, held, log_det, *sd.T, strict=True)]
    return Diagnostics(
        summary={
            "rows": fitted.rows, "columns": d, "components": K, "parameters": free,
            "log_likelihood": value, "mean_log_likelihood": value / n,
            "aic": 2 * free - 2 * value, "bic": free * float(np.log(n)) - 2 * value,
            "assignment_entropy": fitted.entropy / n, "iterations": model.n_iter_,
            "starts": len(model.start_log_likelihoods_), "resets": model.resets_,
        },
        certificates=certificates,
        tables={
            "components": Table(columns, rows),
            "starts": Table(("start", "log_likelihood"), list(map(list, enumerate(model.start_log_likelihoods_)))),
        },
        traces={"log_likelihood": model.solution_.trace},
        matrices={"means": model.means_, "covariances": model.covariances_},
    )  # fmt: skip


def _free_parameters(K: int, d: int, kind: str) -> int:
    """K - 1 weights, K d means, and the covariances of the type."""
    own = {"full": K * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diagonal": K * d, "isotropic": K}
    return K - 1 + K * d + own.get(kind, 0)
