"""`Prefer` (RFC 7240) as values: the first mention of a preference counts, unknown ones are ignored."""

from __future__ import annotations

import re

from fastapi import Request

PREFERENCE = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*")+')
WORD = re.compile(r'\s*([^\s=;,"]+)\s*(?:=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;,"]*)))?')


def preferences(headers: list[str]) -> dict[str, str]:
    """Preferences by lower-case name, with their values ("" for none), of all `Prefer` lines."""
    found: dict[str, str] = {}
    for part in PREFERENCE.findall(",".join(headers)):
        word = WORD.match(part)
        if word is not None:
            quoted, plain = word[2], word[3]
            found.setdefault(word[1].lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain or "")
    return found


def handling(request: Request) -> str | None:
    """How mistakes are to be handled, `lenient` or `strict`; None where the caller did not say."""
    asked = preferences(request.headers.getlist("prefer")).get("handling", "").lower()
    return asked if asked in ("lenient", "strict") else None
