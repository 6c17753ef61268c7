"""Everything a stored model answers: predictions, posteriors, transforms, draws, scores, diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ml_core.certificates import plain
from ml_core.metrics.summary import metrics
from ml_core.preprocessing.records import encode
from ml_core.rng import generator
from service.errors import Conflict, Invalid, Issue, TooLarge, Unsupported
from service.ports import Json
from service.usecases import tabular
from service.usecases.loaded import Loaded, LoadedModels, ready

MAX_ROWS = 1_000_000
MAX_JOINT = 2_000
MAX_DRAWS = 10_000_000
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

    def matrix(self, model: Loaded, body: Mapping[str, Any]) -> Batch:
        """Rows, columns or a dataset → encoded matrix, and warnings about columns that were not used."""
        given = [k for k in ("rows", "columns", "dataset") if body.get(k) is not None]
        if len(given) != 1:
            raise Invalid(
                "give exactly one of rows, columns and dataset",
                issues=(Issue("/rows", "one_of", f"got {given or 'none of them'}"),),
            )
        if given == ["dataset"]:
            return self._dataset_matrix(model, body["dataset"])
        rows = body["rows"] if given == ["rows"] else transposed(body["columns"])
        if not rows:
            raise Invalid("there are no rows to answer for", issues=(Issue("/" + given[0], "too_short", "send a row"),))
        _limited(len(rows))
        X, extra = encode(model.fitted.encoder, rows)
        return X, _ignored(extra)

    def _dataset_matrix(self, model: Loaded, dataset_id: str) -> Batch:
        record, table = self.datasets.get(dataset_id), self.datasets.table(dataset_id)
        _limited(record["rows"])
        kinds = {c["name"]: c["type"] for c in record["columns"]}
        wanted = [f.name for f in model.fitted.encoder.features]
        X, keep = model.fitted.encoder.matrix({c: tabular.column(table[c], kinds[c]) for c in wanted if c in kinds})
        if not keep.all():
            raise Invalid(
                f"{int((~keep).sum())} rows have empty cells in the features; remove them or fit with imputation",
                issues=(Issue(f"/rows/{int(np.flatnonzero(~keep)[0])}", "null_not_allowed", "empty cell"),),
            )
        target = model.record["record"].get("target")
        known = {*wanted, *([target] if isinstance(target, str) else target or [])}
        return X, _ignored([c for c in kinds if c not in known])

    def predict(self, key: str, body: Mapping[str, Any]) -> Json:
        """Predictions, and class probabilities where the model has them and `proba` is not false."""
        model, estimator = self.capable(key, "predict", "predict")
        X, notes = self.matrix(model, body)
        return self.answer(model, estimator, X, notes, body)

    def answer(self, model: Loaded, estimator: Any, X: np.ndarray, notes: list[str], body: Mapping[str, Any]) -> Json:
        """The prediction document for encoded rows."""
        if body.get("proba", True) and hasattr(estimator, "predict_with_proba"):
            predicted, values = estimator.predict_with_proba(X)
            names = getattr(estimator, "classes_", None)
            classes = list(range(values.shape[1])) if names is None else np.asarray(names).tolist()
            out: Json = {
                "model": model.id,
                "predictions": predicted.tolist(),
                "probabilities": {"classes": classes, "values": values.tolist()},
            }
        else:
            out = {"model": model.id, "predictions": estimator.predict(X).tolist()}
        level = body.get("interval")
        if level is not None:
            out["intervals"] = _intervals(model, estimator, X, level)
        out["warnings"] = notes
        return out

    def posterior(self, key: str, body: Mapping[str, Any]) -> Json:
        """A distribution for each row; the joint one and draws when asked."""
        model, estimator = self.capable(key, "posterior", "predictive_posterior")
        X, notes = self.matrix(model, body)
        batch = estimator.posterior(X)
        out: Json = {"model": model.id, "distributions": batch.to_json(body.get("level", 0.9)), "warnings": notes}
        joint = batch
        if body.get("joint"):
            if not hasattr(estimator, "joint_posterior"):
                raise Unsupported(f"{model.record['algorithm']} has no joint predictive distribution; leave joint out")
            if len(X) > MAX_JOINT:
                raise TooLarge(f"a joint covariance of {len(X)} rows; at most {MAX_JOINT}")
            joint = estimator.joint_posterior(X)
            out["joint"] = joint.to_json(body.get("level", 0.9))[0]
        if body.get("samples"):
            _bounded(body["samples"] * len(X))
            draws = joint.sample(body["samples"], generator(body.get("seed", 0)))
            out["samples"] = plain(draws[:, 0] if body.get("joint") else draws)
        return out

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

    def inverse_transform(self, key: str, values: Sequence[Sequence[float]]) -> Json:
        """Rows in the output space → rows in the encoded input space."""
        model, estimator = self.capable(key, "inverse_transform", "inverse_transform")
        if len({len(row) for row in values}) > 1:
            raise Invalid("rows differ in length", issues=(Issue("/values", "ragged", "send rows of one length"),))
        X = estimator.inverse_transform(np.asarray(values, dtype=np.float64))
        encoder = model.fitted.encoder
        return {"model": model.id, "columns": encoder.names, "values": plain(encoder.unscaled(X))}

    def sample(self, key: str, n: int, seed: int) -> Json:
        """Draws from a generative model, in the encoded columns, with their classes or components."""
        model, estimator = self.capable(key, "sample", "sample")
        encoder = model.fitted.encoder
        _bounded(n * len(encoder.names))
        X, labels = estimator.sample(n, random_state=seed)
        if X.shape[1] != len(encoder.names):
            return {"model": model.id, "columns": [], "values": plain(X), "labels": None}
        drawn = None if labels is None else plain(np.asarray(labels))
        return {
            "model": model.id,
            "columns": encoder.names,
            "values": plain(encoder.unscaled(X)),
            "labels": drawn,
        }

    def score(self, key: str, dataset_id: str) -> Json:
        """The usual figures on another dataset, whose target column is needed where the model has one."""
        model, estimator = self.capable(key, "score", "score")
        X, notes = self._dataset_matrix(model, dataset_id)
        target = model.record["record"].get("target")
        y = None if target is None else self.truth(target, dataset_id, estimator)
        scored = self.datasets.get(dataset_id)["id"]
        return {"model": model.id, "dataset": scored, "metrics": metrics(estimator, X, y), "warnings": notes}

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


def _bounded(numbers: int) -> None:
    if numbers > MAX_DRAWS:
        raise TooLarge(f"{numbers} numbers would be drawn; a request takes at most {MAX_DRAWS}")


def _intervals(model: Loaded, estimator: Any, X: np.ndarray, level: float) -> Any:
    if not hasattr(estimator, "posterior"):
        raise Unsupported(f"{model.record['algorithm']} has no predictive distribution to take intervals from")
    found = estimator.posterior(X).interval(level)
    if found is None:
        raise Unsupported("the predictive distribution is over labels, which have no intervals; see probabilities")
    return plain(found)


def _limited(rows: int) -> None:
    if rows > MAX_ROWS:
        raise TooLarge(f"{rows} rows; a request takes at most {MAX_ROWS}")


def transposed(columns: Mapping[str, Sequence[Any]]) -> list[Json]:
    """Columns → rows; Invalid when the lengths differ."""
    lengths = {k: len(v) for k, v in columns.items()}
    if len(set(lengths.values())) > 1:
        raise Invalid(f"columns differ in length: {lengths}", issues=(Issue("/columns", "ragged", str(lengths)),))
    names = list(columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _ignored(extra: Sequence[str]) -> list[str]:
    return [f"columns not used by the model: {', '.join(extra[:50])}"] if extra else []
