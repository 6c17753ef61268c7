"""Who may pass: callers with a key where keys are required; without keys, only this machine's programs and pages.

A service on loopback without keys is protected by its address alone, and a web page can get round that: by a name of
its own that it lets point at 127.0.0.1 (DNS rebinding), or by sending a form. Both show in headers that a page cannot
forge, Host and Origin, so those must name this machine.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any

from starlette.types import Scope

from service.errors import Forbidden, Unauthenticated
from service.loopback import names_this_machine

OPEN = ("/v1/health/", "/v2/health/", "/docs", "/assets/", "/openapi.json", "/problems")
GOOD_SECONDS = 30.0  # revoking a key takes effect at once; this is for keys that vanish without being revoked
KNOWN = 1000


def header(scope: Scope, name: bytes) -> str:
    """A request header's value, or an empty string."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""


def is_open(scope: Scope) -> bool:
    """Whether everybody may see the path."""
    return scope["path"] == "/" or scope["path"].startswith(OPEN)


class Gate:
    """Lets callers pass, and tells their tenant: the id of their key, "" where none is needed."""

    def __init__(self, keys: Any, required: bool, local: bool) -> None:
        self.keys = keys
        self.required = required
        self.local = local and not required
        self._good: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._own: set[str] = set()
        self._round = 0
        self._lock = threading.Lock()

    def known(self, scope: Scope) -> str | None:
        """The tenant, or None where the database must be asked; Unauthenticated, Forbidden. No I/O."""
        if self.local:
            self._here(scope)
        if not self.required or is_open(scope):
            return ""
        tenant, since = self._good.get(_secret(scope), ("", -GOOD_SECONDS))
        return tenant if since + GOOD_SECONDS > time.monotonic() else None

    def ask(self, scope: Scope) -> str:
        """The tenant as the database knows it; Unauthenticated."""
        secret, begun = _secret(scope), self._round
        tenant = self.keys.owner(secret)
        if tenant is None:
            raise Unauthenticated("this API key is unknown or revoked")
        with self._lock:
            if begun == self._round:
                self._good[secret] = (tenant, time.monotonic())
            while len(self._good) > KNOWN:
                self._good.popitem(last=False)
        return str(tenant)

    def forget(self) -> None:
        """Ask again for every key: one may be revoked."""
        with self._lock:
            self._round += 1
            self._good.clear()

    def _here(self, scope: Scope) -> None:
        for name in (b"host", b"origin"):
            value = header(scope, name)
            if not value or value in self._own:
                continue
            if not names_this_machine(value):
                raise Forbidden(
                    f"the {name.decode().title()} {value!r} is not this machine, and without API keys only programs and"
                    " pages of this machine are served; call 127.0.0.1 or localhost, or serve with keys"
                )
            if len(self._own) < KNOWN:
                self._own.add(value)


def _secret(scope: Scope) -> str:
    scheme, _, secret = header(scope, b"authorization").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthenticated("send the header Authorization: Bearer KEY; keys are made with `python -m service keys`")
    return secret
