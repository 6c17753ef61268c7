"""Rows that a model is to learn or to forget: features, targets and weights, from the request or from a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ml_core.errors import pointer
from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases.inference import Inference
from service.usecases.preparation import refuse_gaps, weights_of

MAX_ISSUES = 20
Arguments = tuple[Any, ...]


def chosen(body: Json) -> Json:
    """The one of rows and dataset that was given, with the conditions on the dataset's rows; Invalid else."""
    given = {k: body[k] for k in ("rows", "dataset") if body.get(k) is not None}
    if len(given) != 1:
        raise Invalid("give exactly one of rows and dataset",
                      issues=(Issue("/rows", "one_of", f"got {list(given) or 'none of them'}"),))  # fmt: skip
    if body.get("where") is None:
        return given
    if "dataset" not in given:
        raise Invalid("conditions choose rows of a dataset; send the rows that are meant, or a dataset",
                      issues=(Issue("/where", "not_expected", "leave it out"),))  # fmt: skip
    return given | {"where": body["where"]}


def batch(inference: Inference, model: Any, body: Json) -> Arguments:
    """X, y and, where the model was fitted with weights, s: what `update` and `forget` take; Invalid, InvalidData."""
    asked = model.record["record"]
    given = chosen(body)
    inference = inference.choosing(given.pop("where", None))
    X, _ = inference.matrix(model, given)
    found = _of_dataset if "dataset" in given else _of_rows
    y, s = found(inference, model, given, asked.get("target"), asked.get("weights"))
    return (X, y) if s is None else (X, y, s)


def _of_dataset(inference: Inference, model: Any, body: Json, target: Any, weights: str | None) -> Arguments:
    y = None if target is None else inference.truth(target, body["dataset"], model.fitted.estimator)
    if weights is None:
        return y, None
    record = inference.datasets.get(body["dataset"])
    kinds = {c["name"]: c["type"] for c in record["columns"]}
    if weights not in kinds:
        raise Invalid(f"the dataset has no column of weights {weights!r}",
                      issues=(Issue("/dataset", "missing_column", f"it needs {weights!r}"),))  # fmt: skip
    s: Any = weights_of(inference.datasets.table(record["id"]), kinds, weights)
    refuse_gaps("weights", int(np.isnan(s).sum()))
    return y, s


def _of_rows(inference: Inference, model: Any, body: Json, target: Any, weights: str | None) -> Arguments:
    rows = body["rows"]
    s = None if weights is None else np.array(_cells(rows, weights, _number, "a number"), dtype=np.float64)
    if target is None:
        return None, s
    classes = getattr(model.fitted.estimator, "classes_", None)
    test, kind = (_number, "a number") if classes is None else _LABELS[np.asarray(classes).dtype.kind]
    columns = [_cells(rows, name, test, kind) for name in ([target] if isinstance(target, str) else target)]
    y = np.array(columns[0]) if classes is not None else np.array(columns, dtype=np.float64).T
    return (y[:, 0] if classes is None and isinstance(target, str) else y), s


def _cells(rows: Sequence[Mapping[str, Any]], name: str, test: Callable[[Any], bool], kind: str) -> list[Any]:
    """The cells of one column, all of one kind; Invalid points at those that are not."""
    bad = [(i, r.get(name)) for i, r in enumerate(rows) if not test(r.get(name))]
    if bad:
        issues = tuple(Issue(pointer("rows", i, name), "missing_column" if name not in rows[i] else "wrong_type",
                             f"expected {kind}, got {v!r:.60}") for i, v in bad[:MAX_ISSUES])  # fmt: skip
        raise Invalid(f"{issues[0].pointer}: {issues[0].detail} ({len(bad)} such)", issues=issues)
    return [r[name] for r in rows]


def _number(v: Any) -> bool:
    return isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) < np.inf


_LABELS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "U": (lambda v: isinstance(v, str), "a label (text)"),
    "b": (lambda v: isinstance(v, bool), "true or false"),
    "i": (lambda v: isinstance(v, int) and not isinstance(v, bool), "a label (a whole number)"),
    "f": (_number, "a label (a number)"),
}
