"""Transformers in a row and a last estimator, fitted and stored as one model."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from ml_core import naming, progress, validation
from ml_core.arrays import Labels, Matrix
from ml_core.base import Cost, Estimator, clone
from ml_core.capabilities import Delegated, Follows
from ml_core.certificates import Diagnostics, Notice, Table
from ml_core.errors import InvalidData, InvalidParameter, Issue, placed
from ml_core.located import look
from ml_core.params import nested
from ml_core.preprocessing import pipeline_chunks
from ml_core.registry import algorithm
from ml_core.sums import chunkable
from ml_core.tags import composed
from ml_core.validation import check_query


def _checked_steps(steps: Any) -> Any:
    if not isinstance(steps, (list, tuple)) or not steps:
        raise InvalidParameter("steps", [Issue("", "empty_steps", "expected a list of at least one estimator")])
    issues = []
    for i, step in enumerate(steps):
        if not isinstance(step, Estimator):
            issues.append(Issue(f"/{i}", "estimator_type", f"expected an estimator, got {step!r:.80}"))
        elif i + 1 < len(steps) and not hasattr(step, "transform"):
            text = f"every step but the last transforms; {type(step).__name__} does not"
            issues.append(Issue(f"/{i}", "not_a_transformer", text))
    if issues:
        raise InvalidParameter("steps", issues)
    return steps


def _of_last(name: str, default: Any) -> Any:
    return Follows(default, lambda pipe: getattr(pipe._final, name, default))


def _update(self: Pipeline, X: Any, y: Any = None, sample_weight: Any = None) -> Pipeline:
    """Fold rows into the last step; the transformers keep what they learned in `fit`."""
    return self._on_last("update", X, y, sample_weight)


def _forget(self: Pipeline, X: Any, y: Any = None, sample_weight: Any = None) -> Pipeline:
    """Remove rows from the last step; the transformers keep what they learned in `fit`."""
    return self._on_last("forget", X, y, sample_weight)


def _inverse_transform(self: Pipeline, X: Any) -> Matrix:
    """(n, k) outputs → (n, d) inputs, through every step from the last to the first."""
    check_query(self, X, width=self.n_features_out_)
    return self._back(X, self.steps_)


def _sample(self: Pipeline, n_samples: int = 1, random_state: int = 0) -> tuple[Matrix, Any]:
    """Draws of the last step, taken back through the transformers where they are rows, and its labels."""
    check_query(self)
    drawn, labels = self.steps_[-1].sample(n_samples, random_state)  # type: ignore[attr-defined]
    return self._back(drawn, self.steps_[:-1]) if self.draws == "rows" else drawn, labels


def _parameter_posterior(self: Pipeline) -> Any:
    """The last step's, in the units of the transformed columns."""
    check_query(self)
    return self.steps_[-1].parameter_posterior()  # type: ignore[attr-defined]


def _fit_transform(self: Pipeline, X: Any, y: Any = None, **fit: Any) -> Matrix:
    """fit, then transform the same rows."""
    return self.fit(X, y, **fit).transform(X)


def _fit_predict(self: Pipeline, X: Any, y: Any = None, **fit: Any) -> Any:
    """fit, then the clusters of the same rows."""
    return self.fit(X, y, **fit).labels_


def _names_out(self: Pipeline, input_features: Any = None) -> np.ndarray:
    """Names of the last step's columns, derived step by step."""
    check_query(self)
    names = input_features
    for step in self.steps_:
        names = step.get_feature_names_out(names)  # type: ignore[attr-defined]
    return np.asarray(names, dtype=object)


