"""Predictions that look at each row: those that can be answered are, and how far all lie from training is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from service.ports import Json
from service.usecases.answers import Answer, Outcome, outcome, targets
from service.usecases.given import Given
from service.usecases.inference import Inference
from service.usecases.lenient import Sifted, scattered, sift
from service.usecases.loaded import Loaded
from service.usecases.novelty import novelty

PROBLEM = "problem"


@dataclass(frozen=True)
class Examined:
    """What the model says of the rows that it can answer, the problems of the others, and how novel all of them are."""

    model: Loaded
    answer: Outcome
    sifted: Sifted
    notes: list[str]
    novelty: Json | None = None

    def document(self) -> Json:
        """The JSON answer with null at the place of each bad row."""
        out = scattered(self.answer.document(self.model.id, self.notes), self.sifted)
        return out if self.novelty is None else out | {"novelty": self.novelty}

    def table(self) -> Answer:
        """The answer as a table; bad rows are empty but for their `problem`."""
        place: list[int | None] = [None] * self.sifted.rows
        for at, row in enumerate(self.sifted.places.tolist()):
            place[row] = at
        table = self.answer.table(targets(self.model)).take(pa.array(place, pa.int64()))
        return Answer(self.model.id, table.append_column(PROBLEM, problems_of(self.sifted)), self.notes)


def problems_of(sifted: Sifted) -> pa.Array:
    """(n,) text: the problem of each bad row, null for the others."""
    said = (str(sifted.problems[i]) if i in sifted.problems else None for i in range(sifted.rows))
    return pa.array(said, pa.string())


def examine(inference: Inference, key: str, body: Mapping[str, Any], *, lenient: bool) -> Examined:
    """Answer with `handling=lenient`, `novelty` or both; without leniency one bad row refuses all.

    Where there are no rows (a table of other columns has none) nothing can be lenient.
    """
    model, estimator = inference.capable(key, "predict", "predict")
    given = inference.given(model, body)
    if lenient and given.rows:
        found = leniently(model, estimator, given, body)
    else:
        X, notes = given.matrix()
        all_rows = Sifted(given.rows, np.arange(given.rows), X, {})
        found = Examined(model, outcome(model, estimator, X, body), all_rows, notes)
    if not body.get("novelty"):
        return found
    encoder = model.fitted.encoder
    dropped = {f.name for f in encoder.features if f.fill is None and encoder.missing_of(f) == "drop_rows"}
    return replace(found, novelty=novelty(model.id, model.fitted.reference, *given.columns(), dropped))


def leniently(model: Loaded, estimator: Any, given: Given, body: Mapping[str, Any], first: int = 0) -> Examined:
    """Answer the rows that can be answered; the problems of the others count rows from `first`."""
    sifted = sift(given.rows, given.encode, first)
    X = np.zeros((1, len(model.fitted.encoder.names))) if sifted.X is None else sifted.X
    return Examined(model, outcome(model, estimator, X, body), sifted, given.notes)
