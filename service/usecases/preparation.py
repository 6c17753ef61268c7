"""The columns of a fit as arrays: read, checked for gaps in target, weights and groups, encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ml_core.base import Estimator
from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.table import Column, TableEncoder
from ml_core.preprocessing.table_fit import fit_encoder
from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases import tabular
from service.usecases.selection import choice_of, parts_of, used_columns


@dataclass(frozen=True)
class Prepared:
    """Columns and arrays of a fit: X (n, d), y, weights, groups and given parts (n,), without rows that were dropped.

    `selected` counts the rows asked for, of which `dropped` had empty cells.
    """

    inputs: dict[str, Column]
    encoding: Encoding
    encoder: TableEncoder
    X: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None
    groups: np.ndarray | None
    parts: np.ndarray | None
    selected: int
    dropped: int


def prepare(datasets: Any, request: Json, estimator: Estimator) -> Prepared:
    """Read the dataset and encode it; InvalidData and Invalid name columns and cells."""
    kinds = tabular.kinds(datasets.get(request["dataset"]))
    whole = datasets.table(request["dataset"])
    table = choice_of(whole, request, kinds).take(whole, columns=used_columns(request))
    inputs = {f: tabular.column(table[f], kinds[f]) for f in request["features"]}
    encoding = Encoding.of(request.get("encoding"))
    target = target_of(table, kinds, request.get("target"), estimator)
    weights, groups = weights_of(table, kinds, request.get("weights")), _groups(table, request.get("groups"))
    parts = parts_of(table, request, kinds)
    keep = np.ones(len(table), dtype=bool)
    for role, values in (("target", target), ("weights", weights), ("groups", groups), (PARTS, parts)):
        keep &= _present(role, values, encoding.drops_all(_named(request, role)), len(table))
    for name in encoding.drops(list(inputs)):
        keep &= ~inputs[name].missing
    if not keep.any():
        raise no_rows()
    inputs = rows_of(inputs, keep)
    encoder = fit_encoder(inputs, encoding)
    X, _ = encoder.matrix(inputs)
    y, s, units, parts = (None if v is None else v[keep] for v in (target, weights, groups, parts))
    y = None if y is None else _dense(y)
    return Prepared(inputs, encoding, encoder, X, y, s, units, parts, len(table), int((~keep).sum()))


def _present(role: str, values: np.ndarray | None, drop: bool, n: int) -> np.ndarray:
    """(n,) rows whose cell is not empty; Invalid where there are empty ones that may not be dropped."""
    keep = np.ones(n, dtype=bool) if values is None else ~_missing(values)
    if not drop:
        refuse_gaps(role, int((~keep).sum()))
    return keep


PARTS = "validation/column"
_CALLED = {"target": "target has", PARTS: "column that holds rows out has"}


def _named(request: Json, role: str) -> Any:
    """The column or columns that play a part."""
    return (request.get("validation") or {}).get("column") if role == PARTS else request.get(role)


def refuse_gaps(role: str, gaps: int) -> None:
    """Invalid when a target, the weights or the groups have empty cells that may not be dropped with their rows."""
    if gaps:
        raise Invalid(
            f"the {_CALLED.get(role, role + ' have')} {gaps} empty cells; "
            "encoding.missing = drop_rows, of all columns or of this one in encoding.columns, leaves them out",
            issues=(Issue(f"/{role}", "missing_values", "choose drop_rows or fill the cells"),),
        )


def no_rows() -> Invalid:
    """The refusal of a table whose every row is dropped."""
    return Invalid(
        "no row is complete: dropping those with empty cells leaves none",
        issues=(Issue("/encoding/missing", "no_rows", "exclude sparse columns or impute"),),
    )


def weights_of(table: Any, kinds: Json, name: str | None) -> np.ndarray | None:
    """(n,) weights, NaN where missing; Invalid when the column is not of numbers."""
    if not name:
        return None
    if kinds[name] not in ("number", "integer", "boolean"):
        raise Invalid(
            f"weights must be a number, integer or boolean column; {name!r} is {kinds[name]}",
            issues=(Issue("/weights", "not_numeric", "choose another column, or leave the weights out"),),
        )
    return tabular.column(table[name], kinds[name]).values


def _groups(table: Any, name: str | None) -> np.ndarray | None:
    if not name:
        return None
    out = np.empty(len(table), dtype=object)
    out[:] = table[name].to_pylist()
    return out


def rows_of(inputs: dict[str, Column], rows: np.ndarray) -> dict[str, Column]:
    """The same columns at some rows (a mask or places)."""
    return {name: Column(c.type, c.values[rows]) for name, c in inputs.items()}


def subset(data: Prepared, encoder: TableEncoder, rows: np.ndarray) -> Prepared:
    """Those rows, encoded anew."""
    inputs = rows_of(data.inputs, rows)
    y, s = data.y, data.weights
    X, _ = encoder.matrix(inputs)
    return replace(data, inputs=inputs, encoder=encoder, X=X, y=None if y is None else y[rows],
                   weights=None if s is None else s[rows])  # fmt: skip


def target_of(table: Any, kinds: Json, target: Any, estimator: Estimator) -> np.ndarray | None:
    """(n,) or (n, q) targets, empty where missing: numbers, or a classifier's labels; Invalid names what misfits."""
    if not target:
        return None
    if isinstance(target, list):
        if not getattr(estimator, "multi_output", False):
            raise Invalid(
                f"{type(estimator).__name__} predicts one column",
                issues=(Issue("/target", "one_expected", "name one column"),),
            )
        return np.column_stack([tabular.numeric_target(table[t], kinds[t]) for t in target])
    if estimator.task == "classification":
        return tabular.labels(table[target], kinds[target])
    return tabular.numeric_target(table[target], kinds[target])


def _missing(target: np.ndarray) -> np.ndarray:
    if target.dtype == object:
        return np.array([v is None for v in target], dtype=bool)
    return np.isnan(target) if target.ndim == 1 else np.isnan(target).any(axis=1)


def _dense(target: np.ndarray) -> np.ndarray:
    """Labels as a fixed-width array, so that a stored model holds no Python objects."""
    return np.array(target.tolist()) if target.dtype == object else target
