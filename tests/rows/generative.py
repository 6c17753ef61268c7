"""Rows of the Gaussian class models and mixtures."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.mixture import GaussianMixture

from tests.rows import Row, data

START = np.array([[-4.0, -4.0], [0.0, 0.0], [4.0, 4.0]])

ROWS = [
    Row(
        "quadratic_discriminant_analysis",
        {},
        data.classification,
        oracle=QuadraticDiscriminantAnalysis(),
        same=("predict_proba", "predict_log_proba", "decision_function", "means_"),
        tol=1e-9,
        sklearn_params={"regularization": "epsilon"},
        chunk_digits=12,
    ),
    Row(
        "linear_discriminant_analysis",
        {},
        data.classification,
        oracle=LinearDiscriminantAnalysis(store_covariance=True),
        same=("predict_proba", "predict_log_proba", "decision_function", "coef_", "intercept_", "covariance_"),
        tol=1e-11,
        sklearn_params={"regularization": "epsilon"},
        chunk_digits=12,
    ),
    Row(
        "gaussian_mixture",
        {"n_components": 3, "init": "given", "means_init": START, "tol": 1e-12, "max_iter": 2000},
        data.blobs,
        oracle=GaussianMixture(3, means_init=START, tol=1e-12, max_iter=2000, reg_covar=0.0),
        same=("predict_proba", "score_samples", "means_", "weights_", "covariances_"),
        tol=1e-9,
        chunk_digits=9,
        sklearn_params={"n_components": 2, "init": "k_means", "means_init": None},
        expected={
            "check_sample_weight_equivalence_on_dense_data": "starts are drawn by row, so rows in another order may "
            "reach another local optimum; from a given start they agree"
        },
    ),
]
