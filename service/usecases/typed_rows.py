"""The input columns of a request as they were given, before any encoding: what novelty and references look at."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ml_core.preprocessing.records import typed
from ml_core.preprocessing.table import Table
from service.ports import Json
from service.usecases import tabular
from service.usecases.inference import Inference, transposed


def input_columns(inference: Inference, model: Any, body: Json) -> tuple[Table, Counter[str]]:
    """The model's input columns in a body, and how many cells of each are absent or ill-typed, and so empty."""
    encoder = model.fitted.encoder
    if body.get("dataset") is None:
        table, issues = typed(encoder, transposed(body["columns"]) if body.get("rows") is None else body["rows"])
        return table, Counter(issue_column(i.pointer) for i in issues)
    record, stored = inference.datasets.get(body["dataset"]), inference.datasets.table(body["dataset"])
    kinds = {c["name"]: c["type"] for c in record["columns"]}
    return {f: tabular.column(stored[f], kinds[f]) for f in encoder.inputs}, Counter()


def issue_column(pointer: str) -> str:
    """The column of `/rows/17/age`."""
    return pointer.split("/", 3)[3].replace("~1", "/").replace("~0", "~")
