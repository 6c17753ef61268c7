"""New versions of a model by rows learned or forgotten, without the rows that it has seen."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import ConfigDict, Field
from starlette.responses import Response

from ml_core.errors import InvalidData
from service.api.bodies import StrictRoute
from service.api.deps import BayesianId, Ending, IdempotencyKey, Prefer, Tenant, Use, once, wait_seconds
from service.api.problems import document
from service.api.routes.models import accepted
from service.api.row_schemas import CONDITIONS, Where
from service.api.schemas import LENGTHS, ROW_EXAMPLE, ModelOut
from service.api.strict import Strict
from service.errors import Conflict, Invalid, Malformed, NotFound, QueueFull, TooLarge, Unsupported

router = APIRouter(prefix="/v1/models/{model_id}", route_class=StrictRoute, tags=["Models"])
ANSWERS: dict[int | str, dict[str, Any]] = {
    202: {"description": "Queued; follow `job`", "model": ModelOut},
    **document(Malformed, NotFound, Conflict, Unsupported, TooLarge, Invalid, InvalidData, QueueFull),
}
KNOWN_ROW = {name: ROW_EXAMPLE[name] for name in [*LENGTHS[:3], "petal_width"]}


class Change(Strict):
    """Rows with their target (and weight, where the model was fitted with weights): exactly one of rows, dataset."""

    rows: list[dict[str, Any]] | None = Field(None, description="One object per row, by column name.")
    dataset: str | None = Field(None, description="Id or name of a dataset with the model's columns and target.")
    where: Where | None = Field(None, description=f"{CONDITIONS} Only with `dataset`; default: all rows.")


class UpdateRequest(Change):
    """Rows to learn."""

    model_config = ConfigDict(json_schema_extra={"example": {"dataset": "iris"}})


class ForgetRequest(Change):
    """Rows to forget."""

    model_config = ConfigDict(json_schema_extra={"example": {"rows": [KNOWN_ROW]}})


@router.post("/update", operation_id="update_model", summary="Fold new rows in", status_code=201,
             response_model=ModelOut, responses=ANSWERS)  # fmt: skip
async def update_model(
    request: Request, use: Use, ends: Ending, tenant: Tenant, model_id: BayesianId, body: UpdateRequest,
    idempotency_key: IdempotencyKey = None, prefer: Prefer = None,
) -> Response:  # fmt: skip
    """A new version: the posterior becomes the prior of the rows given. The old rows are not needed."""
    wait = wait_seconds(prefer)

    async def make(new_id: str) -> Response:
        given = body.model_dump(by_alias=True)
        job = await run_in_threadpool(use.updates.submit, "update", model_id, new_id, given, tenant)
        return await accepted(use, ends, new_id, job, wait)

    return await once(use, request, idempotency_key, "mdl", make)


@router.post("/forget", operation_id="forget_rows", summary="Take rows out exactly", status_code=201,
             response_model=ModelOut, responses=ANSWERS)  # fmt: skip
async def forget_rows(
    request: Request, use: Use, ends: Ending, tenant: Tenant, model_id: BayesianId, body: ForgetRequest,
    idempotency_key: IdempotencyKey = None, prefer: Prefer = None,
) -> Response:  # fmt: skip
    """A new version that equals a fit without these rows, up to rounding; 409 where a model cannot forget."""
    wait = wait_seconds(prefer)

    async def make(new_id: str) -> Response:
        given = body.model_dump(by_alias=True)
        job = await run_in_threadpool(use.updates.submit, "forget", model_id, new_id, given, tenant)
        return await accepted(use, ends, new_id, job, wait)

    return await once(use, request, idempotency_key, "mdl", make)
