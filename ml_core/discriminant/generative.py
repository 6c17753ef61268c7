"""Classifiers made of a model of each class: what follows from p(x | c) and the class probabilities alone."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Labels, Matrix, Vector
from ml_core.capabilities import HasPosterior, HasProba, Samples, Scores
from ml_core.distributions.categorical import Categorical
from ml_core.numerics.stable import log_softmax
from ml_core.params import RealMatrix, RealVector
from ml_core.validation import check_query

Priors = Annotated[
    RealVector | None, Field(description="Class probabilities in the order of the sorted labels; null: shares.")
]
Losses = Annotated[
    RealMatrix | None, Field(description="loss[z][y] of deciding z when y is true (K, K); null: zero-one.")
]


class Generative(HasProba, HasPosterior, Scores):
    """P(c | x) ∝ π_c p(x | c): implement `_class_log_densities(X)` → (n, K), and learn `priors_`.

    The most probable class is decided for, or the one of least expected loss where `loss` is a matrix; of two classes
    with equal scores the second, of more the first of the equals. A row that every class excludes gets the priors.
    """

    priors_: Vector
    classes_: Labels
    loss: Any

    def class_log_densities(self, X: object) -> Matrix:
        """(n, K) natural logarithms of the class densities p(x | c)."""
        return self._class_log_densities(check_query(self, X))  # type: ignore[attr-defined]

    def _joint(self, X: Matrix) -> Matrix:
        """(n, K) log p(x, c)."""
        with np.errstate(divide="ignore"):
            return self._class_log_densities(X) + np.log(self.priors_)  # type: ignore[attr-defined]

    def _discriminants(self, X: Matrix) -> Matrix:
        """(n, K) log p(x, c) up to a term that all classes share; where this is simpler, override it."""
        return self._joint(X)

    def settled(self, g: Matrix) -> Matrix:
        """The discriminants (n, K), with log priors in rows that every class excludes."""
        lost = np.isneginf(g.max(axis=1))
        if lost.any():
            with np.errstate(divide="ignore"):
                g = np.where(lost[:, None], np.log(self.priors_), g)
        return g

    def _log_proba(self, X: Matrix) -> Matrix:
        return log_softmax(self.settled(self._discriminants(X)))

    def _merits(self, X: Matrix) -> Matrix:
        """(n, K) what the decision maximises: the discriminants, or minus the expected losses."""
        if self.loss is None:
            return self.settled(self._discriminants(X))
        return -(np.exp(self._log_proba(X)) @ np.asarray(self.loss, dtype=np.float64).T)

    def _decide(self, X: Matrix) -> Codes:
        m = self._merits(X)
        return (m[:, 1] >= m[:, 0]).astype(np.int64) if m.shape[1] == 2 else m.argmax(axis=1)

    def _scores(self, X: Matrix) -> Vector | Matrix:
        m = self._merits(X)
        if m.shape[1] > 2:
            return m
        with np.errstate(invalid="ignore"):
            return np.where(m[:, 1] == m[:, 0], 0.0, m[:, 1] - m[:, 0])

    def _posterior(self, X: Matrix) -> Categorical:
        return Categorical(self.classes_.tolist(), self._proba(X))

    def _label(self, c: int) -> str:
        """The label of class c as the user wrote it."""
        return repr(self.classes_.tolist()[c])


class SamplesByClass(Samples):
    """A class from the priors, then a row of that class: implement `_draw(c, n, rng)` → (n, d)."""

    priors_: Vector
    classes_: Labels

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, Labels]:
        codes = rng.choice(len(self.priors_), size=n, p=self.priors_)
        rows = np.empty((n, self.n_features_in_))  # type: ignore[attr-defined]
        for c in np.unique(codes):
            rows[codes == c] = self._draw(c, int((codes == c).sum()), rng)  # type: ignore[attr-defined]
        return rows, self.classes_[codes]
