"""Dates and times in text: ISO 8601, day and month in either order where that is certain, and stated formats."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import Json, warning

DATE = r"^\d{4}([-/])\d{2}[-/]\d{2}$"
DATETIME = r"^\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?$"
ZONED = r"^\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)$"
DAY_AND_MONTH = r"^\d{1,2}/\d{1,2}/\d{4}$|^\d{1,2}\.\d{1,2}\.\d{4}$"
DIRECTIVES = {"%Y": r"(\d{4})", "%m": r"(\d{1,2})", "%d": r"(\d{1,2})", "%H": r"(\d{1,2})", "%M": r"(\d{2})",
              "%S": r"(\d{2})"}  # fmt: skip
FORMAT = re.compile(r"%.|[^%]")


def matching(cells: pa.Array, pattern: str) -> bool:
    """Whether there is a cell and all that are not missing match. O(n)."""
    return bool(pc.all(pc.match_substring_regex(cells, pattern), min_count=1).as_py())


def real(values: pa.Array | None) -> pa.Array | None:
    """The dates or times where all are within the years 1 to 9999, which is what clients can hold; else None. O(n)."""
    if values is None:
        return None
    ends = pc.min_max(pc.year(values))
    return None if ends["min"].is_valid and not 1 <= ends["min"].as_py() <= ends["max"].as_py() <= 9999 else values


def cast(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The cast, or None when a cell does not allow it."""
    try:
        return pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None


def instants(cells: pa.Array, zone: str | None) -> pa.Array | None:
    """Microseconds; finer fractions are kept only when they are whole microseconds."""
    cells = pc.replace_substring(cells, "/", "-")
    values = cast(cells, pa.timestamp("us", zone))
    if values is not None:
        return real(values)
    fine = cast(cells, pa.timestamp("ns", zone))
    return None if fine is None else real(cast(fine, pa.timestamp("us", zone)))


def days(cells: pa.Array) -> pa.Array | None:
    """ISO dates, slashes for dashes allowed; None when a cell is no real date."""
    return real(cast(pc.replace_substring(cells, "/", "-"), pa.date32()))


def day_and_month(cells: pa.Array) -> tuple[pa.Array, Json] | None:
    """Dates such as 31/12/2020 when a day beyond 12 settles the order for all cells, or the marks are points. O(n)."""
    if not matching(cells, DAY_AND_MONTH):
        return None
    found = [(form, iso_dates(cells, form)) for form in ("%d/%m/%Y", "%m/%d/%Y")]
    fits = [(form, dates) for form, dates in found if dates is not None]
    pointed = pc.all(pc.match_substring(cells, ".")).as_py()
    if pointed:
        fits = [fit for fit in fits if fit[0] == "%d/%m/%Y"]
    if len(fits) != 1:
        return None
    form, dates = fits[0]
    shown = form.replace("/", ".") if pointed else form
    return dates, warning("date_order", f"has dates that were read as {shown}.", "Set types to text if that is wrong.")


def iso_dates(cells: pa.Array, form: str) -> pa.Array | None:
    """Dates written in a format, points or dashes for its slashes; None when a cell is none."""
    return days(iso(pc.replace_substring_regex(cells, "[.-]", "/"), form))


def iso(cells: pa.Array, form: str) -> pa.Array:
    """Cells of a format of %Y %m %d %H %M %S as ISO 8601; cells that do not match stay as they are. O(n)."""
    parts = FORMAT.findall(form)
    pattern = "".join(DIRECTIVES.get(part) or re.escape(part) for part in parts)
    at = {part: number for number, part in enumerate((p for p in parts if p in DIRECTIVES), 1)}
    text = rf"\{at['%Y']}-0\{at['%m']}-0\{at['%d']}"
    if "%H" in at:
        second = rf"\{at['%S']}" if "%S" in at else "00"
        text += rf"T0\{at['%H']}:\{at['%M']}:{second}"
    wide = pc.replace_substring_regex(cells, f"^{pattern}$", text)
    return pc.replace_substring_regex(wide, r"([-T])0(\d\d)", r"\1\2")


def bad_format(form: object) -> str | None:
    """What is wrong with a stated format, None when it can be used."""
    if not isinstance(form, str) or not form:
        return "A format is text such as %d/%m/%Y."
    used = [part for part in FORMAT.findall(form) if part.startswith("%")]
    if any(part not in DIRECTIVES for part in used) or form.count("%") != len(used):
        return f"{form!r}: a format is made of {' '.join(DIRECTIVES)} and the marks between them."
    times = [part for part in used if part in {"%H", "%M", "%S"}]
    if sorted(p for p in used if p not in times) != ["%Y", "%d", "%m"] or times not in (
        [], ["%H", "%M"], ["%H", "%M", "%S"],
    ):  # fmt: skip
        return f"{form!r}: a format has %Y, %m and %d once each, then nothing, or %H %M, or %H %M %S."
    return None
