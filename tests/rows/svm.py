"""Rows of support vector machines."""

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR
from sklearn.svm import OneClassSVM as LibOneClass

from tests.rows import Row, data

RBF = {"kernel": "rbf", "length_scale": 2.0}

OVERLAP = "the check fits classes that overlap, and a hard margin refuses those"
OVERLAPPING = [
    "check_fit_score_takes_y", "check_n_features_in_after_fitting", "check_positive_only_tag_during_fit",
    "check_estimators_dtypes", "check_sample_weights_pandas_series", "check_sample_weights_not_an_array",
    "check_sample_weights_list", "check_dtype_object", "check_estimators_nan_inf",
    "check_classifier_data_not_an_array", "check_classifiers_train", "check_supervised_y_2d", "check_fit_idempotent",
    "check_fit_check_is_fitted", "check_n_features_in",
]


def squares(X: np.ndarray) -> np.ndarray:
    """Squares and the columns."""
    return np.hstack([X * X, X])


ROWS = [
    Row("crammer_singer_svm", {"C": 0.2, "tol": 1e-8}, data.classification,
        LinearSVC(C=0.2, multi_class="crammer_singer", tol=1e-10, max_iter=100_000, random_state=0),
        ("coef_", "intercept_", "decision_function", "predict"), 1e-4, sklearn_params={"tol": 1e-4}),
    Row("lifted_svm", {"lift": "axis_aligned_quadric"}, data.binary,
        make_pipeline(FunctionTransformer(squares), SVC(kernel="linear", tol=1e-10)),
        ("decision_function", "predict"), 1e-5),
    Row("hard_margin_svm", {}, data.separable, SVC(C=1e9, kernel="linear", tol=1e-10), ("coef_", "intercept_"), 1e-5,
        expected=dict.fromkeys(OVERLAPPING, OVERLAP)),
    Row("soft_margin_svm", {"C": 0.3}, data.binary, SVC(C=0.3, kernel="linear", tol=1e-10),
        ("decision_function", "predict", "intercept_", "coef_"), 1e-6, sklearn_params={"tol": 1e-10}),
    Row("kernel_svm", {"C": 2.0, "kernel": RBF}, data.binary, SVC(C=2.0, gamma=0.125, tol=1e-10),
        ("decision_function", "predict", "intercept_"), 1e-6),  # libsvm keeps kernel values in single precision
    Row("nu_svm", {"nu": 0.3, "kernel": RBF}, data.binary, NuSVC(nu=0.3, gamma=0.125, tol=1e-10),
        ("decision_function", "predict"), 1e-5,
        expected={"check_class_weight_classifiers": "weights of 1:1000 make every nu above 0.002 infeasible"}),
    Row("one_class_svm", {"nu": 0.3, "kernel": RBF}, data.blobs, LibOneClass(nu=0.3, gamma=0.125, tol=1e-10),
        ("decision_function",), 1e-4),
    Row("nu_support_vector_regression", {"nu": 0.4, "kernel": RBF, "scale_target": False}, data.regression,
        NuSVR(nu=0.4, gamma=0.125, tol=1e-10), ("predict",), 1e-5),
    Row("support_vector_regression", {"C": 2.0, "kernel": RBF, "scale_target": False}, data.regression,
        SVR(C=2.0, gamma=0.125, tol=1e-10), ("predict",), 1e-5),
]  # fmt: skip
