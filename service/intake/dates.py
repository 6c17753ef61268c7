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
DIRECTIVES = {"%Y": r"(\d{4})", "%y": r"(\d{2})", "%m": r"(\d{1,2})", "%b": r"([A-Za-z]{3,9}\.?)",
              "%d": r"(\d{1,2})", "%H": r"(\d{1,2})", "%M": r"(\d{2})", "%S": r"(\d{2})"}  # fmt: skip
CENTURIES = (("19", "69|[7-9]\\d"), ("20", "[0-5]\\d|6[0-8]"))
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
FORMAT = re.compile(r"%.|[^%]")


FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970-01-01."""
DAY = 86_400_000_000


def matching(cells: pa.Array, pattern: str) -> bool:
    """Whether there is a cell and all that are not missing match. O(n)."""
    return bool(pc.all(pc.match_substring_regex(cells, pattern), min_count=1).as_py())


def real(values: pa.Array | None) -> pa.Array | None:
    """The dates or microseconds where all are within the years 1 to 9999, which clients can hold; else None. O(n)."""
    if values is None:
        return None
    first, last = FIRST_DAY, LAST_DAY
    if not pa.types.is_date32(values.type):
        first, last = first * DAY, (last + 1) * DAY - 1
    ends = pc.min_max(values)
    return None if ends["min"].is_valid and not first <= ends["min"].value <= ends["max"].value <= last else values


def microseconds(stamps: pa.Array) -> tuple[pa.Array, bool]:
    """Timestamps in microseconds, those finer rounded down, and whether any were; ArrowInvalid beyond 64 bits. O(n)."""
    kind = pa.timestamp("us", stamps.type.tz)
    if stamps.type.unit != "ns":
        return pc.cast(stamps, kind), False
    fine = pc.cast(stamps, pa.int64())
    whole = pc.divide(fine, 1000)
    whole = pc.subtract(whole, pc.cast(pc.greater(pc.multiply(whole, 1000), fine), pa.int64()))
    cut = pc.any(pc.not_equal(pc.multiply(whole, 1000), fine)).as_py() or False
    return pc.cast(whole, kind), cut


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
    values = cast(cells, pa.date32())
    return real(values if values is not None else cast(pc.replace_substring(cells, "/", "-"), pa.date32()))


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
    """Cells of a format of %Y or %y, %m or %b, %d, %H %M %S as ISO 8601; cells that do not match stay as they are.

    Years of two digits are those of POSIX: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068. O(n).
    """
    found = cells
    if "%b" in form:
        found, form = _numbered(cells), form.replace("%b", "%m")
    for century, two in CENTURIES if "%y" in form else (("", ""),):
        found = _spelt(found, form, century, two)
    return found


def _numbered(cells: pa.Array) -> pa.Array:
    """English names of months, whole or of three letters, as numbers; cells without one get a mark that never fits."""
    named = cells
    for number, name in enumerate(MONTHS, 1):
        named = pc.replace_substring_regex(named, rf"(?i)\b{name[:3]}({name[3:]})?\b\.?", f"{number:02d}")
    return pc.if_else(pc.equal(named, cells), pc.binary_join_element_wise(cells, "?", ""), named)


def _spelt(cells: pa.Array, form: str, century: str, two: str) -> pa.Array:
    """Cells of a format as ISO 8601, those with years of two digits only if they match `two`."""
    pattern, parts = _pattern(form, two)
    at = {part: number for number, part in enumerate(parts, 1)}
    text = rf"{century}\{at.get('%Y', at.get('%y'))}-0\{at['%m']}-0\{at['%d']}"
    if "%H" in at:
        second = rf"\{at['%S']}" if "%S" in at else "00"
        text += rf"T0\{at['%H']}:\{at['%M']}:{second}"
    wide = pc.replace_substring_regex(cells, pattern, text)
    return pc.replace_substring_regex(wide, r"([-T])0(\d\d)", r"\1\2")


def _pattern(form: str, two: str) -> tuple[str, list[str]]:
    """The regular expression of a format, with `two` for years of two digits, and its directives in order."""
    known = DIRECTIVES | {"%y": f"({two})"}
    parts = FORMAT.findall(form)
    return f"^{''.join(known.get(part) or re.escape(part) for part in parts)}$", [p for p in parts if p in known]


def bad_format(form: object) -> str | None:
    """What is wrong with a stated format, None when it can be used."""
    if not isinstance(form, str) or not form:
        return "A format is text such as %d/%m/%Y."
    used = [part for part in FORMAT.findall(form) if part.startswith("%")]
    if any(part not in DIRECTIVES for part in used) or form.count("%") != len(used):
        return f"{form!r}: a format is made of {' '.join(DIRECTIVES)} and the marks between them."
    times = [part for part in used if part in {"%H", "%M", "%S"}]
    dates = sorted({"%y": "%Y", "%b": "%m"}.get(p, p) for p in used if p not in times)
    if dates != ["%Y", "%d", "%m"] or times not in (
        [], ["%H", "%M"], ["%H", "%M", "%S"],
    ):  # fmt: skip
        return f"{form!r}: a format has %Y (or %y), %m (or %b) and %d once each, then nothing, or %H %M, or %H %M %S."
    return None
