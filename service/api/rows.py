"""Requests about rows: JSON, or the rows alone as CSV, NDJSON, Arrow or Parquet with options in the query."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from ml_core.errors import pointer
from service.api.accept import choose
from service.api.bodies import StrictRoute, charset, media_type, strict_json
from service.api.deps import json_response
from service.errors import Invalid, Issue, Malformed
from service.intake.findings import ReadOptions
from service.intake.frames import Frame
from service.ports import Json
from service.usecases.answers import Answer
from service.usecases.export import stream

JSON, CSV, NDJSON = "application/json", "text/csv", "application/x-ndjson"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
FORMS = {CSV: "csv", NDJSON: "ndjson", ARROW: "arrow", "application/vnd.apache.arrow.file": "arrow", PARQUET: "parquet"}
WRITTEN = {CSV: "csv", ARROW: "arrow", PARQUET: "parquet"}
MODEL, WARNINGS, MAX_WARNINGS = "X-Postfit-Model", "X-Postfit-Warnings", 4000

Delimiter = Annotated[str | None, Query(description="CSV: character between fields; found when absent.")]
Decimal = Annotated[str | None, Query(description="CSV: decimal mark, `.` or `,`; found when absent.")]
Charset = Annotated[str | None, Query(description="CSV: character encoding; found when absent.")]
NullValues = Annotated[str | None, Query(description="CSV: comma-separated words that mean an empty cell.")]


class RowsRoute(StrictRoute):
    """A route that reads rows in every format and answers in JSON."""

    reads = (JSON, *FORMS)

    def takes_body(self) -> bool:
        """Always."""
        return True


class TableRoute(RowsRoute):
    """A route that reads rows in every format and answers in JSON or as a table."""

    offers = (JSON, *WRITTEN)


def reading(delimiter: str | None, decimal: str | None, encoding: str | None, null_values: str | None) -> Json:
    """The query parameters that say how text is read."""
    return {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "null_values": null_values}


async def asked(request: Request, model: type[BaseModel], options: Json, text: Json) -> Json:
    """What is asked: the fields of `model`, or a `frame` of rows with the options given in the query; Invalid."""
    form, query = FORMS.get(media_type(request)), {k: v for k, v in options.items() if v is not None}
    how = {k: v for k, v in text.items() if v is not None}
    body = await request.body()
    if form is None:
        _nowhere(query | how, "the options of a JSON body stand in the body")
        return await run_in_threadpool(_document, body, model)
    if form != "csv":
        _nowhere(how, "it says how CSV is read, and this is none")
    made = _checked(model, query, "query").model_dump()
    if form == "ndjson":
        return made | {"rows": await run_in_threadpool(_lines, body)}
    return made | {"frame": Frame(form, body, _options(request, how) if form == "csv" else ReadOptions())}


def _nowhere(given: Json, why: str) -> None:
    if given:
        issues = tuple(Issue(pointer("query", name), "extra_forbidden", why) for name in given)
        raise Invalid(f"query parameter {next(iter(given))!r}: {why}", issues=issues)


def _document(body: bytes, model: type[BaseModel]) -> Json:
    if not body:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    return _checked(model, strict_json(body), "body").model_dump()


def _checked(model: type[BaseModel], value: Any, where: str) -> BaseModel:
    """The value as a model; a RequestValidationError points into `where`."""
    try:
        return model.model_validate(value)
    except ValidationError as e:
        raise RequestValidationError([{**found, "loc": (where, *found["loc"])} for found in e.errors()]) from e


def _options(request: Request, how: Json) -> ReadOptions:
    """How a CSV body is read: as the query says, its encoding also as the media type does."""
    given = charset(request)
    words = how.pop("null_values", None)
    nulls = None if words is None else tuple(words.split(","))
    options = replace(ReadOptions(encoding=given, null_values=nulls), **how)
    options.check()
    return options


def _lines(body: bytes) -> list[Any]:
    """The records of NDJSON; Malformed tells the line."""
    rows = []
    for number, line in enumerate(body.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = strict_json(line)
        except Malformed as e:
            raise Malformed(f"line {number}: {e}") from e
        if not isinstance(record, dict):
            raise Malformed(f"line {number}: not an object of columns and values")
        rows.append(record)
    return rows


def wants_table(request: Request) -> str | None:
    """The media type of the table that the caller accepts best; None for JSON."""
    media = choose(request.headers.get("accept", ""), list(TableRoute.offers))
    return media if media in WRITTEN else None


def table_response(answer: Answer, media: str) -> Response:
    """A table in a format; model and warnings stand in headers, for a table has no place for them."""
    headers = {MODEL: answer.model, "Vary": "Accept"}
    if answer.warnings:
        headers[WARNINGS] = header_of(answer.warnings)
    return Response(b"".join(stream(answer.table, WRITTEN[media])), 200, headers, media)


def header_of(warnings: list[str]) -> str:
    """The list as JSON in ASCII, cut to what every client takes in a header."""
    said = json.dumps(warnings)
    if len(said) <= MAX_WARNINGS:
        return said
    room = MAX_WARNINGS // (6 * len(warnings)) - 40
    return json.dumps(
        [w if len(w) <= room else f"{w[: max(0, room)]} … (all of it in the JSON answer)" for w in warnings]
    )


async def answered(request: Request, as_json: Any, as_table: Any, model_id: str, body: Json) -> Response:
    """The answer in the format that is accepted."""
    media = wants_table(request)
    if media is None:
        return json_response(await run_in_threadpool(as_json, model_id, body))
    return await run_in_threadpool(lambda: table_response(as_table(model_id, body), media))


def content(name: str, example: str | None = None) -> Json:
    """The OpenAPI description of a body: `name` is the component that describes its JSON."""
    binary = {"schema": {"type": "string", "format": "binary", "description": "The rows alone."}}
    text = {"schema": {"type": "string", "description": "The rows alone."}}
    shown = {JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}, CSV: text | ({"example": example} if example
             else {}), NDJSON: text, **dict.fromkeys((*list(FORMS)[2:],), binary)}  # fmt: skip
    return {"requestBody": {"required": True, "content": shown}}


def tables() -> Json:
    """The OpenAPI description of an answer that may be a table."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    said = {MODEL: "Of a table: the id of the model.", WARNINGS: "Of a table: the warnings, a JSON list in ASCII."}
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in said.items()}
    return {"content": {CSV: {"schema": {"type": "string"}}, ARROW: binary, PARQUET: binary}, "headers": headers}
