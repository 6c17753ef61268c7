"""Prediction of a whole dataset as a job, in chunks; the result is a dataset, its rows in the order of the source.

Memory holds one chunk of rows while the model answers and one column while the result is stored. The job's resource is
the new dataset, which exists from the moment the job has done all its work, and never when the job was cancelled: its
record is written only while the attempt is held and nobody asked to cancel, and who cancels removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ml_core.errors import Cancelled, pointer
from ml_core.parallel import use_threads
from service.disk import full_disk
from service.errors import Invalid, Issue, NotFound
from service.intake.findings import Reading, Shelf, Type, one_chunk, warning
from service.intake.types import text_type
from service.ports import Job, Json, Lane, Ledger, Limits, NewJob, Report
from service.settings import Settings
from service.usecases.answers import encoded, intervals, outcome, targets, unused
from service.usecases.chunked import chunk_rows
from service.usecases.examined import PROBLEM, leniently
from service.usecases.given import Cells
from service.usecases.inference import Inference
from service.usecases.loaded import Loaded

MOST_ROWS = 1 << 16
SHARE = 0.9  # of the work is prediction, the rest is to store the result
INSTANT_CELLS = 1_000_000
OPTIONS = ("proba", "interval", "lenient", "scores")
Add = Callable[[Json, str, int], bool]
KINDS: dict[str, Type] = {"bool": "boolean", "int64": "integer", "double": "number"}


@dataclass(frozen=True)
class Bulk:
    """Queues and runs predictions of datasets. `add` stores a record for a job's attempt, and says if it was held."""

    settings: Settings
    datasets: Any
    ledger: Ledger
    inference: Inference
    add: Add

    def submit(self, key: str, dataset_id: str, body: Json, tenant: str = "") -> Job:
        """Queue the prediction of `body["dataset"]` as `dataset_id`; Invalid, InvalidData, Unsupported, NotFound."""
        model, estimator = self.inference.capable(key, "predict", "predict")
        source = self.datasets.get(self.datasets.resolve(body["dataset"]))
        kept = list(body.get("keep") or [])
        columns_exist(source, kept)
        names = self._probe(model, estimator, source, body)
        taken = [c for c in kept if c in names or kept.count(c) > 1]
        if taken:
            refuse_keep(taken, "the result has another column of this name; leave it out")
        spec = {"model": model.id, "dataset": source["id"], "keep": kept, **{k: body.get(k) for k in OPTIONS},
                "rows": min(MOST_ROWS, chunk_rows(len(model.fitted.encoder.names))),
                "name": body.get("name") or f"{model.record['name']} on {source['name']}"[:200]}  # fmt: skip
        small = source["rows"] * len(model.fitted.encoder.features) <= INSTANT_CELLS
        limits = Limits(self.settings.wall_seconds, self.settings.memory_bytes, self.settings.cores)
        needs = (source["id"], model.id)
        lane: Lane = "instant" if small else "long"
        return self.ledger.put(NewJob("predict", dataset_id, spec, lane, limits, 0, needs, tenant=tenant), once=True)

    def _probe(self, model: Loaded, estimator: Any, source: Json, body: Json) -> list[str]:
        """Names of the result's columns, from a row of zeros; the columns of the source have the right types."""
        encoded_nothing(model, self.datasets.table_of(source["sha256"]))
        X = np.zeros((1, len(model.fitted.encoder.names)))
        if body.get("interval") is not None:
            intervals(model, estimator, X, body["interval"])
        names = outcome(model, estimator, X, body).table(targets(model)).column_names
        return [*names, PROBLEM] if body.get("lenient") else names

    def run(self, job: Job, report: Report) -> Json:
        """Predict and store; what an attempt stored that could not tell of it is the result of the next one."""
        stored = self._stored(job.resource)
        if stored is None:
            with use_threads(report.cores), self.datasets.scratch() as folder:
                self._make(job, report, Path(folder))
            stored = self.datasets.get(job.resource)
        return {"dataset": stored["id"], "rows": stored["rows"], "sha256": stored["sha256"]}

    def _stored(self, dataset_id: str) -> Json | None:
        try:
            return dict(self.datasets.get(dataset_id))
        except NotFound:
            return None

    def _make(self, job: Job, report: Report, folder: Path) -> None:
        model, source = self.inference.load(job.spec["model"]), self.datasets.get(job.spec["dataset"])
        path = folder / "result.arrow"
        with full_disk():
            self._predict(model, source, job.spec, report, path)
        columns = self._columns(path, Shelf(folder))
        kinds = {c["name"]: c["type"] for c in source["columns"] if c["name"] in job.spec["keep"]}
        types = tuple(kinds.get(name) or _type(cells) for name, cells in columns.items())
        notes = tuple(warning("unused_columns", text) for text in unused(model, source))
        origin = {"format": "prediction", "model": model.id, "dataset": source["id"],
                  **{k: job.spec.get(k) for k in OPTIONS}}  # fmt: skip
        reading = Reading(pa.table(columns), types, origin, notes)
        about = {"id": job.resource, "name": job.spec["name"], "labels": {},
                 "description": f"Predictions of model {model.id} for the rows of dataset {source['id']}."}  # fmt: skip
        roles = {c["name"]: c["role"] for c in source["columns"] if c["name"] in kinds and c.get("role")}

        def add(record: Json) -> None:
            if not self.add(record, job.id, report.attempt):
                raise Cancelled("nobody waits for this attempt any more")

        self.datasets.keep(reading, about, roles, folder, add)

    def _predict(self, model: Loaded, source: Json, spec: Json, report: Report, path: Path) -> None:
        """Write the result chunk by chunk; each maps the source anew, so that its pages do not pile up."""
        size = spec["rows"]
        starts = range(0, source["rows"], size)
        first = self._chunk(model, source, spec, 0, size)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
            for done, start in enumerate(starts, start=1):
                chunk = first if start == 0 else self._chunk(model, source, spec, start, size)
                writer.write_table(chunk.cast(first.schema))
                rows = min(start + size, source["rows"])
                report.progress({"fraction": SHARE * done / len(starts), "step": rows, "total": source["rows"],
                                 "unit": "rows", "message": f"{rows} of {source['rows']} rows",
                                 "metrics": {}})  # fmt: skip

    def _chunk(self, model: Loaded, source: Json, spec: Json, start: int, size: int) -> pa.Table:
        part = self.datasets.table_of(source["sha256"]).slice(start, size)
        estimator = model.fitted.estimator
        if spec.get("lenient"):
            out = leniently(model, estimator, Cells(model, part, []), spec, start).table().table
        else:
            out = outcome(model, estimator, encoded(model, part, first=start), spec).table(targets(model))
        for name in reversed(spec["keep"]):
            out = out.add_column(0, name, part[name])
        return out

    @staticmethod
    def _columns(path: Path, shelf: Shelf) -> dict[str, pa.Array]:
        """The columns of the file, each in one piece, one after the other."""
        names = pa.ipc.open_file(pa.memory_map(str(path))).schema.names

        def each() -> Iterator[tuple[str, pa.Array]]:
            for name in names:
                table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
                yield name, shelf.keep(one_chunk(table[name]))

        return dict(each())

    def discard(self, job: Job) -> None:
        """Remove what a job left that was cancelled, unless it is in use by now; often there is nothing."""
        if job.kind == "predict" and self._stored(job.resource) is not None and not self.ledger.needed(job.resource):
            self.datasets.delete(job.resource)


def encoded_nothing(model: Loaded, table: pa.Table) -> None:
    """Check that the columns are there and of the right types; InvalidData."""
    encoded(model, table.slice(0, 0))


def columns_exist(source: Json, names: list[str]) -> None:
    """Invalid where a column to keep is not there."""
    known = [c["name"] for c in source["columns"]]
    absent = [n for n in names if n not in known]
    if absent:
        refuse_keep(absent, f"there is no such column; there are {', '.join(known[:50])}")


def refuse_keep(names: list[str], why: str) -> None:
    """Invalid that points at columns to keep."""
    raise Invalid(
        f"keep: {names[0]!r}: {why}",
        issues=tuple(Issue(pointer("keep", i), "bad_column", f"{n!r}: {why}") for i, n in enumerate(names)),
    )


def _type(cells: pa.Array) -> Type:
    return KINDS.get(str(cells.type)) or ("category" if text_type(cells) == "category" else "text")
