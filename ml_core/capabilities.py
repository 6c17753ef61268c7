"""What a model can do. A capability is a method that is present; nothing is declared twice, nothing raises to say no.

The public methods check "fitted" and the width of X before anything else, then call the underscored one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.rng import generator
from ml_core.validation import check_query

if TYPE_CHECKING:
    from ml_core.distributions.base import Distribution

CAPABILITIES = {
    "predict": "predict",
    "predict_proba": "predict_proba",
    "predictive_posterior": "posterior",
    "parameter_posterior": "parameter_posterior",
    "transform": "transform",
    "inverse_transform": "inverse_transform",
    "sample": "sample",
    "score": "score",
    "update": "update",
    "forget": "forget",
    "marginals": "marginals",
}


def capabilities(model: Any) -> list[str]:
    """Capabilities of an estimator or its class, in the contract's names."""
    return [name for name, method in CAPABILITIES.items() if hasattr(model, method)]


class Delegated:
    """A method of a wrapper that exists exactly when the wrapped part has it: `predict = Delegated("_final")`.

    It is what the wrapper's `_via(method)` gives, or `own`, a function of the wrapper, where the wrapper does more.
    """

    def __init__(self, part: str, own: Callable[..., Any] | None = None) -> None:
        self.part = part
        self.own = own

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: type) -> Any:
        """The bound method; AttributeError when the part lacks it."""
        if wrapper is None:
            return self
        if not hasattr(getattr(wrapper, self.part), self.name):
            raise AttributeError(f"{type(wrapper).__name__}'s {self.part} has no {self.name}")
        return wrapper._via(self.name) if self.own is None else MethodType(self.own, wrapper)


class Follows:
    """An attribute of a wrapper that its parts decide by `rule`; on the class, a default for the catalogue."""

    def __init__(self, default: Any, rule: Callable[[Any], Any]) -> None:
        self.default = default
        self.rule = rule

    def __get__(self, wrapper: Any, owner: type) -> Any:
        """The default on the class, the rule's answer on an instance."""
        return self.default if wrapper is None else self.rule(wrapper)


class Weighted:
    """Fits with a non-negative weight per row; integer weights equal repeated rows, weight 0 equals absence."""

    weighted = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from X (n, d), y (n,) where supervised, and weights (n,)."""
        return self._run_fit(X, y, sample_weight)  # type: ignore[attr-defined]


class MultiOutput:
    """A regressor whose target may have several columns, (n, q)."""

    multi_output = True


class HasProba:
    """Probabilities of classes (or components): implement `_proba`, or `_log_proba` where the logs are the stabler."""

    def predict_proba(self, X: Any) -> Matrix:
        """(n, K) probabilities, rows sum to 1."""
        return self._proba(check_query(self, X))

    def predict_log_proba(self, X: Any) -> Matrix:
        """(n, K) logarithms of the probabilities."""
        return self._log_proba(check_query(self, X))

    def predict_with_proba(self, X: Any) -> tuple[np.ndarray, Matrix]:
        """`predict` and `predict_proba` of the same rows, computed once where the largest probability decides."""
        A = check_query(self, X)
        P = self._proba(A)
        codes = P.argmax(axis=1) if type(self)._decide is HasProba._decide else self._decide(A)
        classes = getattr(self, "classes_", None)
        return (codes if classes is None else classes[codes]), P

    def _proba(self, X: Matrix) -> Matrix:
        return np.asarray(np.exp(self._log_proba(X)))

    def _log_proba(self, X: Matrix) -> Matrix:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._proba(X)))

    def _decide(self, X: Matrix) -> np.ndarray:
        return np.asarray(self._proba(X).argmax(axis=1))


class HasPosterior:
    """A predictive distribution per row: implement `_posterior`."""

    def posterior(self, X: Any) -> Distribution:
        """Predictive distribution of each row of X (n, d), a batch of n."""
        return self._posterior(check_query(self, X))  # type: ignore[attr-defined]


class HasJointPosterior(HasPosterior):
    """Also the joint distribution of the outcomes of all rows: implement `_joint_posterior`."""

    def joint_posterior(self, X: Any) -> Distribution:
        """One multivariate distribution over the n outcomes of the rows of X."""
        return self._joint_posterior(check_query(self, X))  # type: ignore[attr-defined]


class HasParameterPosterior:
    """A posterior over the parameters: implement `_parameter_posterior` → name to distribution."""

    def parameter_posterior(self) -> dict[str, Distribution]:
        """Posterior of each parameter block, given the training data."""
        check_query(self)
        return self._parameter_posterior()  # type: ignore[attr-defined]


class Samples:
    """A generative model: implement `_sample(n, rng)` → (n, d) array, and optionally labels.

    `draws`: whether a draw is a row, the coefficients of the columns, or a function at some rows given to `fit`, of
    which `sampled_rows_` (r,) has the numbers.
    """

    draws: ClassVar[Literal["rows", "coefficients", "functions"]] = "rows"
    sampled_rows_: Codes | None = None

    def sample(self, n_samples: int = 1, random_state: int = 0) -> tuple[Matrix, Any]:
        """Draw rows (n, d) and, where the model has them, their classes or components (n,), else None."""
        check_query(self)
        drawn: tuple[Matrix, Any] = self._sample(int(n_samples), generator(random_state))  # type: ignore[attr-defined]
        return drawn


class Updates:
    """Folds new rows into the fitted model without the old ones: implement `_update(X[, y][, s])`."""

    def update(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Yesterday's posterior becomes today's prior; batch order does not matter. Returns self, changed."""
        return self._run_update(X, y, sample_weight)  # type: ignore[attr-defined]


class Forgets:
    """Takes rows out of the fitted model, as if they had never been there: implement `_forget(X[, y][, s])`."""

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Undo what these rows taught; InvalidData when the model cannot have seen them. Returns self, changed."""
        check_query(self, X)
        with self._in_time():  # type: ignore[attr-defined]
            self._forget(*self._checked(X, y, sample_weight, fresh=False))  # type: ignore[attr-defined]
        return self


class Inverts:
    """A transform that can be undone (exactly, or as the best reconstruction): implement `_inverse_transform`."""

    def inverse_transform(self, X: Any) -> Matrix:
        """Rows in the space of the outputs (n, k) → rows in the space of the inputs (n, d)."""
        Z = check_query(self, X, width=self.n_features_out_)  # type: ignore[attr-defined]
        return self._inverse_transform(Z)  # type: ignore[attr-defined]


class Scores:
    """`decision_function` for classifiers: implement `_scores` → (n,) signed scores for two classes, else (n, K)."""

    def decision_function(self, X: Any) -> Vector | Matrix:
        """Scores whose sign (two classes, ≥ 0 is the second) or largest column decides."""
        return self._scores(check_query(self, X))  # type: ignore[attr-defined]

    def _decide(self, X: Matrix) -> Codes:
        f = self._scores(X)  # type: ignore[attr-defined]
        return np.asarray((f >= 0).astype(np.int64) if f.ndim == 1 else f.argmax(axis=1))
