"""One file of the corpus, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A file with its options; `want` (values by column) and `types` when it is read, else `code` of the refusal.

    `notes` are codes of warnings that must be there, `says` a part of the message, `status` what HTTP answers.
    """

    name: str
    content: bytes
    want: dict[str, list[Any]] | None = None
    types: tuple[str, ...] | None = None
    notes: frozenset[str] = frozenset()
    code: str = ""
    says: str = ""
    status: int = 201
    options: dict[str, Any] = field(default_factory=dict)


def good(
    name: str, content: bytes | str, want: dict[str, list[Any]], types: str = "", notes: str = "", **options: Any
) -> Case:
    """A file that is read."""
    kinds = tuple(types.split()) or None
    return Case(name, _bytes(content), want, kinds, frozenset(notes.split()), options=options)


def bad(name: str, content: bytes | str, code: str, says: str = "", **options: Any) -> Case:
    """A file that is refused."""
    return Case(name, _bytes(content), code=code, says=says, status=422, options=options)


def huge(name: str, content: bytes | str, says: str = "", **options: Any) -> Case:
    """A file that is beyond a limit."""
    return Case(name, _bytes(content), says=says, status=413, options=options)


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content
