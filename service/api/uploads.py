"""Uploads: a raw body or a form, with its options, on its way to a file."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.types import Message, Receive

from service.api.bodies import charset, strict_json
from service.container import Services
from service.errors import Invalid, Issue, ServiceError, TooLarge, UnknownMediaType
from service.intake.findings import ReadOptions
from service.ports import Json
from service.usecases.spooling import Upload

FORM_BYTES = 32 << 20  # boundaries and the other fields, each at most 1 MiB
ENCODINGS = {"", "identity", "gzip", "x-gzip", "zstd"}  # what is packed is found from the content
UTF8 = {"utf-8", "utf8"}  # what clients say of anything
LONGEST = 16  # digits of a size that is believed
TEXT_OPTIONS = ("name", "format", "delimiter", "decimal", "encoding", "on_error", "sheet")


def options_of(given: Json) -> ReadOptions:
    """Options of an upload from query or form text; Invalid names the wrong one."""
    flags = {"true": True, "false": False, "": None}
    values: Json = {k: given[k] for k in TEXT_OPTIONS if given.get(k)}
    if given.get("header"):
        if given["header"] not in flags:
            raise Invalid("header is true or false", issues=(Issue("/query/header", "bool", "say true or false"),))
        values["header"] = flags[given["header"]]
    if given.get("null_values"):
        values["null_values"] = tuple(given["null_values"].split(","))
    if given.get("types"):
        types = strict_json(given["types"].encode())
        if not isinstance(types, dict):
            raise Invalid("types is a JSON object column → type", issues=(Issue("/query/types", "dict", "an object"),))
        values["types"] = types
    return ReadOptions(**values)


async def _raw(request: Request) -> AsyncIterator[bytes]:
    async for chunk in Request(request.scope, request.receive).stream():
        yield chunk


async def _parts(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(1 << 20):
        yield chunk


class Metered:
    """A `receive` that ends a form once it is larger than any upload may be, before it fills the disk."""

    def __init__(self, receive: Receive, most: int) -> None:
        self.receive = receive
        self.left = most

    async def __call__(self) -> Message:
        """The next message."""
        message = await self.receive()
        self.left -= len(message.get("body", b""))
        if self.left < 0:
            raise MultiPartException("too large")
        return message


class Uploaded(Request):
    """The upload as `once` sees it: its body is the digest of the spooled file."""

    digest = b""

    async def body(self) -> bytes:
        """SHA-256 of the file."""
        return self.digest


@asynccontextmanager
async def _form(request: Request, body: Metered) -> AsyncIterator[FormData]:
    """The parsed form; TooLarge."""
    try:
        form = await request.form(max_files=1, max_fields=20)
    except HTTPException as e:
        if body.left < 0:
            raise TooLarge("The form is larger than any upload may be.") from e
        raise
    try:
        yield form
    finally:
        await form.close()


@asynccontextmanager
async def received(use: Services, request: Request, options: Json) -> AsyncIterator[tuple[Upload, Json]]:
    """The upload on disk, raw or the part `file` of a form, and the options that came with it."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        sent = request.headers.get("content-encoding", "").lower()
        if sent not in ENCODINGS:
            raise UnknownMediaType(f"Content-Encoding {sent!r} is not read; use gzip, zstd or none")
        told = charset(request)
        if told and told.lower() not in UTF8 and not options.get("encoding"):
            options = options | {"encoding": told}
        async with use.datasets.spool.receive(_raw(request), _checked(options), _length(request)) as upload:
            yield upload, options
        return
    body = Metered(request.receive, use.settings.upload_bytes + FORM_BYTES)
    async with _form(Request(request.scope, body), body) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Invalid("the form has no part called file", issues=(Issue("/form/file", "missing", "attach it"),))
        fields = {k: v for k, v in form.items() if isinstance(v, str)}
        stray = sorted(set(fields) - {*TEXT_OPTIONS, "header", "null_values", "types"})
        if stray:
            raise Invalid(f"unknown form fields {stray}", issues=(Issue(f"/form/{stray[0]}", "extra_forbidden", ""),))
        fields.setdefault("name", Path(file.filename or "dataset").name.split(".")[0] or "dataset")
        options = options | fields
        async with use.datasets.spool.receive(_parts(file), _checked(options), file.size) as upload:
            yield upload, options


def _checked(given: Json) -> ReadOptions | None:
    """The options; None where they will be refused, which is said when the body is there."""
    try:
        options = options_of(given)
        options.check()
    except ServiceError:
        return None
    return options


def _length(request: Request) -> int | None:
    """The bytes that the client means to send, if it says so."""
    told = request.headers.get("content-length", "")
    return int(told) if told.isdecimal() and len(told) < LONGEST else None


def digest(path: Path) -> bytes:
    """SHA-256 of a file."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").digest()
