"""Rows of linear classifiers without probabilities, and of wrappers of two-class classifiers."""

from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.neighbors import NearestCentroid

from ml_core.linear import logistic_regression
from tests.rows import Row, data

PEER = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12, max_iter=500)
MEMBER = {"estimator": logistic_regression.LogisticRegression(alpha=2.0)}

ROWS = [
    Row("centroid_classifier", {}, data.classification, NearestCentroid(), ("centroids_", "predict"), 1e-13,
        chunk_digits=12),
    Row("least_squares_classifier", {}, data.binary, RidgeClassifier(alpha=0.0, solver="svd"),
        ("predict", "decision_function", "coef_", "intercept_"), 1e-12, chunk_digits=12),
    Row("perceptron", {"answer": "last", "max_epochs": 50}, data.binary,
        Perceptron(shuffle=False, tol=None, max_iter=50), ("predict", "decision_function", "coef_", "intercept_"),
        tol=1e-11, sklearn_params={"max_epochs": 1000, "answer": "pocket"},
        expected={"check_sample_weight_equivalence_on_dense_data": "a row of weight 2 corrects once with twice the "
                  "length, two copies are looked at one after the other",
                  "check_class_weight_classifiers": "of three mixed classes the boundaries have free lengths: "
                  "which score is largest is chance, weights or not"}),
    Row("one_vs_rest", MEMBER, data.classification, OneVsRestClassifier(PEER),
        ("predict", "predict_proba", "decision_function"), 1e-8),
    Row("one_vs_one", MEMBER, data.classification, OneVsOneClassifier(PEER), ("predict", "decision_function"), 1e-8),
]  # fmt: skip
