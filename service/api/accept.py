"""Content negotiation (RFC 9110, 12.5.1)."""

from __future__ import annotations

import re

from service.errors import NotAcceptable


def choose(accept: str, offered: list[str]) -> str:
    """The offered media type that the Accept header prefers; NotAcceptable lists them.

    The most specific range that covers an offer says its quality; equal ones go in the order of the header.
    """
    if not accept.strip():
        return offered[0]
    ranges: dict[str, tuple[float, int]] = {}
    for place, part in enumerate(accept.split(",")):
        media, *params = [p.strip() for p in part.split(";")]
        q = next((float(p[2:]) for p in params if re.fullmatch(r"[qQ]=[01](\.\d*)?", p)), 1.0)
        ranges.setdefault(media.lower(), (q, -place))
    found = [(_quality(offer, ranges), -i, offer) for i, offer in enumerate(offered)]
    (q, _), _, best = max(found)
    if q > 0:
        return best
    raise NotAcceptable(f"none of {accept!r} can be met; this route offers {', '.join(offered)}")


def _quality(offer: str, ranges: dict[str, tuple[float, int]]) -> tuple[float, int]:
    return next((ranges[r] for r in (offer, offer.partition("/")[0] + "/*", "*/*") if r in ranges), (0.0, 0))
