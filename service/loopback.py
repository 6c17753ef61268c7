"""Which addresses only this machine reaches."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def beyond_loopback(host: str) -> bool:
    """Whether others than this machine could reach the address."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def names_this_machine(authority: str) -> bool:
    """Whether a Host header, or the origin of a page, is this machine's own: a loopback address or localhost."""
    try:
        host = (urlsplit(authority if "://" in authority else f"//{authority}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return not beyond_loopback(host) or host.endswith(".localhost")
