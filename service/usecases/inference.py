"""Everything a stored model answers: predictions, posteriors, transforms, draws, scores, diagnostics."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ml_core.certificates import plain
from ml_core.errors import pointer
from ml_core.metrics.summary import metrics
from ml_core.undefined import with_undefined
from service.errors import Conflict, Invalid, Issue, Unsupported
from service.intake.frames import Frame, limited, open_frame
from service.ports import Json
from service.usecases import tabular
from service.usecases.answers import Answer, cut, ignored, matrix_table, outcome, targets, unused
from service.usecases.conform import finer_in, words_in
from service.usecases.given import Cells, Given, Records
from service.usecases.loaded import Loaded, LoadedModels, ready
from service.usecases.posteriors import bounded, distributions
from service.usecases.selection import ChosenRows

MAX_ROWS = 1_000_000
Batch = tuple[np.ndarray, list[str]]


class Inference:
    """Answers from models in memory; the first question loads one."""

    def __init__(self, datasets: Any, models: Any, artifacts: Any, *, keep: int = 64) -> None:
        self.datasets = datasets
        self.models = models
        self.artifacts = artifacts
        self.memory = LoadedModels(models, artifacts, keep)
        self.cached, self.load, self.forget = self.memory.cached, self.memory.load, self.memory.forget

    def capable(self, key: str, method: str, capability: str) -> tuple[Loaded, Any]:
        """The model and its estimator, or Unsupported with what it can do instead."""
        model = self.load(key)
        if not hasattr(model.fitted.estimator, method):
            able = ", ".join(model.record["result"]["capabilities"])
            raise Unsupported(f"{model.record['algorithm']} has no {capability}; it has {able}")
        return model, model.fitted.estimator

    def choosing(self, where: Sequence[Json] | None) -> Inference:
        """The same on datasets of which only the rows are seen where these conditions hold; None sees all."""
        out = copy.copy(self)
        out.datasets = self.datasets if where is None else ChosenRows(self.datasets, where)
        return out

    def matrix(self, model: Loaded, body: Mapping[str, Any]) -> Batch:
        """Rows, columns, a dataset or a frame → encoded matrix, and warnings about columns that were not used."""
        return self.given(model, body).matrix()

    def given(self, model: Loaded, body: Mapping[str, Any]) -> Given:
        """The rows of a request, not yet encoded; Invalid where there are none."""
        given = [k for k in ("rows", "columns", "dataset", "frame") if body.get(k) is not None]
        if len(given) != 1:
            raise Invalid(
                "give exactly one of rows, columns and dataset",
                issues=(Issue("/rows", "one_of", f"got {given or 'none of them'}"),),
            )
        if given == ["dataset"]:
            return self._of_dataset(model, body["dataset"])
        if given == ["frame"]:
            return self._of_frame(model, body["frame"])
        rows = body["rows"] if given == ["rows"] else transposed(body["columns"], model.fitted.encoder.inputs)
        if not rows:
            raise Invalid("there are no rows to answer for", issues=(Issue("/" + given[0], "too_short", "send a row"),))
        limited(len(rows), MAX_ROWS)
        return Records(model, rows)

    def _of_dataset(self, model: Loaded, dataset_id: str) -> Cells:
        record, table = self.datasets.get(dataset_id), self.datasets.table(dataset_id)
        limited(record["rows"], MAX_ROWS)
        return Cells(model, table, unused(model, record))

    def _of_frame(self, model: Loaded, frame: Frame) -> Cells:
        wanted, words = model.fitted.encoder.inputs, words_in(model.fitted.encoder.features)
        with self.datasets.scratch() as folder:
            cells = open_frame(frame, wanted, words, MAX_ROWS, Path(folder))
        if not cells.table.num_rows and cells.table.num_columns:
            raise Invalid("there are no rows to answer for", issues=(Issue("", "too_short", "send a row"),))
        notes = [*ignored(cells.extra), *cells.notes, *cut(finer_in(model.fitted.encoder.features, cells.table))]
        return Cells(model, cells.table, notes, cells.rules, tuple(cells.extra))

    def predict(self, key: str, body: Mapping[str, Any]) -> Json:
        """Predictions, and class probabilities where the model has them and `proba` is not false."""
        model, estimator = self.capable(key, "predict", "predict")
        X, notes = self.matrix(model, body)
        return self.answer(model, estimator, X, notes, body)

    def answer(self, model: Loaded, estimator: Any, X: np.ndarray, notes: list[str], body: Mapping[str, Any]) -> Json:
        """The prediction document for encoded rows."""
        return outcome(model, estimator, X, body).document(model.id, notes)

    def predict_table(self, key: str, body: Mapping[str, Any]) -> Answer:
        """The same as a table: prediction, probability_<class>, lower and upper."""
        model, estimator = self.capable(key, "predict", "predict")
        X, notes = self.matrix(model, body)
        return Answer(model.id, outcome(model, estimator, X, body).table(targets(model)), notes)

    def posterior(self, key: str, body: Mapping[str, Any]) -> Json:
        """A distribution for each row; the joint one and draws when asked."""
        model, estimator = self.capable(key, "posterior", "predictive_posterior")
        X, notes = self.matrix(model, body)
        return distributions(model, estimator, X, notes, body)

    def parameter_posterior(self, key: str, level: float) -> Json:
        """Posterior of each parameter block."""
        model = self.load(key)
        if not hasattr(model.fitted.estimator, "parameter_posterior"):
            raise Conflict(f"{model.record['algorithm']} keeps no posterior over its parameters")
        blocks = model.fitted.estimator.parameter_posterior()
        names = model.fitted.encoder.names
        return {"model": model.id, "columns": names, "parameters": {k: d.to_json(level) for k, d in blocks.items()}}

    def transform(self, key: str, body: Mapping[str, Any]) -> Json:
        """Projected, scaled or embedded rows with the names of the output columns."""
        model, estimator = self.capable(key, "transform", "transform")
        X, notes = self.matrix(model, body)
        names = estimator.get_feature_names_out(model.fitted.encoder.names).tolist()
        return {"model": model.id, "columns": names, "values": plain(estimator.transform(X)), "warnings": notes}

    def transform_table(self, key: str, body: Mapping[str, Any]) -> Answer:
        """The same as a table with the names of the output columns."""
        model, estimator = self.capable(key, "transform", "transform")
        X, notes = self.matrix(model, body)
        names = estimator.get_feature_names_out(model.fitted.encoder.names).tolist()
        return Answer(model.id, matrix_table(estimator.transform(X), names), notes)

    def inverse_transform(self, key: str, values: Sequence[Sequence[float]]) -> Json:
        """Rows in the output space → rows in the encoded input space."""
        model, estimator = self.capable(key, "inverse_transform", "inverse_transform")
        if len({len(row) for row in values}) > 1:
            raise Invalid("rows differ in length", issues=(Issue("/values", "ragged", "send rows of one length"),))
        X = estimator.inverse_transform(np.asarray(values, dtype=np.float64))
        encoder = model.fitted.encoder
        return {"model": model.id, "columns": encoder.names, "values": plain(encoder.unscaled(X))}

    def sample(self, key: str, n: int, seed: int) -> Json:
        """Draws from a generative model: rows with their classes or components, coefficients, or functions.

        Rows are in the encoded columns; functions have their values at `rows`, numbered as the model was given them.
        """
        model, estimator = self.capable(key, "sample", "sample")
        encoder = model.fitted.encoder
        bounded(n * len(encoder.names))
        X, labels = estimator.sample(n, random_state=seed)
        fits, rows = X.shape[1] == len(encoder.names) and estimator.draws != "functions", estimator.sampled_rows_
        return {
            "model": model.id,
            "draws": estimator.draws,
            "columns": encoder.names if fits else [],
            "values": plain(encoder.unscaled(X) if fits and estimator.draws == "rows" else X),
            "labels": plain(np.asarray(labels)) if fits and labels is not None else None,
            "rows": None if rows is None else plain(rows),
        }

    def score(self, key: str, dataset_id: str) -> Json:
        """The usual figures on another dataset, whose target column is needed where the model has one."""
        model, estimator = self.capable(key, "score", "score")
        X, notes = self._of_dataset(model, dataset_id).matrix()
        target = model.record["record"].get("target")
        y = None if target is None else self.truth(target, dataset_id, estimator)
        scored = self.datasets.get(dataset_id)["id"]
        found = metrics(estimator, X, y)
        notes = [*notes, *(n.message for n in with_undefined([], found))]
        return {"model": model.id, "dataset": scored, "metrics": found, "warnings": notes}

    def truth(self, target: Any, dataset_id: str, estimator: Any) -> np.ndarray:
        """The target of a dataset's rows as the estimator learned it; Invalid where it is absent or has gaps."""
        record, table = self.datasets.get(dataset_id), self.datasets.table(dataset_id)
        kinds = {c["name"]: c["type"] for c in record["columns"]}
        columns = [target] if isinstance(target, str) else list(target)
        absent = [c for c in columns if c not in kinds]
        if absent:
            raise Invalid(
                f"the dataset has no target column {absent}",
                issues=(Issue("/dataset", "missing_column", f"it needs {columns}"),),
            )
        gaps = sum(table[c].null_count for c in columns)
        if gaps:
            raise Invalid(
                f"the target has {gaps} empty cells", issues=(Issue("/dataset", "missing_values", "remove those rows"),)
            )
        if estimator.task == "classification":
            return np.array(tabular.labels(table[columns[0]], kinds[columns[0]]).tolist())
        values = [tabular.numeric_target(table[c], kinds[c]) for c in columns]
        return values[0] if isinstance(target, str) else np.column_stack(values)

    def diagnostics(self, key: str) -> Json:
        """The diagnostics stored with the model; Conflict while it is not ready."""
        record = self.models.get(key)
        ready(record)
        return dict(record["result"]["diagnostics"])


def transposed(columns: Mapping[str, Sequence[Any]], wanted: Sequence[str]) -> list[Json]:
    """Columns → rows; Invalid when the lengths differ or a wanted one is absent."""
    absent = [c for c in wanted if c not in columns]
    if absent:
        found = tuple(Issue(pointer("columns", c), "missing_column", "the model needs this column") for c in absent)
        raise Invalid(f"columns {absent} are missing; the model needs {list(wanted)}", issues=found)
    lengths = {k: len(v) for k, v in columns.items()}
    if len(set(lengths.values())) > 1:
        raise Invalid(f"columns differ in length: {lengths}", issues=(Issue("/columns", "ragged", str(lengths)),))
    names = list(columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
