"""Kernel methods through landmark rows: where n² kernel values are too many, the linear twin on Nyström's features."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, Estimator
from ml_core.certificates import Diagnostics
from ml_core.gp.expansion import Expansion, ask_for
from ml_core.gp.nystroem_features import NystroemFeatures
from ml_core.numerics.memory import granted

Approximation = Annotated[
    Literal["none", "auto", "nystroem"],
    Field(description="none: all kernel values, or a refusal. nystroem: n_landmarks rows stand for all, O(n m²). auto: "
          "nystroem where all kernel values are more memory than is granted."),
]  # fmt: skip
Landmarks = Annotated[int, Field(ge=1, le=10_000, description="m, the most landmark rows.")]


class Landmarked(Estimator):
    """A kernel method whose linear twin on `features_` answers where landmarks stand for the rows.

    `matrices` is how many (n, n) matrices the method needs, `noun` what it calls itself.
    """

    matrices: float
    noun: str
    kernel: Any
    approximation: str
    n_landmarks: int

    features_: Annotated[NystroemFeatures | None, "features of the landmarks; null: all rows"] = None
    twin_: Annotated[Estimator | None, "the linear method on those features; null: all rows"] = None

    def _approximates(self, n: int) -> bool:
        """Whether landmarks are taken for n rows."""
        too_many = 8.0 * self.matrices * n * n > granted()
        return self.approximation == "nystroem" or (self.approximation == "auto" and too_many)

    def _landmarks_stand_in(self, X: Matrix, s: Vector) -> bool:
        """Learn the landmarks where they are taken, and say so; else ask for the memory of all kernel values."""
        self.features_ = self.twin_ = None
        if not self._approximates(len(X)):
            ask_for(len(X), self.matrices, self.noun)
            return False
        self.features_ = NystroemFeatures(kernel=self.kernel, n_components=self.n_landmarks)._run_fit(X, None, s)
        told = self.features_.diagnostics(X, sample_weight=s).summary
        why = "as asked" if self.approximation == "nystroem" else "the kernel matrix is more than the memory granted"
        self._note("nystroem", f"{told['columns_out']} landmark rows stand for {len(X)} ({why}): "
                   f"{told['explained']:.6g} of the rows' squared length in feature space is theirs",
                   "raise n_landmarks until the share is close to 1")  # fmt: skip
        return True

    def _projected(self, X: Matrix) -> Matrix:
        """(n, m) features of rows."""
        assert self.features_ is not None  # noqa: S101 - `_landmarks_stand_in` said so
        return self.features_._transform(X)

    def _taught(self, twin: Estimator, X: Matrix, *rest: Any) -> Any:
        """The twin fitted on the features of X, with what it notes."""
        self.twin_ = twin._run_fit(self._projected(X), *(rest if len(rest) > 1 else (None, *rest)))
        self.notices_ += twin.notices_
        return twin

    def _expanded(self, coefficients: Matrix, offset: Vector) -> Expansion:
        """The function of `coefficients` (m, q) by features, and `offset` (q,), as kernels at the landmarks."""
        assert self.features_ is not None  # noqa: S101 - `_landmarks_stand_in` said so
        at = self.features_
        weights = np.ascontiguousarray(at.weights_ @ coefficients)
        return Expansion(at.kernel_, at.rows_, weights, np.ascontiguousarray(offset, dtype=np.float64))

    def _twin_diagnosed(self, X: Matrix, *rest: Any) -> Diagnostics | None:
        """Certificates of the twin on the features of X, and those of the features; None where there is none."""
        if self.twin_ is None or self.features_ is None:
            return None
        F = self._projected(X)
        out: Diagnostics = self.twin_._diagnose(F, *rest)  # type: ignore[attr-defined]
        own = self.features_._diagnose(X, rest[-1])
        for told in (out.summary, out.curves.get("path", {})):  # a landmark's needs other features
            told.pop("leave_one_out_mse", None)
        out.certificates += own.certificates
        out.summary |= {"landmarks": F.shape[1], "explained_by_landmarks": own.summary["explained"]}
        return out

    def _without_landmarks(self, X: Matrix, found: Vector | Matrix) -> Vector | Matrix:
        """`found` of rows, NaN for the landmarks among them: without such a row the features would be others."""
        assert self.features_ is not None  # noqa: S101 - `_landmarks_stand_in` said so
        marks = {row.tobytes() for row in self.features_.rows_ + 0.0}  # -0 is 0
        found = np.array(found, dtype=np.float64)
        found[[row.tobytes() in marks for row in X + 0.0]] = np.nan
        return found

    @abstractmethod
    def _linear_twin(self) -> Estimator:
        """The linear method, with the parameters of this one."""

    def _cost_through(self, n: int, d: int, k: int) -> Cost:
        """Of the features and the twin on them."""
        m = min(self.n_landmarks, n)
        twin = self._linear_twin().cost(n, m, k)
        return Cost(flops=n * m * (2.0 * m + 20.0 * d) + float(m) ** 3 + twin.flops,
                    memory_bytes=32.0 * n * m + 64.0 * m * m + twin.memory_bytes)  # fmt: skip
