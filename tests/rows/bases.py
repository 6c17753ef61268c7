"""Rows of the bases and encoders; lifts and waves have a closed form of their own as peer."""

import numpy as np
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures

from tests.rows import Row, data


def columns():
    """60 × 4 numbers without a target."""
    return data.regression()[0], None


def levels():
    """60 × 3: two, three and five levels."""
    return np.random.default_rng(8).integers(0, [2, 3, 5], size=(60, 3)).astype(float), None


def quadric(X):
    """Squares, columns, products."""
    d = X.shape[1]
    products = [X[:, i] * X[:, j] for i in range(d) for j in range(i + 1, d)]
    return np.column_stack([X**2, X, *products])


def waves(X):
    """Cosine and sine at 2π l / 5, column by column."""
    turns = [2 * np.pi * k / 5 for k in range(6)]
    return np.column_stack([f(t * x) for x in X.T for t in turns for f in (np.cos, np.sin)])


ROWS = [
    Row("polynomial_features", {"degree": 3}, columns, PolynomialFeatures(3, include_bias=False), ("transform",), 1e-14,
        chunk_digits=15),
    Row("polynomial_kernel_features", {"degree": 3, "coef0": 2.0}, columns, chunk_digits=15,
        no_oracle="its inner products are the kernel: tests/test_polynomial_bases.py"),
    Row("random_fourier_features", {"frequencies": 10, "scale": 3.0}, columns, chunk_digits=14,
        no_oracle="scikit-learn's has phases, not pairs of waves: tests/test_random_fourier_features.py"),
    Row("gaussian_taylor_features", {"terms": 8, "scale": 3.0}, columns, chunk_digits=14,
        sklearn_params={"terms": 3}, no_oracle="its inner products tend to the kernel: tests/test_polynomial_bases.py"),
    Row("parabolic_lift", {}, columns, FunctionTransformer(lambda X: np.column_stack([X, (X**2).sum(axis=1)])),
        ("transform",), 1e-14, chunk_digits=15),
    Row("axis_aligned_quadric_lift", {}, columns, FunctionTransformer(lambda X: np.column_stack([X**2, X])),
        ("transform",), 1e-14, chunk_digits=15),
    Row("quadric_lift", {}, columns, FunctionTransformer(quadric), ("transform",), 1e-14, chunk_digits=15),
    Row("trigonometric_features", {}, columns, FunctionTransformer(waves), ("transform",), 1e-13, chunk_digits=15),
    Row("gaussian_basis", {"n_centers": 5}, columns, chunk_digits=15,
        no_oracle="closed forms in tests/test_centred_bases.py"),
    Row("sigmoid_basis", {"n_centers": 5}, columns, chunk_digits=15,
        no_oracle="closed forms in tests/test_centred_bases.py"),
    Row("one_hot_encoder", {"unknown": "ignore"}, levels,
        OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False), ("transform",), 1e-15,
        chunk_digits=15),
]  # fmt: skip
