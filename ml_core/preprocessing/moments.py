"""Dates and times as numbers that a model can use: time since 1970, calendar parts, or places in cycles.

    epoch    days (date) or seconds (datetime) since 1970-01-01 UTC
    parts    year, month 1–12, day 1–31, weekday 0 (Monday) – 6; of a datetime also hour, 0 ≤ hour < 24 with fractions
    cyclic   sine and cosine of 2π (day of the year - 1) / (days of that year), 2π weekday / 7, and 2π hour / 24

The calendar is the Gregorian one, extended to all years, in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ml_core.arrays import Matrix, Vector

DAY = 86400.0
FURTHEST = 3_600_000.0
"""Days from 1970 up to which a calendar is read, some 9,800 years."""
PARTS = ("year", "month", "day", "weekday", "hour")
CYCLES = ("day of year", "weekday", "hour")


def moment_names(name: str, kind: str, forms: Sequence[str]) -> list[str]:
    """Names of the matrix columns of a date or datetime column under these forms."""
    timed = kind == "datetime"
    names = {
        "epoch": [name],
        "parts": [f"{name}: {part}" for part in PARTS[: 5 if timed else 4]],
        "cyclic": [f"{name}: {f}({c})" for c in CYCLES[: 3 if timed else 2] for f in ("sin", "cos")],
    }
    return [n for form in forms for n in names[form]]


def moment_columns(values: Vector, kind: str, forms: Sequence[str]) -> Matrix:
    """(n, k) those columns; values (n,) are days or seconds since 1970, within FURTHEST days."""
    return np.hstack([_FORMS[form](values, kind) for form in forms])


def too_far(values: Vector, kind: str) -> np.ndarray:
    """(n,) which values no calendar is read for."""
    return np.abs(values) > FURTHEST * (DAY if kind == "datetime" else 1.0)


def _split(values: Vector, kind: str) -> tuple[np.ndarray, Vector]:
    """Days as dates, and the hours into each."""
    days = np.floor(values / DAY if kind == "datetime" else values)
    hours = (values - days * DAY) / 3600.0 if kind == "datetime" else np.zeros_like(values)
    return days.astype(np.int64).astype("datetime64[D]"), hours


def _weekday(day: np.ndarray) -> np.ndarray:
    """0 is Monday; 1970-01-01 was a Thursday."""
    return np.asarray((day.astype(np.int64) + 3) % 7)


def _parts(values: Vector, kind: str) -> Matrix:
    day, hour = _split(values, kind)
    month = day.astype("datetime64[M]")
    whole = [
        day.astype("datetime64[Y]").astype(np.int64) + 1970, month.astype(np.int64) % 12 + 1,
        (day - month).astype(np.int64) + 1, _weekday(day),
    ]  # fmt: skip
    return np.column_stack([*whole, *([hour] if kind == "datetime" else [])]).astype(np.float64)


def _cycles(values: Vector, kind: str) -> Matrix:
    day, hour = _split(values, kind)
    year = day.astype("datetime64[Y]")
    first = year.astype("datetime64[D]")
    length = ((year + 1).astype("datetime64[D]") - first).astype(np.float64)
    turns = [(day - first).astype(np.float64) / length, _weekday(day) / 7.0, hour / 24.0]
    angles = [2 * np.pi * turn for turn in turns[: 3 if kind == "datetime" else 2]]
    return np.column_stack([f(a) for a in angles for f in (np.sin, np.cos)])


_FORMS: dict[str, Callable[[Vector, str], Matrix]] = {
    "epoch": lambda values, kind: values[:, None], "parts": _parts, "cyclic": _cycles,
}  # fmt: skip
