"""Functions drawn from a Gaussian process prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix
from ml_core.base import Cost
from ml_core.certificates import Certificate
from ml_core.errors import InvalidData, OverBudget, placed
from ml_core.kernels import KernelSpec, kernel_of
from ml_core.numerics.gaussian import root
from ml_core.params import RealMatrix, RealVector, Seed
from ml_core.registry import Answer, function
from ml_core.rng import generator

MAX_BYTES = 2e9


@dataclass(frozen=True)
class GaussianProcessPrior:
    """Mean (n,) and sd (n,) of the function at the points, its covariance (n, n), draws (samples, n), the kernel."""

    mean: RealVector
    standard_deviation: RealVector
    covariance: RealMatrix
    draws: RealMatrix
    kernel: dict[str, Any]


def cost(points: Matrix, kernel: Any, samples: int = 1, **parameters: Any) -> Cost:
    """An eigendecomposition of (n, n), and products for the draws."""
    n = float(len(points))
    return Cost(flops=10.0 * n**3 + 2.0 * n * n * samples, memory_bytes=8.0 * (6.0 * n * n + n * samples))


@function(
    "gaussian_process_prior",
    example={"points": [[0.0], [0.5], [1.0]], "kernel": {"kernel": "matern", "nu": 1.5}, "samples": 2},
    cost=cost,
)
def gaussian_process_prior(
    *,
    points: Annotated[RealMatrix, Field(description="(n, d) rows at which functions are drawn.")],
    kernel: Annotated[KernelSpec, Field(description="Covariance of the function, its variance within.")],
    samples: Annotated[int, Field(ge=1, le=10_000, description="Number of draws.")] = 1,
    mean: Annotated[float, Field(description="Prior mean, the same everywhere.")] = 0.0,
    noise_variance: Annotated[float, Field(ge=0, description="Added to each variance: draws of outcomes.")] = 0.0,
    random_state: Seed = 0,
) -> Answer[GaussianProcessPrior]:
    """Joint draws of a function before any data: what a kernel believes.

    f ~ N(mean, K + noise_variance I) with K the kernel matrix of the points; drawn as mean + R z, R Rᵀ the covariance
    by its eigenvalues, z standard normal. O(n³).

    References
    ----------
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, section 2.2.
    """
    if not points.size:
        raise InvalidData("draws need at least one point with at least one column")
    need = cost(points, kernel, samples).memory_bytes
    if need > MAX_BYTES:
        raise OverBudget(f"the draws need about {need / 1e9:.1f} GB of {MAX_BYTES / 1e9:.0f} GB; take fewer points")
    with placed("/kernel"):
        k = kernel_of(kernel).resolved(points)
    C = k(points)
    C[np.diag_indices_from(C)] += noise_variance
    R = root(C)
    z = generator(random_state).standard_normal((samples, R.shape[1]))
    sd = np.sqrt(np.maximum(C.diagonal(), 0.0))
    value = GaussianProcessPrior(np.full(len(points), mean), sd, C, mean + z @ R.T, k.to_json())
    off = float(np.abs(R @ R.T - C).max() / max(float(np.abs(C).max()), np.finfo(float).tiny))
    return Answer(value, (Certificate("root_error", off, 1e-9, "R Rᵀ less the covariance, largest entry, relative"),))
