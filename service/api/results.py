"""Predictions of a dataset whose result is a dataset: a job."""

from __future__ import annotations

import re

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from service.api.accept import choose
from service.api.bodies import JSON_TYPES
from service.api.deps import json_response, once, wait_seconds
from service.api.documents import job_document
from service.api.drain import Drain
from service.container import Services
from service.errors import Invalid, Issue
from service.ports import Job, Json
from service.usecases.waiting import settle

ASYNC = re.compile(r"(?:^|[,;\s])respond-async\s*(?:[,;]|$)", re.IGNORECASE)


async def predicted_dataset(
    request: Request, use: Services, ends: Drain, tenant: str, model: str, body: Json, key: str | None,
    prefer: str | None,
) -> Response | None:  # fmt: skip
    """The answer of a prediction that is a job, 202 or when it ended in time 201; None where the answer is wanted."""
    wanted = body["output"] == "dataset" or (body["dataset"] is not None and ASYNC.search(prefer or ""))
    if not wanted:
        _only_of_datasets(body)
        return None
    if body["dataset"] is None:
        raise _of_rows()
    if body["novelty"]:
        raise Invalid("novelty is told in an answer, and a job stores predictions alone",
                      issues=(Issue("/novelty", "not_stored", "leave novelty out, or ask for an answer"),))  # fmt: skip
    choose(request.headers.get("accept", ""), list(JSON_TYPES))
    wait = wait_seconds(prefer)

    async def make(dataset_id: str) -> Response:
        job = await run_in_threadpool(use.bulk.submit, model, dataset_id, body, tenant)
        return await _told(use, ends, job, wait, ["handling=lenient"] if body["lenient"] else [])

    return await once(use, request, key, "ds", make)


async def _told(
    use: Services, ends: Drain, job: Job, wait: tuple[float | None, bool], applied: list[str]
) -> Response:  # fmt: skip
    """The job: 201 with the place of the dataset when it succeeded within the wait; Invalid where rows were bad."""
    seconds, asked = wait
    if asked and seconds:
        job = await settle(use.ledger, job.id, seconds, ends)
    error = job.error if job.state == "failed" else None
    if error and error["code"] == "user_error":
        found = tuple(Issue(i["pointer"], i["code"], i["detail"]) for i in error.get("issues", ()))
        raise Invalid(error["detail"], issues=found)
    done = job.state == "succeeded"
    headers = {"Location": f"/v1/datasets/{job.resource}" if done else f"/v1/jobs/{job.id}"}
    if asked or applied:
        headers["Preference-Applied"] = ", ".join([*applied, *([f"wait={seconds:g}"] if asked else [])])
    return json_response(job_document(job), 201 if done else 202, headers)


def _only_of_datasets(body: Json) -> None:
    stray = [name for name in ("keep", "name") if body[name] is not None]
    if stray:
        raise Invalid(
            f"{stray[0]} is of a result that is stored: it needs output = dataset",
            issues=tuple(Issue(f"/{name}", "needs_output", 'add "output": "dataset"') for name in stray),
        )


def _of_rows() -> Invalid:
    advice = 'upload the rows with POST /v1/datasets, then send {"dataset": id, "output": "dataset"}'
    return Invalid(f"output = dataset takes a dataset: {advice}", issues=(Issue("/output", "needs_dataset", advice),))
