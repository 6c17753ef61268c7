"""Rows of kernel methods and Gaussian processes."""

from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from tests.rows import Row, data

PEER = GaussianProcessRegressor(ConstantKernel(9.0) * RBF(3.0) + WhiteKernel(0.5))

ROWS = [
    Row("gaussian_process_classification", {"signal_variance": 3.0, "n_restarts": 0, "hyperparameters": "given",
                                            "kernel": {"kernel": "rbf", "length_scale": 1.5}}, data.binary,
        GaussianProcessClassifier(ConstantKernel(3.0) * RBF(1.5), optimizer=None), ("predict", "predict_proba"), 1e-3),
    Row("gaussian_process_regression", {"signal_variance": 9.0, "noise_variance": 0.5, "n_restarts": 0,
                                        "kernel": {"kernel": "rbf", "length_scale": 3.0}}, data.regression,
        PEER, ("predict",), 1e-4),
    Row("kernel_logistic_regression", {"kernel": {"kernel": "linear"}, "alpha": 0.5}, data.binary,
        LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12, max_iter=500),
        ("predict", "predict_proba", "decision_function"), 1e-8),
    Row("kernel_nearest_neighbors", {"kernel": {"kernel": "linear"}, "n_neighbors": 3}, data.classification,
        KNeighborsClassifier(3), ("predict_proba",), 1e-12,
        sklearn_params={"weights": "distance"}),  # equal shares go to the nearest row's class, not to the first
    Row("kernel_nearest_neighbors_regression",
        {"n_neighbors": 4, "weights": "distance", "kernel": {"kernel": "linear"}}, data.regression,
        KNeighborsRegressor(4, weights="distance"), ("predict",), 1e-9),
    Row("kernel_perceptron", {"kernel": {"kernel": "rbf", "length_scale": 1.0}}, data.classification,
        no_oracle="scikit-learn's perceptron has no kernel; the textbook loop in test_kernel_perceptron.py"),
    Row("kernel_ridge_regression", {"kernel": {"kernel": "rbf", "length_scale": 1.5}, "alpha": 0.3,
                                    "intercept": "none"}, data.regression,
        KernelRidge(alpha=0.3, kernel="rbf", gamma=1 / (2 * 1.5**2)), ("predict", "dual_coef_"), 1e-10),
    Row("nystroem_features", {"kernel": {"kernel": "rbf", "length_scale": 2.0}, "n_components": 20},
        lambda: (data.regression()[0], None),
        no_oracle="scikit-learn draws the rows; inner products and kernel twins in tests/test_nystroem_features.py"),
]  # fmt: skip
