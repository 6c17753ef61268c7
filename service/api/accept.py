"""Content negotiation (RFC 9110, 12.5.1)."""

from __future__ import annotations

import re

from service.errors import NotAcceptable


def choose(accept: str, offered: list[str]) -> str:
    """The offered media type that the Accept header prefers; NotAcceptable lists them."""
    if not accept.strip():
        return offered[0]
    wanted = []
    for part in accept.split(","):
        media, *params = [p.strip() for p in part.split(";")]
        q = next((float(p[2:]) for p in params if re.fullmatch(r"[qQ]=[01](\.\d*)?", p)), 1.0)
        wanted.append((q, media.lower()))
    for q, media in sorted(wanted, key=lambda w: -w[0]):
        for offer in offered:
            if q > 0 and (media in ("*/*", offer) or media == offer.split("/")[0] + "/*"):
                return offer
    raise NotAcceptable(f"none of {accept!r} can be met; this route offers {', '.join(offered)}")