@algorithm("pipeline")
class Pipeline(Estimator):
    """Transformers in a row, then an estimator: one fit, one model.

    z₀ = x, zᵢ = tᵢ(zᵢ₋₁), answer = last(z): each tᵢ is fitted on the training rows as the steps before it leave them,
    so that nothing of a validation fold leaks into a scaler. The pipeline can do what its last step can do
    (`inverse_transform` and `sample` where the other steps can be undone too). Weights reach the last step and each
    transformer that takes weights; `update` and `forget` change the last step alone, the transformers stay as fitted.
    From chunks each step passes over the rows in turn. Cost: the sum over the steps.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 7.10.2.
    """

    complexity = "the sum over the steps"
    example_params: ClassVar[dict[str, Any]] = {
        "steps": [{"algorithm": "standard_scaler", "params": {}}, {"algorithm": "linear_regression", "params": {}}]
    }

    task = _of_last("task", "regression")
    multi_output = _of_last("multi_output", False)
    _estimator_type = _of_last("_estimator_type", None)
    weighted = _of_last("weighted", True)
    draws = _of_last("draws", "rows")
    sampled_rows_ = _of_last("sampled_rows_", None)
    supervised = Follows(True, lambda pipe: any(s.supervised for s in pipe._parts))
    accepts = Follows("real", lambda pipe: pipe._parts[0].accepts if pipe._parts else "real")
    tags = composed(("composition",), ("parametric", "discriminative", "low_capacity"), lambda pipe: pipe._parts)
    queue = Follows("instant", lambda pipe: "long" if any(s.queue == "long" for s in pipe._parts) else "instant")

    predict = Delegated("_final")
    predict_proba = Delegated("_final")
    predict_with_proba = Delegated("_final")
    predict_log_proba = Delegated("_final")
    decision_function = Delegated("_final")
    posterior = Delegated("_final")
    joint_posterior = Delegated("_final")
    score = Delegated("_final")
    score_samples = Delegated("_final")
    marginals = Delegated("_final")
    transform = Delegated("_final")
    parameter_posterior = Delegated("_final", _parameter_posterior)
    update = Delegated("_final", _update)
    forget = Delegated("_final", _forget)
    fit_transform = Delegated("_final", _fit_transform)
    fit_predict = Delegated("_final", _fit_predict)
    get_feature_names_out = Delegated("_final", _names_out)
    inverse_transform = Delegated("_undone", _inverse_transform)
    _passes = Delegated("_summed", pipeline_chunks.passes)
    _audit = Delegated("_summed", pipeline_chunks.audit)
    sample = Delegated("_drawn", _sample)

    steps_: Annotated[list[Estimator], "the fitted steps"]

    def __init__(
        self,
        *,
        steps: Annotated[
            Any,
            *nested(_checked_steps, "estimator", many=True),
            Field(validate_default=True, description="Transformers, and last the estimator that answers."),
        ] = (),
    ) -> None:
        self.steps = steps

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Pipeline:
        """Fit each step on the rows as the steps before it leave them; X (n, d), y and weights (n,)."""
        for name in ("steps_", "n_features_in_"):  # what an earlier fit learned must not decide how X is read
            vars(self).pop(name, None)
        if sample_weight is not None and self._final is not None and not self.weighted:
            raise InvalidData(f"the last step, {type(self._final).__name__}, takes no sample_weight")
        return self._run_fit(X, y, sample_weight)

    def check(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Refuse what `fit` would refuse at once, targets that the last step cannot learn included."""
        super().check(X, y, sample_weight)
        if self._final.supervised:
            A = np.asarray(X)
            clone(self._final)._targets(y, A, validation.check_weights(sample_weight, len(A)) > 0, True)

    @property
    def classes_(self) -> Labels:
        """Labels of the last step, sorted."""
        return self._final.classes_

    @property
    def n_features_out_(self) -> int:
        """Columns of the last step."""
        return self._final.n_features_out_

    @property
    def _parts(self) -> Any:
        steps = vars(self).get("steps_", self.steps)
        return steps if isinstance(steps, (list, tuple)) and all(isinstance(s, Estimator) for s in steps) else ()

    @property
    def _final(self) -> Any:
        return self._parts[-1] if self._parts else None

    @property
    def _undone(self) -> Any:
        return self._drawn if hasattr(self._final, "inverse_transform") else None

    @property
    def _summed(self) -> Any:
        return self._final if all(chunkable(s) for s in self._parts) else None

    @property
    def _drawn(self) -> Any:
        return self._final if all(hasattr(s, "inverse_transform") for s in self._parts[:-1]) else None

    def _locate(self, values: dict[str, Any], width: int) -> None:
        """The columns that the first step names; those after it find theirs once the steps before them are fitted."""
        with placed("/params/steps/0"):
            look(values["steps"][0], width)

    def _query_domain(self) -> str:
        return self._parts[0]._query_domain() if self._parts else "real"

    def _targets(self, y: Any, X: Matrix, keep: np.ndarray, fresh: bool) -> Any:
        return validation._column(y, len(X), type(self).__name__, several=True)[keep]

    def _split(self, rest: tuple[Any, ...]) -> dict[str, Any]:
        """Targets and weights by name, from the arguments that the template of `fit` gives after X."""
        names = [k for k, has in (("y", self.supervised), ("sample_weight", self.weighted)) if has]
        return {"y": None} | dict(zip(names, rest, strict=True))

    def _fit(self, X: Matrix, *rest: Any) -> None:
        given = self._split(rest)
        s = given.get("sample_weight")
        steps, Z = [clone(step) for step in self.steps], X
        for i, step in enumerate(steps):
            progress.tick(i, len(steps), "steps")
            with naming.use(pipeline_chunks.names_before(steps[:i])), placed(f"/params/steps/{i}"):
                step.fit(Z, given["y"], **({"sample_weight": s} if step.weighted and s is not None else {}))
            if i + 1 < len(steps):
                Z = step.transform(Z)  # type: ignore[attr-defined]
        deaf = [type(t).__name__ for t in steps[:-1] if not t.weighted]
        if s is not None and deaf and np.ptp(s) > 0:
            self._note("weights_not_used", f"{', '.join(deaf)} learned from the rows without their weights",
                       "repeat rows instead of weighting them, where that matters")  # fmt: skip
        self.steps_ = steps

    def _finish(self, X: Any) -> None:
        if hasattr(self._final, "labels_"):
            own = self._final.labels_
            self.labels_ = own if len(own) == len(X) else self.predict(X)

    def _through(self, X: Any) -> Matrix:
        """Rows as the last step sees them."""
        Z = check_query(self, X)
        for step in self.steps_[:-1]:
            Z = step.transform(Z)  # type: ignore[attr-defined]
        return Z

    def _back(self, Z: Matrix, steps: list[Estimator]) -> Matrix:
        return reduce(lambda A, step: step.inverse_transform(A), reversed(steps), Z)  # type: ignore[attr-defined]

    def _via(self, method: str) -> Callable[..., Any]:
        @wraps(getattr(self._final, method))
        def call(X: Any, *args: Any, **options: Any) -> Any:
            return getattr(self._final, method)(self._through(X), *args, **options)

        return call

    def _on_last(self, method: str, X: Any, y: Any, sample_weight: Any) -> Pipeline:
        self._via(method)(X, y, sample_weight)
        if len(self.steps_) > 1 and not any(n.code == "transformers_fixed" for n in self.notices_):
            self._note("transformers_fixed", f"{method} changed the last step; the transformers are those of fit",
                       "fit again when the distribution of the columns has moved")  # fmt: skip
        return self

    def _diagnose(self, X: Matrix, *rest: Any) -> Diagnostics:
        given = self._split(rest)
        with naming.use(pipeline_chunks.names_before(self.steps_[:-1])):
            out = self.steps_[-1].diagnostics(self._through(X), given["y"], given.get("sample_weight"))
        last = len(self.steps_) - 1
        named = [_named(n, i, s) for i, s in enumerate(self.steps_[:-1]) for n in s.notices_]
        out.warnings = named + [_named(n, last, self.steps_[-1]) for n in out.warnings]
        rows = [[i, type(s).__name__, s.n_features_in_, getattr(s, "n_features_out_", None)]
                for i, s in enumerate(self.steps_)]  # fmt: skip
        out.tables["steps"] = Table(("step", "estimator", "columns_in", "columns_out"), rows)
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Sum of the floating-point operations; the largest step's memory and the transformed rows."""
        flops = memory = held = 0.0
        for step in self._parts:
            own = step.cost(n, d, k)
            flops, memory = flops + own.flops, max(memory, held + own.memory_bytes)
            d = _width(step, d)
            held = 8.0 * n * d
        return Cost(flops, memory)

    def _width(self, d: int) -> int:
        return reduce(lambda width, step: _width(step, width), self._parts, d)


def _width(step: Estimator, d: int) -> int:
    return step._width(d) if hasattr(step, "_width") else d


def _named(notice: Notice, i: int, step: Estimator) -> Notice:
    return Notice(notice.code, f"step {i} ({type(step).__name__}): {notice.message}", notice.advice)
