"""Errors as RFC 9457 problem details: the one table from error class to status, found by walking the MRO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from ml_core import errors as ml
from service import errors as sv
from service.ports import Json

MEDIA_TYPE = "application/problem+json"
AWAY_SECONDS = 2  # a database or store that is away is asked again after this


@dataclass(frozen=True)
class Kind:
    """Status and title of a kind of problem; its type is `/problems/<slug>`."""

    status: int
    title: str


TABLE: dict[type[Exception], Kind] = {
    sv.Malformed: Kind(400, "The body cannot be read"),
    sv.Unauthenticated: Kind(401, "A valid API key is needed"),
    sv.Forbidden: Kind(403, "Forbidden"),
    sv.NotFound: Kind(404, "Not found"),
    sv.NotAcceptable: Kind(406, "Not acceptable"),
    sv.Conflict: Kind(409, "Conflict with the state of the resource"),
    sv.Unsupported: Kind(409, "The model cannot do this"),
    sv.Stale: Kind(412, "The resource has changed"),
    sv.TooLarge: Kind(413, "Too large"),
    sv.UnknownMediaType: Kind(415, "Unsupported media type"),
    sv.Invalid: Kind(422, "Invalid request"),
    sv.QueueFull: Kind(429, "The queue is full"),
    sv.StorageFull: Kind(507, "The disk is full"),
    sv.NotReady: Kind(503, "Not ready"),
    sv.EngineLost: Kind(503, "Engine lost"),
    sv.EngineMismatch: Kind(500, "The engine does not fit"),
    sv.WrongKey: Kind(503, "The signing key differs"),
    sv.ArtifactRejected: Kind(500, "A stored model was rejected"),
    sv.ServiceError: Kind(500, "Service error"),
    ml.UnknownName: Kind(422, "Unknown name"),
    ml.InvalidParameter: Kind(422, "Invalid parameter"),
    ml.InvalidData: Kind(422, "Invalid data"),
    ml.NotFittedError: Kind(409, "Not fitted"),
    ml.Incompatible: Kind(422, "Incompatible parts"),
    ml.OverBudget: Kind(413, "Over budget"),
    ml.BadBundle: Kind(422, "Unreadable bundle"),
    ml.Cancelled: Kind(409, "Cancelled"),
    ml.MLError: Kind(422, "The computation refused the data"),
}


class FieldProblem(BaseModel):
    """One offending field."""

    pointer: str = Field(description="JSON pointer to the field, row or column.", examples=["/estimator/params/alpha"])
    code: str = Field(description="Stable code of the kind of mistake.", examples=["greater_than_equal"])
    detail: str = Field(description="What is wrong and what to do.")


class Problem(BaseModel):
    """Problem details, RFC 9457."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "type": "/problems/invalid-parameter", "title": "Invalid parameter", "status": 422,
        "detail": "KMeans: n_clusters: Input should be greater than or equal to 1 (got 0)", "instance": "/v1/models",
        "errors": [{"pointer": "/estimator/params/n_clusters", "code": "greater_than_equal", "detail": "got 0"}],
    }})  # fmt: skip
    type: str = Field(description="Stable URI path of the kind of problem; documented at that path.")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What is wrong, which value, and what to do.")
    instance: str = Field(description="Path of the request.")
    errors: list[FieldProblem] = Field(default=[], description="Each offending field.")


def slug(cls: type[BaseException]) -> str:
    """`InvalidParameter` → `invalid-parameter`."""
    name = "NotFitted" if cls.__name__ == "NotFittedError" else cls.__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def kind_of(error: BaseException) -> tuple[type[BaseException], Kind]:
    """The nearest class of the error that the table knows."""
    for cls in type(error).__mro__:
        if cls in TABLE:
            return cls, TABLE[cls]
    return Exception, Kind(500, "Internal error")


def document_of(error: BaseException, instance: str) -> tuple[Json, dict[str, str]]:
    """Problem document and extra headers of an error."""
    cls, kind = kind_of(error)
    detail = str(error) if cls is not Exception else "an internal error; its trace is in the log under this request id"
    issues = [{"pointer": i.pointer, "code": i.code, "detail": i.detail} for i in getattr(error, "issues", ())]
    headers = {}
    if isinstance(error, sv.QueueFull):
        headers["Retry-After"] = str(error.retry_after_seconds)
    if kind.status == 503:
        headers["Retry-After"] = str(AWAY_SECONDS)
    if isinstance(error, sv.Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    return {
        "type": f"/problems/{slug(cls) if cls is not Exception else 'internal-error'}", "title": kind.title,
        "status": kind.status, "detail": detail, "instance": instance, "errors": issues,
    }, headers  # fmt: skip


def response_of(error: BaseException, instance: str) -> Response:
    """The error as a response."""
    body, headers = document_of(error, instance)
    return Response(msgspec.json.encode(body), body["status"], headers, MEDIA_TYPE)


def simple(status: int, title: str, detail: str, instance: str, errors: Iterable[Json] = ()) -> Response:
    """A problem that has no class of its own (unknown path, wrong method, rejected body)."""
    names = {404: "not-found", 405: "method-not-allowed", 400: "malformed", 422: "invalid"}
    body = {"type": f"/problems/{names.get(status, 'http')}", "title": title, "status": status, "detail": detail,
            "instance": instance, "errors": list(errors)}  # fmt: skip
    return Response(msgspec.json.encode(body), status, media_type=MEDIA_TYPE)


def document(*errors: type[Exception]) -> dict[int | str, dict[str, Any]]:
    """OpenAPI `responses` of an operation: those errors, and what every operation may answer."""
    out: dict[int | str, dict[str, Any]] = {}
    for cls in (*errors, sv.Unauthenticated):
        kind = TABLE[cls]
        known = out.get(kind.status)
        text = f"{known['description']}; or: {kind.title}" if known else kind.title
        out[kind.status] = {
            "description": text,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return out
