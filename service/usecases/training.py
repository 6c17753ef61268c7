"""From a fit request to a stored model: check and queue it (API), run it (worker)."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ml_core import naming, progress
from ml_core.base import Estimator
from ml_core.capabilities import capabilities
from ml_core.certificates import Diagnostics
from ml_core.errors import InvalidData, placed
from ml_core.metrics.summary import metrics
from ml_core.parallel import use_threads
from ml_core.preprocessing.table import TableEncoder, TabularModel, fit_encoder
from ml_core.registry import build, spec_of
from ml_core.selection.splits import Split, folds, holdout
from ml_core.sums import fit_chunks
from service.errors import Invalid, Issue
from service.ports import Job, Json, Ledger, Limits, NewJob, Report
from service.settings import Settings
from service.usecases import tabular
from service.usecases.chunked import open_chunks
from service.usecases.out_of_core import Passes, Shape, certify, memory_of, plan
from service.usecases.preparation import Prepared, prepare, rows_of, subset
from service.usecases.submission import once

FLOPS_PER_SECOND = 2e9
CHECKED_CELLS = 5_000_000


def build_estimator(request: Json) -> Estimator:
    """The estimator of a request, every default and seed filled in."""
    return build(request["estimator"], seed=request.get("seed", 0), pointer="/estimator")


@dataclass(frozen=True)
class Fitted:
    """What a fit gives besides the estimator itself."""

    encoder: TableEncoder
    rows: int
    dropped: int
    seconds: float
    train: Json
    validation: Json | None
    diagnostics: Diagnostics


class Training:
    """Checks, queues and runs fits."""

    def __init__(self, settings: Settings, datasets: Any, models: Any, ledger: Ledger, artifacts: Any) -> None:
        self.settings = settings
        self.datasets = datasets
        self.models = models
        self.ledger = ledger
        self.artifacts = artifacts

    def complete(self, request: Json) -> tuple[Json, Json]:
        """The request with every default filled in, and the estimate of its cost; Invalid where the fit would fail."""
        estimator = build_estimator(request)
        request = request | {"dataset": self.datasets.resolve(request["dataset"])}
        record = self.datasets.get(request["dataset"])
        chosen = tabular.select(record, request, supervised=estimator.supervised)
        if chosen.target is None and _refits(request.get("validation")):
            raise Invalid("held-out scores compare predictions with a target, and this algorithm has none",
                          issues=(Issue("/validation/method", "no_target", "leave validation out"),))  # fmt: skip
        full = request | {"estimator": spec_of(estimator), **_parts(chosen)}
        with placed("/estimator"):
            estimate = self._estimate(estimator, record, chosen, full)
        if record["rows"] * len(record["columns"]) <= CHECKED_CELLS:
            data = prepare(self.datasets, full, estimator)
            with naming.use(data.encoder.names), placed("/estimator"):
                estimator.check(*_arguments(estimator, data))
            _splits(full, data, estimator.task)
        return full, estimate

    def _estimate(self, estimator: Estimator, record: Json, chosen: tabular.Selection, request: Json) -> Json:
        n, k = record["rows"], _distinct(record, chosen.target)
        shape = Shape(min(n, (request.get("rows") or {}).get("sample") or n), _width(record, chosen), k)
        chunks = plan(estimator, shape, self._limits(request), request)
        flops = float(estimator.cost(shape.rows, shape.width, shape.classes).flops)
        seconds = flops / FLOPS_PER_SECOND * (1 + _refits(request.get("validation")))
        instant = estimator.queue == "instant" and seconds <= self.settings.instant_seconds and not chunks
        return {"wall_seconds": seconds, "memory_bytes": chunks.memory_bytes if chunks else memory_of(estimator, shape),
                "queue": "instant" if instant else "long", "chunks": asdict(chunks) if chunks else None}  # fmt: skip

    def _limits(self, request: Json) -> Limits:
        asked = request.get("limits") or {}
        wall = asked.get("wall_seconds") or self.settings.wall_seconds
        memory = asked.get("memory_bytes") or self.settings.memory_bytes
        return Limits(wall, memory, min(asked.get("cores") or self.settings.cores, self.settings.cores))

    def submit(self, model_id: str, request: Json, tenant: str = "") -> Job:
        """Store the model's record and queue its fit under `model_id`; a repetition finds the job it already has."""
        full, estimate = self.complete(request)
        name = full.get("name") or model_id
        spec = full | ({"chunks": estimate["chunks"]} if estimate["chunks"] else {})
        job = once(self.ledger, NewJob(
            "fit", model_id, spec, estimate["queue"], self._limits(full), full.get("priority", 0),
            (full["dataset"],), tenant=tenant))  # fmt: skip
        self.models.add(model_id, name, full)
        return job

    def run(self, job: Job, report: Report) -> Json:
        """Fit, certify, score and store; what is returned becomes the model's result."""
        estimator = build_estimator(job.spec)
        fit = self._in_chunks if "chunks" in job.spec else self._in_memory
        done = fit(job.spec, estimator, report)
        stored = TabularModel(done.encoder, estimator, _name(job.spec.get("target")))
        return {
            "artifact": self.artifacts.save(f"models/{job.resource}/{report.attempt}/model.joblib", stored),
            "estimator": spec_of(estimator),
            "features": _schema(done.encoder),
            "target": _target_schema(job.spec.get("target"), getattr(estimator, "classes_", None)),
            "rows": done.rows, "rows_dropped": done.dropped,
            "metrics": {"train": done.train, "validation": done.validation},
            "diagnostics": done.diagnostics.to_json(),
            "warnings": [asdict(w) for w in done.diagnostics.warnings],
            "capabilities": capabilities(estimator),
            "fit_seconds": done.seconds,
        }  # fmt: skip

    def _in_memory(self, request: Json, estimator: Any, report: Report) -> Fitted:
        data = prepare(self.datasets, request, estimator)
        started = time.perf_counter()
        names = data.encoder.names
        stages = Stages(report, 1 + _refits(request.get("validation")))
        with progress.listen(stages.tell), use_threads(report.cores), naming.use(names), placed("/estimator"):
            _fit(estimator, data)
            stages.next()
            fitted = time.perf_counter() - started
            validation = self._validate(request, data, stages)
        with naming.use(names):
            diagnostics = estimator.diagnostics(*_arguments(estimator, data))
        train = metrics(estimator, data.X, data.y, data.weights)
        return Fitted(data.encoder, len(data.X), data.dropped, fitted, train, validation, diagnostics)

    def _in_chunks(self, request: Json, estimator: Any, report: Report) -> Fitted:
        """The same from a table that is never in memory as a whole."""
        takes_weights(estimator, request.get("weights"))
        with progress.listen(Passes(report).tell), use_threads(min(report.cores, request["chunks"]["threads"])):
            chunks, dropped = open_chunks(self.datasets, request, estimator, request["chunks"]["rows"])
            started = time.perf_counter()
            with naming.use(chunks.encoder.names), placed("/estimator"):
                fit_chunks(estimator, chunks)
                fitted = time.perf_counter() - started
                diagnostics, train = certify(estimator, chunks)
        rows = chunks.source.rows - dropped
        return Fitted(chunks.encoder, rows, dropped, fitted, train, None, diagnostics)

    def _validate(self, request: Json, data: Prepared, stages: Stages) -> Json | None:
        """Scores on rows that a fresh fit of the same spec has not seen, averaged over folds with their spread."""
        splits = _splits(request, data, build_estimator(request).task)
        if not splits:
            return None
        scores = []
        for train, test in splits:
            scores.append(_score(request, data, train, test))
            stages.next()
        names = [k for k in scores[0] if k != "rows"]
        mean = {k: _mean([s.get(k) for s in scores]) for k in names}
        return {"rows": sum(s["rows"] for s in scores), **mean, "folds": scores}


