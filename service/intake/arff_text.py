"""The tokens of ARFF."""

from __future__ import annotations

import re

TOKEN = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,\t'"][^,\t]*?|))\s*(,|\t|$)""")
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
CONTROL = {"n": "\n", "r": "\r", "t": "\t"}


def split(text: str) -> list[str | None] | None:
    """The values between commas or tabs, `?` as None; None when they cannot be told apart."""
    cells, at = [], 0
    while True:
        match = TOKEN.match(text, at)
        if match is None:
            return None
        cells.append(_value(match))
        at = match.end()
        if not match[4]:
            return cells


def sparse(text: str) -> dict[int, str | None] | None:
    """`{3 value, 7 value}` as value by place; None when it is malformed."""
    cells: dict[int, str | None] = {}
    if not text.endswith("}"):
        return None
    body = text[1:-1].strip()
    while body:
        place, _, rest = body.partition(" ")
        match = TOKEN.match(rest)
        if not (place.isascii() and place.isdecimal()) or match is None or int(place[:9]) in cells:
            return None
        cells[int(place[:9])] = _value(match)
        body = rest[match.end() :].strip()
    return cells


def unquoted(text: str) -> str:
    """A name or level without the quotes around it."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return _unescaped(text[1:-1]) if quoted else text


def _value(match: re.Match[str]) -> str | None:
    quoted = match[1] if match[1] is not None else match[2]
    if quoted is not None:
        return _unescaped(quoted)
    return None if match[3] in {"?", ""} else match[3]


def _unescaped(text: str) -> str:
    return ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else CONTROL.get(m[1], m[1]), text)
