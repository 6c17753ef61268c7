"""Rows as delimited text, for readers that turn their format into it."""

from __future__ import annotations

import re
from collections.abc import Sequence

SPECIAL = re.compile('[",\\n\\r]')


def csv_names(names: Sequence[str]) -> str:
    """The line of the names, in quotes, so that none looks like a comment."""
    return ",".join('"' + name.replace('"', '""') + '"' for name in names) + "\n"


def csv_row(cells: Sequence[str | None]) -> str:
    """One line; a missing cell is empty, empty text is `""`."""
    return ",".join(map(_cell, cells)) + "\n"


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    plain = text and text == text.strip() and not SPECIAL.search(text)
    return text if plain else '"' + text.replace('"', '""') + '"'
