"""Jobs: list, look, follow, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from service.api.bodies import StrictRoute
from service.api.deps import Cursor, JobId, Limit, Use, json_response
from service.api.documents import job_document
from service.api.problems import document
from service.api.schemas import JobOut, Listing
from service.container import Services
from service.errors import Conflict, Invalid, NotFound
from service.ports import TERMINAL, Job, Ledger

router = APIRouter(prefix="/v1/jobs", route_class=StrictRoute, tags=["Jobs"])
LOOK_SECONDS = 0.05
PING_SECONDS = 15.0


@router.get("", operation_id="list_jobs", summary="List jobs", response_model=Listing, responses=document(Invalid))
def list_jobs(
    use: Use, limit: Limit = 50, cursor: Cursor = None,
    state: Annotated[str | None, Query(description="queued, running, succeeded, failed or cancelled.")] = None,
    kind: Annotated[str | None, Query(description="fit or update.")] = None,
) -> Response:  # fmt: skip
    """Jobs, newest first."""
    page = use.ledger.page(limit=limit, cursor=cursor, state=state, kind=kind)
    return json_response({"items": [job_document(j) for j in page.items], "next_cursor": page.next_cursor})


def _named(use: Services, key: str) -> str:
    """The id of a job, given as it is or as the model it makes."""
    return key if key.startswith("job_") else str(use.models.get(key)["job"])


@router.get("/{job_id}", operation_id="get_job", summary="One job", response_model=JobOut, responses=document(NotFound))
def get_job(use: Use, job_id: JobId) -> Response:
    """State, progress, attempts and, when it failed, the reason."""
    return json_response(job_document(use.ledger.get(_named(use, job_id))))


@router.post("/{job_id}/cancel", operation_id="cancel_job", summary="Cancel a job", status_code=202,
             response_model=JobOut,
             responses=document(NotFound, Conflict))  # fmt: skip
def cancel_job(use: Use, job_id: JobId) -> Response:
    """The job ends as cancelled within 5 seconds, whatever it is doing; 409 when it already ended otherwise."""
    return json_response(job_document(use.ledger.cancel(_named(use, job_id))), 202)


@router.get("/{job_id}/events", operation_id="follow_job", summary="Follow a job", response_class=StreamingResponse,
            responses=document(NotFound))  # fmt: skip
def follow_job(
    use: Use, job_id: JobId,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", description="Last event you have.")] = None,
) -> Response:  # fmt: skip
    """Server-sent events `state`, `progress` (at most five a second) and `done`."""
    first = use.ledger.get(_named(use, job_id))
    stream = events(use.ledger, first, last_event_id)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _event(name: str, key: str, job: Job) -> bytes:
    return f"event: {name}\nid: {key}\ndata: {msgspec.json.encode(job_document(job)).decode()}\n\n".encode()


def _key(job: Job) -> str:
    """Identifies what an event says, so that a client that comes back is told only what is new."""
    step = (job.progress or {}).get("step", 0)
    return f"{job.attempts}-{job.state}-{step}"


async def events(ledger: Ledger, job: Job, last: str | None) -> AsyncIterator[bytes]:
    """The events of a job until it ends."""
    seen: tuple[Any, ...] = ()
    version, quiet = -1, 0.0
    while True:
        key, mark = _key(job), (job.state, job.attempts)
        if key != last:
            if mark != seen:
                yield _event("state", key, job)
            elif job.progress:
                yield _event("progress", key, job)
            last, quiet = key, 0.0
        seen = mark
        if job.state in TERMINAL:
            yield _event("done", f"{key}-done", job)
            return
        while (now := ledger.version()) == version:
            await asyncio.sleep(LOOK_SECONDS)
            quiet += LOOK_SECONDS
            if quiet > PING_SECONDS:
                quiet = 0.0
                yield b": still there\n\n"
        version = now
        await asyncio.sleep(0.2)
        job = await run_in_threadpool(ledger.get, job.id)