def _splits(request: Json, data: Prepared, task: str) -> list[Split]:
    """Rows to learn from and rows to score on, as the request asks; none where nothing is held out."""
    plan = request.get("validation") or {"method": "none"}
    if plan["method"] == "none" or data.y is None:
        return []
    classes = data.y if task == "classification" and plan.get("stratify", True) else None
    seed, n = request.get("seed", 0), len(data.X)
    try:
        if plan["method"] == "holdout":
            return [holdout(n, plan.get("fraction", 0.2), seed=seed, y=classes, groups=data.groups)]
        return folds(n, plan.get("k", 5), seed=seed, y=classes, groups=data.groups)
    except InvalidData as e:
        raise Invalid(str(e), issues=(Issue("/validation", "too_few_rows", "choose fewer folds or more rows"),)) from e


def _score(request: Json, data: Prepared, train: np.ndarray, test: np.ndarray) -> Json:
    """Fit encoding and estimator on the training rows alone; levels that only the test rows have are ignored."""
    fresh = build_estimator(request)
    encoder = fit_encoder(rows_of(data.inputs, train), replace(data.encoding, unknown_level="ignore"))
    part = subset(data, encoder, train)
    _fit(fresh, part)
    held = subset(data, encoder, test)
    return metrics(fresh, held.X, held.y, held.weights)


