"""Diagnostics of principal components, from the rows or from any root of their scatter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ml_core.arrays import Matrix
from ml_core.certificates import Certificate, Diagnostics, Table

if TYPE_CHECKING:
    from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis


def certify(m: PrincipalComponentAnalysis, A: Matrix, weight: float) -> Diagnostics:
    """From A, any matrix with the products AᵀA of the centred, scaled, weighted table."""
    V, var = m.components_, m.explained_variance_
    divisor = max(weight - m.ddof, 0.0) or weight
    total = float((A * A).sum()) / divisor
    Z = A @ V.T
    top = max(total, np.finfo(float).tiny)
    cross = Z.T @ Z / divisor
    lost = float(((A - Z @ V) ** 2).sum()) / divisor
    residual = np.linalg.norm((A.T @ Z / divisor - V.T * var) / top, axis=0)
    out = Diagnostics(summary={
        "components": len(var), "rank": m.rank_, "total_variance": total, "reconstruction_error": lost,
        "discarded_variance": m.discarded_variance_, "explained_ratio": float(var.sum() / top),
    })  # fmt: skip
    out.certificates = [
        Certificate("orthonormality", float(np.abs(V @ V.T - np.eye(len(V))).max()), 1e-10,
            "the directions have unit length and are at right angles"),
        Certificate("eigen_residual", float(residual.max()), 1e-9,
            "largest ‖S v - λ v‖ over the total variance: each direction is an eigenvector of the covariance"),
        Certificate("reconstruction_gap", abs(lost - m.discarded_variance_) / top, 1e-9,
            "the mean squared reconstruction error is the sum of the discarded eigenvalues, relative to the total"),
        Certificate("largest_covariance", float(np.abs(cross - np.diag(np.diag(cross))).max()) / top, 1e-9,
            "the coordinates are uncorrelated, relative to the total variance"),
    ]  # fmt: skip
    return _report(m, out)


def _report(m: PrincipalComponentAnalysis, out: Diagnostics) -> Diagnostics:
    var, share = m.explained_variance_, m.explained_variance_ratio_
    numbers, cumulative = np.arange(1, len(var) + 1), np.cumsum(share)
    table: list[list[Any]] = [
        [int(i), float(v), float(np.sqrt(v)), float(r), float(c)]
        for i, v, r, c in zip(numbers, var, share, cumulative, strict=True)
    ]
    columns = ("component", "eigenvalue", "sd", "explained_ratio", "cumulative_ratio")
    out.tables["components"] = Table(columns, table)
    out.curves["scree"] = {"x": numbers, "y": var, "explained_ratio": share, "cumulative_ratio": cumulative}
    out.matrices["components"] = m.components_
    return out
