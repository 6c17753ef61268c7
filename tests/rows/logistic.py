"""Rows of logistic regression."""

from sklearn.linear_model import LogisticRegression

from tests.rows import Row, data

ROWS = [
    Row("logistic_regression", {"alpha": 0.5}, data.binary,
        oracle=LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12, max_iter=500),
        same=("coef_", "intercept_", "predict", "predict_proba", "decision_function"), tol=1e-9,
        chunk_digits=12),
]  # fmt: skip
