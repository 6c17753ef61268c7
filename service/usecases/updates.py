"""New rows folded into a model without the old ones: a new version under the same name."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

import numpy as np

from ml_core import naming
from ml_core.metrics.summary import metrics
from ml_core.preprocessing.table import TabularModel
from service.errors import Unsupported
from service.ports import Job, Json, Ledger, Limits, NewJob, Report
from service.usecases.inference import Inference
from service.usecases.submission import once


class Updates:
    """Queues and runs updates; the posterior of the old version is the prior of the new one."""

    def __init__(self, datasets: Any, models: Any, ledger: Ledger, artifacts: Any, inference: Inference) -> None:
        self.datasets = datasets
        self.models = models
        self.ledger = ledger
        self.artifacts = artifacts
        self.inference = inference

    def submit(self, key: str, model_id: str, dataset_id: str, tenant: str = "") -> Job:
        """Queue the update of a model with the rows of a dataset, as `model_id`."""
        model, estimator = self.inference.capable(key, "update", "update")
        dataset_id = self.datasets.get(dataset_id)["id"]
        self._batch(model, estimator, dataset_id)
        record = model.record["record"] | {"updates": model.id, "rows_of": dataset_id}
        before = self.ledger.get(model.record["job"]).limits
        limits = Limits(before.wall_seconds, before.memory_bytes, before.cores)
        spec = {"model": model.id, "dataset": dataset_id}
        needs = (dataset_id, model.id)
        job = once(self.ledger, NewJob("update", model_id, spec, "instant", limits, 0, needs, tenant=tenant))
        self.models.add(model_id, model.record["name"], record)
        return job

    def _batch(self, model: Any, estimator: Any, dataset_id: str) -> tuple[np.ndarray, np.ndarray | None]:
        """Encoded rows and their targets."""
        X, _ = self.inference.matrix(model, {"dataset": dataset_id})
        target = model.record["record"].get("target")
        if target is None:
            return X, None
        if not isinstance(target, str):
            raise Unsupported("a model of several targets cannot be updated; refit it")
        return X, self.inference.truth(target, dataset_id, estimator)

    def run(self, job: Job, report: Report) -> Json:
        """Update a copy of the old version and store it; diagnostics are those of the new rows."""
        old = self.inference.load(job.spec["model"])
        estimator = copy.deepcopy(old.fitted.estimator)
        X, y = self._batch(old, estimator, job.spec["dataset"])
        with naming.use(old.fitted.encoder.names):
            estimator.update(X, y)
            diagnostics = estimator.diagnostics(X, y)
        key = f"models/{job.resource}/{report.attempt}/model.joblib"
        artifact = self.artifacts.save(key, TabularModel(old.fitted.encoder, estimator, old.fitted.target))
        return dict(old.record["result"]) | {
            "artifact": artifact, "rows": len(X), "diagnostics": diagnostics.to_json(),
            "metrics": {"train": metrics(estimator, X, y), "validation": None},
            "warnings": [asdict(w) for w in diagnostics.warnings], "fit_seconds": 0.0,
        }  # fmt: skip
