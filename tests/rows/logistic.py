"""Rows of models with a likelihood that is linear in its unknowns."""

from sklearn.linear_model import LogisticRegression, PoissonRegressor

from tests.rows import Row, data

ROWS = [
    Row("logistic_regression", {"alpha": 0.5}, data.binary,
        oracle=LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12, max_iter=500),
        same=("coef_", "intercept_", "predict", "predict_proba", "decision_function"), tol=1e-9,
        chunk_digits=12),
    Row("generalized_linear_model", {"family": "poisson", "alpha": 6.0}, data.counted,
        oracle=PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-14, max_iter=500),
        same=("coef_", "intercept_", "predict"), tol=1e-9, chunk_digits=12, sklearn_params={"family": "gaussian"}),
]  # fmt: skip
