"""Support vector machine on lifted columns: curved boundaries that stay explicit."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Cost, Transformer
from ml_core.certificates import Diagnostics
from ml_core.class_weights import ClassWeight
from ml_core.kernels import LinearKernel
from ml_core.numerics.column_moments import column_moments
from ml_core.params import MaxIter
from ml_core.preprocessing.axis_aligned_quadric_lift import AxisAlignedQuadricLift
from ml_core.preprocessing.parabolic_lift import ParabolicLift
from ml_core.preprocessing.polynomial_features import PolynomialFeatures
from ml_core.preprocessing.quadric_lift import QuadricLift
from ml_core.registry import algorithm
from ml_core.solvers.kernel_rows import CACHE_BYTES
from ml_core.svm.class_weights import class_factors
from ml_core.svm.kernel_svm import Multiclass, Penalty, Scaled, Violation
from ml_core.svm.linear_machines import LinearMachines
from ml_core.svm.linear_solve import chosen, flops
from ml_core.svm.machine import Solving

BOUNDARY = {
    "parabolic": "sphere", "axis_aligned_quadric": "axis_aligned_quadric", "quadric": "quadric",
    "polynomial": "polynomial",
}  # fmt: skip


@algorithm("lifted_svm")
class LiftedSVM(LinearMachines):
    """Soft-margin machine in the space of a lift: the boundary is a sphere, a quadric or a polynomial surface.

    min ½‖w‖² + C Σᵢ cᵢsᵢ max(0, 1 - yᵢ(w·z(xᵢ) + b)) with z(x) = (x, ‖x‖²) (`parabolic`: spheres), (x², x)
    (`axis_aligned_quadric`), all squares and products (`quadric`) or all monomials up to a degree (`polynomial`).
    A large C gives the hard margin. More columns never make the margin of separable classes narrower; a sphere
    separates two classes exactly when a plane separates their parabolic lifts. Lifted columns are not scaled; with
    `scale` the lift is of standardised columns, in which boundary, margin and sphere are then meant.

    References
    ----------
    Boser, Guyon, Vapnik (1992), A training algorithm for optimal margin classifiers, COLT.
    Edelsbrunner, Seidel (1986), Voronoi diagrams and arrangements, Discrete and Computational Geometry 1.
    """

    largest = SQUARES**0.5
    tags = ("parametric", "direct", "high_capacity", "basis", "maximum_margin")
    example_params = {"scale": True}  # noqa: RUF012 - annotated ClassVar in the base

    coef_: Annotated[Matrix, "(machines, lifted d) w"]
    center_: Annotated[Vector, "(d,) subtracted from the columns; 0 unless scaled"]
    scale_: Annotated[Vector, "(d,) the columns are divided by; 1 unless scaled"]
    boundary_: Annotated[str, "sphere, axis_aligned_quadric, quadric or polynomial"]

    def __init__(
        self,
        *,
        lift: Annotated[
            Literal["parabolic", "axis_aligned_quadric", "quadric", "polynomial"], Field(description="Added columns.")
        ] = "quadric",
        degree: Annotated[int, Field(ge=1, le=10, description="Of the polynomial lift.")] = 3,
        C: Penalty = 1.0,
        scale: Scaled = False,
        multiclass: Multiclass = "one_vs_rest",
        class_weight: ClassWeight = None,
        tol: Violation = 1e-6,
        max_iter: Annotated[MaxIter, Field(description="Most rounds of descent, or steps on pairs.")] = 1_000_000,
    ) -> None:
        self.lift = lift
        self.degree = degree
        self.C = C
        self.scale = scale
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter

    def _transformer(self) -> Transformer:
        made = {"parabolic": ParabolicLift, "axis_aligned_quadric": AxisAlignedQuadricLift, "quadric": QuadricLift}
        return PolynomialFeatures(degree=self.degree) if self.lift == "polynomial" else made[self.lift]()

    def _lifted(self, X: Matrix) -> Matrix:
        Z = (X - self.center_) / self.scale_ if self.scale else X
        return np.ascontiguousarray(self._transformer().fit(Z).transform(Z))

    def _inside(self, X: Matrix) -> Matrix:
        return self._lifted(X)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Of the linear machine in the lifted columns."""
        wide = self._transformer()._width(d)
        each = flops(chosen("auto", False, n, wide), n, wide)
        return Cost(flops=each * max(1, k - 1), memory_bytes=32.0 * n * wide)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        d = X.shape[1]
        self.center_, self.scale_ = column_moments(X, s)[:2] if self.scale else (np.zeros(d), np.ones(d))
        Z = self._lifted(X)
        self.kernel_, self.boundary_ = LinearKernel(), BOUNDARY[self.lift]
        self.class_weight_ = class_factors(self.class_weight, self.classes_, y, s)
        how = Solving(float(self.tol), int(self.max_iter), CACHE_BYTES)
        self._train_linear(Z, y, s * self.class_weight_[y], how, C=float(self.C), squared=False,
                           solver=chosen("auto", False, *Z.shape), seed=0)  # fmt: skip

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        out = self._report(self._lifted(X), y, s * self.class_weight_[y])
        w, b = self.coef_[0], float(self.intercept_[0])
        if self.boundary_ == "sphere" and len(self.coef_) == 1 and w[-1] != 0:
            centre = -0.5 * w[:-1] / w[-1]
            square = float(centre @ centre) - b / float(w[-1])
            out.matrices["sphere_centre"] = centre
            out.summary["sphere_radius"] = float(np.sqrt(square)) if square >= 0 else None
        return out
