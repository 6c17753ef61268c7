"""Jobs: list, look, follow, cancel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from service.api.bodies import StrictRoute
from service.api.deps import Cursor, Ending, JobId, Limit, Use, json_response
from service.api.documents import job_document, whole_job_document
from service.api.drain import Drain
from service.api.problems import document
from service.api.schemas import JobOut, Listing
from service.container import Services
from service.errors import Conflict, Invalid, Issue, NotFound, NotReady
from service.ports import TERMINAL, Job, Ledger, State
from service.usecases.waiting import changed
from service.work import KINDS

router = APIRouter(prefix="/v1/jobs", route_class=StrictRoute, tags=["Jobs"])
PAUSE_SECONDS = 0.2
PING_SECONDS = 15.0


@router.get("", operation_id="list_jobs", summary="List jobs", response_model=Listing, responses=document(Invalid))
def list_jobs(
    use: Use, limit: Limit = 50, cursor: Cursor = None,
    state: Annotated[State | None, Query(description="Only jobs in this state.")] = None,
    kind: Annotated[str | None, Query(description=f"Only jobs of this kind: {', '.join(KINDS)}.")] = None,
) -> Response:  # fmt: skip
    """Jobs, newest first."""
    if kind is not None and kind not in KINDS:
        what = f"there is no kind {kind!r}; the kinds are {', '.join(KINDS)}"
        raise Invalid(what, issues=(Issue("/query/kind", "enum", what),))
    page = use.ledger.page(limit=limit, cursor=cursor, state=state, kind=kind)
    return json_response({"items": [job_document(j) for j in page.items], "next_cursor": page.next_cursor})


def _named(use: Services, key: str) -> str:
    """The id of a job, given as it is or as the model or the dataset it makes."""
    if key.startswith("ds_"):
        return use.ledger.of_resource(key).id
    return key if key.startswith("job_") else str(use.models.get(key)["job"])


@router.get("/{job_id}", operation_id="get_job", summary="One job", response_model=JobOut, responses=document(NotFound))
def get_job(use: Use, job_id: JobId) -> Response:
    """State, progress, how each attempt ended, the end of the log and, when it failed, the reason."""
    job = use.ledger.get(_named(use, job_id))
    return json_response(whole_job_document(job, use.ledger.attempts(job.id)))


@router.post("/{job_id}/cancel", operation_id="cancel_job", summary="Cancel a job", status_code=202,
             response_model=JobOut,
             responses=document(NotFound, Conflict))  # fmt: skip
def cancel_job(use: Use, job_id: JobId) -> Response:
    """The job ends as cancelled within 5 seconds, whatever it is doing; 409 when it already ended otherwise."""
    job = use.ledger.cancel(_named(use, job_id))
    use.bulk.discard(job)
    return json_response(job_document(job), 202)


@router.get("/{job_id}/events", operation_id="follow_job", summary="Follow a job", response_class=StreamingResponse,
            responses={204: {"description": "`Last-Event-ID` is the last event there is; do not come back"},
                       **document(NotFound)})  # fmt: skip
def follow_job(
    use: Use, ends: Ending, job_id: JobId,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", description="Last event you have.")] = None,
) -> Response:  # fmt: skip
    """Server-sent events `state`, `progress` (at most five a second) and `done`.

    A stream that ends without `done` came from a server that shuts down: ask any other with `Last-Event-ID`.
    """
    first = use.ledger.get(_named(use, job_id))
    if first.state in TERMINAL and last_event_id == _done(first):
        return Response(status_code=204)
    stream = events(use.ledger, first, last_event_id, ends)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _event(name: str, key: str, job: Job) -> bytes:
    return f"event: {name}\nid: {key}\ndata: {msgspec.json.encode(job_document(job)).decode()}\n\n".encode()


def _key(job: Job) -> str:
    """Says what an event says, the same on every server, so that a client that comes back is told only what is new."""
    told = job.progress or {}
    return f"{job.attempts}-{job.state}-{told.get('step', 0)}-{told.get('fraction') or 0:.9g}"


def _done(job: Job) -> str:
    return f"{_key(job)}-done"


async def events(ledger: Ledger, job: Job, last: str | None, ends: Drain) -> AsyncIterator[bytes]:
    """The events of a job until it, this server, or its connection to the database ends."""
    seen, version = _mark(last or ""), -1
    while True:
        key = _key(job)
        if _mark(key) != seen:
            yield _event("state", key, job)
        elif key != last and job.progress and job.state not in TERMINAL:
            yield _event("progress", key, job)
        if job.state in TERMINAL:
            yield _event("done", _done(job), job)
            return
        seen, last, told = _mark(key), key, time.monotonic()
        try:
            while _key(job) == key:
                if await changed(ledger, version, PING_SECONDS, ends):
                    await asyncio.sleep(told + PAUSE_SECONDS - time.monotonic())
                    version = ledger.version()  # before the row: a change in between is then seen
                    job = await run_in_threadpool(ledger.get, job.id)
                elif ends():
                    return
                else:
                    yield b": still there\n\n"
        except (NotReady, NotFound):
            return


def _mark(key: str) -> str:
    """Attempt and state that an event id tells."""
    return "-".join(key.split("-")[:2])
