"""What a file is, found from its beginning: its format, and the dialect of delimited text."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace

from service.intake.cutting import DELIMITERS, LINE_END, NUMBER, RARE_DELIMITERS, fields, padded, width
from service.intake.findings import WHITESPACE, Json, ReadOptions, open_quote, refuse, warning
from service.intake.opening import comments_before, ends_empty, has_header, names_rows, text_before
from service.intake.unpack import unread

HEAD = 256 << 10
NO_ROWS = "The file has no rows below its header. Set header=false if its only row holds values."
TITLE = 80
BINARY = (
    (b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"), (b"\x93NUMPY", "npy"),
    (b"PARE", "!an encrypted Parquet file"), (b"FEA1", "!a Feather file of version 1"),
    (b"\xd0\xcf\x11\xe0", "!an old Excel workbook (XLS), or one with a password"), (b"%PDF", "!a PDF"),
    (b"SQLite format 3", "!an SQLite database"), (b"\x89HDF", "!an HDF5 file"), (b"BZh", "!packed with bzip2"),
    (b"\xfd7zXZ", "!packed with xz"), (b"7z\xbc\xaf", "!a 7z archive"), (b"Rar!", "!a RAR archive"),
    (b"\x04\x22\x4d\x18", "!packed with LZ4"), (b"ORC", "!an ORC file"), (b"Obj\x01", "!an Avro file"),
    (b"\x89PNG", "!a PNG picture"), (b"\xff\xd8\xff", "!a JPEG picture"), (b"GIF8", "!a GIF picture"),
    (b"MATLAB 5.0", "!a MATLAB file"), (b"<stata_dta>", "!a Stata file"), (b"$FL", "!an SPSS file"),
    (b"RDX", "!R data"), (b"X\n\0\0", "!R data"), *((bytes((0x80, n)), "!a Python pickle") for n in range(2, 6)),
)  # fmt: skip
LIBSVM = re.compile(r"^[+-]?[\d.]+([eE][+-]?\d+)?(\s+(qid|\d+):\S+)+\s*(#.*)?$")
THREE = r"^[+-]?[1-9]\d{{0,2}}\{}\d{{3}}$"
GROUPED = "[+-]?\\d{{1,3}}([{}'\u2019\u00a0\u2009\u202f ]\\d{{3}})+"


@dataclass(frozen=True)
class Dialect:
    """How delimited text is written; `skip` lines come before the header (or before the first row).

    `comment` is the mark of lines that are left out, `padded` means blanks between delimiters and quotes, `trailing`
    that every row ends with a delimiter (the last of `names` is then empty), `short` that the header does not.
    """

    delimiter: str
    decimal: str
    header: bool
    skip: int
    names: tuple[str, ...]
    row_names: bool = False
    comment: str = ""
    padded: bool = False
    trailing: bool = False
    short: bool = False
    notes: tuple[Json, ...] = ()

    def comments(self, text: str) -> bool:
        """Whether text that is no row is a comment: after the mark of those above the table, or after `#`."""
        return text.startswith(("#", self.comment or "#"))


def binary_format(head: bytes) -> str | None:
    """The format that the magic bytes announce, None for text; Invalid when it is one that is not read."""
    if head[257:262] == b"ustar":
        raise unread("a tar archive")
    for magic, name in BINARY:
        if head.startswith(magic):
            if name.startswith("!"):
                raise unread(name[1:])
            return name
    return None


def text_format(sample: str) -> str:
    """`json`, `ndjson`, `arff`, `libsvm` or `csv`; Invalid for markup."""
    body = sample.lstrip("\ufeff \t\r\n")
    lines = [line for line in LINE_END.split(body[:HEAD])[:50] if line.strip()]
    rest = body[1:].lstrip()[:1]
    if body.startswith("[") and rest in {"{", "[", "]"}:
        return "json"
    if body.startswith("{") and rest in {'"', "}"}:
        return "ndjson" if len(lines) > 1 and lines[1].lstrip().startswith("{") else "json"
    declared = next((line for line in body.splitlines() if line.strip() and not line.startswith("%")), "")
    if declared.lower().startswith("@relation"):
        return "arff"
    if lines and all(LIBSVM.match(line) for line in lines[:5]):
        return "libsvm"
    if re.match(r"<(\?xml|!doctype|html|table)", body[:20].lower()):
        raise unread("XML or HTML")
    return "csv"


def dialect(sample: str, complete: bool, options: ReadOptions) -> Dialect:
    """The dialect of the text whose beginning is `sample`; what the options state is taken as it is."""
    lines = LINE_END.split(sample)
    delimiter = {"tab": "\t"}.get(options.delimiter or "", options.delimiter) or (
        "\t" if options.format == "tsv" else None
    )
    told = re.match('^\ufeff?"?sep=(.)"?$', lines[0])
    delimiter = delimiter or (told[1] if told else None)
    skip, comment = (1, "") if told else comments_before(lines, delimiter)
    left = [line for line in lines[skip:] if not (comment and line.startswith(comment))]
    delimiter = delimiter or _delimiter("\n".join(left), complete)
    rows = fields("\n".join(left), delimiter, complete)
    if not rows:
        raise refuse("/file", "no_rows", "The file has no row with any text.")
    title = 0 if options.header is False else text_before(lines[skip:], delimiter, rows)
    notes = _title_note(lines[skip : skip + title]) if title else ()
    rows = rows[sum(1 for line in lines[skip : skip + title] if line.strip()) :]
    _check_quotes("\n".join(lines[skip + title :]), delimiter, complete, skip + title)
    return _of_rows(rows, delimiter, complete, options, Dialect(
        delimiter, "", True, skip + title, (), comment=comment, padded=padded("\n".join(left), delimiter), notes=notes,
    ))  # fmt: skip


def _of_rows(rows: list[list[str]], delimiter: str, complete: bool, options: ReadOptions, so_far: Dialect) -> Dialect:
    """The dialect with what the first rows tell: decimal mark, header, names."""
    header = has_header(rows) if options.header is None else options.header
    names = tuple(rows[0]) if header else tuple(f"column_{i + 1}" for i in range(width(rows)))
    if header and complete and len(rows) == 1:
        raise refuse("/file", "no_rows", NO_ROWS)
    trailing = delimiter != WHITESPACE and ends_empty(rows, header)
    named = header and not trailing and names_rows(rows)
    if trailing:
        names = (*names[: width(rows[1:] or rows) - 1], "")
    notes = so_far.notes + (_uncut_note(rows) if len(names) == 1 and options.delimiter is None else ())
    return replace(
        so_far, decimal=options.decimal or _decimal(rows, delimiter), header=header, row_names=named, trailing=trailing,
        short=header and trailing and len(rows[0]) < len(names), names=("row", *names) if named else names, notes=notes,
    )  # fmt: skip


def _title_note(lines: list[str]) -> tuple[Json, ...]:
    shown = ", ".join(repr(line[:TITLE]) for line in lines if line.strip())
    text = f"Text above the header was left out: {shown}."
    return (warning("preamble", text, "Set header=false if these lines are rows."),)


def _uncut_note(rows: list[list[str]]) -> tuple[Json, ...]:
    """The warning that one column may be several, between which a mark stands that is not known as a delimiter."""
    cells = [row[0] for row in rows[:200]]
    marks = [mark for mark in dict.fromkeys(re.findall(r"[^\w\s.+\"'-]", cells[0])) if _even(cells, mark)]
    if len(cells) < 2 or not marks:
        return ()
    text = f"No delimiter was found and the rows were read as one column; every row has as many {marks[0]!r}."
    return (warning("one_column", text, f"Set delimiter={marks[0]} if that parts the fields."),)


def _even(cells: list[str], mark: str) -> bool:
    return len({cell.count(mark) for cell in cells}) == 1


def _check_quotes(body: str, delimiter: str, complete: bool, skipped: int) -> None:
    """Refuse text right after a closing quote, which would be glued to the field."""
    if delimiter == WHITESPACE or '"' not in body:
        return
    reader = csv.reader(
        io.StringIO(body, newline=""), delimiter=delimiter, strict=True, skipinitialspace=padded(body, delimiter)
    )
    line = skipped + 1
    try:
        for _ in reader:
            line = skipped + reader.line_num + 1
    except csv.Error as error:
        if complete or "unexpected end" not in str(error):
            raise open_quote(line, error) from error


def _score(rows: list[list[str]]) -> tuple[float, int]:
    """Share of rows with the commonest width (a header of another width, or not cut at all, costs), and that width."""
    most = width(rows[1:] or rows)
    if most < 2:
        return 0.0, most
    share = sum(len(row) == most for row in rows) / len(rows)
    return (share if len(rows[0]) in {most, most - 1} - {1} else 0.3 * share), most


def _delimiter(body: str, complete: bool) -> str:
    """The character that cuts the rows most evenly; runs of blanks only when they do and no character does."""
    scores = {}
    for mark in DELIMITERS:
        rows = fields(body, mark, complete) if mark in body else []
        rows = rows[_titles(body, mark, rows) :]
        if rows:
            scores[mark] = _score(rows)
            if mark == ";" and scores[mark][0] > 0.9 and _decimal(rows, mark) == ",":
                return mark
    best = max(scores, key=lambda mark: scores[mark], default=",")
    if scores.get(best, (0.0, 0))[0] >= 0.9:
        return best
    rows = fields(body, WHITESPACE, complete)
    rows = rows[int(names_rows(rows)) :] if rows else rows  # a header without a field for the names is one field short
    if rows and _score(rows)[0] > max(0.9, scores.get(best, (0.0, 0))[0]) and any(map(NUMBER.match, rows[-1])):
        return WHITESPACE
    rare = next((mark for mark in RARE_DELIMITERS if mark in body and _cuts_all(body, mark, complete)), None)
    return rare or (best if scores.get(best, (0.0, 0))[0] >= 0.3 else ",")


def _titles(body: str, mark: str, rows: list[list[str]]) -> int:
    """How many rows are text above the table, if this is the delimiter."""
    lines = LINE_END.split(body[: 1 << 14])
    return sum(1 for line in lines[: text_before(lines, mark, rows)] if line.strip())


def _cuts_all(body: str, mark: str, complete: bool) -> bool:
    """Whether a rare delimiter cuts every row alike; a colon must not stand in times or once only."""
    rows = fields(body, mark, complete)
    even = len(rows) > 1 and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    return even and (mark != ":" or (len(rows[0]) > 2 and not re.search(r"\d:\d\d", body)))


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    """By the cells that can be read in one way only.

    Without any, a comma with three digits behind it parts thousands, unless fields are parted by semicolons, as by
    programs whose decimal mark is a comma.
    """
    if delimiter == ",":
        return "."
    cells = [cell.strip() for row in rows[:200] for cell in row]
    commas, points = _sure(cells, ",", "."), _sure(cells, ".", ",")
    if not commas and not points and delimiter == ";":
        commas, points = (sum(map(bool, map(re.compile(THREE.format(mark)).match, cells))) for mark in ",.")
    return "," if commas > points else "."


def _sure(cells: list[str], mark: str, other: str) -> int:
    """How many cells are numbers in which `mark` must be the decimal mark."""
    number = re.compile(
        rf"^([+-]?\d*|{GROUPED.format(other)})\{mark}\d+([eE][+-]?\d+)?$|^[+-]?\d{{1,3}}(\{other}\d{{3}}){{2,}}$"
    )
    doubtful = re.compile(THREE.format(mark))
    return sum(1 for cell in cells if number.match(cell) and not doubtful.match(cell))
