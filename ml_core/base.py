"""The estimator contract. `fit` is here: check parameters, check arrays, encode labels, call `_fit`.

An algorithm is a class with a keyword-only constructor that stores its arguments verbatim, class annotations for what
it learns (names end in `_`), `_fit`, and the underscored methods of its kind and mixins:

kind            `_fit` receives         implements
Regressor       X, y [, s]              _predict(X) → (n,) or (n, q)
Classifier      X, codes [, s]          _decide(X) → (n,) codes (HasProba gives it), `classes_` is set before `_fit`
Transformer     X [, s]                 _transform(X) → (n, k), _names(inputs) → k names, sets n_features_out_
Clusterer       X [, s]                 _decide(X) → (n,) cluster numbers; `labels_` is set after `_fit`
Density         X [, s]                 _log_density(X) → (n,)

with `s` (n,) only when `Weighted` is mixed in; rows of weight 0 never arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ml_core import params, validation
from ml_core.arrays import Codes, Labels, Matrix, Vector
from ml_core.certificates import REMEDY, Diagnostics
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.located import Located
from ml_core.notices import Notes
from ml_core.numerics.column_moments import explained_share
from ml_core.undefined import complete
from ml_core.validation import check_query

Task = Literal["regression", "classification", "clustering", "dimension_reduction", "density", "graphical_model",
               "transformation", "decision"]  # fmt: skip

SQUARES = 1e100  # cells up to this magnitude can be squared, weighted and summed over any number of rows


@dataclass(frozen=True)
class Cost:
    """Estimate of a fit: floating-point operations and peak bytes beyond the data."""

    flops: float
    memory_bytes: float


class Estimator(Notes, Located):
    """Parameters, representation, the template of `fit`, diagnostics and the estimate of its cost."""

    task: ClassVar[Task]
    queue: ClassVar[Literal["instant", "long"]] = "instant"
    accepts: ClassVar[str] = "real"
    supervised: ClassVar[bool] = False
    weighted: ClassVar[bool] = False
    min_rows: ClassVar[int] = 1
    largest: ClassVar[float] = float("inf")  # magnitude of a cell that fit takes; classes that sum squares set SQUARES
    complexity: ClassVar[str] = "O(n d)"
    tags: ClassVar[tuple[str, ...]] = ()  # one of each question of `ml_core.tags`, then free words
    sparse: ClassVar[bool] = False  # X may be scipy.sparse: a csr_array arrives
    remedy: ClassVar[str] = REMEDY  # advice of the notice that a certificate fails
    example_params: ClassVar[dict[str, Any]] = {}

    n_features_in_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, those of nested estimators as `outer__inner` (`steps__0__alpha`)."""
        own = {name: getattr(self, name) for name in params.signature(type(self))}
        if not deep:
            return own
        return own | {f"{at}__{k}": v for at, part in _parts(own) for k, v in part.get_params().items()}

    def set_params(self, **values: Any) -> Self:
        """Set parameters, nested ones by `outer__inner`; InvalidParameter names those that do not exist."""
        own = params.signature(type(self))
        parts = dict(_parts({name: getattr(self, name) for name in own}))
        for key, value in values.items():
            at, _, inner = key.rpartition("__")
            while at and at not in parts:
                at, _, more = at.rpartition("__")
                inner = f"{more}__{inner}"
            if not at and key not in own:
                raise InvalidParameter(f"Invalid parameter {key!r} for {type(self).__name__}; it has {sorted(own)}")
            if at:
                parts[at].set_params(**{inner: value})
            else:
                setattr(self, key, value)
        return self

    def __repr__(self) -> str:
        defaults = {k: p.default for k, p in params.signature(type(self)).items()}
        changed = {k: v for k, v in self.get_params(deep=False).items() if repr(v) != repr(defaults[k])}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def __sklearn_is_fitted__(self) -> bool:
        return "n_features_in_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        from ml_core.compat.sklearn import tags  # noqa: PLC0415 - only scikit-learn asks, and only then is it imported

        return tags(self)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from X (n, d) and, where supervised, y (n,)."""
        return self._run_fit(X, y, None)

    def check(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Refuse rows, targets or weights as `fit` would before it learns anything; O(n d)."""
        own = clone(self)
        own._locate(own.get_params(deep=False), own._checked(X, y, sample_weight)[0].shape[1])

    def _run_fit(self, X: Any, y: Any, weight: Any) -> Self:
        values = params.validate(type(self), self.get_params(deep=False))
        args = self._checked(X, y, weight)
        for name in [k for k in vars(self) if k.endswith("_") and k != "classes_"]:
            delattr(self, name)
        self.notices_ = []
        self._locate(values, args[0].shape[1])
        with self._in_time():
            self._fit(*args)  # type: ignore[attr-defined]
        self.n_features_in_ = args[0].shape[1]
        self._finish(X)
        return self

    def _run_update(self, X: Any, y: Any, weight: Any) -> Self:
        check_query(self, X)
        with self._in_time():
            self._update(*self._checked(X, y, weight, fresh=False))  # type: ignore[attr-defined]
        return self

    def _checked(self, X: Any, y: Any, weight: Any, *, fresh: bool = True) -> tuple[Any, ...]:
        """The arguments of `_fit`: rows of weight zero dropped, labels encoded, weights last and only when wanted."""
        owner, rows = type(self).__name__, self.min_rows if fresh else 1
        accepts, largest, sparse = self.accepts, self.largest, self.sparse
        A = validation.check_matrix(X, owner=owner, accepts=accepts, min_rows=rows, largest=largest, sparse=sparse,
                                    whole=fresh)  # fmt: skip
        s = validation.check_weights(weight, A.shape[0])
        keep = s > 0
        target = None if not self.supervised else self._targets(y, A, keep, fresh)
        if not keep.all():
            A, s = A[keep], s[keep]
            if A.shape[0] < self.min_rows and fresh:
                raise InvalidData(f"{owner} needs {self.min_rows} rows of positive weight, got {A.shape[0]}")
        return (A, *(() if target is None else (target,)), *((s,) if self.weighted else ()))

    def _targets(self, y: Any, X: Matrix, keep: np.ndarray, fresh: bool) -> Any:
        raise TypeError(f"{type(self).__name__} is supervised but says nothing of its targets")

    def _query_domain(self) -> str:
        return self.accepts

    def _finish(self, X: Any) -> None:
        """What a kind derives from the fitted parameters and the rows that were given."""

    def diagnostics(self, X: Any, y: Any = None, sample_weight: Any = None) -> Diagnostics:
        """Certificates and statistics of this fit, recomputed from the fitted parameters and the data given here."""
        check_query(self, X)
        out: Diagnostics = self._diagnose(*self._checked(X, y, sample_weight, fresh=False))  # type: ignore[attr-defined]
        return complete(out, self.notices_, self.remedy)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Estimated cost of fitting n rows, d columns and k classes or outputs."""
        return Cost(flops=20.0 * n * d, memory_bytes=16.0 * n * d)


def clone(estimator: Estimator) -> Estimator:
    """An unfitted copy: the same parameters, nested estimators copied in turn."""
    return type(estimator)(**{k: _copied(v) for k, v in estimator.get_params(deep=False).items()})


def _copied(value: Any) -> Any:
    if isinstance(value, Estimator):
        return clone(value)
    return type(value)(_copied(v) for v in value) if type(value) in (list, tuple) else value


def _parts(values: dict[str, Any]) -> list[tuple[str, Estimator]]:
    """Nested estimators among parameter values, with their places."""
    found = []
    for name, value in values.items():
        if isinstance(value, Estimator):
            found.append((name, value))
        elif isinstance(value, (list, tuple)):
            found += [(f"{name}__{i}", v) for i, v in enumerate(value) if isinstance(v, Estimator)]
    return found


class Regressor(Estimator):
    """Predicts numbers."""

    task = "regression"
    supervised = True
    multi_output: ClassVar[bool] = False
    _estimator_type = "regressor"

    def _targets(self, y: Any, X: Matrix, keep: np.ndarray, fresh: bool) -> Vector | Matrix:
        owner, several = type(self).__name__, self.multi_output
        return validation.check_targets(y, len(X), owner, several=several, top=SQUARES)[keep]

    def predict(self, X: Any) -> Vector | Matrix:
        """(n,) predicted values, or (n, q) for several outputs."""
        return self._predict(check_query(self, X))  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², the share of the variance of y that is explained (averaged over outputs); NaN for constant y."""
        f = self.predict(X)
        t = validation.check_targets(y, len(f), type(self).__name__, several=self.multi_output)
        s = validation.check_weights(sample_weight, len(f))
        return float(np.mean(explained_share(t, np.asarray(f), s)))


