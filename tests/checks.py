"""Checks that hold for every registered algorithm; each takes a row and raises AssertionError.

A new algorithm is covered by adding a row. Nothing here asks which algorithm it is: what is checked follows from the
methods that are present.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from typing import Any

import joblib
import numpy as np

from ml_core import params, progress
from ml_core.bundle import load_bundle, save_bundle
from ml_core.capabilities import capabilities
from ml_core.errors import Cancelled, InvalidData, InvalidParameter, NotFittedError
from ml_core.parallel import use_threads
from ml_core.registry import build, find, spec_of
from ml_core.tags import by_question
from tests.rows import Row

QUERIES = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")


def fresh(row: Row) -> Any:
    """An unfitted estimator of the row."""
    return build({"algorithm": row.name, "params": row.params})


def fitted(row: Row, **fit: Any) -> tuple[Any, np.ndarray, Any]:
    """A fitted estimator with its data."""
    X, y = row.data()
    return fresh(row).fit(X, y, **fit), X, y


def answers(model: Any, X: np.ndarray) -> dict[str, Any]:
    """What the model says of rows, through every query method it has."""
    return {q: getattr(model, q)(X) for q in QUERIES if hasattr(model, q)}


def same_answers(a: Any, b: Any, X: np.ndarray) -> None:
    """Both models say the same, bit for bit."""
    one, two = answers(a, X), answers(b, X)
    assert one.keys() == two.keys()
    assert one, "the model answers nothing"
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


def agrees_with_oracle(row: Row) -> None:
    """What the row names is what an independent implementation gives."""
    if row.oracle is None:
        assert row.no_oracle, f"{row.name} has neither an oracle nor a reason for having none"
        return
    assert row.same, "an oracle without anything compared"
    model, X, y = fitted(row)
    peer = copy.deepcopy(row.oracle).fit(X, y)
    for name in row.same:
        ours, theirs = getattr(model, name), getattr(peer, name)
        if callable(ours):
            ours, theirs = ours(X), theirs(X)
        if np.asarray(ours).dtype.kind in "USO":
            assert (np.asarray(ours) == np.asarray(theirs)).all(), name
            continue
        scale = max(1e-300, float(np.max(np.abs(theirs))))
        np.testing.assert_allclose(np.squeeze(ours), np.squeeze(theirs), rtol=0, atol=row.tol * scale, err_msg=name)


def repeats_itself(row: Row) -> None:
    """The same request gives the same bits, for one thread as for three."""
    X, y = row.data()
    with use_threads(1):
        one = fresh(row).fit(X, y)
    with use_threads(3):
        two = fresh(row).fit(X, y)
    same_answers(one, two, X) if answers(one, X) else None
    assert one.diagnostics(X, y).to_json() == two.diagnostics(X, y).to_json()


def survives_storage(row: Row) -> None:
    """Pickle, joblib (memory-mapped, read-only) and bundle give a model with the same answers."""
    model, X, _ = fitted(row)
    for again in (pickle.loads(pickle.dumps(model)), _through_joblib(model), _through_bundle(model)):
        assert spec_of(again) == spec_of(model)
        assert capabilities(again) == capabilities(model)
        if answers(model, X):
            same_answers(model, again, X)


def _through_joblib(model: Any) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        joblib.dump(model, f"{folder}/m.joblib")
        return joblib.load(f"{folder}/m.joblib", mmap_mode="r")


def _through_bundle(model: Any) -> Any:
    buffer = io.BytesIO()
    save_bundle(model, buffer)
    return load_bundle(buffer)


def spec_round_trip(row: Row) -> None:
    """Estimator → spec → estimator, and the spec names every parameter."""
    model = fresh(row)
    spec = spec_of(model)
    assert spec_of(build(spec)) == spec
    assert set(spec["params"]) == set(params.signature(type(model)))


def certifies(row: Row) -> None:
    """At least one certificate, all of them hold on clean data, and the report is finite JSON."""
    import json

    model, X, y = fitted(row)
    report = model.diagnostics(X, y).to_json()
    assert report["certificates"], "no certificate"
    broken = [c for c in report["certificates"] if not c["holds"]]
    assert not broken, broken
    assert report["summary"], "an empty summary"
    json.dumps(report, allow_nan=False)


def refuses_before_fit(row: Row) -> None:
    """Every public query says NotFittedError first."""
    model, (X, _) = fresh(row), row.data()
    methods = [m for m in (*QUERIES, "posterior", "sample", "diagnostics") if _has(model, m)]
    assert methods
    for method in methods:
        try:
            getattr(model, method)(X) if method != "sample" else model.sample(1)
        except NotFittedError:
            continue
        raise AssertionError(f"{method} answered before fit")


def _has(model: Any, method: str) -> bool:
    try:
        return hasattr(model, method)
    except NotFittedError:
        return True


def refuses_bad_rows(row: Row) -> None:
    """NaN, infinity, wrong width, no rows: InvalidData, at fit and at query; the fitted model is left as it was."""
    model, X, y = fitted(row)
    before = answers(model, X)
    bad = X.copy().astype(float)
    bad[3, 0] = np.nan
    for value in (bad, np.where(np.isnan(bad), np.inf, bad), np.empty((0, X.shape[1]))):
        _raises(InvalidData, lambda v=value: fresh(row).fit(v, None if y is None else y[: len(v)]))
        for q in before:
            _raises(InvalidData, lambda q=q, v=value: getattr(model, q)(v))
    for q in before:
        _raises(InvalidData, lambda q=q: getattr(model, q)(np.hstack([X, X])))
    if before:
        for q, value in answers(model, X).items():
            np.testing.assert_array_equal(value, before[q])


def _raises(kind: type[Exception], call: Any) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def refuses_bad_parameters(row: Row) -> None:
    """A parameter of a wrong type is refused by `build` and by `fit`, with a pointer."""
    entry = find(row.name)
    for name in params.signature(entry.cls):
        try:
            build({"algorithm": row.name, "params": row.params | {name: {"no": "such value"}}})
        except InvalidParameter as e:
            assert e.issues
            assert e.issues[0].pointer.startswith(f"/params/{name}"), e.issues
            continue
        raise AssertionError(f"{name} took anything")
    X, y = row.data()
    for name in list(params.signature(entry.cls))[:1]:  # an algorithm may have none
        model = fresh(row)
        setattr(model, name, {"no": "such value"})
        _raises(InvalidParameter, lambda: model.fit(X, y))  # noqa: B023 - called at once


def can_be_cancelled(row: Row) -> None:
    """What ticks can be stopped by its listener; a cancelled fit leaves no half-fitted model that answers."""
    X, y = row.data()
    ticks: list[progress.Tick] = []

    def stop(t: progress.Tick) -> None:
        ticks.append(t)
        raise Cancelled

    model = fresh(row)
    with progress.listen(stop):
        try:
            model.fit(X, y)
        except Cancelled:
            assert not model.__sklearn_is_fitted__()
            return
    assert not ticks
    assert find(row.name).cls.queue == "instant", "a long fit that never ticks"


def weights_repeat_rows(row: Row) -> None:
    """Weight 0 equals absence, whatever the algorithm; the weights' own meaning is tested with each algorithm."""
    model = fresh(row)
    if not getattr(model, "weighted", False):
        assert "sample_weight" not in inspect.signature(type(model).fit).parameters or row.name == "pipeline"
        return
    X, y = row.data()
    s = np.ones(len(X))
    s[::5] = 0.0
    keep = s > 0
    one = fresh(row).fit(X, y, sample_weight=s)
    two = fresh(row).fit(X[keep], None if y is None else y[keep])
    if answers(one, X):
        same_answers(one, two, X)


