"""Records → the documents of the contract."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from service.api.problems import TABLE, slug
from service.errors import Invalid
from service.ports import Job, Json


def moment(value: Any) -> str | None:
    """Seconds or datetime → RFC 3339 in UTC."""
    if value is None:
        return None
    when = value if isinstance(value, datetime) else datetime.fromtimestamp(float(value), UTC)
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_document(job: Job) -> Json:
    """A job."""
    return {
        "id": job.id, "kind": job.kind, "state": job.state, "resource": job.resource, "progress": _progress(job),
        "attempts": job.attempts, "queue_position": job.queue_position, "worker": job.worker,
        "submitted_at": moment(job.submitted_at), "started_at": moment(job.started_at),
        "finished_at": moment(job.finished_at), "error": _failure(job.error, f"/v1/jobs/{job.id}"),
        "links": {"self": f"/v1/jobs/{job.id}", "events": f"/v1/jobs/{job.id}/events",
                  "resource": f"/v1/{_collection(job)}/{job.resource}"},
    }  # fmt: skip


def _collection(job: Job) -> str:
    return "datasets" if job.kind == "predict" else "models"


def whole_job_document(job: Job, attempts: list[Json]) -> Json:
    """A job with how each of its attempts ended and what it printed last."""
    return job_document(job) | {"attempt_records": [_attempt(a) for a in attempts], "log_tail": job.log_tail}


def _attempt(row: Json) -> Json:
    fields = ("attempt", "host", "exit_code", "peak_rss_bytes", "cpu_seconds")
    return {k: row[k] for k in fields} | {
        "error": (row["error"] or {}).get("code"), "finished_at": moment(row["finished"]),
    }  # fmt: skip


def _progress(job: Job) -> Json | None:
    """What the work last told; of a job that succeeded, all is done."""
    if job.state != "succeeded":
        return job.progress
    nothing: Json = {"step": None, "total": None, "unit": None, "message": None, "metrics": {}}
    return {**nothing, **(job.progress or {}), "fraction": 1.0}


def _failure(error: Json | None, instance: str) -> Json | None:
    """Why a job failed, as a problem with the job's code: the caller's mistake, or what happened to its process."""
    if not error:
        return None
    theirs = error.get("code") == "user_error"
    return {"type": f"/problems/{slug(Invalid) if theirs else 'job-failed'}", "title": "The job failed",
            "status": TABLE[Invalid].status if theirs else 500, "detail": error.get("detail", ""),
            "instance": instance, "code": error.get("code"), "errors": error.get("issues", [])}  # fmt: skip


def model_document(row: Json) -> Json:
    """A model: the request joined with what its job says."""
    record, result, here = row["record"], row["result"], f"/v1/models/{row['id']}"
    artifact = result.get("artifact")
    target = record.get("target")
    asked = None if target is None else {"name": target, "type": None, "classes": None}
    return {
        "id": row["id"], "name": row["name"], "version": row["version"], "state": row["state"], "job": row["job"],
        "algorithm": row["algorithm"], "estimator": result.get("estimator", record["estimator"]),
        "dataset": row["dataset"],
        "target": result.get("target", asked),
        "features": result.get("features", [{"name": f} for f in record["features"]]),
        "encoding": record["encoding"], "seed": record.get("seed", 0), "labels": row["labels"],
        "rows": result.get("rows"), "rows_dropped": result.get("rows_dropped"), "selection": result.get("selection"),
        "metrics": result.get("metrics"), "warnings": result.get("warnings", []),
        "capabilities": result.get("capabilities", []), "tags": result.get("tags", []),
        "fit_seconds": result.get("fit_seconds"),
        "artifact": artifact and {"bytes": artifact["bytes"], "sha256": artifact["sha256"]},
        "created_at": moment(row["created"]), "error": _failure(row["error"], here),
        "links": {"self": here, "job": f"/v1/jobs/{row['job']}", "diagnostics": f"{here}/diagnostics",
                  "predict": f"{here}/predict", "artifact": f"{here}/artifact", "bundle": f"{here}/bundle"},
    }  # fmt: skip


def model_etag(row: Json) -> str:
    """Strong ETag of a model's document: it changes with its state, with every PATCH, and with what a name means."""
    return f'"{row["id"]}-{row["state"]}-{row["revision"]}"'


def alias_document(row: Json) -> Json:
    """An alias."""
    here = f"/v1/aliases/{quote(row['name'])}"
    return {"alias": row["name"], "model": row["model"], "updated_at": moment(row["updated"]),
            "links": {"self": here, "model": f"/v1/models/{row['model']}"}}  # fmt: skip


def alias_etag(row: Json) -> str:
    """Strong ETag of an alias: where it points, its revision, and when, for revisions begin again with a new alias."""
    return f'"{row["model"]}-{row["revision"]}-{row["updated"]:.6f}"'