class Classifier(Estimator):
    """Predicts one of K labels; `classes_` holds them sorted and `_fit` sees codes 0 … K-1."""

    task = "classification"
    supervised = True
    _estimator_type = "classifier"
    classes_: Labels

    def _targets(self, y: Any, X: Matrix, keep: np.ndarray, fresh: bool) -> Codes:
        t = validation._column(y, X.shape[0], type(self).__name__)
        if fresh:
            self.classes_, codes = validation.check_labels(t, keep, type(self).__name__)
            return codes
        codes = np.minimum(np.searchsorted(self.classes_, t := t[keep]), len(self.classes_) - 1).astype(np.int64)
        if (self.classes_[codes] != t).any():
            raise InvalidData(f"y holds labels that the model has never seen; it knows {list(self.classes_)}")
        return codes

    def predict(self, X: Any) -> Labels:
        """(n,) labels."""
        codes = self._decide(check_query(self, X))  # type: ignore[attr-defined]
        return np.asarray(self.classes_[codes])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, the weighted share of rows whose label is predicted."""
        hit = np.asarray(self.predict(X) == np.asarray(y))
        return float(np.average(hit, weights=validation.check_weights(sample_weight, len(hit))))


class Transformer(Estimator):
    """Maps rows to rows; learns from X alone."""

    task = "transformation"
    n_features_out_: int

    def transform(self, X: Any) -> Matrix:
        """(n, d) → (n, k)."""
        return self._transform(check_query(self, X))  # type: ignore[attr-defined]

    def _width(self, d: int) -> int:
        """Columns that d columns become, as far as parameters alone tell (cost estimates of pipelines)."""
        return d

    def fit_transform(self, X: Any, y: Any = None, **fit: Any) -> Matrix:
        """fit, then transform the same rows."""
        return self.fit(X, y, **fit).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """(k,) names of the output columns."""
        check_query(self)
        names = [f"x{i}" for i in range(self.n_features_in_)] if input_features is None else list(input_features)
        if len(names) != self.n_features_in_:
            raise InvalidData("input_features should have length equal to number of features "
                                         f"({self.n_features_in_}), got {len(names)}")  # fmt: skip
        return np.asarray(self._names(names), dtype=object)  # type: ignore[attr-defined]


class Clusterer(Estimator):
    """Groups rows; cluster numbers 0 … K-1."""

    task = "clustering"
    _estimator_type = "clusterer"
    labels_: Codes

    def _finish(self, X: Any) -> None:
        self.labels_ = self.predict(X)

    def fit_predict(self, X: Any, y: Any = None, **fit: Any) -> Codes:
        """fit, then the clusters of the same rows."""
        return self.fit(X, y, **fit).labels_

    def predict(self, X: Any) -> Codes:
        """(n,) cluster numbers."""
        return np.asarray(self._decide(check_query(self, X)))  # type: ignore[attr-defined]


class Density(Estimator):
    """A distribution over rows."""

    task = "density"
    _estimator_type = "density_estimator"

    def score_samples(self, X: Any) -> Vector:
        """(n,) natural-log density (or mass) of each row."""
        return self._log_density(check_query(self, X))  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density, nats per row."""
        return float(np.mean(self.score_samples(X)))
