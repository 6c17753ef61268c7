"""Datasets and bundled samples: upload, look, download, correct, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from service.api.accept import choose
from service.api.bodies import StrictRoute
from service.api.deps import (
    Cursor,
    DatasetId,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    Limit,
    SampleName,
    Use,
    json_response,
    once,
    revision_of,
    unchanged,
)  # fmt: skip
from service.api.problems import document
from service.api.rows import WARNINGS, header_of
from service.api.schemas import DatasetPatch, Listing, Open
from service.api.uploads import TEXT_OPTIONS, Uploaded, digest, options_of, received
from service.errors import (
    Conflict,
    Invalid,
    Malformed,
    NotAcceptable,
    NotFound,
    Stale,
    StorageFull,
    TooLarge,
    UnknownMediaType,
)  # fmt: skip
from service.intake.findings import FORMATS
from service.ports import Json
from service.usecases.export import big_integers as beyond_doubles
from service.usecases.export import infinite, json_rows, stream

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["Datasets"])
ARROW, CSV, PARQUET = "application/vnd.apache.arrow.stream", "text/csv", "application/vnd.apache.parquet"
JSON, NDJSON = "application/json", "application/x-ndjson"
FORMS = {PARQUET: "parquet", CSV: "csv", ARROW: "arrow", NDJSON: "ndjson", JSON: "json"}
BigIntegers = Annotated[Literal["number", "string"] | None, Query(
    description="How JSON has integers beyond 2^53, which many readers round: number (default) or string.",
)]  # fmt: skip
BODY = {"requestBody": {"required": True, "content": {
    "text/csv": {"schema": {"type": "string"}, "example": "height,weight\n1.71,68.5\n1.80,81.2\n1.65,59.0\n"},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    "multipart/form-data": {"schema": {"type": "object", "required": ["file"], "properties": {
        "file": {"type": "string", "format": "binary", "description": "The table."},
        **{n: {"type": "string", "description": f"Option `{n}`."} for n in TEXT_OPTIONS}}}},
}}}  # fmt: skip


def dataset_document(record: Json) -> Json:
    """A dataset."""
    here = f"/v1/datasets/{record['id']}"
    return {k: v for k, v in record.items() if k != "revision"} | {
        "links": {"self": here, "rows": f"{here}/rows", "content": f"{here}/content"}
    }


def etag(record: Json) -> str:
    """Strong ETag: the content and how often the record changed."""
    return f'"{record["sha256"][:16]}-{record["revision"]}"'


def _created(record: Json) -> Response:
    headers = {"Location": f"/v1/datasets/{record['id']}", "ETag": etag(record)}
    return json_response(dataset_document(record), 201, headers)


@router.post("/datasets", operation_id="create_dataset", summary="Upload a table", status_code=201, response_model=Open,
             openapi_extra=BODY, responses=document(Malformed, TooLarge, Invalid, StorageFull))  # fmt: skip
async def create_dataset(
    request: Request, use: Use, idempotency_key: IdempotencyKey = None,
    name: Annotated[str | None, Query(description="Name of the dataset.", max_length=200)] = None,
    format: Annotated[str | None, Query(description=f"{', '.join(FORMATS)}; found when absent.")] = None,  # noqa: A002
    delimiter: Annotated[str | None, Query(description="Character between fields.")] = None,
    decimal: Annotated[str | None, Query(description="Decimal mark.")] = None,
    header: Annotated[str | None, Query(description="Whether the first line holds names: true or false.")] = None,
    encoding: Annotated[str | None, Query(description="Character encoding.")] = None,
    null_values: Annotated[str | None, Query(description=(
        "Comma-separated words that mean missing, instead of the usual ones."
    ))] = None,
    types: Annotated[str | None, Query(description=(
        "JSON object column → type: number, integer, boolean, category, text, date or datetime."
    ))] = None,
    on_error: Annotated[str | None, Query(description=(
        "error (default): refuse the file; skip: leave out rows that cannot be read; missing: cells that do not fit a "
        "stated type become missing. `warnings` count what was left out or set missing and show the first 20."
    ))] = None,
    sheet: Annotated[str | None, Query(description="Sheet of a workbook: its name, or its number from 1.")] = None,
) -> Response:  # fmt: skip
    """The raw file as the body, or a form with a part `file`. It streams to disk; nothing half-read is ever stored."""
    given = {"name": name, "format": format, "delimiter": delimiter, "decimal": decimal, "header": header,
             "encoding": encoding, "null_values": null_values, "types": types, "on_error": on_error,
             "sheet": sheet}  # fmt: skip
    async with received(use, request, given) as (upload, found):
        options = options_of(found)
        options.check()
        sent = Uploaded(request.scope)
        if idempotency_key:
            sent.digest = await run_in_threadpool(digest, upload.path) + repr(options).encode()

        async def make(dataset_id: str) -> Response:
            return _created(await run_in_threadpool(use.datasets.add_upload, upload, options, dataset_id=dataset_id))

        return await once(use, sent, idempotency_key, "ds", make)


@router.get(
    "/datasets",
    operation_id="list_datasets",
    summary="List datasets",
    response_model=Listing,
    responses=document(Invalid),
)
def list_datasets(
    use: Use,
    limit: Limit = 50,
    cursor: Cursor = None,
    name: Annotated[str | None, Query(description="Exact name.")] = None,
) -> Response:
    """Datasets, newest first."""
    page = use.datasets.page(limit=limit, cursor=cursor, name=name)
    return json_response({"items": [dataset_document(r) for r in page.items], "next_cursor": page.next_cursor})


@router.get("/datasets/{dataset_id}", operation_id="get_dataset", summary="One dataset with its profile",
            response_model=Open,
            responses=document(NotFound))  # fmt: skip
def get_dataset(use: Use, dataset_id: DatasetId, if_none_match: IfNoneMatch = None) -> Response:
    """What was read, how, and a profile of each column."""
    record = use.datasets.get(dataset_id)
    if unchanged(if_none_match, etag(record)):
        return Response(status_code=304, headers={"ETag": etag(record)})
    return json_response(dataset_document(record), headers={"ETag": etag(record)})


@router.get("/datasets/{dataset_id}/rows", operation_id="get_rows", summary="A page of rows", response_model=Open,
            responses=document(NotFound, NotAcceptable, Invalid))  # fmt: skip
def get_rows(
    request: Request, use: Use, dataset_id: DatasetId,
    offset: Annotated[int, Query(ge=0, description="First row.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Most rows.")] = 50,
    columns: Annotated[str | None, Query(description="Comma-separated names; all by default.")] = None,
    big_integers: BigIntegers = None,
) -> Response:  # fmt: skip
    """Rows as JSON, CSV, Arrow, Parquet or NDJSON by Accept; `warnings` tell where JSON has null for infinity."""
    picked = None if columns is None else columns.split(",")
    table = use.datasets.rows(dataset_id, offset=offset, limit=limit, columns=picked)
    media = choose(request.headers.get("accept", ""), [JSON, CSV, ARROW, PARQUET, NDJSON])
    record = use.datasets.get(dataset_id)
    texts, said = texts_of(record, big_integers), infinite(table) if media in {JSON, NDJSON} else []
    headers = {WARNINGS: header_of(said)} if said else {}
    if media == JSON:
        page = {"items": json_rows(table, texts), "offset": offset, "total": record["rows"], "warnings": said}
        return json_response(page, headers=headers)
    return StreamingResponse(stream(table, FORMS[media], texts), media_type=media, headers=headers)


def texts_of(record: Json, big_integers: str | None) -> set[str]:
    """The columns that JSON writes as strings."""
    return beyond_doubles(record["columns"]) if big_integers == "string" else set()


@router.get("/datasets/{dataset_id}/content", operation_id="get_content", summary="The whole table",
            response_class=StreamingResponse, responses=document(NotFound, NotAcceptable, Invalid))  # fmt: skip
def get_content(
    request: Request, use: Use, dataset_id: DatasetId, big_integers: BigIntegers = None,
    if_none_match: IfNoneMatch = None,
) -> Response:  # fmt: skip
    """The table as Parquet, CSV, Arrow, NDJSON or JSON (an array of records) by Accept.

    Where JSON or NDJSON has null for an infinite value, `X-Postfit-Warnings` says so, as a JSON list.
    """
    record = use.datasets.get(dataset_id)
    media = choose(request.headers.get("accept", ""), list(FORMS))
    texts = texts_of(record, big_integers)
    tag = f"{record['sha256'][:16]}-{FORMS[media]}{'-string' if texts else ''}"
    headers = {"ETag": f'"{tag}"', "Vary": "Accept"}
    if unchanged(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    said = infinite(use.datasets.table(record["id"])) if media in {JSON, NDJSON} else []
    headers |= {WARNINGS: header_of(said)} if said else {}
    chunks = use.datasets.content(record["id"], FORMS[media], texts)
    return StreamingResponse(chunks, media_type=media, headers=headers)


@router.patch("/datasets/{dataset_id}", operation_id="update_dataset", summary="Correct a dataset", response_model=Open,
              responses=document(NotFound, Malformed, Conflict, Stale, Invalid))  # fmt: skip
def update_dataset(use: Use, dataset_id: DatasetId, body: DatasetPatch, if_match: IfMatch = None) -> Response:
    """Name, description, labels, and the role, type or level order of columns, without a new upload.

    A column's `type` may come with `"misfits": "missing"` (cells that do not fit become missing, and `warnings` show
    them; the default `error` refuses) and, for date and datetime, with a `format` such as `%d/%m/%Y`.
    """
    changes: Json = body.model_dump(exclude_none=True)
    found = use.datasets.get(dataset_id)
    record = use.datasets.patch(dataset_id, changes, revision_of(if_match, etag(found), found["revision"]))
    return json_response(dataset_document(record), headers={"ETag": etag(record)})


@router.delete("/datasets/{dataset_id}", operation_id="delete_dataset", summary="Delete a dataset", status_code=204,
               responses=document(NotFound, Conflict, Stale))  # fmt: skip
def delete_dataset(use: Use, dataset_id: DatasetId, if_match: IfMatch = None) -> Response:
    """Refused while a queued or running job needs it."""
    found = use.datasets.get(dataset_id)
    use.datasets.delete(dataset_id, revision_of(if_match, etag(found), found["revision"]))
    return Response(status_code=204)


@router.get(
    "/samples",
    operation_id="list_samples",
    summary="List the bundled tables",
    response_model=Listing,
    responses=document(),
)
def list_samples(use: Use) -> Response:
    """Real public tables to try things on, with source and licence."""
    items: list[Any] = use.datasets.samples()
    return json_response({"items": items, "next_cursor": None})


@router.post("/samples/{name}", operation_id="create_from_sample", summary="Make a dataset from a bundled table",
             status_code=201,
             response_model=Open, responses=document(NotFound, Conflict, Invalid, UnknownMediaType))  # fmt: skip
async def create_from_sample(
    request: Request, use: Use, name: SampleName, idempotency_key: IdempotencyKey = None
) -> Response:
    """The sample `penguins`, say, as a dataset of your own."""

    async def make(dataset_id: str) -> Response:
        return _created(await run_in_threadpool(use.datasets.from_sample, name, dataset_id))

    return await once(use, request, idempotency_key, "ds", make)