def honest_probabilities(row: Row) -> None:
    """Probabilities lie in [0, 1], rows sum to 1, and a posterior's interval grows with its level."""
    model, X, _ = fitted(row)
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(X)
        assert ((P >= 0) & (P <= 1)).all()
        np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    if hasattr(model, "posterior"):
        batch = model.posterior(X)
        narrow, wide = batch.interval(0.5), batch.interval(0.95)
        assert (narrow is None) == (wide is None)
        if narrow is not None:
            assert (wide[..., 0] <= narrow[..., 0]).all()
            assert (wide[..., 1] >= narrow[..., 1]).all()
        assert len(batch.to_json(0.9)) == len(batch)


def is_documented(row: Row) -> None:
    """A summary, a formula, complexity, tags, references, a description for every parameter, an example."""
    entry = find(row.name)
    assert entry.summary
    assert entry.description
    assert entry.references, "no source"
    assert entry.cls.complexity
    assert len(set(entry.cls.tags)) == len(entry.cls.tags)
    assert [len(found) for found in by_question(entry.cls.tags).values()] == [1, 1, 1], "one tag of each question"
    for name, schema in entry.params_schema().get("properties", {}).items():
        assert schema.get("description"), f"{name} has no description"
    build(entry.example())


CHECKS = [
    agrees_with_oracle, repeats_itself, survives_storage, spec_round_trip, certifies, refuses_before_fit,
    refuses_bad_rows, refuses_bad_parameters,
    can_be_cancelled, weights_repeat_rows, honest_probabilities, is_documented,
]  # fmt: skip
