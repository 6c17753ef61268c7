"""The Gaussian linear model in closed form, from a centred triangle: posterior, log evidence, evidence maximisation.

y = Φw~ + e with Φ = [1, X], e ~ N(0, σ²), w~ = (b, w) ~ N(m₀, S₀). In the coordinates u = (b + x̄ᵀw, w) the columns are
orthogonal to the constant, so ΦᵀΦ = FᵀF comes from the scatter about the mean and an offset of the data costs nothing.
With S₀ = L Lᵀ the posterior is that of white coefficients a ~ N(0, I), w~ = m₀ + L a:

    I + LᵀFᵀF L/σ² = RᵀR,   a = R⁻¹R⁻ᵀ LᵀΦᵀ(y - Φm₀)/σ²,   S_N = (L R⁻¹)(L R⁻¹)ᵀ,

R being the triangle of the stacked [F L/σ; I]: never worse conditioned than the data and defined for singular S₀.

References
----------
Bishop (2006), Pattern Recognition and Machine Learning, sections 3.3–3.5. MacKay (1992), Bayesian interpolation,
Neural Computation 4(3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr_multiply

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.bundle import portable
from ml_core.numerics.singular import singular
from ml_core.numerics.triangle import Triangle
from ml_core.solvers.base import NEVER, spent
from ml_core.solvers.least_squares import triangular_inverse

EPS = float(np.finfo(float).eps)
LEAST_NOISE = 1e-13
LOG_2PI = float(np.log(2 * np.pi))


@portable
@dataclass(frozen=True)
class Prior:
    """N(mean, root rootᵀ) over (b, w) (1 + d,); b = 0 without intercept, and `flat` leaves it without prior."""

    mean: Vector
    root: Matrix
    intercept: bool
    flat: bool


@portable
@dataclass(frozen=True)
class Posterior:
    """Of u = (b + centerᵀw, w), (1 + d,): mean, and covariance root rootᵀ; b is 0 without intercept.

    `shrinkage` = tr(S₀⁻¹S_N) counts the directions that the prior decides, `rss` = ‖y - Φw~_N‖², `distance` is
    (w~_N - m₀)ᵀS₀⁻¹(w~_N - m₀), `log_evidence` is log N(y | Φm₀, σ²I + ΦS₀Φᵀ), with density 1 for a flat b.
    """

    mean: Vector
    root: Matrix
    center: Vector
    noise: float
    rss: float
    shrinkage: float
    distance: float
    log_evidence: float


@dataclass(frozen=True)
class Sums:
    """Factored sums: Σs, means of X and y, F (k, d + 1) with FᵀF the scatter of [X, y], about 0 without intercept.

    `rest` (d + 1,) is what rounding took from the means.
    `least` is a noise variance that rounding can fake, also that of targets far from 0; of a constant target a share of
    its square.
    """

    total: float
    center: Vector
    y_mean: float
    rest: Vector
    F: Matrix
    least: float

    @classmethod
    def of(cls, seen: Triangle, intercept: bool) -> Sums:
        """From the triangle of [X, y].

        A noise below 1e-13 of the variance of y is not seen. Without intercept the means are a row of their own: added
        to the scatter they would take its digits.
        """
        mean, rest, F, square = seen.mean, seen.rest, seen.root, float(seen.mean[-1]) ** 2
        about = float(seen.norms()[-1] ** 2) / seen.total
        least = max(LEAST_NOISE * (about or square or 1.0), (16 * EPS) ** 2 * square)
        if not intercept:
            F = np.vstack([np.sqrt(seen.total) * (mean + rest), F])
            mean, rest = np.zeros_like(mean), np.zeros_like(mean)
        return cls(seen.total, mean[:-1], float(mean[-1]), rest, F, least)

    def mean_square(self) -> float:
        """Of y, about its mean with an intercept; 1 where it is 0."""
        y = self.F[:, -1]
        return max(float((y**2).sum() / self.total), 1e-200) if y.any() else 1.0


def white(sums: Sums, prior: Prior) -> tuple[Matrix, Vector, Matrix, Vector]:
    """(L, m₀) of the prior of u, and the white problem: minimise ‖miss - E a‖²/σ² + ‖a‖² with u = m₀ + L a."""
    d = len(sums.center)
    turn = sums.center if prior.intercept else np.zeros(d)
    L = prior.root.copy()
    m0 = prior.mean.copy()
    L[0] += turn @ L[1:]
    m0[0] = sums.y_mean if prior.flat else m0[0] + turn @ m0[1:]
    L[0] *= not prior.flat
    count = np.sqrt(sums.total) if prior.intercept else 0.0
    E = np.vstack([count * L[:1], sums.F[:, :d] @ L[1:]])
    top = count * (sums.y_mean - m0[0] + sums.rest[d])
    return L, m0, E, np.concatenate([[top], sums.F[:, d] - sums.F[:, :d] @ m0[1:]])


def posterior(sums: Sums, prior: Prior, noise: float) -> Posterior:
    """The posterior for a known noise variance σ², O(d³)."""
    d, sd, k = len(sums.center), np.sqrt(noise), prior.root.shape[1]
    L, m0, E, miss = white(sums, prior)
    E, miss = E / sd, miss / sd
    R, seen, at = _triangle(np.vstack([E, np.eye(k)]), np.concatenate([miss, np.zeros(k)]))
    inverse = np.zeros((k, k))
    inverse[at] = triangular_inverse(R)
    a = inverse @ seen
    rss = float(((miss - E @ a) ** 2).sum()) * noise
    root = L @ inverse
    n = sums.total - prior.flat
    logs = -0.5 * (n * (LOG_2PI + np.log(noise)) + rss / noise + a @ a) - np.log(np.abs(np.diag(R))).sum()
    if prior.flat:
        logs -= 0.5 * np.log(sums.total)
        root = np.hstack([np.eye(d + 1)[:, :1] * np.sqrt(noise / sums.total), root])
    mean = m0 + L @ a
    mean[0] -= sums.rest[:d] @ mean[1:]  # the centre is the mean as rounded
    root[0] -= sums.rest[:d] @ root[1:]
    return Posterior(mean, root, sums.center, noise, rss, float((inverse**2).sum()), float(a @ a), float(logs))


def _triangle(A: Matrix, b: Vector) -> tuple[Matrix, Vector, Codes]:
    """R (k, k), Qᵀb (k,) and the order of columns with A (n, k) [order] = Q R, n ≥ k; O(n k²).

    Columns are pivoted and longer rows come first, so that each row keeps its own digits beside much longer ones.
    Source: Cox, Higham (1998), Stability of Householder QR factorization for weighted least squares problems.
    """
    rows = np.argsort(-np.abs(A).max(axis=1, initial=0.0), kind="stable")
    seen, R, order = qr_multiply(A[rows], b[rows], mode="right", pivoting=True, overwrite_a=True, overwrite_c=True)
    return R, seen, order


@dataclass(frozen=True)
class Evidence:
    """Where evidence maximisation ended: α, σ², the posterior there, iterations, trace of the log evidence."""

    alpha: float
    noise: float
    posterior: Posterior
    n_iter: int
    converged: bool
    trace: list[float]


def isotropic(prior: Prior, alpha: float, shared: bool) -> Prior:
    """The prior with covariance I/α of w, and of b too when it shares α."""
    root = prior.root.copy()
    d = len(root) - 1
    root[1:, -d:] = np.eye(d) / np.sqrt(alpha)
    if shared and prior.intercept:
        root[0, 0] = 1 / np.sqrt(alpha)
    return Prior(prior.mean, root, prior.intercept, prior.flat)


def gradient(post: Posterior, prior: Prior, alpha: float, n: float, shared: bool) -> tuple[float, float, float, float]:
    """(γ, ‖w - w₀‖²) of the coefficients that share α, then (n - γ_all, rss): both ratios are MacKay's updates.

    ∂ log evidence/∂ log α = ½(γ - α‖w - w₀‖²) and ∂/∂ log σ² = ½(rss/σ² - (n - γ_all)).
    """
    w, B = post.mean[1:], post.root[1:]
    count, spread, square = float(len(w)), float((B * B).sum()), float(((w - prior.mean[1:]) ** 2).sum())
    if shared and prior.intercept:
        count += 1
        spread += float(((post.root[0] - post.center @ B) ** 2).sum())
        square += float((post.mean[0] - post.center @ w - prior.mean[0]) ** 2)
    used = prior.root.shape[1] - post.shrinkage + prior.flat
    return max(count - alpha * spread, 0.0), square, n - used, post.rss


def _spectrum(sums: Sums, prior: Prior) -> tuple[Vector, Vector, float]:
    """Of the white problem at α = σ² = 1: squared singular values, squared coefficients of `miss`, and what is left."""
    _, _, E, miss = white(sums, prior)
    U, size, _ = singular(E)
    z = miss @ U
    return size**2, z**2, float(((miss - U @ z) ** 2).sum())


def _closed_loop(
    spectrum: tuple[Vector, Vector, float], sums: Sums, prior: Prior, alpha: float, noise: float, *, shared: bool,
    floor: tuple[float, float], fixed_noise: bool, max_iter: int, tol: float,
) -> Evidence:  # fmt: skip
    """The fixed point where one α rules every white direction: one SVD, then O(d) a step."""
    values, z2, rest = spectrum
    n, trace, done, i = sums.total - prior.flat, [], False, 0
    while i < max_iter and not done:
        i += 1
        keep = values / (noise * alpha + values)
        gamma, square = float(keep.sum()), float((keep * z2 / (noise * alpha + values)).sum())
        rss = rest + float((z2 * (1 - keep) ** 2).sum())
        logs = n * (LOG_2PI + np.log(noise)) + rss / noise + alpha * square + np.log1p(values / (noise * alpha)).sum()
        trace.append(-0.5 * float(logs + (np.log(sums.total) if prior.flat else 0.0)))
        new_alpha = min(gamma / square, floor[1]) if square * floor[1] > gamma > 0 else floor[1]
        new_noise = noise if fixed_noise else max(rss / (n - gamma), floor[0]) if n > gamma else floor[0]
        done = max(abs(np.log(new_alpha / alpha)), abs(np.log(new_noise / noise))) <= tol
        alpha, noise = new_alpha, new_noise
        progress.tick(i, max_iter, objective=-trace[-1])
        if not done and progress.late():
            break
    post = posterior(sums, isotropic(prior, alpha, shared), noise)
    return Evidence(alpha, noise, post, i, done, [*trace[1:], post.log_evidence])


def bounds(sums: Sums, alpha: float) -> tuple[float, float]:
    """The least noise variance and, from the start `alpha`, the largest prior precision that evidence may choose."""
    return sums.least, 1e12 * max(alpha, float(sums.total / sums.mean_square()))


def maximise_evidence(
    sums: Sums, prior: Prior, alpha: float, noise: float, *, shared: bool, fixed_noise: bool, max_iter: int, tol: float
) -> Evidence:
    """Fixed point α = γ/‖w - w₀‖², σ² = rss/(n - γ); until both change by less than `tol`, relatively. O(d³) a step."""
    least, most = bounds(sums, alpha)
    trace: list[float] = []
    if shared or prior.flat or not prior.intercept:
        return _closed_loop(_spectrum(sums, isotropic(prior, 1.0, shared)), sums, prior, alpha, noise, shared=shared,
                            floor=(least, most), fixed_noise=fixed_noise, max_iter=max_iter, tol=tol)  # fmt: skip
    post = posterior(sums, isotropic(prior, alpha, shared), noise)
    for i in range(1, max_iter + 1):
        at = isotropic(prior, alpha, shared)
        gamma, square, left, rss = gradient(post, at, alpha, sums.total, shared)
        new_alpha = min(gamma / square, most) if square * most > gamma > 0 else most
        new_noise = noise if fixed_noise else max(rss / left, least) if left > 0 else least
        moved = max(abs(np.log(new_alpha / alpha)), abs(np.log(new_noise / noise)))
        alpha, noise = new_alpha, new_noise
        post = posterior(sums, isotropic(prior, alpha, shared), noise)
        trace.append(post.log_evidence)
        progress.tick(i, max_iter, objective=-post.log_evidence)
        if moved <= tol or spent(i, max_iter):
            return Evidence(alpha, noise, post, i, moved <= tol, trace)
    raise AssertionError(NEVER)
