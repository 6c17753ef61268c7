"""HEAD wherever GET is, OPTIONS everywhere, and an `Allow` that names every method of a path (RFC 9110)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def allowed(routes: Sequence[BaseRoute], scope: Scope) -> list[str]:
    """Methods that some route takes at this path, sorted; empty where there is no such path."""
    found = {m for m in METHODS if any(r.matches({**scope, "method": m})[0] is Match.FULL for r in routes)}
    return sorted(found | ({"HEAD"} if "GET" in found else set()) | ({"OPTIONS"} if found else set()))


class Methods:
    """Answers HEAD as GET without its body and OPTIONS with the methods of the path."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self.app = app
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        method = scope["method"] if scope["type"] == "http" else None
        able = allowed(self.routes, scope) if method in ("HEAD", "OPTIONS") else []
        if method == "OPTIONS" and able:
            headers = [(b"allow", ", ".join(able).encode())]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body"})
        elif method == "HEAD" and "GET" in able:
            await self._head({**scope, "method": "GET"}, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The status and headers of GET; its body, which may never end, is not made."""
        started = asyncio.Event()

        async def first(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                started.set()

        work, begun = asyncio.ensure_future(self.app(scope, receive, first)), asyncio.ensure_future(started.wait())
        await asyncio.wait({work, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await send({"type": "http.response.body"})
