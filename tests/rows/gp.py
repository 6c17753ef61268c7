"""Rows of kernel methods and Gaussian processes."""

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge

from tests.rows import Row, data

PEER = GaussianProcessRegressor(ConstantKernel(9.0) * RBF(3.0) + WhiteKernel(0.5))

ROWS = [
    Row("gaussian_process_regression", {"signal_variance": 9.0, "noise_variance": 0.5, "n_restarts": 0,
                                        "kernel": {"kernel": "rbf", "length_scale": 3.0}}, data.regression,
        PEER, ("predict",), 1e-4),
    Row("kernel_ridge_regression", {"kernel": {"kernel": "rbf", "length_scale": 1.5}, "alpha": 0.3,
                                    "intercept": "none"}, data.regression,
        KernelRidge(alpha=0.3, kernel="rbf", gamma=1 / (2 * 1.5**2)), ("predict", "dual_coef_"), 1e-10),
]  # fmt: skip
