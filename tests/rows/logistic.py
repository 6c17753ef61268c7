"""Rows of models with a likelihood that is linear in its unknowns."""

from sklearn.linear_model import LogisticRegression, PoissonRegressor

from tests.rows import Row, data

ROWS = [
    Row("logistic_regression", {"alpha": 0.5}, data.binary,
        oracle=LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12, max_iter=500),
        same=("coef_", "intercept_", "predict", "predict_proba", "decision_function"), tol=1e-9,
        chunk_digits=12),
    Row("penalized_logistic_regression", {"alpha": 3.0, "penalty": "l1"}, data.binary,
        oracle=LogisticRegression(l1_ratio=1, C=1 / 3, solver="saga", tol=1e-13, max_iter=100_000),
        same=("predict", "predict_proba"), tol=1e-6, sklearn_params={"penalty": "l2"}),
    Row("softmax_regression", {"alpha": 0.5}, data.classification,
        oracle=LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12, max_iter=500),
        same=("predict", "predict_proba"), tol=1e-9, chunk_digits=12),
    Row("bayesian_logistic_regression", {"alpha": 0.5}, data.classification,
        oracle=LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12, max_iter=500),
        same=("predict", "predict_proba"), tol=1e-9, chunk_digits=11),
    Row("generalized_linear_model", {"family": "poisson", "alpha": 6.0}, data.counted,
        oracle=PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-14, max_iter=500),
        same=("coef_", "intercept_", "predict"), tol=1e-9, chunk_digits=12, sklearn_params={"family": "gaussian"}),
]  # fmt: skip
