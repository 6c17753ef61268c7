"""Models: fit, list, change, delete; their diagnostics, artifact and bundle."""

from __future__ import annotations

import base64
import io
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from ml_core.bundle import save_bundle
from ml_core.errors import InvalidData, InvalidParameter
from service.api.bodies import StrictRoute
from service.api.deps import (
    Cursor,
    Ending,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    Limit,
    ModelId,
    Prefer,
    Tenant,
    Use,
    json_response,
    once,
    revision_of,
    unchanged,
    wait_seconds,
)  # fmt: skip
from service.api.documents import model_document, model_etag
from service.api.drain import Drain
from service.api.problems import document
from service.api.schemas import FIT_EXAMPLES, Certified, FitRequest, Listing, ModelOut, ModelPatch, Open
from service.container import Services
from service.errors import Conflict, Invalid, Issue, Malformed, NotFound, QueueFull, Stale, TooLarge
from service.ports import Job
from service.usecases.waiting import settle

router = APIRouter(prefix="/v1/models", route_class=StrictRoute, tags=["Models"])
INSTANT_WAIT = 10.0
ModelState = Literal["queued", "running", "ready", "failed", "cancelled"]
REFUSALS = document(Malformed, NotFound, Conflict, TooLarge, Invalid, InvalidParameter, InvalidData, QueueFull)


async def accepted(
    use: Services, ends: Drain, model_id: str, job: Job, wait: tuple[float | None, bool]
) -> Response:
    """202 with the resource, 201 when the work ended within the wait; Invalid when it ended by the caller's mistake."""
    seconds, asked = wait
    if seconds is None:
        seconds = INSTANT_WAIT if job.lane == "instant" else 0.0
    ended = await settle(use.ledger, job.id, seconds, ends) if seconds > 0 else job
    error = ended.error if ended.state == "failed" else None
    if error and error["code"] == "user_error":
        with suppress(NotFound):  # a repetition, whose first request did this
            await run_in_threadpool(use.models.remove, model_id)
        raise Invalid(error["detail"], issues=_issues(error))
    row = await run_in_threadpool(use.models.get, model_id)
    headers = {"Location": f"/v1/models/{model_id}", "ETag": model_etag(row)}
    if asked:
        headers["Preference-Applied"] = f"wait={seconds:g}"
    done = ended.state in ("succeeded", "failed", "cancelled")
    return json_response(model_document(row), 201 if done else 202, headers)


def _base64(digest: str) -> str:
    """A hexadecimal digest as RFC 3230 writes it."""
    return base64.b64encode(bytes.fromhex(digest)).decode()


def _issues(error: Any) -> tuple[Issue, ...]:
    """The places that a failed job's error points at."""
    found = tuple(Issue(i["pointer"], i["code"], i["detail"]) for i in error.get("issues", ()))
    return found or (Issue("", error.get("problem", "invalid_data"), error["detail"]),)


@router.post("", operation_id="create_model", summary="Fit a model", status_code=201, response_model=ModelOut,
             responses={202: {"description": "Queued; follow `job`", "model": ModelOut}, **REFUSALS})  # fmt: skip
async def create_model(
    request: Request, use: Use, ends: Ending, tenant: Tenant,
    body: Annotated[FitRequest, Body(openapi_examples=FIT_EXAMPLES)],
    idempotency_key: IdempotencyKey = None, prefer: Prefer = None,
) -> Response:  # fmt: skip
    """Fit any algorithm on any dataset. Short fits are waited for (201), long ones queued (202)."""
    wait = wait_seconds(prefer)

    async def make(model_id: str) -> Response:
        job = await run_in_threadpool(use.training.submit, model_id, body.request(), tenant)
        return await accepted(use, ends, model_id, job, wait)

    return await once(use, request, idempotency_key, "mdl", make)


@router.post(
    "/validate", operation_id="validate_model", summary="Check a fit request", response_model=Open, responses=REFUSALS
)
def validate_model(use: Use, body: FitRequest) -> Response:
    """The completed request and the estimated cost, or the refusal that the fit would give. Nothing is stored."""
    full, estimate = use.training.complete(body.request())
    return json_response({"request": full, "estimate": estimate})


