"""Kernels: frozen values with a JSON form; importing the package makes every family known to `kernel_of`."""

from ml_core.kernels.base import KERNELS, Kernel, KernelSpec, kernel_of, kernel_schemas
from ml_core.kernels.closure import ExpKernel, PowerSeriesKernel, ProductKernel, ScaleKernel, SubsetKernel, SumKernel
from ml_core.kernels.dot import LinearKernel, PolynomialKernel, QuadraticFormKernel
from ml_core.kernels.stationary import ExponentialKernel, RBFKernel, TrigonometricKernel

__all__ = [
    "KERNELS",
    "ExpKernel",
    "ExponentialKernel",
    "Kernel",
    "KernelSpec",
    "LinearKernel",
    "PolynomialKernel",
    "PowerSeriesKernel",
    "ProductKernel",
    "QuadraticFormKernel",
    "RBFKernel",
    "ScaleKernel",
    "SubsetKernel",
    "SumKernel",
    "TrigonometricKernel",
    "kernel_of",
    "kernel_schemas",
]
