"""Nasty files of every format: each is read right, or refused with its reason."""

from __future__ import annotations

from functools import cache

from tests.corpus import (
    arrays,
    columnar,
    delimited,
    found,
    json_text,
    layouts,
    numbers,
    packed,
    streams,
    texts,
    times,
    workbooks,
)
from tests.corpus.case import Case

SOURCES = (
    json_text, columnar, workbooks, arrays, texts, packed, delimited, found, numbers, times, layouts, streams,
)  # fmt: skip


@cache
def cases() -> tuple[Case, ...]:
    """All of them; names are unique."""
    made = [case for source in SOURCES for case in source.cases()]
    assert len({case.name for case in made}) == len(made)
    return tuple(made)
