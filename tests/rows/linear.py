"""Rows of the linear family."""

from sklearn.linear_model import BayesianRidge, ElasticNet, HuberRegressor, LinearRegression, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR

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
    Row("least_absolute_deviations", {}, data.regression, QuantileRegressor(quantile=0.5, alpha=0.0),
        ("coef_", "intercept_", "predict"), 1e-9),
    Row("epsilon_insensitive_regression", {"epsilon": 0.2, "alpha_l2": 1.0}, data.regression,
        SVR(kernel="linear", C=1.0, epsilon=0.2, tol=1e-9), ("predict",), 1e-6),
    Row("empirical_risk_minimizer", {}, data.regression, LinearRegression(), ("coef_", "intercept_", "predict"), 1e-9),
    Row("polynomial_regression", {"degree": 3}, data.regression,
        make_pipeline(PolynomialFeatures(degree=3, include_bias=False), LinearRegression()), ("predict",), 1e-9),
    Row("least_mean_squares", {}, data.regression, LinearRegression(), ("predict",), 0.02,
        expected={"check_sample_weight_equivalence_on_dense_data": "a weight lengthens one step; a repeated row is met "
                                                                   "in several places of the order"}),
    Row("huber_regression", {"delta": 1.35, "scale": "joint"}, data.regression,
        HuberRegressor(epsilon=1.35, alpha=0.0, tol=1e-10, max_iter=10_000), ("coef_", "intercept_", "predict"), 1e-5),
    Row("tukey_biweight_regression", {"n_starts": 3}, data.regression,
        no_oracle="tests/test_robust_regression.py compares with statsmodels"),
    Row("minimax_regression", {}, data.regression, no_oracle="tests/test_kinked_regression.py solves the program"),
    Row("weighted_least_squares", {}, data.regression, PLAIN, ("coef_", "intercept_", "predict"), 1e-12,
        chunk_digits=13),
    Row("multi_output_regression", {}, data.regression, PLAIN, ("coef_", "intercept_", "predict"), 1e-12,
        chunk_digits=13),
    Row("generalized_tikhonov", {"alpha": 2.0}, data.regression, Ridge(alpha=2.0, solver="svd"),
        ("coef_", "intercept_", "predict"), 1e-11, chunk_digits=12),
]  # fmt: skip
