"""From a fit request to a stored model: check and queue it (API), run it (worker)."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ml_core import naming, progress
from ml_core.base import Estimator
from ml_core.capabilities import capabilities
from ml_core.certificates import Diagnostics
from ml_core.errors import placed
from ml_core.metrics.chunked import figures, metrics_chunks
from ml_core.metrics.summary import metrics
from ml_core.metrics.verdict import outside_largest, silence, verdict
from ml_core.notices import time_notice
from ml_core.numerics.memory import grant
from ml_core.parallel import use_mapper, use_threads
from ml_core.preprocessing.reference import Reference
from ml_core.preprocessing.table import TableEncoder, TabularModel
from ml_core.registry import spec_of
from ml_core.sums import fit_chunks
from ml_core.undefined import with_undefined
from service.errors import Invalid, Issue
from service.ports import Job, Json, Ledger, Limits, NewJob, NewModel, Report
from service.settings import Settings
from service.spread_port import Spread
from service.usecases import encoding, tabular
from service.usecases.chunked import held_chunks, open_chunks
from service.usecases.chunked_reference import reference_of
from service.usecases.out_of_core import Passes, Shape, beside, certify, memory_of, plan
from service.usecases.pace import Pace
from service.usecases.partition import arranged, check_plan, notices_of, plan_of, refits
from service.usecases.preparation import prepare
from service.usecases.selection import Choice, check_split, choice_of, described
from service.usecases.validation import arguments, average, build_estimator, fit, takes_weights, validate

FLOPS_PER_SECOND = 2e9
CHECKED_CELLS = 5_000_000
NO_CHOICE: Json = {"where": None, "sample": None}


@dataclass(frozen=True)
class Fitted:
    """What a fit gives besides the estimator itself."""

    encoder: TableEncoder
    reference: Reference
    selected: int
    rows: int
    dropped: int
    seconds: float
    train: Json
    validation: Json | None
    diagnostics: Diagnostics
    constant: float | None = None
    """Share of the training rows outside their largest class; None where there are no classes."""

    def metrics(self) -> Json:
        """Figures of training and held-out rows apart, and what their difference says."""
        said = None if self.validation is None else verdict(self.train, self.validation, self.constant)
        return {"train": self.train, "validation": self.validation, "verdict": said and asdict(said),
                "verdict_reason": None if said else silence(self.validation)}  # fmt: skip


class Training:
    """Checks, queues and runs fits."""

    def __init__(
        self, settings: Settings, datasets: Any, models: Any, ledger: Ledger, artifacts: Any, spread: Spread
    ) -> None:
        self.settings = settings
        self.datasets = datasets
        self.models = models
        self.ledger = ledger
        self.artifacts = artifacts
        self.spread = spread

    def complete(self, request: Json) -> tuple[Json, Json]:
        """The request with every default filled in, and the estimate of its cost; Invalid where the fit would fail."""
        estimator = build_estimator(request)
        request = request | {"dataset": self.datasets.resolve(request["dataset"])}
        record, choice = self._chosen(request)
        chosen = tabular.select(record, request, supervised=estimator.supervised)
        check_split(self.datasets.table(record["id"]), choice, request, tabular.kinds(record))
        if chosen.target is None and plan_of(request)["method"] != "none":
            raise Invalid("held-out scores compare predictions with a target, and this algorithm has none",
                          issues=(Issue("/validation/method", "no_target", "leave validation out"),))  # fmt: skip
        full = request | {"estimator": spec_of(estimator), **_parts(chosen)}
        full["encoding"] = encoding.completed(full, record)
        check_plan(full, record, estimator)
        with placed("/estimator"):
            estimate = self._estimate(estimator, record, chosen, full)
        estimate["warnings"] = [*encoding.left_out(full, record, request.get("features")), *notices_of(full)]
        if record["rows"] * len(record["columns"]) <= CHECKED_CELLS:
            data, _, _ = arranged(full, prepare(self.datasets, full, estimator), estimator)
            with naming.use(data.encoder.named), placed("/estimator"):
                estimator.check(*arguments(estimator, data))
        return full, estimate

    def _chosen(self, request: Json) -> tuple[Json, Choice]:
        """The dataset's record as that of a table of the rows asked for, and these; Invalid where there are none."""
        record = self.datasets.get(request["dataset"])
        table = self.datasets.table(record["id"])
        choice = choice_of(table, request, tabular.kinds(record))
        return described(record, table, choice), choice

    def _estimate(self, estimator: Estimator, record: Json, chosen: tabular.Selection, request: Json) -> Json:
        width = encoding.width(request["encoding"], record, chosen.features)
        shape = Shape(record["rows"], width, _distinct(record, chosen.target), record["in_table"])
        limits = self._limits(request)
        with grant(limits.memory_bytes - beside(shape.rows, shape.width)):
            chunks = plan(estimator, shape, limits, request)
            flops = float(estimator.cost(shape.rows, shape.width, shape.classes).flops)
            held = memory_of(estimator, shape)
        seconds = flops / FLOPS_PER_SECOND * (1 + refits(request, record, estimator))
        instant = estimator.queue == "instant" and seconds <= self.settings.instant_seconds and not chunks
        return {"wall_seconds": seconds, "memory_bytes": chunks.memory_bytes if chunks else held,
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
        spec["notices"] = estimate["warnings"]
        return self.ledger.put(NewJob(
            "fit", model_id, spec, estimate["queue"], self._limits(full), full.get("priority", 0),
            (full["dataset"],), full.get("spread", False), tenant, NewModel(name, full)), once=True)  # fmt: skip

    def run(self, job: Job, report: Report) -> Json:
        """Fit, certify, score and store; what is returned becomes the model's result."""
        estimator, pace = build_estimator(job.spec), Pace.of(job.limits.wall_seconds)
        way = self._in_chunks if "chunks" in job.spec else self._in_memory
        with self.spread.session(job, report) as engine, use_mapper(engine.mapper):
            done = way(job.spec, estimator, report, pace)
        notices = with_undefined([*done.diagnostics.warnings, *([engine.notice] if engine.notice else [])], done.train)
        warnings = [*job.spec.get("notices", []), *encoding.notices(done.encoder, done.rows), *map(asdict, notices)]
        stored = TabularModel(done.encoder, estimator, _name(job.spec.get("target")), done.reference)
        record = self.datasets.get(job.spec["dataset"])
        origin = {"job": job.id, "attempt": report.attempt, "dataset_sha256": record["sha256"]}
        return {
            "artifact": self.artifacts.save(f"models/{job.resource}/{report.attempt}/model.joblib", stored, origin),
            "estimator": spec_of(estimator),
            "features": encoding.schema(done.encoder),
            "target": _target_schema(job.spec.get("target"), getattr(estimator, "classes_", None)),
            "rows": done.rows, "rows_dropped": done.dropped,
            "selection": {**NO_CHOICE, **(job.spec.get("rows") or {}), "rows_in_table": record["rows"],
                          "rows_selected": done.selected},
            "metrics": done.metrics(),
            "diagnostics": done.diagnostics.to_json(),
            "warnings": warnings,
            "capabilities": capabilities(estimator),
            "tags": list(estimator.tags),
            "fit_seconds": done.seconds,
        }  # fmt: skip

    def _in_memory(self, request: Json, estimator: Any, report: Report, pace: Pace) -> Fitted:
        data, held, plan = arranged(request, prepare(self.datasets, request, estimator), estimator)
        started = time.perf_counter()
        names = data.encoder.named
        stages = Stages(report, 1 + len(plan))
        room = grant(self._limits(request).memory_bytes - beside(*data.X.shape))
        with progress.listen(stages.tell), use_threads(report.cores), naming.use(names), placed("/estimator"), room:
            with pace.fits(1 + len(plan)):
                fit(estimator, data)
            stages.next()
            fitted = time.perf_counter() - started
            with pace.fits() as cut:
                validation = validate(request, self.datasets, estimator, data, plan, stages.next)
        with naming.use(names):
            diagnostics = estimator.diagnostics(*arguments(estimator, data))
        if cut:
            diagnostics.warnings.append(time_notice("fits of the validation", cut, "the scores are of shorter fits"))
        train = metrics(estimator, data.X, data.y, data.weights)
        if held is not None:
            validation = average([metrics(estimator, held.X, held.y, held.weights)])
        reference = Reference.of(data.inputs)
        constant = outside_largest(data.y, data.weights) if estimator.task == "classification" else None
        return Fitted(data.encoder, reference, data.selected, len(data.X), data.dropped, fitted, train, validation,
                      diagnostics, constant)  # fmt: skip

    def _in_chunks(self, request: Json, estimator: Any, report: Report, pace: Pace) -> Fitted:
        """The same from a table that is never in memory as a whole."""
        takes_weights(estimator, request.get("weights"))
        with progress.listen(Passes(report).tell), use_threads(min(report.cores, request["chunks"]["threads"])):
            chunks, dropped = open_chunks(self.datasets, request, estimator, request["chunks"]["rows"])
            started = time.perf_counter()
            with naming.use(chunks.encoder.named), placed("/estimator"):
                with pace.fits():
                    fit_chunks(estimator, chunks)
                fitted = time.perf_counter() - started
                diagnostics, seen = certify(estimator, chunks)
                held = held_chunks(self.datasets, request, estimator, chunks)
                validation = None if held is None else average([metrics_chunks(estimator, held)])
            reference = reference_of(chunks.source)
        selected, rows = chunks.source.selected, chunks.source.selected - dropped
        if held is not None and validation is not None:
            selected, dropped = selected + held.source.selected, dropped + held.source.selected - validation["rows"]
        return Fitted(chunks.encoder, reference, selected, rows, dropped, fitted, figures(seen), validation,
                      diagnostics, seen.outside_largest())  # fmt: skip


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


def _distinct(record: Json, target: Any) -> int:
    """Number of classes (distinct labels), outputs, or 1."""
    if isinstance(target, tuple):
        return len(target)
    column = next((c for c in record["columns"] if c["name"] == target), None)
    return 1 if column is None or column["type"] == "number" else max(1, min(column["distinct"], 1000))


def _target_schema(target: Any, classes: Any) -> Json | None:
    if target is None:
        return None
    return {"name": target, "type": "number" if classes is None else "category",
            "classes": None if classes is None else np.asarray(classes).tolist()}  # fmt: skip
