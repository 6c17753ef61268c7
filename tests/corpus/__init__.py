"""Nasty files of every format: each is read right, or refused with its reason."""

from __future__ import annotations

from tests.corpus import arrays, columnar, delimited, json_text, packed, texts, workbooks
from tests.corpus.case import Case

SOURCES = (json_text, columnar, workbooks, arrays, texts, packed, delimited)


def cases() -> list[Case]:
    """All of them; names are unique."""
    found = [case for source in SOURCES for case in source.cases()]
    assert len({case.name for case in found}) == len(found)
    return found
