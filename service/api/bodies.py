"""Request bodies, strictly: JSON without duplicate keys, NaN or overflow; gzip and zstd decoded under a cap."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable
from typing import Any, ClassVar

import zstandard
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.responses import Response

from ml_core.errors import pointer
from service.api.accept import choose
from service.errors import Invalid, Issue, Malformed, TooLarge, UnknownMediaType

JSON_TYPES = ("application/json",)
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
LARGE = 1 << 18


def strict_json(body: bytes) -> Any:
    """The value of a JSON text; Malformed says where and why."""
    try:
        value = json.loads(
            body.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_integer
        )
        if SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as e:
        raise Malformed(f"not JSON: {e.msg} at line {e.lineno}, column {e.colno}") from e
    except UnicodeDecodeError as e:
        raise Malformed(f"the body is not UTF-8: {e.reason} at byte {e.start}") from e
    except UnicodeEncodeError as e:
        raise Malformed("a text holds half of a surrogate pair, which is no character") from e
    except RecursionError as e:
        raise Malformed("the JSON is nested too deeply") from e


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [k for k, _ in pairs]
        twice = next(k for k in names if names.count(k) > 1)
        raise Malformed(f"the key {twice!r} stands twice in one object")
    return out


def _refuse(name: str) -> Any:
    raise Malformed(f"{name} is not JSON; send null for a missing value")


def _integer(text: str) -> int:
    if len(text) > 400:
        raise Malformed(f"the number {text[:20]}… is too long")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Malformed(f"{text} does not fit a double")
    return value


def decode(body: bytes, encoding: str, limit: int) -> bytes:
    """The body with its Content-Encoding undone; TooLarge beyond `limit` decoded bytes."""
    if encoding in ("", "identity"):
        if len(body) > limit:
            raise TooLarge(f"the body has {len(body)} bytes; at most {limit} are read")
        return body
    try:
        if encoding == "gzip":
            plain = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(body, limit + 1)
        elif encoding == "zstd":
            with zstandard.ZstdDecompressor().stream_reader(body) as reader:
                plain = reader.read(limit + 1)
        else:
            raise UnknownMediaType(f"Content-Encoding {encoding!r} is not read; use gzip, zstd or none")
    except (zlib.error, zstandard.ZstdError) as e:
        raise Malformed(f"the body is not valid {encoding}: {e}") from e
    if len(plain) > limit:
        raise TooLarge(f"the body decodes to more than {limit} bytes")
    return plain


async def _aside(size: int, work: Callable[..., Any], *args: Any) -> Any:
    """The work's result; for large bodies it is done in a thread, so that other requests are not kept waiting."""
    return await run_in_threadpool(work, *args) if size > LARGE else work(*args)


class StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def body(self) -> bytes:
        """The decoded body, capped."""
        if not hasattr(self, "_decoded"):
            limit = self.app.state.services.settings.body_bytes
            raw = bytearray()
            async for chunk in self.stream():
                raw += chunk
                if len(raw) > limit:
                    raise TooLarge(f"the body has more than {limit} bytes")
            encoding = self.headers.get("content-encoding", "").lower()
            self._decoded = await _aside(len(raw), decode, bytes(raw), encoding, limit)
        return self._decoded

    async def json(self) -> Any:
        """The body as JSON."""
        body = await self.body()
        return await _aside(len(body), strict_json, body)


class StrictRoute(APIRoute):
    """A route whose body, query and answer are what it says, and whose handler sees a StrictRequest."""

    reads: ClassVar[tuple[str, ...]] = JSON_TYPES
    offers: ClassVar[tuple[str, ...]] = JSON_TYPES

    def takes_body(self) -> bool:
        """Whether there is a body whose media type must be one of `reads`."""
        return self.body_field is not None

    def get_route_handler(self) -> Callable[[Request], Any]:
        """FastAPI's handler behind the check of the media type."""
        handler = super().get_route_handler()
        known = {p.alias for p in self.dependant.query_params}

        async def strict(request: Request) -> Response:
            sent = media_type(request)
            if self.takes_body() and sent not in self.reads and await _has_body(request):
                raise UnknownMediaType(
                    f"this route reads {', '.join(self.reads)}, not {sent or 'a body without a type'}", read=self.reads
                )
            _known(request, known)
            accept = request.headers.get("accept", "")
            if request.method in ("POST", "PATCH"):
                choose(accept, list(self.offers))
            response: Response = await handler(StrictRequest(request.scope, request.receive))
            if media := response.headers.get("content-type"):
                choose(accept, [media.partition(";")[0]])
            return response

        return strict


def media_type(request: Request) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def charset(request: Request) -> str | None:
    """The `charset` of the media type of the body."""
    for part in request.headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or None
    return None


def _known(request: Request, names: set[str]) -> None:
    """Invalid for a query parameter that the route does not take."""
    stray = [q for q in request.query_params if q not in names]
    if stray:
        raise Invalid(
            f"this route takes no query parameter {stray[0]!r}; it takes {', '.join(sorted(names)) or 'none'}",
            issues=tuple(Issue(pointer("query", q), "extra_forbidden", "unknown parameter") for q in stray),
        )


async def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
