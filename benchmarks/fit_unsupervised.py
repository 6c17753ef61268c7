"""K-means and principal components against scikit-learn: equal data, equal quality, fit time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans as PeerKMeans
from sklearn.decomposition import PCA

from ml_core.cluster.k_means import KMeans
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis

GROUPS = {"small": (2500, 10, 8, 10), "medium": (100_000, 20, 20, 1)}
SPECTRA = {"full_small": (1250, 30, None), "full_medium": (50_000, 200, None), "few_medium": (10_000, 1000, 20)}


def groups(n: int, d: int, k: int) -> np.ndarray:
    """k overlapping spherical groups."""
    r = np.random.default_rng(0)
    centres = r.normal(size=(k, d)) * 6 / np.sqrt(d)
    return centres[r.integers(k, size=n)] + r.normal(size=(n, d))


def correlated(n: int, d: int) -> np.ndarray:
    """Columns that share factors of falling strength."""
    r = np.random.default_rng(0)
    rank = min(d, 60)
    return (r.normal(size=(n, rank)) * 0.95 ** np.arange(rank)) @ r.normal(size=(rank, d)) + r.normal(size=(n, d))


def cases() -> list[dict[str, Any]]:
    """The workloads: name, factories of ours and the peer, data, and the figure that must not be worse."""
    out: list[dict[str, Any]] = []
    for size, (n, d, k, starts) in GROUPS.items():
        X = groups(n, d, k)
        out.append({
            "name": f"kmeans_{size}", "X": X, "y": None, "quality": lambda m: -float(m.inertia_),
            "make_ours": lambda k=k, starts=starts: KMeans(n_clusters=k, n_init=starts),
            "make_peer": lambda k=k, starts=starts: PeerKMeans(k, n_init=starts, random_state=0),
        })  # fmt: skip
    for size, (n, d, few) in SPECTRA.items():
        X = correlated(n, d)
        out.append({
            "name": f"pca_{size}", "X": X, "y": None,
            "quality": lambda m: float(np.sum(m.explained_variance_ratio_)),
            "make_ours": lambda few=few: PrincipalComponentAnalysis(n_components=few),
            "make_peer": lambda few=few: PCA(few, random_state=0),
        })  # fmt: skip
    return out
