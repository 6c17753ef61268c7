"""Quadratic discriminant analysis and Gaussian mixtures against scikit-learn: equal data, equal quality, fit time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis as PeerQDA
from sklearn.mixture import GaussianMixture as PeerGMM

from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis
from ml_core.mixture.gaussian_mixture import GaussianMixture

SIZES = {"small": ((1250, 10, 3), (1250, 5, 4)), "medium": ((125_000, 50, 5), (50_000, 10, 10))}


def groups(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """k Gaussian groups, each with its own covariance."""
    r = np.random.default_rng(seed)
    means = r.normal(size=(k, d)) * 6 / np.sqrt(d)
    z = r.choice(k, size=n, p=r.dirichlet(np.full(k, 5.0)))
    X = r.normal(size=(n, d))
    for c in range(k):
        X[z == c] = X[z == c] @ (np.eye(d) + 0.4 * r.normal(size=(d, d)) / np.sqrt(d))
    return X + means[z], z


def cases() -> list[dict[str, Any]]:
    """The workloads: name, factories of ours and the peer, data, and the figure that must not be worse."""
    out: list[dict[str, Any]] = []
    for size, (qda, gmm) in SIZES.items():
        X, y = groups(*qda)
        out.append({
            "name": f"qda_{size}", "make_ours": QuadraticDiscriminantAnalysis, "make_peer": PeerQDA, "X": X, "y": y,
            "quality": lambda m, X=X, y=y: float(m.score(X[:20_000], y[:20_000])),
        })  # fmt: skip
        X, K = groups(*gmm)[0], gmm[2]
        out.append({
            "name": f"gmm_{size}", "X": X, "y": None, "quality": lambda m, X=X: float(m.score(X)),
            "make_ours": lambda K=K: GaussianMixture(n_components=K, n_init=1, tol=1e-3, max_iter=200),
            "make_peer": lambda K=K: PeerGMM(K, random_state=0, tol=1e-3, max_iter=200),
        })  # fmt: skip
        out.append({
            "name": f"gmm_{size}_tight", "X": X, "y": None, "quality": lambda m, X=X: float(m.score(X)),
            "make_ours": lambda K=K: GaussianMixture(n_components=K, n_init=1, tol=1e-6, max_iter=100),
            "make_peer": lambda K=K: PeerGMM(K, random_state=0, tol=1e-6, max_iter=100),
        })  # fmt: skip
    return out
