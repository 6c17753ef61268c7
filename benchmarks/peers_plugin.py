"""The estimators of ml_core for the shared runner of peers, timed in the same rounds as theirs.

    python <bench>/peers.py --plugin benchmarks/peers_plugin.py -w lasso,svc_rbf -s small,medium

`<bench>` is the folder with `peers.py`, `measure.py` and the workloads. Every fit is the public one, certificates
included, at default settings but for what the workload states and the tolerance that the peers are given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import peers
from measure import peer

from benchmarks.fit_lasso import OurPath
from ml_core.gp.gaussian_process_regression import GaussianProcessRegression
from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import RBFKernel
from ml_core.linear.generalized_linear_model import GeneralizedLinearModel
from ml_core.linear.lasso import Lasso
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.parallel import use_threads
from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.table import Column, TableEncoder
from ml_core.preprocessing.table_fit import fit_encoder
from ml_core.svm.crammer_singer_svm import CrammerSingerSVM
from ml_core.svm.kernel_svm import KernelSVM
from ml_core.svm.soft_margin_svm import SoftMarginSVM
from ml_core.svm.support_vector_regression import SupportVectorRegression

THREADS = int(os.environ.get("NUMBA_NUM_THREADS", "2"))


@cache
def _libraries() -> ThreadpoolController:
    """Looking for the loaded libraries takes 3 ms, which is more than a small fit: once a process, as in a worker."""
    return ThreadpoolController()


@contextmanager
def granted() -> Iterator[None]:
    """The runner's threads as the service grants them: to ml_core, which leaves one to BLAS."""
    with _libraries().limit(limits=1, user_api="blas"), use_threads(THREADS):
        yield


def gaussian(gamma: float) -> RBFKernel:
    """exp(-gamma |x - z|²)."""
    return RBFKernel(length_scale=float(np.sqrt(0.5 / gamma)))


def sklearn_like(self: Any, model: Any) -> Any:
    """The shared runner counts iterations of each class."""
    model.n_iter_ = np.atleast_1d(getattr(model, "n_iter_", 0))
    return model


class Granted(peers.SK):
    """Fit and predict with the threads that the runner grants its children."""

    def fit(self) -> Any:
        with granted():
            return self.make().fit(self.d["X"], self.d["y"])

    def predict(self, m: Any) -> Any:
        with granted():
            return super().predict(m)


class GrantedRegression(Granted):
    """The same for numeric targets."""

    kind = "reg"


def ours(work: str, make: Any, base: type = Granted, extra: Any = None, name: str = "ours") -> None:
    """Register `make(data)` for a workload, with the quality by which its peers are compared."""

    def quality(self: Any, m: Any) -> dict[str, Any]:
        return {**base.quality(self, m), **(extra(self, sklearn_like(self, m)) if extra else {})}

    peer(name, work)(type(f"{work}_{name}", (base,), {"make": lambda self: make(self.d), "quality": quality}))


ours("ols", lambda d: LinearRegression(), GrantedRegression)
ours("ridge", lambda d: RidgeRegression(alpha=d["alpha"]), GrantedRegression)
ours("ridge_cv", lambda d: RidgeRegression(choose_alpha="leave_one_out", alphas=d["alphas"]), GrantedRegression)
ours("lasso", lambda d: Lasso(alpha=2 * d["alpha"], objective_scale="mean", fit_intercept=False, path_length=0,
                              tol=1e-4), GrantedRegression, peers._lasso_q)  # fmt: skip
for work in ("logistic", "multinomial"):
    ours(work, lambda d: LogisticRegression(alpha=1 / d["C"]), extra=peers._lr_obj)
ours("kernel_ridge", lambda d: KernelRidgeRegression(kernel=gaussian(d["gamma"]), alpha=d["alpha"], intercept="none"),
     GrantedRegression)  # fmt: skip
for work in ("svc_rbf", "svc_multi"):
    ours(work, lambda d: KernelSVM(C=d["C"], kernel=gaussian(d["gamma"]), tol=1e-3), extra=peers._svc_q)
ours("svr_rbf", lambda d: SupportVectorRegression(C=d["C"], epsilon=d["eps"], kernel=gaussian(d["gamma"]), tol=1e-3,
                                                  scale_target=False), GrantedRegression)  # fmt: skip
for work in ("linear_svm", "linear_svm_text"):
    ours(work, lambda d: SoftMarginSVM(C=d["C"], tol=1e-4), extra=peers._lsvc_q("hinge"), name="ours-hinge")
    ours(work, lambda d: SoftMarginSVM(C=d["C"], loss="squared_hinge", tol=1e-4), extra=peers._lsvc_q("squared_hinge"),
         name="ours-sq")  # fmt: skip
ours("crammer_singer", lambda d: CrammerSingerSVM(C=d["C"], tol=1e-4))


@peer("ours", "lasso_path")
class LassoPath(peers.Path):
    """100 penalties; the peers' objective is half of ours, per row."""

    def make(self) -> None:
        """Nothing to build."""

    def fit(self) -> Any:
        path = OurPath()
        with granted():
            path.fit(self.d["X"], self.d["y"])
        return path.coefs.T


@peer("ours", "poisson")
class Poisson(peers.Pois):
    """Exposures are the last column; the peers' penalty stands beside the mean over the exposure."""

    def make(self) -> Any:
        self.X = np.column_stack([self.d["X"], self.d["e"]])
        return GeneralizedLinearModel(family="poisson", exposure=self.X.shape[1] - 1, alpha=1e-6 * self.d["e"].sum())

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__(d)
        self.model = self.make()

    def fit(self) -> Any:
        with granted():
            model = self.model.__class__(**self.model.get_params()).fit(self.X, self.d["y"])

        class Rate:
            """Counts per unit of exposure."""

            @staticmethod
            def predict(Z: np.ndarray) -> np.ndarray:
                """(n,) rates."""
                return model.predict(np.column_stack([Z, np.ones(len(Z))]))

        return Rate


@peer("ours", "gp")
class Process(peers.GP):
    """A length per column, amplitude and noise, from one start as the peers."""

    def make(self) -> GaussianProcessRegression:
        kernel = RBFKernel((1.0,) * self.d["X"].shape[1])
        return GaussianProcessRegression(kernel=kernel, signal_variance=1.0, noise_variance=0.1, n_restarts=0)

    def fit(self) -> Any:
        with granted():
            return self.make().fit(self.d["X"], self.d["y"])

    def post(self, m: Any, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with granted():
            found = m.posterior(Z)
        return np.ravel(found.mean), np.sqrt(np.ravel(found.variance))

    def lml(self, m: Any) -> float:
        return float(m.log_marginal_likelihood_)


@peer("ours", "preprocess")
class Encoded(peers.TR):
    """The service's encoder on numeric columns: gaps become the mean, columns are standardised."""

    def make(self) -> Encoding:
        return Encoding(missing="mean", scale="standard")

    def table(self, X: np.ndarray) -> dict[str, Column]:
        """Columns as the service hands them over."""
        return {f"x{j}": Column("number", np.ascontiguousarray(X[:, j])) for j in range(X.shape[1])}

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__(d)
        self.tables = {key: self.table(d[key]) for key in ("X", "Xt")}
        self.one = self.table(d["Xt"][:1])

    def fit(self) -> TableEncoder:
        with granted():
            return fit_encoder(self.tables["X"], self.make())

    def predict(self, m: TableEncoder) -> Any:
        with granted():
            return m.matrix(self.tables["Xt"])[0]

    def predict_one(self, m: TableEncoder) -> Any:
        return m.matrix(self.one)[0]
