"""Rows that can be answered, and of each other row the problem with which it would be refused alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.errors import InvalidData, every_issue
from service.errors import Invalid, Issue
from service.ports import Json

PER_ROW = ("predictions", "intervals", "sets", "explanations", "explain", "distributions", "values")


@dataclass(frozen=True)
class Sifted:
    """The rows' count, the places and the matrix of those that could be encoded, the problems of the rest by place."""

    rows: int
    places: np.ndarray
    X: np.ndarray | None
    problems: dict[int, InvalidData]


def sift(rows: int, encode: Callable[[np.ndarray], np.ndarray], first: int = 0) -> Sifted:
    """Encode as many of the rows as can be: `encode` gets places and refuses with pointers `/rows/i…` among these.

    A refusal that is not about rows (a column absent as a whole) goes through. Problems count rows from `first`.
    """
    places, problems = np.arange(rows), dict[int, InvalidData]()
    while len(places):
        try:
            with every_issue():
                return Sifted(rows, places, encode(places), problems)
        except (InvalidData, Invalid) as e:
            found = _by_row(e.issues)
            if found is None:
                raise
        for at, issues in found.items():
            place = int(places[at])
            told = [Issue(_moved(i.pointer, first + place), i.code, i.detail) for i in issues]
            problems[place] = InvalidData(f"{told[0].pointer}: {told[0].detail}", told)  # type: ignore[arg-type]
        places = np.delete(places, list(found))
    return Sifted(rows, places, None, problems)


def _by_row(issues: Iterable[Any]) -> dict[int, list[Any]] | None:
    """Issues by the row that they point into; None where there are none, or where one points elsewhere."""
    found: dict[int, list[Any]] = defaultdict(list)
    for issue in issues:
        parts = issue.pointer.split("/")
        if parts[:2] != ["", "rows"] or not "".join(parts[2:3]).isdecimal():
            return None
        found[int(parts[2])].append(issue)
    return dict(found) or None


def _moved(pointer: str, place: int) -> str:
    parts = pointer.split("/")
    return "/".join([*parts[:2], str(place), *parts[3:]])


def scattered(answer: Json, sifted: Sifted) -> Json:
    """The answer for the good rows with null at the place of each bad one."""
    out = dict(answer)
    for key in PER_ROW:
        if isinstance(out.get(key), list):
            out[key] = _spread(out[key], sifted)
    for key in ("probabilities", "scores"):
        if out.get(key):
            out[key] = out[key] | {"values": _spread(out[key]["values"], sifted)}
    if out.get("samples"):
        out["samples"] = [_spread(draw, sifted) for draw in out["samples"]]
    return out


def _spread(values: list[Any], sifted: Sifted) -> list[Any]:
    out: list[Any] = [None] * sifted.rows
    for at, place in enumerate(sifted.places.tolist()):
        out[place] = values[at]
    return out
