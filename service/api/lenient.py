"""Answers of `Prefer: handling=lenient`, where each bad row carries its problem, and of `novelty`."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.deps import json_response
from service.api.preferences import handling
from service.api.problems import Problem, document_of
from service.api.rows import table_response, wants_table
from service.container import Services
from service.errors import NotAcceptable
from service.ports import Json
from service.usecases.examined import examine
from service.usecases.lenient import Sifted

APPLIED = {"Preference-Applied": "handling=lenient"}


class RowProblem(BaseModel):
    """Why a row could not be answered."""

    row: int = Field(description="Place of the row, from 0; predictions and the like are null there.")
    problem: Problem = Field(description="The problem with which the row would be refused alone.")


def preferred(request: Request, body: Json) -> Json:
    """The body and whether bad rows are to carry their problem instead of refusing all."""
    return body | {"lenient": handling(request) == "lenient"}


async def examined(request: Request, use: Services, model_id: str, body: Json) -> Response | None:
    """The answer with leniency, novelty or both; None where neither is asked."""
    lenient = body["lenient"]
    if not lenient and not body["novelty"]:
        return None
    media = wants_table(request)
    if media is not None and body["novelty"]:
        raise NotAcceptable("a table has no place for novelty: accept application/json, or leave novelty out")
    return await run_in_threadpool(_answer, use, request.url.path, model_id, body, lenient, media)


def _answer(
    use: Services, instance: str, model_id: str, body: Json, lenient: bool, media: str | None
) -> Response:  # fmt: skip
    found = examine(use.inference, model_id, body, lenient=lenient)
    if media is not None:
        response = table_response(found.table(), media)
        response.headers.update(APPLIED)
        return response
    out = found.document()
    if not lenient:
        return json_response(out)
    return json_response(out | _errors(found.sifted, instance), headers=APPLIED)


async def sifted(request: Request, as_json: Any, as_table: Any, use: Services, model_id: str, body: Json) -> Response:
    """The answer of `as_json`, a document and which rows it is of, or of `as_table`, as `Accept` says."""
    media = None if as_table is None else wants_table(request)
    return await run_in_threadpool(_sifted, request.url.path, as_json, as_table, use, model_id, body, media)


def _sifted(
    instance: str, as_json: Any, as_table: Any, use: Services, model_id: str, body: Json, media: str | None
) -> Response:
    if media is not None:
        response = table_response(as_table(use.inference, model_id, body), media)
        response.headers.update(APPLIED)
        return response
    out, found = as_json(use.inference, model_id, body)
    return json_response(out | _errors(found, instance), headers=APPLIED)


def _errors(found: Sifted, instance: str) -> dict[str, Any]:
    problems = sorted(found.problems.items())
    return {"errors": [{"row": row, "problem": document_of(error, instance)[0]} for row, error in problems]}
