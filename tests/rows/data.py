"""Small seeded data sets for the registry-wide checks."""

from __future__ import annotations

import numpy as np


def regression() -> tuple[np.ndarray, np.ndarray]:
    """60 × 4, linear with noise."""
    r = np.random.default_rng(1)
    X = r.normal(size=(60, 4))
    return X, X @ np.array([1.0, -2.0, 0.5, 0.0]) + 3 + 0.3 * r.normal(size=60)


def classification() -> tuple[np.ndarray, np.ndarray]:
    """90 × 3, three overlapping Gaussian classes with string labels."""
    r = np.random.default_rng(2)
    y = np.repeat(["a", "b", "c"], 30)
    return r.normal(size=(90, 3)) + 1.5 * (y[:, None] == np.array(["a", "b", "c"])), y


def binary() -> tuple[np.ndarray, np.ndarray]:
    """80 × 3, two overlapping classes."""
    r = np.random.default_rng(3)
    X = r.normal(size=(80, 3))
    return X, np.where(X @ np.array([1.0, -1.0, 0.5]) + r.normal(size=80) > 0, "yes", "no")


def blobs() -> tuple[np.ndarray, None]:
    """90 × 2, three well separated groups."""
    r = np.random.default_rng(4)
    return np.concatenate([r.normal(c, 0.5, size=(30, 2)) for c in (-4.0, 0.0, 4.0)]), None


def flips() -> tuple[np.ndarray, None]:
    """50 × 2 of zeros and ones."""
    return (np.random.default_rng(5).random((50, 2)) < [0.3, 0.8]).astype(float), None


def labelled_flips() -> tuple[np.ndarray, np.ndarray]:
    """90 × 4 of zeros and ones, three classes with coins of their own."""
    r = np.random.default_rng(6)
    y = np.repeat(["a", "b", "c"], 30)
    chance = np.array([[0.2, 0.5, 0.9, 0.4], [0.6, 0.5, 0.3, 0.7], [0.8, 0.1, 0.6, 0.2]])
    return (r.random((90, 4)) < np.repeat(chance, 30, axis=0)).astype(float), y


def counts() -> tuple[np.ndarray, np.ndarray]:
    """90 × 4 counts, three classes with rates of their own."""
    r = np.random.default_rng(7)
    y = np.repeat(["a", "b", "c"], 30)
    rates = np.array([[4.0, 1.0, 0.5, 3.0], [1.0, 3.0, 1.0, 3.0], [2.0, 2.0, 2.0, 0.3]])
    return r.poisson(np.repeat(rates, 30, axis=0)).astype(float), y


def counted() -> tuple[np.ndarray, np.ndarray]:
    """60 × 3 with counts whose logarithmic rate is linear."""
    r = np.random.default_rng(8)
    X = r.normal(size=(60, 3))
    return X, r.poisson(np.exp(0.5 + X @ np.array([0.6, -0.4, 0.0]))).astype(float)


def separable() -> tuple[np.ndarray, np.ndarray]:
    """60 × 3, two classes with a gap between them."""
    r = np.random.default_rng(9)
    y = np.repeat(["left", "right"], 30)
    return r.normal(size=(60, 3)) + 7.0 * (y == "right")[:, None], y
