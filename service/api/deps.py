"""What handlers ask for: the services, paging, idempotent creation, waiting by preference, conditional headers."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Header, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from service.api.drain import Drain
from service.api.problems import kind_of
from service.container import Services
from service.errors import Conflict, Invalid, Issue, NotReady, Stale
from service.ids import new_id
from service.ports import Json
from service.usecases.waiting import changed

MAX_WAIT = 60.0
LOOK_AGAIN_SECONDS = 1.0
TAG = re.compile(r'(?:W/)?"[^"]*"')


def services(request: Request) -> Services:
    """The services of this application."""
    return request.app.state.services


def drain(request: Request) -> Drain:
    """Whether this process was asked to end."""
    return request.app.state.drain


def tenant(request: Request) -> str:
    """The id of the caller's API key; "" without keys."""
    return str(request.scope.get("state", {}).get("tenant", ""))


Use = Annotated[Services, Depends(services)]
Ending = Annotated[Drain, Depends(drain)]
Tenant = Annotated[str, Depends(tenant)]
MODEL = "Id, alias, name (its newest ready version) or name@version."
ModelId = Annotated[str, Path(description=MODEL, examples=["iris-species"])]
BayesianId = Annotated[str, Path(description=MODEL, examples=["iris-width"])]
TransformId = Annotated[str, Path(description=MODEL, examples=["iris-axes"])]
DensityId = Annotated[str, Path(description=MODEL, examples=["iris-groups"])]
DatasetId = Annotated[str, Path(description="Id of a dataset, or its name (the newest).", examples=["iris"])]
JobId = Annotated[str, Path(description="Id of a job, or of the model or dataset it makes.", examples=["iris-species"])]
Alias = Annotated[str, Path(description="Name of the alias.", examples=["production"])]
SampleName = Annotated[str, Path(description="Name of a bundled table.", examples=["iris"])]
AlgorithmName = Annotated[str, Path(description="Name of an algorithm.", examples=["logistic_regression"])]
FunctionName = Annotated[str, Path(description="Name of a function.", examples=["roc_curve"])]
Limit = Annotated[int, Query(ge=1, le=500, description="Most items on the page.")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Repeat safely: the first answer is given again.",
    ),
]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="ETag the resource must still have.")]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", description="ETag that need not be sent again.")]
Prefer = Annotated[str | None, Header(description="wait=N (seconds, at most 60) or respond-async.")]


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response of plain values; floats are finite by construction."""
    return Response(msgspec.json.encode(body), status, headers, "application/json")


async def once(
    use: Services, request: Request, key: str | None, prefix: str, make: Callable[[str], Awaitable[Response]]
) -> Response:
    """Create under a new id; with an Idempotency-Key give the first answer again instead of doing it twice."""
    if key is None:
        return await make(new_id(prefix))
    scoped = _scoped(request, key)
    digest = await request.body() + request.url.query.encode()
    resource, kept = await _first(use, drain(request), scoped, digest, prefix)
    if kept is not None:
        return json_response(kept["body"], kept["status"], kept["headers"] | {"Idempotency-Replayed": "true"})
    try:
        response = await make(resource)
    except Exception as e:  # a refusal frees the key; what broke off may have been queued and is taken up under its id
        freed = kind_of(e)[1].status < 500
        await run_in_threadpool(use.idempotency.release if freed else use.idempotency.leave, scoped)
        raise
    headers = {k: v for k, v in response.headers.items() if k in ("location", "etag", "preference-applied")}
    answer: Json = {"status": response.status_code, "headers": headers, "body": msgspec.json.decode(response.body)}
    await run_in_threadpool(use.idempotency.complete, scoped, answer)
    return response


def _scoped(request: Request, key: str) -> str:
    """What the ledger knows a caller's key by: keys of different callers or routes never meet."""
    return hashlib.sha256("\0".join((tenant(request), request.method, request.url.path, key)).encode()).hexdigest()


async def _first(use: Services, ends: Drain, scoped: str, digest: bytes, prefix: str) -> tuple[str, Json | None]:
    """The reserved id and no answer for the first request; its answer for every other, which waits for it."""
    deadline = time.monotonic() + MAX_WAIT
    while True:
        version = use.ledger.version()
        try:
            return await run_in_threadpool(use.idempotency.begin, scoped, digest, prefix)
        except Conflict:
            if ends():
                raise NotReady("the server shuts down; repeat the request with the same Idempotency-Key") from None
            if time.monotonic() > deadline:
                raise
            await changed(use.ledger, version, LOOK_AGAIN_SECONDS, ends)


def wait_seconds(prefer: str | None) -> tuple[float | None, bool]:
    """Seconds to hold the answer (None: the route decides), and whether the caller named them (RFC 7240)."""
    if prefer is None:
        return None, False
    if re.search(r"\brespond-async\b", prefer, re.IGNORECASE):
        return 0.0, False
    found = re.search(r'(?:^|[,;\s])wait\s*=\s*"?(\d+(?:\.\d+)?)"?\s*(?:[,;]|$)', prefer, re.IGNORECASE)
    if found is None:
        return None, False
    if float(found[1]) > MAX_WAIT:
        raise Invalid(
            f"wait is at most {MAX_WAIT:.0f} seconds",
            issues=(Issue("/headers/Prefer", "less_than_equal", "ask again for a longer wait"),),
        )
    return float(found[1]), True


def revision_of(if_match: str | None, tag: str, revision: int) -> int | None:
    """The revision that a change is bound to by If-Match, None for any; Stale where `tag` is not in the header."""
    if if_match is None or if_match.strip() == "*":
        return None
    if tag not in TAG.findall(if_match):
        raise Stale(f"the resource is at {tag}, which If-Match does not name; read it again")
    return revision


def unchanged(if_none_match: str | None, tag: str) -> bool:
    """Whether the caller already has what `tag` names; weak tags count (RFC 9110, 13.1.2)."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or tag in (t.removeprefix("W/") for t in TAG.findall(if_none_match))