def _mean(values: list[Any]) -> float | None:
    return None if any(v is None for v in values) else float(np.mean(values))


def takes_weights(estimator: Any, weights: Any) -> None:
    """Invalid where weights are given to an algorithm that takes none."""
    if weights is not None and not estimator.weighted:
        raise Invalid(
            f"{type(estimator).__name__} takes no weights",
            issues=(Issue("/weights", "not_supported", "leave the weights out"),),
        )


def _arguments(estimator: Any, data: Prepared) -> tuple[Any, ...]:
    takes_weights(estimator, data.weights)
    return (data.X, data.y) if data.weights is None else (data.X, data.y, data.weights)


def _fit(estimator: Any, data: Prepared) -> None:
    estimator.fit(*_arguments(estimator, data))


class Stages:
    """Progress over the fits of one job, the model's and those of its validation: it never goes back."""

    def __init__(self, report: Report, fits: int) -> None:
        self.report = report
        self.fits = fits
        self.done = 0
        self.reached = 0.0

    def next(self) -> None:
        """One fit more is finished."""
        self.done += 1

    def tell(self, t: progress.Tick) -> None:
        """Report a tick of the fit that is under way."""
        within = min(1.0, t.step / t.total) if t.total else 0.0
        self.reached = max(self.reached, min(1.0, (self.done + within) / self.fits))
        fit = f"fit {min(self.done + 1, self.fits)} of {self.fits}, " if self.fits > 1 else ""
        self.report.progress({"fraction": self.reached, "step": t.step, "total": t.total, "unit": t.unit,
                              "message": f"{fit}{t.step}{f' of {t.total}' if t.total else ''} {t.unit}",
                              "metrics": t.metrics})  # fmt: skip


def _parts(chosen: tabular.Selection) -> Json:
    target = list(chosen.target) if isinstance(chosen.target, tuple) else chosen.target
    return {"features": list(chosen.features), "target": target, "weights": chosen.weights, "groups": chosen.groups}


def _name(target: Any) -> str | tuple[str, ...] | None:
    return tuple(target) if isinstance(target, list) else target


def _width(record: Json, chosen: tabular.Selection) -> int:
    kinds = {c["name"]: c for c in record["columns"]}
    return sum(
        min(kinds[f]["distinct"], 1000) if kinds[f]["type"] in ("category", "text") else 1 for f in chosen.features
    )


def _distinct(record: Json, target: Any) -> int:
    """Number of classes (distinct labels), outputs, or 1."""
    if isinstance(target, tuple):
        return len(target)
    column = next((c for c in record["columns"] if c["name"] == target), None)
    return 1 if column is None or column["type"] == "number" else max(1, min(column["distinct"], 1000))


def _refits(plan: Json | None) -> int:
    return {"holdout": 1, "k_fold": (plan or {}).get("k", 5)}.get((plan or {}).get("method", "none"), 0)


def _schema(encoder: TableEncoder) -> list[Json]:
    return [
        {"name": f.name, "type": f.type, **({"levels": list(f.levels)} if f.levels else {})} for f in encoder.features
    ]


def _target_schema(target: Any, classes: Any) -> Json | None:
    if target is None:
        return None
    return {"name": target, "type": "number" if classes is None else "category",
            "classes": None if classes is None else np.asarray(classes).tolist()}  # fmt: skip
