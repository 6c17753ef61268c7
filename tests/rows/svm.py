"""Rows of support vector machines."""

from sklearn.svm import SVC

from tests.rows import Row, data

RBF = {"kernel": "rbf", "length_scale": 2.0}

ROWS = [
    Row("kernel_svm", {"C": 2.0, "kernel": RBF}, data.binary, SVC(C=2.0, gamma=0.125, tol=1e-10),
        ("decision_function", "predict", "intercept_"), 1e-6),  # libsvm keeps kernel values in single precision
]  # fmt: skip