@router.get("", operation_id="list_models", summary="List models", response_model=Listing, responses=document(Invalid))
def list_models(
    use: Use,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[ModelState | None, Query(description="Only models in this state.")] = None,
    algorithm: Annotated[str | None, Query(description="Name of the algorithm.")] = None,
    dataset: Annotated[str | None, Query(description="Id of the dataset.")] = None,
    name: Annotated[str | None, Query(description="Name of the model.")] = None,
) -> Response:
    """Models, newest first."""
    page = use.models.page(limit=limit, cursor=cursor, state=state, algorithm=algorithm, dataset=dataset, name=name)
    return json_response({"items": [model_document(m) for m in page.items], "next_cursor": page.next_cursor})


@router.get(
    "/{model_id}", operation_id="get_model", summary="One model", response_model=ModelOut, responses=document(NotFound)
)
def get_model(use: Use, model_id: ModelId, if_none_match: IfNoneMatch = None) -> Response:
    """The model by id, by alias, by name (its newest ready version) or by name@version."""
    row = use.models.get(model_id)
    if unchanged(if_none_match, model_etag(row)):
        return Response(status_code=304, headers={"ETag": model_etag(row)})
    return json_response(model_document(row), headers={"ETag": model_etag(row)})


@router.patch("/{model_id}", operation_id="update_model_labels", summary="Change labels", response_model=ModelOut,
              responses=document(NotFound, Malformed, Stale, Invalid))  # fmt: skip
def update_model_labels(use: Use, model_id: ModelId, body: ModelPatch, if_match: IfMatch = None) -> Response:
    """Replace the labels; with If-Match only when nobody changed the model meanwhile."""
    row = use.models.get(model_id)
    use.models.change(row["id"], {"labels": body.labels}, revision_of(if_match, model_etag(row), row["revision"]))
    return get_model(use, row["id"])


@router.delete("/{model_id}", operation_id="delete_model", summary="Delete a model", status_code=204,
               responses=document(NotFound, Conflict, Stale))  # fmt: skip
def delete_model(use: Use, model_id: ModelId, if_match: IfMatch = None) -> Response:
    """Delete the model and its artifact; not while its fit or an update is under way, or an alias points at it."""
    key = use.models.get(model_id)["id"]
    row = use.models.remove(key, lambda row: revision_of(if_match, model_etag(row), row["revision"]))
    use.inference.forget(row["id"])
    if artifact := row["result"].get("artifact"):
        use.objects.delete(artifact["key"])
    return Response(status_code=204)


@router.get("/{model_id}/diagnostics", operation_id="get_diagnostics", summary="Certificates and diagnostics",
            response_model=Certified, responses=document(NotFound, Conflict))  # fmt: skip
def get_diagnostics(use: Use, model_id: ModelId) -> Response:
    """How good the answer is, recomputed from the fitted parameters and the data."""
    return json_response(use.inference.diagnostics(model_id))


@router.get("/{model_id}/artifact", operation_id="get_artifact", summary="The joblib file", response_class=FileResponse,
            responses=document(NotFound, Conflict))  # fmt: skip
def get_artifact(use: Use, model_id: ModelId, if_none_match: IfNoneMatch = None) -> Response:
    """The stored model, with its SHA-256 as ETag and Digest. Open it only if you trust this service."""
    model = use.inference.load(model_id)
    ref = model.record["result"]["artifact"]
    headers = {"ETag": f'"{ref["sha256"]}"', "Digest": f"sha-256={_base64(ref['sha256'])}"}
    if unchanged(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return FileResponse(use.artifacts.verified(ref), filename=f"{model.id}.joblib", headers=headers,
                        media_type="application/octet-stream")  # fmt: skip


@router.get(
    "/{model_id}/bundle",
    operation_id="get_bundle",
    summary="A data-only bundle",
    response_class=Response,
    responses=document(NotFound, Conflict),
)
def get_bundle(use: Use, model_id: ModelId) -> Response:
    """A zip of JSON and npy arrays without code, which any later version and `ml_core` alone can load."""
    model = use.inference.load(model_id)
    buffer = io.BytesIO()
    save_bundle(model.fitted, buffer, {"model": model_document(model.record)})
    name = f'attachment; filename="{model.id}.postfit.zip"'
    return Response(buffer.getvalue(), media_type="application/zip", headers={"Content-Disposition": name})
