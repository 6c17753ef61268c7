"""Rows of support vector machines."""

from sklearn.svm import SVC

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

ROWS = [
    Row("hard_margin_svm", {}, data.separable, SVC(C=1e9, kernel="linear", tol=1e-10), ("coef_", "intercept_"), 1e-5,
        expected=dict.fromkeys(OVERLAPPING, OVERLAP)),
    Row("soft_margin_svm", {"C": 0.3}, data.binary, SVC(C=0.3, kernel="linear", tol=1e-10),
        ("decision_function", "predict", "intercept_", "coef_"), 1e-6),
    Row("kernel_svm", {"C": 2.0, "kernel": RBF}, data.binary, SVC(C=2.0, gamma=0.125, tol=1e-10),
        ("decision_function", "predict", "intercept_"), 1e-6),  # libsvm keeps kernel values in single precision
]  # fmt: skip
