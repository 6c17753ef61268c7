"""Which rows a fit learns from and which it is scored on, as the `validation` of its request says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from ml_core.certificates import Notice
from ml_core.errors import InvalidData
from ml_core.preprocessing.policies import LEVELLED
from ml_core.preprocessing.table_fit import fit_encoder
from ml_core.selection.splits import Split, by_value, folds, holdout, leave_one_out, whole
from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases.preparation import Prepared, rows_of, subset

MAX_REFITS = 1000


def plan_of(request: Json) -> Json:
    """The validation that a request asks for."""
    return request.get("validation") or {"method": "none"}


def refits(request: Json, record: Json, estimator: Any) -> int:
    """About how many fits the validation takes besides the model's; `record` describes the chosen rows."""
    plan = plan_of(request)
    distinct = {c["name"]: c["distinct"] for c in record["columns"]}
    if plan["method"] == "holdout":
        return int(plan.get("repeats", 1))
    if plan["method"] == "leave_one_out" and not request.get("groups") and hasattr(estimator, "left_out"):
        return 0
    if plan["method"] == "leave_one_out":
        return int(distinct[request["groups"]] if request.get("groups") else record["rows"])
    if plan["method"] == "k_fold":
        return int(distinct[plan["column"]] if plan.get("column") else plan.get("k", 5) * plan.get("repeats", 1))
    return 0


def check_plan(request: Json, record: Json, estimator: Any) -> None:
    """Invalid where the validation contradicts itself or takes more fits than one job does."""
    plan, fits = plan_of(request), refits(request, record, estimator)
    if plan.get("column") and plan.get("repeats", 1) > 1:
        raise _refused("/validation/repeats", "contradiction", "the folds that a column gives are the same each time")
    if plan.get("repeats", 1) > 1 and not plan.get("shuffle", True):
        raise _refused("/validation/repeats", "contradiction", "without shuffle every repetition has the same splits")
    if fits > MAX_REFITS:
        raise too_many(fits)


def too_many(fits: int) -> Invalid:
    """The refusal of a validation that takes so many fits."""
    detail = f"this would take {fits} fits and {MAX_REFITS} is the most; choose k_fold, or a sample of the rows"
    return _refused("/validation", "too_many_fits", detail)


def in_one_fit(request: Json, data: Prepared, estimator: Any) -> bool:
    """Whether one fit tells what fits without each row would: the encoding is the same without any one of them."""
    if plan_of(request)["method"] != "leave_one_out" or data.groups is not None or not hasattr(estimator, "left_out"):
        return False
    fitted = data.encoder
    scaled = fitted.whitening is not None or fitted.shift.any() or (fitted.scale != 1).any()
    ordinal = any(len(f.levels) > 1 and not f.one_hot for f in fitted.features)
    return not scaled and not ordinal and not any(c.missing.any() for c in data.inputs.values())


def alone(data: Prepared) -> np.ndarray:
    """(n,) whether a row has a level that no other row has, so that the encoding would be another without it."""
    out = np.zeros(len(data.X), dtype=bool)
    for column in data.inputs.values():
        if column.type in LEVELLED:
            _, place, counts = np.unique(column.values.astype(str), return_inverse=True, return_counts=True)
            out |= counts[place] == 1
    return out


def splits(request: Json, data: Prepared, estimator: Any) -> list[Split]:
    """Rows to learn from and rows to score on, as the request asks; none where nothing is held out."""
    plan = plan_of(request)
    if plan["method"] == "none" or data.y is None or in_one_fit(request, data, estimator):
        return []
    try:
        return list(_given(plan, data) if data.parts is not None else _drawn(request, data, estimator.task))
    except InvalidData as e:
        raise _refused("/validation", "too_few_rows", str(e)) from e


def _drawn(request: Json, data: Prepared, task: str) -> Iterator[Split]:
    plan, seed = plan_of(request), request.get("seed", 0)
    n, classes = len(data.X), data.y if task == "classification" and plan.get("stratify", True) else None
    if plan["method"] == "leave_one_out":
        if data.groups is None and n > MAX_REFITS:
            raise too_many(n)
        yield from leave_one_out(n, groups=data.groups)
        return
    for repeat in range(plan.get("repeats", 1)):
        how: Any = {"seed": seed, "y": classes, "groups": data.groups, "shuffle": plan.get("shuffle", True),
                    "repeat": repeat}  # fmt: skip
        if plan["method"] == "holdout":
            yield holdout(n, plan.get("fraction", 0.2), **how)
        else:
            yield from folds(n, plan.get("k", 5), **how)


def _given(plan: Json, data: Prepared) -> list[Split]:
    """By the values of a column: each its fold, or some of them held out."""
    if plan["method"] == "k_fold":
        found = by_value(data.parts, data.groups)
        if not 2 <= len(found) <= MAX_REFITS:
            detail = f"the column gives {len(found)} folds; there are 2 to {MAX_REFITS}"
            raise _refused("/validation/column", "too_few_rows" if len(found) < 2 else "too_many_fits", detail)
        return found
    held = np.asarray(data.parts).astype(bool)
    whole(held, data.groups)
    if held.all() or not held.any():
        what = "learn from" if held.all() else "score on"
        raise _refused("/validation/validation", "no_rows", f"the column leaves no row to {what}")
    return [(np.flatnonzero(~held), np.flatnonzero(held))]


def labels(parts: np.ndarray) -> list[Any]:
    """The distinct values of a column of folds, in the order of its splits, as JSON has them."""
    return [v if isinstance(v, (bool, int, float, str)) else v.isoformat() for v in np.unique(parts).tolist()]


def arranged(request: Json, data: Prepared, estimator: Any) -> tuple[Prepared, Prepared | None, list[Split]]:
    """The rows to learn from, those that a split column holds out for good, and the splits of a validation by refits.

    The encoding of the first is learned from them alone; what only the second have is ignored or filled.
    """
    plan = splits(request, data, estimator)
    if plan_of(request)["method"] != "split_column" or not plan:
        return data, None, plan
    train, test = plan[0]
    known = rows_of(data.inputs, train)
    encoder, lenient = fit_encoder(known, data.encoding), fit_encoder(known, data.encoding.held_out())
    return subset(data, encoder, train), subset(data, lenient, test), []


def notices_of(request: Json) -> list[Json]:
    """That the column which holds rows out is not a feature, unless it was asked for as one."""
    column = plan_of(request).get("column")
    if not column or column in request["features"]:
        return []
    return [asdict(Notice("split_column", f"column {column!r} says which rows are held out and is not a feature",
                          "name it in features to learn from it"))]  # fmt: skip


def _refused(place: str, code: str, detail: str) -> Invalid:
    return Invalid(detail, issues=(Issue(place, code, "choose fewer folds or more rows" if code == "too_few_rows"
                                         else detail),))  # fmt: skip
