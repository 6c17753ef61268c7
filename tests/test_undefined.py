"""No null without its reason in the same answer: diagnostics of degenerate tables of every linear method."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from ml_core.certificates import Diagnostics, Notice, Table
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.registry import build
from ml_core.undefined import MEANT, NONE, REASONS, UNDEFINED, complete, with_undefined
from tests.rows import Row

ROWS: list[Row] = [
    r for m in ("linear", "logistic", "bases", "multiclass") for r in importlib.import_module(f"tests.rows.{m}").ROWS
]
TABLES = {
    "two rows": lambda X, y: (X[:2], y[:2]), "fewer rows than columns": lambda X, y: (np.hstack([X, X**2])[:3], y[:3]),
    "constant target": lambda X, y: (X, np.full(len(X), 3.0)), "constant columns": lambda X, y: (X * 0 + 7.0, y),
    "twins": lambda X, y: (np.column_stack([X, X[:, 0]]), y), "as it is": lambda X, y: (X, y),
}  # fmt: skip


def nulls(told: dict[str, Any]) -> set[str]:
    """Names of the figures that are null and have no reason in the column of this name."""
    found = {name for name, v in told["summary"].items() if v is None}
    for table in told["tables"].values():
        for row in table["rows"]:
            cells = dict(zip(table["columns"], row, strict=True))
            if cells.get("reason") is None:
                found |= {name for name, v in cells.items() if v is None and name != "reason"}
    for kind in ("curves", "matrices", "traces"):
        for name, value in told[kind].items():
            parts = value.items() if isinstance(value, dict) else [(name, value)]
            found |= {part for part, v in parts if "None" in str(v)}
    return found - MEANT


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_each_null_has_a_reason(row: Row, table: str) -> None:
    X, y = row.data()
    X, y = TABLES[table](X, np.zeros(len(X)) if y is None else y)
    target = () if row.data()[1] is None else (y,)
    try:
        model: Any = build({"algorithm": row.name, "params": row.params}).fit(X, *target)
        told = model.diagnostics(X, *target).to_json()
    except (InvalidData, InvalidParameter):
        return
    said = [w["message"] for w in told["warnings"] if w["code"] == UNDEFINED]
    assert nulls(told) == {name for text in said for name in text.partition(": null")[0].split(", ")}
    assert not [text for text in said if NONE in text]


def test_reasons_stand_in_their_column_or_in_one_notice_each() -> None:
    table = Table(("term", "aic", "reason"), [["a", None, None], ["b", 1.0, None], ["c", None, "penalised"]])
    out = Diagnostics({"r2": None, "rss": 1.0}, tables={"t": table}, curves={"path": {"x": np.array([np.nan])}})
    complete(out, [Notice("first", "text")], "")
    assert [row[2] for row in out.tables["t"].rows] == [REASONS["aic"], None, "penalised"]
    assert [n.code for n in out.warnings] == ["first", UNDEFINED, UNDEFINED]
    assert with_undefined(out.warnings, {"r2": None, "rows": 3}) == out.warnings
    assert "aic: null" in with_undefined(out.warnings, {"aic": None})[-1].message
