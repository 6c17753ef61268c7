"""Two-class classifiers as members of one for many classes: the parameter, the fits, and what they say of rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema

from ml_core import parallel, progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Estimator, clone
from ml_core.capabilities import Delegated, Follows
from ml_core.class_weights import class_weights
from ml_core.errors import InvalidData, InvalidParameter, Issue, placed
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.tags import composed
from ml_core.validation import check_query

SPEC = {"type": "object", "title": "estimator spec", "x-spec": "estimator"}


def _classifier(value: Any) -> Any:
    if value is None or (isinstance(value, Classifier) or getattr(value, "_estimator_type", None) == "classifier"):
        return value
    text = f"expected the spec of a classifier, got {value!r:.80}"
    raise InvalidParameter(f"estimator: {text}", [Issue("", "estimator_type", text)])


Member = Annotated[
    Any,
    AfterValidator(_classifier),
    WithJsonSchema({"anyOf": [SPEC, {"type": "null"}]}),
    Field(description="The two-class classifier, with its parameters; null: logistic_regression with alpha 1."),
]


def _follows(name: str, default: Any) -> Any:
    return Follows(default, lambda wrapper: getattr(wrapper._member, name, default))


def _predict_proba(self: Any, X: Any) -> Matrix:
    """(n, K) probabilities, rows sum to 1."""
    return np.asarray(self._proba(check_query(self, X)))


def _predict_log_proba(self: Any, X: Any) -> Matrix:
    """(n, K) logarithms of the probabilities."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(self._proba(check_query(self, X))))


def _predict_with_proba(self: Any, X: Any) -> tuple[np.ndarray, Matrix]:
    """`predict` and `predict_proba` of the same rows."""
    A = check_query(self, X)
    return self.classes_[self._decide(A)], self._proba(A)


