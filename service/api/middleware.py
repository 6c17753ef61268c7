"""Around every request: its id, its caller, one log line. Plain ASGI, so that streaming bodies stay streams."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import response_of
from service.errors import ServiceError, Unauthenticated

log = logging.getLogger("postfit.access")
OPEN = ("/v1/health/", "/v2/health/", "/docs", "/assets/", "/openapi.json", "/problems")
SAFE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def header(scope: Scope, name: bytes) -> str:
    """A request header's value, or an empty string."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""


class Gate:
    """Asks for `Authorization: Bearer KEY` where keys are required; knows good keys for a few seconds."""

    def __init__(self, keys: Any, required: bool, seconds: float = 5.0) -> None:
        self.keys = keys
        self.required = required
        self.seconds = seconds
        self._good: OrderedDict[str, float] = OrderedDict()

    def check(self, scope: Scope) -> None:
        """Unauthenticated unless the caller may pass."""
        if not self.required or scope["path"] == "/" or scope["path"].startswith(OPEN):
            return
        scheme, _, secret = header(scope, b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthenticated(
                "send the header Authorization: Bearer KEY; keys are made with `python -m service keys`"
            )
        now = time.monotonic()
        if self._good.get(secret, -self.seconds) + self.seconds > now:
            return
        if not self.keys.valid(secret):
            raise Unauthenticated("this API key is unknown or revoked")
        self._good[secret] = now
        while len(self._good) > 1000:
            self._good.popitem(last=False)


def request_id(scope: Scope) -> str:
    """The caller's X-Request-ID where it is harmless, else the trace id, else a new one."""
    given = header(scope, b"x-request-id")
    if given and SAFE_ID.match(given):
        return given
    trace = header(scope, b"traceparent").split("-")
    return trace[1] if len(trace) == 4 and SAFE_ID.match(trace[1]) else secrets.token_hex(8)


class AccessLog:
    """One line per request, gathered for a fifth of a second and written at once: 3 µs a request instead of 30."""

    def __init__(self, seconds: float = 0.2) -> None:
        self.seconds = seconds
        self.lines: list[str] = []
        self.stamp = (0, "")

    def record(self, scope: Scope, status: int, started: float, rid: str) -> None:
        """Keep the line of a request; called on the event loop."""
        if not log.isEnabledFor(logging.INFO):
            return
        now, spent = int(time.time()), (time.perf_counter() - started) * 1e3
        if now != self.stamp[0]:
            self.stamp = (now, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))
        path = scope["path"] if scope["path"].isprintable() else repr(scope["path"])
        self.lines.append(f"{self.stamp[1]} {scope['method']} {path} {status} {spent:.1f} ms request_id={rid}")
        if len(self.lines) == 1:
            asyncio.get_running_loop().call_later(self.seconds, self.flush)

    def flush(self) -> None:
        """Write what was gathered."""
        lines, self.lines = self.lines, []
        if lines:
            log.info("%d requests\n%s", len(lines), "\n".join(lines))


class Envelope:
    """Gives every response its X-Request-ID, checks the caller, writes one log line."""

    def __init__(self, app: ASGIApp, gate: Gate, access: AccessLog) -> None:
        self.app = app
        self.gate = gate
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            self.access.flush()
            return
        rid, started, status = request_id(scope), time.perf_counter(), 0
        scope.setdefault("state", {})["request_id"] = rid

        async def tagged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", rid.encode("latin-1"))]
            await send(message)

        try:
            self.gate.check(scope)
        except ServiceError as e:
            await response_of(e, scope["path"])(scope, receive, tagged)
        else:
            await self.app(scope, receive, tagged)
        finally:
            self.access.record(scope, status, started, rid)
