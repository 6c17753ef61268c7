"""Least squares on all products of columns up to a degree."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core import naming, progress
from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, Regressor
from ml_core.capabilities import Delegated, MultiOutput, Weighted
from ml_core.certificates import Diagnostics, Table
from ml_core.errors import InvalidData
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.params import WeightKind
from ml_core.preprocessing.polynomial_features import PolynomialFeatures
from ml_core.registry import algorithm
from ml_core.selection.left_out import copies

EXPANDED = 200
LARGEST = Fraction(np.finfo(float).max)


@algorithm("polynomial_regression")
class PolynomialRegression(Weighted, MultiOutput, Regressor):
    """Least squares on the monomials of the columns: curves and interactions by a linear fit.

    min over w of  Σᵢ sᵢ (yᵢ - Σ_a w_a u₁^a₁ ⋯ u_d^a_d)² + alpha Σ_{a ≠ 0} w_a² over all exponents with |a| ≤ degree,
    where u is x with its training range mapped to [-1, 1] (`scale`), which keeps the powers well conditioned; without
    it u = x. C(d + degree, degree) coefficients, O(n) times their square. Those of the powers of x itself stand in the
    table `raw_coefficients`, expanded exactly. With `degrees` the degree of least error of leaving one row out (closed
    form) is chosen among them, and the table `degrees` shows the errors of training and of leaving out: the first falls
    with the degree, the second rises again. With alpha = 0 there are intervals and tests as in linear_regression.
    Outside the training range polynomials soon mean nothing.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, sections 5.1 and 7.10.
    """

    complexity = "O(n C(d + degree, degree)²)"
    tags = ("parametric", "discriminative", "high_capacity", "linear", "basis", "closed_form")

    middle_: Annotated[Vector, "(d,) what is subtracted from the columns"]
    half_: Annotated[Vector, "(d,) what the rest is divided by"]
    degree_: Annotated[int, "degree in use"]
    degrees_: Annotated[list[list[Any]], "by degree: columns, mean squared errors of training and of leaving one out"]
    basis_: Annotated[PolynomialFeatures, "the monomials"]
    model_: Annotated[Any, "the fit on them"]

    posterior = Delegated("_core")

    def __init__(
        self,
        *,
        degree: Annotated[int, Field(ge=1, le=10, description="Largest total degree.")] = 2,
        degrees: Annotated[
            list[Annotated[int, Field(ge=1, le=10)]] | None,
            Field(min_length=1, description="Choose the degree among these by leaving one row out."),
        ] = None,
        interaction_only: Annotated[bool, Field(description="Only products of different columns.")] = False,
        scale: Annotated[bool, Field(description="Map the range of each column to [-1, 1] before the powers.")] = True,
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Squared penalty on all but the constant.")] = 0.0,
        fit_intercept: Annotated[bool, Field(description="Also the constant.")] = True,
        weight_kind: WeightKind = "frequency",
    ) -> None:
        self.degree = degree
        self.degrees = degrees
        self.interaction_only = interaction_only
        self.scale = scale
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind

    @property
    def _core(self) -> Any:
        return vars(self).get("model_") or (RidgeRegression() if self.alpha > 0 else LinearRegression())

    def _via(self, method: str) -> Callable[[Any], Any]:
        def call(X: Any) -> Any:
            self.predict(X)  # the checks of a query
            return getattr(self.model_, method)(self._map(np.asarray(X, dtype=np.float64)))

        return call

    def _fit(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        low, high = X.min(axis=0), X.max(axis=0)
        half = 0.5 * high - 0.5 * low
        self.middle_ = 0.5 * low + 0.5 * high if self.scale else np.zeros(X.shape[1])
        self.half_ = np.where(half > 0, half, 1.0) if self.scale else np.ones(X.shape[1])
        tried = sorted(set(self.degrees or [self.degree]))
        best, self.degrees_ = np.inf, []
        for i, degree in enumerate(tried):
            progress.tick(i, len(tried), "degrees")
            basis, model = self._fitted(X, y, s, degree)
            Z = basis.transform((X - self.middle_) / self.half_)
            trained, left = _errors(model, Z, y, s)
            self.degrees_.append([degree, Z.shape[1] + int(self.fit_intercept), trained, left])
            if i == 0 or (left is not None and left < best):
                self.basis_, self.model_, self.degree_ = basis, model, degree
                best = np.inf if left is None else left
        self.notices_ += self.model_.notices_
        if len(tried) > 1 and not np.isfinite(best):
            self._note("degree_not_chosen", "no degree leaves a row that the others determine; the least was taken",
                       "give lower degrees, more rows, or alpha above 0")  # fmt: skip

    def _fitted(self, X: Matrix, y: Vector | Matrix, s: Vector, degree: int) -> tuple[PolynomialFeatures, Any]:
        basis = PolynomialFeatures(degree=degree, interaction_only=self.interaction_only)
        basis.fit((X - self.middle_) / self.half_)
        kind, free = self.weight_kind, self.fit_intercept
        model: Any = LinearRegression(fit_intercept=free, weight_kind=kind)
        if self.alpha > 0:
            model = RidgeRegression(alpha=float(self.alpha), fit_intercept=free, weight_kind=kind)
        with naming.use(self._names(basis)):
            try:
                return basis, model.fit(basis.transform((X - self.middle_) / self.half_), y, sample_weight=s)
            except InvalidData as e:
                raise InvalidData(f"the powers up to {degree} cannot be used: {e}", e.issues) from e

    def _names(self, basis: PolynomialFeatures) -> list[str]:
        d = len(self.middle_)
        return list(basis.get_feature_names_out(naming.current() or [f"x{j}" for j in range(d)]))

    def _map(self, X: Matrix) -> Matrix:
        return np.asarray(self.basis_.transform((X - self.middle_) / self.half_))

    def _predict(self, X: Matrix) -> Vector | Matrix:
        out: Vector | Matrix = self.model_.predict(self._map(X))
        return out

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        with naming.use(self._names(self.basis_)):
            out: Diagnostics = self.model_.diagnostics(self._map(X), y, s)
        out.warnings = [n for n in out.warnings if n not in self.notices_]
        out.summary["degree"] = self.degree_
        out.tables["degrees"] = Table(("degree", "columns", "training_mse", "leave_one_out_mse"), self.degrees_)
        rows = [[j, float(m), float(h)] for j, (m, h) in enumerate(zip(self.middle_, self.half_, strict=True))]
        out.tables["scaling"] = Table(("column", "middle", "half_range"), rows)
        if len(self.basis_.monomials_) <= EXPANDED:
            out.tables["raw_coefficients"] = self._raw()
        return out

    def _raw(self) -> Table:
        """The coefficients of the powers of x, from those of u = (x - middle)/half, in exact fractions.

        None where one is larger than any double.
        """
        d, names = len(self.middle_), ["1", *self._names(self.basis_)]
        powers = [(0,) * d, *map(tuple, self.basis_.monomials_.exponents(d).tolist())]
        W = np.vstack([np.ravel(self.model_.intercept_)[None], np.atleast_2d(self.model_.coef_).T])
        middle, half = [Fraction(float(m)) for m in self.middle_], [Fraction(float(h)) for h in self.half_]
        rows = []
        for k in range(W.shape[1]):
            sums = dict.fromkeys(powers, Fraction(0))
            for e, w in zip(powers, W[:, k].tolist(), strict=True):
                whole = Fraction(w) / math.prod(h**p for h, p in zip(half, e, strict=True))
                for f in product(*(range(p + 1) for p in e)) if whole else ():
                    part = math.prod(math.comb(p, q) * (-m) ** (p - q) for m, p, q in zip(middle, e, f, strict=True))
                    sums[f] = sums.get(f, Fraction(0)) + whole * part
            rows += [[k, name, _double(sums[e])] for name, e in zip(names, powers, strict=True)]
        return Table(("output", "term", "estimate"), rows)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Least squares on the monomials, for each degree."""
        width = min(math.comb(d + self.degree, min(d, self.degree)), 100_000)
        each = LinearRegression().cost(n, width, k)
        return Cost(each.flops * len(self.degrees or [0]), each.memory_bytes + 16.0 * n * width)


def _errors(model: Any, Z: Matrix, y: Vector | Matrix, s: Vector) -> tuple[float, float | None]:
    """Mean squared errors on the rows of the fit, and of each row (or copy of one) by a fit of the others."""
    def mean(r: Vector | Matrix) -> float:
        return float(np.mean(s @ r.reshape(len(r), -1) ** 2 / s.sum()))

    left = mean(y - model.left_out(Z, y, copies(s, precise=model.weight_kind == "precision")[0]))
    return mean(y - model.predict(Z)), left if np.isfinite(left) else None


def _double(x: Fraction) -> float | None:
    """The nearest double, None beyond the largest."""
    return float(x) if abs(x) <= LARGEST else None
