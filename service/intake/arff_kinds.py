"""What the types of ARFF mean: which cells they allow, and our type for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from service.intake.arff_text import split, unquoted

WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
DATE_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
JAVA = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d", "HH": "%H", "H": "%H",
    "hh": "%I", "h": "%I", "a": "%p", "mm": "%M", "m": "%M", "ss": "%S", "s": "%S", "SSS": "%f", "Z": "%z", "X": "%z",
    3 * "X": "%z",
}  # fmt: skip
DEFAULT = "yyyy-MM-dd'T'HH:mm:ss"


class Misfit(ValueError):
    """Something that the declarations do not allow: a code, and why."""

    def __init__(self, code: str, why: str) -> None:
        self.code = code
        super().__init__(why)


@dataclass(frozen=True)
class Attribute:
    """A declared column: our type unless its cells decide it, what a sparse row means by leaving it out, a reader."""

    name: str
    type: str | None
    absent: str
    accept: Callable[[str], str]

    def read(self, cell: str | None) -> str | None:
        """The text of a cell as our CSV has it; Misfit."""
        return None if cell is None else self.accept(cell)


def kind_of(name: str, declared: str) -> Attribute:
    """The attribute of a declaration; Misfit for one that is not read."""
    if declared.startswith("{"):
        return _nominal(name, declared)
    word, _, rest = declared.partition(" ")
    kind = word.lower()
    if kind == "string":
        return Attribute(name, "text", "0", lambda cell: cell)
    if kind == "integer":
        return Attribute(name, "integer", "0", lambda cell: _matching(WHOLE, cell, name, "integer").partition(".")[0])
    if kind in {"numeric", "real"}:
        kept = "number" if kind == "real" else None
        return Attribute(name, kept, "0", lambda cell: _matching(NUMBER, cell, name, "number"))
    if kind == "date":
        return _date(name, unquoted(rest.strip()) or DEFAULT)
    raise Misfit("unread_type", f"has the type {word!r}; read are numeric, real, integer, string, date and {{levels}}")


def _nominal(name: str, declared: str) -> Attribute:
    levels = split(declared[1:-1]) if declared.endswith("}") else None
    if levels is None:
        raise Misfit("bad_attribute", "has a list of levels that cannot be read")
    known = {level or "" for level in levels}

    def accept(cell: str) -> str:
        if cell not in known:
            raise Misfit("unknown_level", f"has {cell!r}, which {name!r} does not declare")
        return cell

    return Attribute(name, "category", levels[0] or "", accept)


def _matching(pattern: re.Pattern[str], cell: str, name: str, kind: str) -> str:
    if not pattern.fullmatch(cell):
        raise Misfit("wrong_type", f"has {cell!r} in {name!r}, which is no {kind}")
    return cell


def _date(name: str, java: str) -> Attribute:
    python = _strptime(java)

    def accept(cell: str) -> str:
        try:
            found = datetime.strptime(cell, python)
        except ValueError as error:
            raise Misfit("wrong_type", f"has {cell!r} in {name!r}, which is no date like {java}") from error
        if "%H" not in python and "%I" not in python:
            return found.date().isoformat()
        text = (found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)).isoformat(sep=" ")
        return text if found.tzinfo is None else text + "Z"

    return Attribute(name, None, "0", accept)


def _strptime(java: str) -> str:
    """Python's date format for Java's; Misfit for letters that have none."""
    parts = []
    for match in DATE_PART.finditer(java):
        if match[2] and match[0] not in JAVA:
            raise Misfit("unread_type", f"has dates like {java!r}; {match[0]!r} is not read, write ISO dates")
        literal = match[1].replace("''", "'") if match[1] else "'" if match[0] == "''" else match[0]
        parts.append(JAVA[match[0]] if match[2] else literal.replace("%", "%%"))
    return "".join(parts)
