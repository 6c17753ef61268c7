"""Rows of the linear family."""

from sklearn.linear_model import BayesianRidge, ElasticNet, LinearRegression, Ridge

from tests.rows import Row, data

BAYES = {"hyperparameters": "evidence", "fit_intercept": False}
PLAIN = LinearRegression(tol=1e-14)
PEER = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-12, max_iter=1000, fit_intercept=False)

NET = ElasticNet(alpha=0.25, l1_ratio=0.6, tol=1e-14, max_iter=100_000)

ROWS = [
    Row("lasso", {"alpha": 0.3, "alpha_l2": 0.1, "objective_scale": "mean", "path_length": 10}, data.regression, NET,
        ("coef_", "intercept_", "predict"), 1e-9),
    Row("linear_regression", {}, data.regression, PLAIN, ("coef_", "intercept_", "predict"), 1e-12,
        chunk_digits=13),
    Row("bayesian_linear_regression", BAYES, data.regression, PEER, ("coef_", "predict"), 1e-7, chunk_digits=9,
        sklearn_params={"hyperparameters": "given"}),  # its wide noiseless data drive the evidence's noise to the floor
    Row("ridge_regression", {"alpha": 2.0}, data.regression, Ridge(alpha=2.0, solver="svd"),
        ("coef_", "intercept_", "predict"), 1e-12, chunk_digits=13),
    Row("weighted_least_squares", {}, data.regression, PLAIN, ("coef_", "intercept_", "predict"), 1e-12,
        chunk_digits=13),
    Row("multi_output_regression", {}, data.regression, PLAIN, ("coef_", "intercept_", "predict"), 1e-12,
        chunk_digits=13),
    Row("generalized_tikhonov", {"alpha": 2.0}, data.regression, Ridge(alpha=2.0, solver="svd"),
        ("coef_", "intercept_", "predict"), 1e-11, chunk_digits=12),
]  # fmt: skip
