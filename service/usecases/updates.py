"""Rows folded into a model, or taken out of it, without the rows it has seen: a new version under the same name."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

import numpy as np

from ml_core import naming
from ml_core.certificates import Certificate, Diagnostics, Notice, with_failures
from ml_core.errors import InvalidData
from ml_core.metrics.summary import metrics
from ml_core.preprocessing.table import TabularModel
from ml_core.undefined import with_undefined
from service.errors import Unsupported
from service.ports import Job, Json, Ledger, Limits, NewJob, NewModel, Report
from service.usecases.batches import batch, chosen
from service.usecases.inference import Inference
from service.usecases.pace import Pace

ANSWERS = ("decision_function", "predict_proba", "predict", "score_samples", "transform")
RETURN_DIGITS = 1e-6
NOT_SCORED = "rows that the first version was scored on are not at hand: score this one on a dataset"


class Updates:
    """Queues and runs updates (the posterior of the old version is the prior of the new one) and their undoing."""

    def __init__(self, datasets: Any, models: Any, ledger: Ledger, artifacts: Any, inference: Inference) -> None:
        self.datasets = datasets
        self.models = models
        self.ledger = ledger
        self.artifacts = artifacts
        self.inference = inference

    def submit(self, kind: str, key: str, model_id: str, body: Json, tenant: str = "") -> Job:
        """Queue the `update` or `forget` of a model with rows or the rows of a dataset, as `model_id`."""
        model = self._able(kind, key)
        given = chosen(body)
        if "dataset" in given:
            given["dataset"] = self.datasets.get(given["dataset"])["id"]
        batch(self.inference, model, given)
        record = model.record["record"] | {"changes": model.id, "change": kind, "rows_of": given.get("dataset"),
                                           "where": given.get("where")}  # fmt: skip
        before = self.ledger.get(model.record["job"]).limits
        limits = Limits(before.wall_seconds, before.memory_bytes, before.cores)
        needs = (*([given["dataset"]] if "dataset" in given else []), model.id)
        spec = {"model": model.id, **given}
        asked = NewModel(model.record["name"], record)
        new = NewJob(kind, model_id, spec, "instant", limits, 0, needs, tenant=tenant, model=asked)
        return self.ledger.put(new, once=True)

    def _able(self, kind: str, key: str) -> Any:
        """The model, or Unsupported with the reason why it cannot be changed in this way."""
        model = self.inference.load(key)
        if kind == "forget" and not hasattr(model.fitted.estimator, "forget"):
            able = ", ".join(model.record["result"]["capabilities"])
            raise Unsupported(
                f"{model.record['algorithm']} has no forget: what it learned does not follow from sums that rows could "
                f"be taken out of; it has {able}. Fit again without the rows"
            )
        return self.inference.capable(key, kind, kind)[0]

    def run(self, job: Job, report: Report) -> Json:
        """Change a copy of the old version and store it."""
        old = self.inference.load(job.spec["model"])
        estimator = copy.deepcopy(old.fitted.estimator)
        rows = batch(self.inference, old, job.spec)
        with naming.use(old.fitted.encoder.named):
            with Pace.of(job.limits.wall_seconds).fits():
                getattr(estimator, job.kind)(*rows)
            report_of = _after_forget if job.kind == "forget" else _after_update
            diagnostics, train = report_of(old.fitted.estimator, estimator, rows)
        reference = self._reference(old, job)
        key = f"models/{job.resource}/{report.attempt}/model.joblib"
        given = job.spec.get("dataset")
        origin = {"job": job.id, "attempt": report.attempt, "changes": job.spec["model"],
                  "dataset_sha256": given and self.datasets.get(given)["sha256"]}  # fmt: skip
        stored = TabularModel(old.fitted.encoder, estimator, old.fitted.target, reference)
        artifact = self.artifacts.save(key, stored, origin)
        seen = old.record["result"]["rows"] + (-1 if job.kind == "forget" else 1) * len(rows[0])
        return dict(old.record["result"]) | {
            "artifact": artifact, "rows": seen, "selection": None, "diagnostics": diagnostics.to_json(),
            "metrics": {"train": train, "validation": None, "verdict": None, "verdict_reason": NOT_SCORED},
            "warnings": [asdict(w) for w in with_undefined(diagnostics.warnings, train)], "fit_seconds": 0.0,
        }  # fmt: skip

    def _reference(self, old: Any, job: Job) -> Any:
        """Where the rows lie that the new version has learned from; None where the old one does not know."""
        known = old.fitted.reference
        if known is None:
            return None
        given = chosen(job.spec)
        table, _ = self.inference.choosing(given.pop("where", None)).given(old, given).columns()
        return known.minus(table) if job.kind == "forget" else known.plus(table)


def _after_update(old: Any, new: Any, rows: tuple[Any, ...]) -> tuple[Diagnostics, Json]:
    """Scores of the new rows, for the old ones are not at hand, and whether taking them out leads back.

    Of a rule that learns row by row, the diagnostics are those of the new rows.
    """
    if not hasattr(new, "forget"):
        return new.diagnostics(*rows), metrics(new, *rows)
    meaning = "taking the rows out again gives the answers of the old version"
    out = _report(old, new, rows, ("rows_learned", "learned", "forget", "learned_rows_leave", meaning))
    return out, metrics(new, *rows)


def _after_forget(old: Any, new: Any, rows: tuple[Any, ...]) -> tuple[Diagnostics, None]:
    """Whether folding the rows in again leads back to the old version; there are no rows left to score."""
    meaning = "learning the rows again gives the answers of the old version"
    return _report(old, new, rows, ("rows_forgotten", "taken out", "update", "forgotten_rows_return", meaning)), None


def _report(old: Any, new: Any, rows: tuple[Any, ...], said: tuple[str, str, str, str, str]) -> Diagnostics:
    """How many rows there were and that undoing the change, by a method of the model, gives the old answers."""
    figure, done, undo, name, meaning = said
    out = Diagnostics(summary={figure: len(rows[0])}, warnings=list(new.notices_))
    out.warnings.append(Notice(figure, f"{len(rows[0])} rows were {done}; figures of all rows that the model knows "
                               "need these rows", "score the model on them"))  # fmt: skip
    method = next((m for m in ANSWERS if hasattr(new, m)), None)
    if method is not None and hasattr(new, undo):
        back = copy.deepcopy(new)
        try:
            getattr(back, undo)(*rows)
            off = _apart(getattr(old, method)(rows[0]), getattr(back, method)(rows[0]))
        except InvalidData as e:  # the change itself stands; that nothing leads back is what the certificate tells
            off, meaning = 1.0, f"{meaning}; not so: {e}"
        out.certificates.append(Certificate(name, off, RETURN_DIGITS, meaning))
        out.warnings = with_failures(out.warnings, out.certificates, new.remedy)
    return out


def _apart(a: Any, b: Any) -> float:
    """Largest relative difference of two answers; 1 where labels differ or one alone is finite."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fiu":
        return float((a != b).any())
    both = np.isfinite(a) & np.isfinite(b)
    off = np.abs(np.where(both, a, 0.0) - np.where(both, b, 0.0)) / (1.0 + np.abs(np.where(both, a, 0.0)))
    return float(np.max(np.where(both | (np.isnan(a) & np.isnan(b)) | (a == b), off, 1.0)))
