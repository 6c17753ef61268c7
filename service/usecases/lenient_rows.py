"""Posteriors and transforms of the rows that can be answered, with the problem of each other row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ml_core.certificates import plain
from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases.answers import Answer, matrix_table
from service.usecases.examined import PROBLEM, problems_of
from service.usecases.inference import Inference
from service.usecases.lenient import Sifted, scattered, sift
from service.usecases.posteriors import distributions


def posteriors(inference: Inference, key: str, body: Mapping[str, Any]) -> tuple[Json, Sifted]:
    """The posterior document with null at the place of each bad row, and the rows' problems; Invalid for `joint`."""
    if body.get("joint"):
        issue = Issue("/joint", "contradiction", "leave joint out, or do not ask for handling=lenient")
        raise Invalid("a joint distribution is of all rows: none of them may be bad", issues=(issue,))
    model, estimator = inference.capable(key, "posterior", "predictive_posterior")
    given = inference.given(model, body)
    sifted = sift(given.rows, given.encode)
    if sifted.X is not None:
        return scattered(distributions(model, estimator, sifted.X, given.notes, body), sifted), sifted
    nothing: Json = {"model": model.id, "distributions": [], "warnings": given.notes}
    draws = body.get("samples") or 0
    return scattered(nothing | ({"samples": [[] for _ in range(draws)]} if draws else {}), sifted), sifted


def transforms(inference: Inference, key: str, body: Mapping[str, Any]) -> tuple[Json, Sifted]:
    """The transform document with null at the place of each bad row, and the rows' problems."""
    model, names, values, sifted, notes = _transformed(inference, key, body)
    out = {"model": model, "columns": names, "values": plain(values), "warnings": notes}
    return scattered(out, sifted), sifted


def transform_table(inference: Inference, key: str, body: Mapping[str, Any]) -> Answer:
    """The same as a table; bad rows are empty but for their `problem`."""
    model, names, values, sifted, notes = _transformed(inference, key, body)
    place: list[int | None] = [None] * sifted.rows
    for at, row in enumerate(sifted.places.tolist()):
        place[row] = at
    table = matrix_table(values, names).take(pa.array(place, pa.int64()))
    return Answer(model, table.append_column(PROBLEM, problems_of(sifted)), notes)


def _transformed(
    inference: Inference, key: str, body: Mapping[str, Any]
) -> tuple[str, list[str], np.ndarray, Sifted, list[str]]:
    model, estimator = inference.capable(key, "transform", "transform")
    given = inference.given(model, body)
    sifted = sift(given.rows, given.encode)
    names = estimator.get_feature_names_out(model.fitted.encoder.names).tolist()
    values = np.zeros((0, len(names))) if sifted.X is None else np.asarray(estimator.transform(sifted.X))
    return model.id, names, values, sifted, given.notes
