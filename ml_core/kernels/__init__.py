"""Kernels: frozen values with a JSON form; importing the package makes every family known to `kernel_of`."""

from ml_core.kernels.base import KERNELS, Kernel, KernelSpec, kernel_of, kernel_schemas
from ml_core.kernels.closure import ExpKernel, PowerSeriesKernel, ProductKernel, ScaleKernel, SubsetKernel, SumKernel
from ml_core.kernels.dot import LinearKernel, PolynomialKernel, QuadraticFormKernel
from ml_core.kernels.logs import log_parameters, parameters, with_log_parameters, with_parameters
from ml_core.kernels.mapped import MapKernel, WarpKernel
from ml_core.kernels.periodic import PeriodicKernel, WhiteKernel
from ml_core.kernels.precomputed import PrecomputedKernel
from ml_core.kernels.smooth import MaternKernel, RationalQuadraticKernel
from ml_core.kernels.stationary import ExponentialKernel, RBFKernel, TrigonometricKernel

__all__ = [
    "KERNELS",
    "ExpKernel",
    "ExponentialKernel",
    "Kernel",
    "KernelSpec",
    "LinearKernel",
    "MapKernel",
    "MaternKernel",
    "PeriodicKernel",
    "PolynomialKernel",
    "PowerSeriesKernel",
    "PrecomputedKernel",
    "ProductKernel",
    "QuadraticFormKernel",
    "RBFKernel",
    "RationalQuadraticKernel",
    "ScaleKernel",
    "SubsetKernel",
    "SumKernel",
    "TrigonometricKernel",
    "WarpKernel",
    "WhiteKernel",
    "kernel_of",
    "kernel_schemas",
    "log_parameters",
    "parameters",
    "with_log_parameters",
    "with_parameters",
]
