"""Exact inference: one Cholesky factor per marginal likelihood, one inverse per gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.gp.surface import Surface
from ml_core.gp.task import LOG_2PI, Mean, Task, coefficients
from ml_core.kernels import Kernel
from ml_core.kernels.traces import outer_less
from ml_core.numerics.positive import factor, half, half_logdet, invert, solve

REFINEMENTS = 3
BLOCK = 256


@dataclass
class Solved:
    """C = K + D = L Lᵀ solved for y = Hβ + Cα, Hᵀα = 0; `value` is the log marginal likelihood of y.

    `spread` (n, p) holds E with E Eᵀ = C⁻¹H(HᵀC⁻¹H)⁻¹HᵀC⁻¹, `basis_root` R with R Rᵀ = HᵀC⁻¹H.
    """

    L: Matrix
    jitter: float
    alpha: Vector
    beta: Vector
    spread: Matrix
    basis_root: Matrix
    value: float


def solved(task: Task, C: Matrix) -> Solved:
    """Of C (n, n), whose lower triangle is overwritten. O(n³/3)."""
    jitter = factor(C)
    both = solve(C, np.column_stack([task.y, task.H]))
    R, beta, spread = coefficients(task.H, both[:, 0], both[:, 1:])
    alpha = both[:, 0] - both[:, 1:] @ beta
    out = Solved(C, jitter, alpha, beta, spread, R, 0.0)
    out.value = likelihood(task, out)
    return out


def likelihood(task: Task, at: Solved) -> float:
    """-½ yᵀα - log|L| - log|R| - (n - p)/2 log 2π."""
    n, p = task.H.shape
    logs = half_logdet(at.L) + (half_logdet(at.basis_root) if p else 0.0)
    return -0.5 * float(task.y @ at.alpha) - logs - 0.5 * (n - p) * LOG_2PI


def value_gradient(task: Task, kernel: Kernel, s2: float) -> tuple[float, Vector]:
    """Log marginal likelihood and its derivatives by the kernel's log hyperparameters and log s2 (last).

    ∂L = ½ Σᵢⱼ Wᵢⱼ ∂Cᵢⱼ, W = ααᵀ + E Eᵀ - C⁻¹. O(n³) by one potrf and one potri.
    """
    K, pull = kernel.traced(task.X)
    C = K.copy()
    C[np.diag_indices_from(C)] += task.noise(s2)
    found, repeats = solved(task, C), task.repeated(s2)
    invert(C)
    outer_less(C, np.column_stack([found.alpha, found.spread]))
    by_noise = 0.5 * float(C.diagonal() @ (s2 / task.weight)) + repeats[1]
    return found.value + repeats[0], np.append(0.5 * pull(C), by_noise)


def final(task: Task, kernel: Kernel, s2: float) -> Solved:
    """`solved` with the solution refined by residuals in extended precision, noise apart from the kernel's values.

    Equal rows stand as one (`Task.merged`), whose weights do not cancel; `value` is that of the rows as given.
    """
    task, rest = task.merged(kernel, s2)
    K = kernel(task.X)
    noise = task.noise(s2)
    C = K.copy()
    C[np.diag_indices_from(C)] += noise
    out = solved(task, C)
    for _ in range(REFINEMENTS):
        r = residual(task, K, noise + out.jitter, out.alpha, out.beta)
        if np.abs(r).max() <= 4 * np.finfo(float).eps * np.abs(task.y).max(initial=0.0):
            break
        step = solve(out.L, np.column_stack([r, task.H]))
        rise = coefficients(task.H, step[:, 0], step[:, 1:])[1]
        out.alpha, out.beta = out.alpha + step[:, 0] - step[:, 1:] @ rise, out.beta + rise
    out.value = likelihood(task, out) + rest
    return out


def residual(task: Task, K: Matrix, noise: Vector, alpha: Vector, beta: Vector) -> Vector:
    """y - Hβ - (K + D)α in extended precision; O(n²)."""
    long = np.longdouble
    a = alpha.astype(long)
    out = task.y.astype(long) - noise.astype(long) * a - task.H.astype(long) @ beta.astype(long)
    for i in range(0, len(K), BLOCK):
        out[i : i + BLOCK] -= K[i : i + BLOCK].astype(long) @ a
    return np.asarray(out.astype(np.float64))


def surface(task: Task, kernel: Kernel, mean: Mean, s2: float, at: Solved) -> Surface:
    """The posterior over functions, from what `final` gave."""
    few, L = task.merged(kernel, s2)[0], np.tril(at.L)
    F = half(L, few.H) if len(at.beta) else np.zeros((len(L), 0))
    return Surface(kernel, mean, few.X, at.alpha, L, None, at.beta, at.basis_root, F)
