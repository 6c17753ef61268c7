"""The hot path: JSON rows in, JSON predictions out, below FastAPI's router.

It takes exactly the requests whose answer needs nothing else (POST …/predict, plain JSON both ways, the model in
memory, few rows) and hands every other one to the application, whose route calls the same `Inference.answer`. Errors go
the same way: whatever is odd about a request is found again, and explained, by the slow path.
"""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from ml_core.errors import MLError
from ml_core.preprocessing.records import encode, finer
from service.api.gate import Gate
from service.api.middleware import AccessLog, request_id
from service.errors import ServiceError
from service.usecases.freshness import Freshness
from service.usecases.inference import Inference
from service.usecases.loaded import Loaded

PATH = re.compile(r"/v1/models/([^/@]+)/predict\Z")
MAX_BODY = 1 << 20
MAX_ROWS = 256
ROUTE = SimpleNamespace(path="/v1/models/{model_id}/predict")
PLAIN_KEYS = frozenset({"rows"})
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class HotPath:
    """ASGI: answers simple predictions at once, passes on the rest."""

    def __init__(self, app: ASGIApp, inference: Inference, gate: Gate, access: AccessLog, fresh: Freshness) -> None:
        self.app = app
        self.inference = inference
        self.gate = gate
        self.access = access
        self.fresh = fresh

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.access.requests.in_flight += 1
        try:
            await self._handle(scope, receive, send)
        finally:
            self.access.requests.in_flight -= 1

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        found = PATH.match(scope["path"]) if scope["method"] == "POST" else None
        model = await self._model(scope, found[1]) if found else None
        if model is None:
            await self.app(scope, receive, send)
            return
        messages = [await receive()]
        body = messages[0].get("body", b"")
        out = None if messages[0].get("more_body") else self._answer(model, body)
        if out is None:
            await self.app(scope, _again(messages, receive), send)
            return
        rid = request_id(scope)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(out)),
                   (b"x-request-id", rid.encode("latin-1"))]  # fmt: skip
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": out})
        scope["route"] = ROUTE
        self.access.record(scope, 200, started, rid)

    async def _model(self, scope: Scope, key: str) -> Loaded | None:
        """The model in memory, as it is after everything that was committed before the request came."""
        if not self._simple(scope):
            return None
        try:
            if not self.fresh.current():
                await asyncio.to_thread(self.fresh.refresh)
            return None if self.gate.known(scope) is None else self.inference.cached(key)
        except ServiceError:
            return None

    def _simple(self, scope: Scope) -> bool:
        """Plain JSON both ways, no preference."""
        sent = dict(scope["headers"])
        if sent.get(b"content-type") != b"application/json" or b"content-encoding" in sent or b"prefer" in sent:
            return False
        if sent.get(b"accept", b"*/*") not in (b"*/*", b"application/json"):
            return False
        return scope.get("query_string", b"") == b""

    def _answer(self, model: Any, body: bytes) -> bytes | None:
        """The prediction as JSON bytes, or None when the slow path must look."""
        estimator = model.fitted.estimator
        if len(body) > MAX_BODY or not hasattr(estimator, "predict"):
            return None
        try:
            document = _decode(body)
            rows = document.get("rows") if type(document) is dict and document.keys() == PLAIN_KEYS else None
            if type(rows) is not list or not 0 < len(rows) <= MAX_ROWS or {type(r) for r in rows} != {dict}:
                return None
            if body.count(b":") != 1 + sum(map(len, rows)):
                return None
            X, extra = encode(model.fitted.encoder, rows)
            if extra or finer(model.fitted.encoder, rows):
                return None
            return _encode(self.inference.answer(model, estimator, X, [], {}))
        except (msgspec.DecodeError, UnicodeDecodeError, MLError, ServiceError):
            return None


def _again(messages: list[Any], receive: Receive) -> Receive:
    """A receive that gives the messages already taken first."""

    async def replay() -> Any:
        return messages.pop(0) if messages else await receive()

    return replay
