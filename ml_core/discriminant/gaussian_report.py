"""Diagnostics of Gaussian classes: whitened by the model, the rows of a class have mean 0 and covariance I."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_core.arrays import Matrix
from ml_core.certificates import Certificate, Diagnostics
from ml_core.discriminant.class_gaussians import ByClass, pooled
from ml_core.discriminant.class_report import Tallied, classes_table, outline, worst
from ml_core.numerics.stable import softmax
from ml_core.sums import Passes

if TYPE_CHECKING:
    from ml_core.discriminant.linear_discriminant_analysis import LinearDiscriminantAnalysis
    from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis

FACTOR = "WᵀSW = I: the quadratic forms use the stated covariances"
MEANS = "the likelihood has no slope in any class mean"


def quadratic(m: QuadraticDiscriminantAnalysis) -> Passes:
    """Of quadratic discriminant analysis; O(n K d²)."""
    t = yield Tallied(m)
    K, d = m.means_.shape
    out = outline(m, t, K - 1 + K * d + K * d * (d + 1) // 2)
    out.summary["discriminant_parameters"] = (K - 1) * (d * (d + 3) // 2 + 1)
    out.tables["classes"] = classes_table(m, rank=m.rank_, condition=m.condition_, log_determinant=-2 * m.log_scale_,
                                          added_to_diagonal=m.added_)  # fmt: skip
    out.matrices |= {"means": m.means_, "covariances": m.covariances_}
    out.certificates = _quadratic_certificates(m, t.sums)
    return out


def _support(W: Matrix) -> Matrix:
    """I (d, d), with zeros in the directions that a pseudo-inverse leaves out."""
    return np.diag((np.abs(W).max(axis=0) > 0).astype(float))


def _quadratic_certificates(m: QuadraticDiscriminantAnalysis, groups: ByClass) -> list[Certificate]:
    d = m.means_.shape[1]
    factors = [W.T @ S @ W - _support(W) for W, S in zip(m.whiten_, m.covariances_, strict=True)]
    out = [worst("factor_residual", factors, 1e-6, FACTOR)]
    if m.means is not None:
        return out
    shift, spread = [np.zeros(d)], [np.zeros((d, d))]
    for c, g in enumerate(groups.parts):
        if g.rows:
            W, A = m.whiten_[c], g.scatter / (max(g.total - m.ddof, 0.0) or g.total) + m.added_[c] * np.eye(d)
            shift.append(W.T @ (g.mean - m.means_[c]))
            spread.append(W.T @ A @ W - _support(W))
    return [
        *out,
        worst("largest_whitened_mean", shift, 1e-6, MEANS),
        worst("largest_whitened_covariance_error", spread, 1e-6, "nor in any class covariance"),
    ]


def linear(m: LinearDiscriminantAnalysis) -> Passes:
    """Of linear discriminant analysis; O(n d² + n K d)."""
    t = yield Tallied(m)
    (K, d), W = m.means_.shape, m.whiten_
    out: Diagnostics = outline(m, t, K - 1 + K * d + d * (d + 1) // 2)
    out.summary |= {
        "discriminant_parameters": (K - 1) * (d + 1), "rank": m.rank_, "condition": m.condition_,
        "log_determinant": -2 * m.log_scale_, "added_to_diagonal": m.added_,
    }  # fmt: skip
    out.tables["classes"] = classes_table(m)
    out.matrices |= {"means": m.means_, "covariance": m.covariance_, "distances": m.distances()}
    densities, scores = softmax(m._joint(m.means_)), m._proba(m.means_)
    out.certificates = [
        worst("factor_residual", W.T @ m.covariance_ @ W - _support(W), 1e-6, FACTOR),
        worst("linear_posterior_error", densities - scores, 1e-6,
              "at the class means the linear scores give the posterior of the densities"),
    ]  # fmt: skip
    if m.means is None:
        groups: ByClass = t.sums
        shift = [W.T @ (g.mean - mean) for g, mean in zip(groups.parts, m.means_, strict=True) if g.rows]
        total = float(groups.weight.sum())
        S = pooled(groups) / (max(total - m.ddof * K, 0.0) or total) + m.added_ * np.eye(d)
        out.certificates += [
            worst("largest_whitened_mean", shift, 1e-6, MEANS),
            worst("largest_whitened_covariance_error", W.T @ S @ W - _support(W), 1e-6,
                  "nor in the pooled covariance"),
        ]  # fmt: skip
    return out