def _update(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Fold rows into the members that they concern; class weights stay as fitted. Returns self, changed."""
    return self._changed("update", X, y, sample_weight)


def _forget(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Undo what rows taught the members that they concern; class weights stay as fitted. Returns self, changed."""
    return self._changed("forget", X, y, sample_weight)


@dataclass(frozen=True)
class Problem:
    """Class `positive` (code 1) against class `negative` (code 0), or against all others where that is None."""

    positive: int
    negative: int | None = None

    def rows(self, codes: Codes) -> Any:
        """Which rows it is about."""
        return slice(None) if self.negative is None else np.flatnonzero(np.isin(codes, (self.positive, self.negative)))


class Members:
    """Mixin of wrappers around `estimator`: implement `_problems()`, `_proba` and `_scores`; sets `estimators_`.

    A wrapper has probabilities, `update` and `forget` exactly when its members have, takes weights when they do, and
    accepts what they accept.
    """

    estimator: Any
    class_weight: Any
    estimators_: list[Any]
    class_weight_: Vector
    classes_: np.ndarray

    weighted = _follows("weighted", True)
    accepts = _follows("accepts", "real")
    largest = _follows("largest", float("inf"))
    queue = _follows("queue", "instant")
    tags = composed(
        ("composition", "multiclass"),
        ("parametric", "discriminative", "low_capacity"),
        lambda wrapper: [wrapper._member],
    )

    predict_proba = Delegated("_member", _predict_proba)
    predict_log_proba = Delegated("_member", _predict_log_proba)
    predict_with_proba = Delegated("_member", _predict_with_proba)
    update = Delegated("_member", _update)
    forget = Delegated("_member", _forget)

    @property
    def _member(self) -> Any:
        """A fitted member, or the unfitted one."""
        own = self.estimator if isinstance(self.estimator, Estimator) else LogisticRegression(alpha=1.0)
        return vars(self).get("estimators_", [own])[0]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit every member; X (n, d), labels y (n,), weights (n,) where the members take them."""
        for name in ("estimators_", "n_features_in_"):  # what an earlier fit learned must not decide how X is read
            vars(self).pop(name, None)
        self._weighable(sample_weight)
        return self._run_fit(X, y, sample_weight)  # type: ignore[attr-defined]

    def check(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Refuse rows, labels or weights as `fit` would before it learns anything."""
        self._weighable(sample_weight)
        super().check(X, y, sample_weight)  # type: ignore[misc]

    def _weighable(self, sample_weight: Any) -> None:
        """InvalidData, InvalidParameter where weights were given and the members take none."""
        if self._member.weighted:
            return
        text = f"the members, {type(self._member).__name__}, take no weights"
        if sample_weight is not None:
            raise InvalidData(text)
        if self.class_weight is not None:
            raise InvalidParameter(text, [Issue("/params/class_weight", "not_applicable", text)])

    def _fit(self, X: Matrix, y: Codes, s: Vector | None = None) -> None:
        K = len(self.classes_)
        if s is not None:
            shares = np.bincount(y, s, K).astype(np.float64)
            self.class_weight_ = class_weights(self.class_weight, self.classes_, shares, float(s.sum()))
            s = s * self.class_weight_[y]
        problems = self._problems()  # type: ignore[attr-defined]
        budget = max(1, parallel.threads() // len(problems))
        shared = (X, y, s, self._member, budget, [self._named(p) for p in problems], problems)
        members: list[Any] = []
        with placed("/params/estimator"):
            for one in parallel.spread_map(fit_member, range(len(problems)), shared):
                members.append(one)
                progress.tick(len(members), len(problems), "members")
        self.estimators_ = members
        self._remarks(problems)

    def _changed(self, how: str, X: Any, y: Any, sample_weight: Any) -> Any:
        """self after `how`, update or forget, of each member with its rows; refused rows change nothing."""
        self._weighable(sample_weight)
        check_query(self, X)
        A, codes, *s = self._checked(X, y, sample_weight, fresh=False)  # type: ignore[attr-defined]
        weight = s[0] * self.class_weight_[codes] if s else np.ones(len(codes))
        problems, members = self._problems(), copy.deepcopy(self.estimators_)  # type: ignore[attr-defined]
        for p, one in zip(problems, members, strict=True):
            at = p.rows(codes)
            if weight[at].any():
                with _told(self._named(p)):
                    target = (codes[at] == p.positive).astype(np.int64)
                    getattr(one, how)(A[at], target, **({"sample_weight": weight[at]} if s else {}))
        self.estimators_ = members
        self.notices_.clear()  # type: ignore[attr-defined]
        self._remarks(problems)
        return self

    def _named(self, p: Problem) -> str:
        names = self.classes_.tolist()
        return f"{names[p.positive]!r} against {'the rest' if p.negative is None else repr(names[p.negative])}"

    def _remarks(self, problems: Sequence[Problem]) -> None:
        """The members' notices, each once, with whom it concerns."""
        heard: dict[str, tuple[Any, list[str]]] = {}
        for p, m in zip(problems, self.estimators_, strict=True):
            for n in m.notices_:
                heard.setdefault(n.code, (n, []))[1].append(self._named(p))
        for n, whom in heard.values():
            more = f" and {len(whom) - 5} more" if len(whom) > 5 else ""
            self._note(n.code, f"{', '.join(whom[:5])}{more}: {n.message}", n.advice)  # type: ignore[attr-defined]
        if not hasattr(self._member, "decision_function") and not hasattr(self._member, "predict_proba"):
            self._note("no_scores", "the members have neither scores nor probabilities: each gives +1 or -1, and equal "  # type: ignore[attr-defined]
                       "sums go to the first class", "choose members with scores")  # fmt: skip

    def _query_domain(self) -> str:
        return str(self._member._query_domain())

    def _margins(self, X: Matrix) -> Matrix:
        """(n, m) what each member says for its positive class: ≥ 0 decides for it."""
        return np.column_stack(list(parallel.ordered_map(lambda m: margin_of(m, X), self.estimators_)))

    def _chances(self, X: Matrix) -> Matrix:
        """(n, m) each member's probability of its positive class."""
        return np.column_stack(list(parallel.ordered_map(lambda m: m.predict_proba(X)[:, 1], self.estimators_)))


def fit_member(
    i: int, X: Matrix, y: Codes, s: Vector | None, member: Any, budget: int, names: list[str], problems: list[Problem]
) -> Any:
    """Member i fitted to its problem; what it refuses says whose problem it was."""
    p = problems[i]
    at, one = p.rows(y), clone(member)
    target = (y[at] == p.positive).astype(np.int64)
    with _told(names[i]), parallel.use_threads(budget), progress.listen(_heartbeat()):
        return one.fit(X[at], target, **({} if s is None else {"sample_weight": s[at]}))


@contextmanager
def _told(whose: str) -> Iterator[None]:
    """What a member refuses says whose problem it was."""
    try:
        yield
    except InvalidData as e:
        raise InvalidData(f"{whose}: {e}", e.issues) from e


def _heartbeat() -> Callable[[progress.Tick], None]:
    """A listener for members: their steps are not the wrapper's, but each lets it be cancelled."""
    outside = copy_context()
    return lambda _: outside.run(progress.pulse)


def margin_of(m: Any, X: Matrix) -> Vector:
    """(n,) score, probability less ½, or ±1 for the positive class: the first of these that the member has."""
    if hasattr(m, "decision_function"):
        return np.asarray(m.decision_function(X))
    if hasattr(m, "predict_proba"):
        return np.asarray(m.predict_proba(X)[:, 1] - 0.5)
    return np.where(m.predict(X) == 1, 1.0, -1.0)
