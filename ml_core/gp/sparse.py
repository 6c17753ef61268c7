"""Inference through inducing rows: the collapsed variational bound of Titsias (2009)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.gp.surface import Surface
from ml_core.gp.task import LOG_2PI, Mean, Task, coefficients
from ml_core.kernels import Kernel
from ml_core.numerics.positive import back, factor, half, half_logdet, solve

NUGGET = 1e-10
DIAGONAL_BLOCK = 64
PULSE = 16


def inducing_rows(kernel: Kernel, X: Matrix, m: int) -> np.ndarray:
    """Numbers of at most m rows, each that of largest variance given those before; O(n m²).

    References
    ----------
    Burt, Rasmussen, van der Wilk (2020), Convergence of sparse variational inference in GP regression, JMLR 21.
    """
    left = kernel.diag(X)
    top = float(left.max())
    G = np.empty((m, len(X)))
    chosen: list[int] = []
    for i in range(m):
        if i % PULSE == 0:
            progress.tick(i, m, "inducing rows", variance=float(left.max()))
        j = int(left.argmax())
        if left[j] <= NUGGET * top:
            break
        row = kernel(X[j : j + 1], X)[0]
        row[j] = kernel.diag(X[j : j + 1])[0]
        row -= G[:i, j] @ G[:i]
        G[i] = row / np.sqrt(left[j])
        left = np.maximum(left - G[i] ** 2, 0.0)
        left[j] = 0.0
        chosen.append(j)
    return np.sort(np.array(chosen))


def projected(Kuu: Matrix, Kuf: Matrix) -> tuple[Matrix, float]:
    """L⁻¹K_uf (m, n) and the jitter; K_uu (m, m) is overwritten by L, K_uu (1 + 1e-10 on its diagonal) = L Lᵀ."""
    Kuu[np.diag_indices_from(Kuu)] *= 1.0 + NUGGET
    jitter = factor(Kuu)
    return half(Kuu, Kuf), jitter


@dataclass(frozen=True)
class Bound:
    """Everything the bound is made of, for m inducing rows Z: L Lᵀ = K_uu, A = L⁻¹K_uf D^-½, M Mᵀ = I + A Aᵀ.

    S = K_fu K_uu⁻¹ K_uf + D; b = S⁻¹(y - Hβ), E E' = S⁻¹H(HᵀS⁻¹H)⁻¹HᵀS⁻¹, R Rᵀ = HᵀS⁻¹H; `short` = k(x,x) - q(x,x).
    """

    L: Matrix
    A: Matrix
    M: Matrix
    noise: Vector
    b: Vector
    beta: Vector
    E: Matrix
    R: Matrix
    short: Vector
    jitter: float
    value: float


def _inverse_times(A: Matrix, M: Matrix, noise: Vector, B: Matrix) -> Matrix:
    """S⁻¹B = D^-½(I - Aᵀ(I + A Aᵀ)⁻¹A)D^-½ B."""
    root = np.sqrt(noise)[:, None]
    scaled = B / root
    return np.asarray((scaled - A.T @ solve(M, A @ scaled)) / root)


def bound(task: Task, kernel: Kernel, s2: float, Kuu: Matrix, Kuf: Matrix) -> Bound:
    """Of K_uu (m, m), which is overwritten, and K_uf (m, n); O(n m²)."""
    noise, p = task.noise(s2), task.H.shape[1]
    A, jitter = projected(Kuu, Kuf)
    A /= np.sqrt(noise)
    explained = noise * np.einsum("ij,ij->j", A, A)
    M = A @ A.T
    M[np.diag_indices_from(M)] += 1.0
    factor(M)
    both = _inverse_times(A, M, noise, np.column_stack([task.y, task.H]))
    R, beta, E = coefficients(task.H, both[:, 0], both[:, 1:])
    b = both[:, 0] - both[:, 1:] @ beta
    short = np.maximum(kernel.diag(task.X) - explained, 0.0)
    logs = half_logdet(M) + 0.5 * float(np.log(noise).sum()) + (half_logdet(R) if p else 0.0)
    value = -0.5 * float(task.y @ b) - logs - 0.5 * (len(noise) - p) * LOG_2PI - 0.5 * float((short / noise).sum())
    return Bound(Kuu, A, M, noise, b, beta, E, R, short, jitter, value + task.repeated(s2)[0])


def value_gradient(task: Task, kernel: Kernel, s2: float, Z: Matrix) -> tuple[float, Vector]:
    """The bound and its derivatives by the kernel's log hyperparameters and log s2 (last); O(n m²).

    With G = ½(b bᵀ + E Eᵀ - S⁻¹ + D⁻¹) and T = K_uu⁻¹K_uf: weights 2 T G of ∂K_uf, -T G Tᵀ of ∂K_uu, -½ D⁻¹ of ∂k(x,x).
    """
    Kuu, pull_uu = kernel.traced(Z)
    Kuf, pull_uf = kernel.traced(Z, task.X)
    at = bound(task, kernel, s2, Kuu.copy(), Kuf)
    root = np.sqrt(at.noise)
    T = back(at.L, at.A * root)
    V = half(at.M, at.A / root)
    left = np.column_stack([at.b, at.E])
    TG = 0.5 * ((T @ left) @ left.T + (T @ V.T) @ V)
    TGT = TG @ T.T
    gradient = pull_uf(2.0 * TG) - pull_uu(0.5 * (TGT + TGT.T)) - 0.5 * diagonal_pull(kernel, task.X, 1.0 / at.noise)
    inverse = 1.0 / at.noise - np.einsum("ij,ij->j", V, V)
    by_noise = 0.5 * (at.b**2 + np.einsum("ij,ij->i", at.E, at.E) - inverse + at.short / at.noise**2)
    return at.value, np.append(gradient, float(by_noise @ (s2 / task.weight)) + task.repeated(s2)[1])


def diagonal_pull(kernel: Kernel, X: Matrix, w: Vector) -> Vector:
    """Σᵢ wᵢ ∂k(xᵢ, xᵢ)/∂log θ, block by block of the Gram matrix."""
    blocks = [slice(i, i + DIAGONAL_BLOCK) for i in range(0, len(X), DIAGONAL_BLOCK)]
    return np.asarray(sum(kernel.traced(X[b])[1](np.diag(w[b])) for b in blocks))


def surface(task: Task, kernel: Kernel, mean: Mean, at: Bound, Z: Matrix) -> Surface:
    """The variational posterior over functions."""
    root = np.sqrt(at.noise)
    L, M = np.tril(at.L), np.tril(at.M)
    weights = back(L, solve(M, at.A @ ((task.y - task.H @ at.beta) / root)))
    F = (at.A * root) @ _inverse_times(at.A, M, at.noise, task.H) if len(at.beta) else np.zeros((len(L), 0))
    return Surface(kernel, mean, Z, weights, L, M, at.beta, at.R, F)
